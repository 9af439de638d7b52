package external

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/guardrails"
)

// Whatever names are given, no credential and no header of one connection is sent along.
func FuzzForwardedNames(f *testing.F) {
	for _, name := range []string{"x-user", "Authorization", "x-gw-trace-id", "X-GW-Api-Key", "x-api-key", "a b", "", "cookie\r\n", "Proxy-Authorization", "my-API-KEY"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parameters := must(json.Marshal(object{"webhookURL": "https://checks.example.com", "forwardHeaders": []string{name}}))
		check, err := guardrails.Lookup("default.webhook").Make(parameters)
		if err != nil {
			return
		}
		for _, kept := range check.(*webhooking).forward {
			if kept != strings.ToLower(kept) || !isToken(kept) || unforwardable[kept] || strings.HasSuffix(kept, "api-key") || strings.HasPrefix(kept, "x-gw-") && !traceHeaders[kept] {
				t.Fatalf("%q is sent along", kept)
			}
		}
	})
}

// Whatever the headers of a webhook are, as an object or as JSON in a string, they are refused or are
// headers.
func FuzzWebhookHeaders(f *testing.F) {
	for _, text := range []string{``, `{}`, `{"a":"b"}`, `{"a":"b\r\nc: d"}`, `{"a b":"c"}`, `{"a":1}`, `[]`, `null`, `"x"`, `{"":""}`} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, quoted bool) {
		raw := json.RawMessage(text)
		if quoted {
			raw = must(json.Marshal(text))
		} else if !json.Valid(raw) {
			return
		}
		check, err := guardrails.Lookup("default.webhook").Make(must(json.Marshal(object{"webhookURL": "https://checks.example.com", "headers": raw})))
		if err != nil {
			return
		}
		for name, values := range check.(*webhooking).header {
			if !isToken(name) || len(values) != 1 || strings.ContainsAny(values[0], "\r\n\x00") {
				t.Fatalf("%q: %q is a header", name, values)
			}
		}
	})
}

// Whatever values a template of an address has, it leads to the host and the path that it says.
func FuzzExpand(f *testing.F) {
	for _, v := range []string{"res", "", "a/b", "..", "a.example.com", "evil.com/", "a@evil.com", "a?b", "%2f", "a:1", "-", "é", "{b}", "a\r\n"} {
		f.Add(v, v)
	}
	f.Fuzz(func(t *testing.T, host, path string) {
		value := func(name string) string { return map[string]string{"host": host, "path": path}[name] }
		at, err := expand("https://{host}.example.com", value, hostPart)
		if err != nil {
			return
		}
		below, err := expand("/v1/{path}/judge", value, pathPart)
		if err != nil {
			return
		}
		query, err := expand("a={path}", value, queryPart)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(at + below + "?" + query)
		if err != nil {
			t.Fatalf("%q and %q make %q: %v", host, path, at+below, err)
		}
		if u.Host != host+".example.com" || u.User != nil || u.Port() != "" || u.Path != "/v1/"+path+"/judge" || u.Query().Get("a") != path || len(u.Query()) != 1 || u.Fragment != "" {
			t.Fatalf("%q and %q lead to %+v", host, path, u)
		}
	})
}

// Whatever the values of the template of a body are, it is JSON, and what has no value is left out.
func FuzzRender(f *testing.F) {
	f.Add(`"a"`, "b")
	f.Add(`{"$text":1}`, "$text")
	f.Fuzz(func(t *testing.T, raw, text string) {
		if !json.Valid([]byte(raw)) || !utf8.ValidString(text) {
			return
		}
		body, ok := render(object{"a": "$raw", "b": list{"$text", "$none", "c"}, "d": object{"e": "$none"}}, func(name string) (any, bool) {
			switch name {
			case "raw":
				return json.RawMessage(raw), true
			case "text":
				return text, true
			}
			return nil, false
		})
		encoded, err := json.Marshal(body)
		if !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		var back struct {
			A json.RawMessage `json:"a"`
			B []string        `json:"b"`
			D map[string]any  `json:"d"`
		}
		if err := json.Unmarshal(encoded, &back); err != nil || len(back.B) != 2 || back.B[1] != "c" || len(back.D) != 0 || back.B[0] != text {
			t.Fatalf("%s: %v", encoded, err)
		}
	})
}

// Whatever a token of Acuvity has, the service is at the address that the token says, or nowhere.
func FuzzAcuvityToken(f *testing.F) {
	for _, claims := range []string{`{"opaque":{"apex-url":"https://acuvity.example.com"}}`, `{"opaque":{"apex-url":"http://169.254.169.254/x?y#z"}}`, `{}`, `[`, ``} {
		f.Add("h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s")
	}
	f.Fuzz(func(t *testing.T, token string) {
		made, err := guardrails.Lookup("acuvity.scan").Make(must(json.Marshal(object{"credentials": object{"apiKey": token}})))
		if err != nil {
			return
		}
		c := made.(*check)
		q, err := c.target(c.own)
		if err != nil {
			t.Fatalf("it was made, and has no target: %v", err)
		}
		if !q.Public || q.URL.User != nil || q.URL.Host == "" || q.URL.RawQuery != "" || q.URL.Fragment != "" || !strings.HasSuffix(q.URL.Path, "/_acuvity/scan") {
			t.Fatalf("%q leads to %s, public: %v", token, q.URL, q.Public)
		}
	})
}
