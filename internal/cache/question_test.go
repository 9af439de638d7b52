package cache

import (
	"strings"
	"testing"
)

// Only the last question is compared by meaning. Everything else belongs to its scope.
func TestAQuestionIsTheLastMessage(t *testing.T) {
	question := func(endpoint, body string) (Question, bool) {
		c := Call{Organisation: "o", Endpoint: endpoint, Body: []byte(body)}
		return c.Question("p/m")
	}
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	const (
		system = `{"role":"system","content":"be brief"}`
		before = `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
		ask    = `{"role":"user","content":"which city"}`
	)
	base, ok := question("chatComplete", chat(ask))
	if !ok || base.Text != "which city" {
		t.Fatalf("got %+v, %v", base, ok)
	}
	for _, body := range []string{
		chat(`{"role":"user","content":"which town"}`),
		chat(`{"content":[{"type":"text","text":"which "},{"text":"city","type":"text"}],"role":"user","name":null}`),
		`{"stream":true,` + chat(ask)[1:],
	} {
		if q, ok := question("chatComplete", body); !ok || q.Scope != base.Scope {
			t.Errorf("%s: %v, another scope than %s", body, ok, chat(ask))
		}
	}
	seen := map[Key]string{base.Scope: "base"}
	for name, body := range map[string]string{
		"a system message":        chat(system + `,` + ask),
		"another system message":  chat(`{"role":"system","content":"be long"},` + ask),
		"a developer's message":   chat(`{"role":"developer","content":"be brief"},` + ask),
		"turns before":            chat(before + `,` + ask),
		"others before":           chat(`{"role":"user","content":"a"},{"role":"assistant","content":"c"},` + ask),
		"in another order":        chat(`{"role":"assistant","content":"b"},{"role":"user","content":"a"},` + ask),
		"a system message before": chat(system + `,` + before + `,` + ask),
		"an image before":         chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example"}}]},` + ask),
		"a tool's result before":  chat(`{"role":"tool","tool_call_id":"t","content":"b"},` + ask),
		"tools":                   `{"tools":[{"type":"function"}],` + chat(ask)[1:],
		"other tools":             `{"tools":[{"type":"custom"}],` + chat(ask)[1:],
		"another model":           strings.Replace(chat(ask), `"m"`, `"n"`, 1),
	} {
		q, ok := question("chatComplete", body)
		if other, taken := seen[q.Scope]; taken || !ok || q.Text != "which city" {
			t.Errorf("%s: %v, %q, with the scope of %q", name, ok, q.Text, other)
		}
		seen[q.Scope] = name
	}
	for name, body := range map[string]string{
		"nothing":              `{"model":"m"}`,
		"no messages":          chat(""),
		"no array":             `{"messages":"which city"}`,
		"no object":            chat(`"which city"`),
		"an answer at the end": chat(ask + `,{"role":"assistant","content":"it is"}`),
		"a tool's result":      chat(`{"role":"tool","tool_call_id":"t","content":"b"}`),
		"five messages":        chat(before + `,` + before + `,` + ask),
		"only a system's":      chat(system),
		"a name":               chat(`{"role":"user","name":"x","content":"which city"}`),
		"an image":             chat(`{"role":"user","content":[{"type":"text","text":"what"},{"type":"image_url","image_url":{"url":"https://a.example"}}]}`),
		"two contents":         chat(`{"role":"user","content":"which city","content":"which town"}`),
		"two roles":            chat(`{"role":"system","role":"user","content":"which city"}`),
		"two texts of a part":  chat(`{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}`),
		"a part without text":  chat(`{"role":"user","content":[{"type":"text"}]}`),
		"messages twice":       `{"messages":[` + ask + `],"messages":[` + ask + `]}`,
		"empty":                chat(`{"role":"user","content":""}`),
		"no content":           chat(`{"role":"user"}`),
		"too long":             chat(`{"role":"user","content":"` + strings.Repeat("x", maxTokens*perToken+1) + `"}`),
	} {
		if q, ok := question("chatComplete", body); ok {
			t.Errorf("%s: a question %q", name, q.Text)
		}
	}
	if q, ok := question("complete", `{"model":"m","prompt":"which city"}`); !ok || q.Text != "which city" || q.Scope == base.Scope {
		t.Errorf("a prompt: %+v, %v", q, ok)
	}
	for _, body := range []string{`{"prompt":["a","b"]}`, `{"prompt":[1,2]}`, `{"prompt":"a","prompt":"b"}`} {
		if q, ok := question("complete", body); ok {
			t.Errorf("%s: a question %q", body, q.Text)
		}
	}
	if _, ok := question("embed", `{"input":"a"}`); ok {
		t.Error("an embedding has a question")
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"\u0062"}],"messages":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := Call{Endpoint: "chatComplete", Body: body}
		q, ok := c.Question("m")
		if _, err := c.Key(); ok && err != nil {
			t.Fatalf("%q of what has no key", q.Text)
		}
	})
}
