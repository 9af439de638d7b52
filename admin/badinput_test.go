package admin_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/storage"
)

// digest is of all rows in the store but those of the audit trail, which has what was refused.
func (a *api) digest() [sha256.Size]byte {
	a.t.Helper()
	h := sha256.New()
	err := a.store.View(a.t.Context(), func(tx storage.Tx) error {
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			if !bytes.Contains(item.Key[:min(len(item.Key), 16)], []byte("audit")) {
				fmt.Fprintf(h, "%d:%s%d:%s", len(item.Key), item.Key, len(item.Value), item.Value)
			}
		}
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// wrongValues replace each value of a body, in turn. The last is as long as names may
// be in characters, and longer in bytes.
var wrongValues = []string{`null`, `true`, `7`, `-1.5`, `1e400`, `9223372036854775808`, `"text"`, `""`, `"\u0000"`, `[]`, `{}`, `[[[]]]`, `[{"nope":[null]}]`, `{"nope":{"nope":1}}`, `"` + strings.Repeat("💩", 255) + `"`}

// A replacement is a body with one value replaced; field is where, "" is the whole.
type replacement struct{ field, body string }

// replacements are bodies with one value replaced, at any depth.
func replacements(body string) (bodies []replacement) {
	for _, v := range wrongValues {
		bodies = append(bodies, replacement{"", v})
	}
	doc := gjson.Parse(body)
	if !doc.IsObject() && !doc.IsArray() {
		return bodies
	}
	n := 0
	doc.ForEach(func(k, v gjson.Result) bool {
		at := k.Str
		if doc.IsArray() {
			at = fmt.Sprintf("[%d]", n)
			n++
		}
		for _, other := range replacements(v.Raw) {
			field := at + other.field
			if other.field != "" && other.field[0] != '[' {
				field = at + "." + other.field
			}
			bodies = append(bodies, replacement{field, body[:v.Index] + other.body + body[v.Index+len(v.Raw):]})
		}
		return true
	})
	return bodies
}

// libraryWords are of what reads bodies, and say nothing to who sends them.
var libraryWords = regexp.MustCompile(`(?i:schema|unmarshal|propert|jsontext|struct)|\bGo\b|body: expected required|\de\+\d|\bjson: |RFC \d|expected (string|number|boolean|integer|array|object|length)\b|<nil>|%!`)

// namesField reports whether a message about a body of a wrong type at a field names that field, or one around or in it.
func namesField(message, field string) bool {
	if field == "" {
		field = "body"
	}
	for one := range strings.SplitSeq(message, "; ") {
		named, _, ok := strings.Cut(one, ": ")
		if ok && (named == field || field == "body" || strings.HasPrefix(named, field+".") || strings.HasPrefix(named, field+"[")) {
			return true
		}
	}
	return false
}

// hostile are bodies that no route takes, made of one that it takes.
func hostile(body string) map[string]string {
	first, rest := `"name":1`, ""
	if end := strings.LastIndexByte(body, '}'); strings.HasPrefix(body, `{"`) && end > 0 {
		rest = "," + body[1:end]
		gjson.Parse(body).ForEach(func(k, v gjson.Result) bool {
			first = k.Raw + ":" + v.Raw
			return false
		})
	}
	name, value, _ := strings.Cut(first, ":")
	title := name[:1] + strings.ToUpper(name[1:2]) + name[2:]
	inside := func(value string) string { return `{` + name + `:` + value + `}` }
	bodies := map[string]string{
		"nothing": ``, "blanks": " \n", "half": body[:len(body)-1], "a text": `"name"`, "a number": `7`, "an array of numbers": `[1]`, "null": `null`,
		"something behind it": body + `{}`, "a byte order mark": "\ufeff" + body, "no JSON": `name=a`, "single quotes": `{'name':'a'}`, "a comment": `{/* */}`,
		"a member twice": `{` + first + `,` + first + `}`, "a member that there is none of": `{"nope":1` + rest + `}`, "its name in other case": `{` + title + `:` + value + `}`,
		"its name in upper case": `{` + strings.ToUpper(name) + `:` + value + `}`, "its name with a blank": `{` + name[:len(name)-1] + ` ":` + value + `}`,
		"its name with a control character": `{` + name[:len(name)-1] + `\u0000":` + value + `}`, "a name of no text": "{\"\xff\":1}", "a text of no UTF-8": inside("\"\xff\""),
		"half a surrogate": inside(`"\ud800"`), "a control character": inside("\"a\x01b\""),
		"deep arrays": inside(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), "deep objects": strings.Repeat(`{"name":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		"arrays without an end": strings.Repeat("[", 100_000), "many elements": `[` + strings.Repeat("0,", 50_000) + `0]`, "many elements in it": inside(`[` + strings.Repeat("0,", 50_000) + `0]`),
		"a long name of a member": `{"` + strings.Repeat("x", 100_000) + `":1}`, "a long text": inside(`"` + strings.Repeat("x", 900_000) + `"`),
		"many members": `{` + strings.Repeat(`"nope":0,`, 20_000) + `"nope":0}`,
	}
	for _, one := range []string{"name", "first_name", "last_name"} { // of one line
		if v := gjson.Get(body, one); v.Exists() {
			for _, c := range []string{`\u0000`, `\n`, `\u001b[31m`, `\u0085`} {
				bodies[one+" with "+c] = body[:v.Index] + `"a` + c + `b"` + body[v.Index+len(v.Raw):]
			}
		}
	}
	return bodies
}

// takenAnyway are hostile bodies that some routes take: other clients' records may say more, and
// templates may be long.
var takenAnyway = map[string][]string{
	"POST /v1/logs": {"a member that there is none of"}, "POST /v1/api-keys/{id}/rotate": {"nothing"}, "POST /v1/admin/users/invites/{invite_id}/resend": {"nothing"},
	"POST /v1/prompts/{prompt_id}/unshare": {"nothing"}, "PUT /v1/prompts/{prompt_id}/unshare": {"nothing"},
	"POST /v1/prompts/partials/{prompt_partial_id}/unshare": {"nothing"}, "PUT /v1/prompts/partials/{prompt_partial_id}/unshare": {"nothing"},
	"POST /v1/guardrails/{guardrailId}/invoke": {"a long text"},
}

// Bodies of every wrong kind are refused by every route that takes one, in the documented envelope,
// with an answer that is not long; and nothing changes. Routes and their bodies are those of the
// OpenAPI document, which also says what must be refused.
func TestBadBodiesAreRefusedAndChangeNothing(t *testing.T) {
	everyRoute(t, 50, func(r *routeCase) bool {
		return r.operation.Get("requestBody").Exists()
	}, func(t *testing.T, r *routeCase) {
		before := r.digest()
		send := func(what, body string, refused bool) string {
			t.Helper()
			r.now.Add(int64(time.Minute)) // refusals are throttled
			out := r.do(r.method, r.target, body)
			switch {
			case out.status >= 500 || out.status != 200 && len(out.body) > 8<<10:
				t.Errorf("%s: %.200s: %d %.300s", what, body, out.status, out.body)
			case out.status == 200 && refused:
				t.Errorf("%s: %.200s is taken", what, body)
			case out.status == 200: // it was another good body
				before = r.digest()
				return ""
			case refused && (out.status != 400 || out.code() != "AB01"), out.message() == "":
				t.Errorf("%s: %.200s: %d %.300s", what, body, out.status, out.body)
			}
			if after := r.digest(); after != before && r.name != "POST /v1/logs" { // what was taken is written later
				t.Errorf("%s: %.200s was refused, and changed something: %d %s", what, body, out.status, out.body)
				before = after
			}
			if word := libraryWords.FindString(out.message()); word != "" && out.status != 200 {
				t.Errorf("%s: %.200s: the message has %q: %.300s", what, body, word, out.message())
			}
			return out.message()
		}
		for what, bad := range hostile(r.sent) {
			send(what, bad, !slices.Contains(takenAnyway[r.name], what))
		}
		if out := r.do(r.method, r.target, `[`+strings.Repeat("0,", 1_000_000)+`0]`); out.status != 413 || out.code() != "AB01" || r.digest() != before && r.name != "POST /v1/logs" {
			t.Errorf("a million elements: %d %.300s", out.status, out.body)
		}
		for _, bad := range replacements(r.sent) {
			unlike := len(r.handler().Unlike(r.path, r.method, []byte(bad.body))) > 0
			message := send("a value of another kind", bad.body, unlike)
			if unlike && !namesField(message, bad.field) {
				t.Errorf("%.200s: expected %s to be named: %.300s", bad.body, bad.field, message)
			}
		}
	})
}

// Ids that there are none of, of every form, are not found by any route; and nothing changes.
func TestUnknownIDsAreNotFoundAndChangeNothing(t *testing.T) {
	everyRoute(t, 80, func(r *routeCase) bool {
		return strings.Contains(r.path, "{")
	}, func(t *testing.T, r *routeCase) {
		begin, _, _ := strings.Cut(r.path, "{")
		id, below, more := strings.Cut(strings.TrimPrefix(r.target, begin), "/")
		if more {
			below = "/" + below
		}
		id, query, _ := strings.Cut(id, "?")
		before := r.digest()
		for _, bad := range []string{
			"00000000-0000-4000-8000-00000000dead", "nope", strings.ToUpper(id) + "X", id + "%20", id + "%00", "%00", "%0a", "..%2f..", id + "%2f..", "%27%22%3C%3E", "%F0%9F%92%A9", "%ff",
			strings.Repeat("x", 3000), "*", id + "*", "-1", "99999999999999999999",
		} {
			r.now.Add(int64(time.Minute))
			if strings.Contains(bad, "..") && strings.HasPrefix(r.path, "/v1/model-configs") {
				continue // no route has that path, whose own errors have another form
			}
			out := r.do(r.method, begin+bad+below+map[bool]string{true: "?" + query}[query != ""], r.sent)
			if out.status != 404 && out.status != 400 || out.message() == "" && out.get("error").Str == "" || len(out.body) > 4096 {
				t.Errorf("%.60s: %d %.300s", bad, out.status, out.body)
			}
		}
		if r.digest() != before {
			t.Error("something changed")
		}
	})
}

// Pages of every size and number are answered or refused by every list.
func TestPagesBeyondAllBoundsAreAnsweredOrRefused(t *testing.T) {
	a := newAPI(t)
	a.do("GET", "/v1/openapi.json", "").get("paths").ForEach(func(path, operations gjson.Result) bool {
		if !operations.Get(`get.parameters.#(name=="page_size")`).Exists() || leftOut(path.Str) {
			return true
		}
		b := newAPI(t)
		target, _ := b.prepare("GET", path.Str)
		for _, value := range []string{"9223372036854775807", "9223372036854775808", "-1", "-9223372036854775808", "1e9", "1.5", "x", "0x10", "%00", "%ff", "1%20", "101", strings.Repeat("9", 1000)} {
			for _, query := range []string{"page_size=" + value, "current_page=" + value, "page_size=" + value + "&current_page=" + value, "page_size=100&current_page=" + value} {
				out := b.do("GET", target+"?"+query, "")
				if out.status != 200 && (out.status != 400 || out.code() != "AB01") {
					t.Errorf("%s?%s: %d %.300s", target, query, out.status, out.body)
				}
				if out.status == 200 && strings.Contains(query, "current_page=9223372036854775807") && (out.get("data.0").Exists() || out.get("records.0").Exists()) {
					t.Errorf("%s?%s has rows: %.300s", target, query, out.body)
				}
			}
		}
		return true
	})
}

// What a client sends in headers and in the query is recorded also if it is no text: the change is not
// refused for it, and the row is there.
func TestWhatIsNoTextIsRecorded(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{{"POST", "/v1/labels", `{"name":"n"}`, 200}, {"POST", "/v1/labels?a=\xff", `{"name":"o"}`, 200}, {"POST", "/v1/labels", `{}`, 400}, {"GET", "/v1/virtual-keys/x?workspace_id=%ff", "", 404}} {
		rows := len(a.trail())
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/labels", strings.NewReader(c.body))
		path, query, _ := strings.Cut(c.path, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Gw-Api-Key", ownerKey)
		r.Header.Set("User-Agent", "a\xff")
		r.Header.Set("X-Gw-Trace-Id", "\xfe")
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, r)
		if w.Code != c.status || !gjson.Valid(w.Body.String()) {
			t.Errorf("%s %q: %d %s", c.method, c.path, w.Code, w.Body)
		}
		trail := a.trail()
		if len(trail) != rows+1 || trail[0].Status != c.status || trail[0].UserAgent != "a\ufffd" {
			t.Errorf("%s %q: recorded is %+v", c.method, c.path, trail[0])
		}
	}
	if out := a.do("GET", "/v1/virtual-keys/%ff", ""); out.status != 400 || !strings.HasPrefix(out.message(), "path: expected UTF-8") {
		t.Errorf("%d %s", out.status, out.body)
	}
}
