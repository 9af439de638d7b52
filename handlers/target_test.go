package handlers_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func TestATargetEditsTheBody(t *testing.T) {
	l := newLab(t, "", "")
	l.on("500", respond(500, overloaded))
	const rest = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ name, members, body, want string }{
		{"override", `"override_params":{"model":"n","temperature":0.5}`, `{"model":"m","temperature":1,` + rest + `}`, `{"model":"n","temperature":0.5,` + rest + `}`},
		{"default", `"default_params":{"temperature":0.5,"top_p":1}`, `{"model":"m","temperature":1,` + rest + `}`, `{"model":"m","temperature":1,` + rest + `,"top_p":1}`},
		{"drop", `"drop_params":["temperature","x.y","messages[0].name"]`, `{"model":"m","temperature":1,"x":{"y":1,"z":2},"messages":[{"role":"user","name":"n"}]}`, `{"model":"m","x":{"z":2},"messages":[{"role":"user"}]}`},
		{"all three, in order", `"default_params":{"a":1,"b":1},"override_params":{"b":2,"c":2},"drop_params":["c"]`, `{"model":"m",` + rest + `}`, `{"model":"m",` + rest + `,"a":1,"b":2}`},
		{"a model for a body without one", `"override_params":{"model":"n"}`, `{` + rest + `}`, `{"model":"n",` + rest + `}`},
		{"a model with a slug", `"override_params":{"model":"@good/n/o"}`, `{"model":"m",` + rest + `}`, `{"model":"n/o",` + rest + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.T = t
			for _, config := range []string{
				`{"provider":"@good",` + c.members + `}`,
				`{` + c.members + `,"strategy":{"mode":"fallback"},"targets":[{"provider":"@bad","override_params":{"seed":7}},{"provider":"@good"}]}`, // inherited
			} {
				a := l.chat(c.body, config, cue+"500")
				if a.Status != 200 {
					t.Fatalf("%s: %d %s", config, a.Status, a.Body)
				}
				mustEqualJSON(t, l.good.Last(t).Body, c.want)
			}
		})
	}
	l.T = t
	// The slug of a model alone is a target.
	if a := l.chat(gatewaytest.Chat, `{"override_params":{"model":"@good/n"}}`); a.Status != 200 || gjson.Get(l.good.Last(t).Body, "model").Str != "n" {
		t.Errorf("the model alone: %d %s", a.Status, a.Body)
	}
	// A child's parameters go before its parent's.
	a := l.chat(gatewaytest.Chat, `{"override_params":{"a":1,"b":1},"strategy":{"mode":"single"},"targets":[{"provider":"@good","override_params":{"b":2}}]}`)
	if got := l.good.Last(t).Body; a.Status != 200 || gjson.Get(got, "a").Int() != 1 || gjson.Get(got, "b").Int() != 2 {
		t.Errorf("%d: the provider got %s", a.Status, got)
	}
}

func mustEqualJSON(t *testing.T, got, want string) {
	t.Helper()
	compact := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b, _ := json.Marshal(v)
		return string(b)
	}
	if compact(got) != compact(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestForwardHeaders(t *testing.T) {
	l := newLab(t, "", "")
	for name, c := range map[string]struct {
		config string
		header string
		want   map[string]string
	}{
		"of the config": {`{"provider":"@good","forward_headers":["x-a","X-B"]}`, "", map[string]string{"X-A": "1", "X-B": "2"}},
		"of the header": {`{"provider":"@good","cache":"simple"}`, "x-a, x-c", map[string]string{"X-A": "1"}},
		"of both":       {`{"provider":"@good","forward_headers":["x-b"]}`, "x-a", map[string]string{"X-A": "1", "X-B": "2"}},
		"inherited":     {`{"forward_headers":["x-b"],"strategy":{"mode":"single"},"targets":[{"provider":"@good"}]}`, "", map[string]string{"X-B": "2"}},
		"of nobody":     {`{"provider":"@good","cache":"simple"}`, "", nil},
	} {
		headers := []string{"x-a: 1", "x-b: 2", "x-d: 4"}
		if c.header != "" {
			headers = append(headers, "x-gw-forward-headers: "+c.header)
		}
		if a := l.chat(gatewaytest.Chat, c.config, headers...); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		for _, h := range []string{"X-A", "X-B", "X-C", "X-D", "X-Gw-Forward-Headers"} {
			if got := l.good.Last(t).Header.Get(h); got != c.want[h] {
				t.Errorf("%s: %s is %q, want %q", name, h, got, c.want[h])
			}
		}
	}
	for _, name := range []string{"authorization", "x-gw-api-key", "cookie", "host"} {
		if a := l.chat(gatewaytest.Chat, `{"provider":"@good","forward_headers":["`+name+`"]}`); a.Status != 400 || a.Get("error.code").Str != "invalid_config" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}
