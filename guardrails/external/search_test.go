package external

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// Pages that are found are a message of the system, and nothing else of the call changes.
func TestPagesAreAdded(t *testing.T) {
	const (
		reply      = `{"results":[{"title":"T","url":"https://a.example/","text":"page","content":"page"},{"title":"U"}]}`
		systemText = `(\nT\nhttps://a.example/\npage\n\nU\n\n\n)`
		chat       = `{"model":"m", "messages":[ {"role":"user","content":"Ann's number is 12"}]}`
	)
	exaWants := wanted{"https://api.exa.ai/search", map[string]string{"x-api-key": "k"}, `{"query":"Ann's number is 12","numResults":5,"contents":{"text":{"maxCharacters":2000}}}`}
	for name, c := range map[string]struct {
		id, parameters, endpoint, body, reply, after string // "": an error
		want                                         wanted
	}{
		"exa":                   {"exa.online", `{}`, "chatComplete", chat, reply, `{"model":"m", "messages":[{"content":"` + systemText + `","role":"system"}, {"role":"user","content":"Ann's number is 12"}]}`, exaWants},
		"tavily":                {"tavily.online", `{"numResults":2,"includeDomains":["a.example"],"excludeDomains":["b.example"]}`, "chatComplete", chat, reply, `{"model":"m", "messages":[{"content":"` + systemText + `","role":"system"}, {"role":"user","content":"Ann's number is 12"}]}`, wanted{"https://api.tavily.com/search", map[string]string{"Authorization": "Bearer k"}, `{"query":"Ann's number is 12","max_results":2,"include_domains":["a.example"],"exclude_domains":["b.example"]}`}},
		"messages":              {"exa.online", `{}`, "messages", `{"model":"m"}`, reply, `{"model":"m","system":"` + systemText + `"}`, exaWants},
		"messages with a text":  {"exa.online", `{}`, "messages", `{"system":"be kind"}`, reply, `{"system":"be kind\n` + systemText + `"}`, exaWants},
		"messages with a list":  {"exa.online", `{}`, "messages", `{"system":[{"type":"text","text":"be kind"}]}`, reply, `{"system":[{"type":"text","text":"be kind"},{"text":"` + systemText + `","type":"text"}]}`, exaWants},
		"nothing found":         {"exa.online", `{}`, "chatComplete", chat, `{"results":[]}`, chat, exaWants},
		"an answer without any": {"exa.online", `{}`, "chatComplete", chat, `{"error":"x"}`, "", exaWants},
		"what is not JSON":      {"exa.online", `{}`, "chatComplete", chat, `[`, "", exaWants},
		"another endpoint":      {"exa.online", `{}`, "embed", chat, reply, "", exaWants},
		"no messages":           {"exa.online", `{}`, "chatComplete", `{}`, reply, "", exaWants},
	} {
		s := &standIn{t: t, want: c.want, reply: c.reply}
		subject := subject(s, false)
		subject.Type, subject.Request = c.endpoint, json.RawMessage(c.body)
		parameters := strings.Replace(c.parameters, "{", `{"prefix":"(","suffix":")","credentials":{"apiKey":"k"},`, 1)
		check, err := guardrails.Lookup(c.id).Make(json.RawMessage(strings.Replace(parameters, ",}", "}", 1)))
		if err != nil {
			t.Fatal(err)
		}
		result, err := check.Judge(t.Context(), subject)
		switch got := string(result.Body); {
		case (err != nil) != (c.after == ""):
			t.Errorf("%s: %v", name, err)
		case err == nil && (!result.Verdict || got != c.after && (got != "" || c.after != c.body)):
			t.Errorf("%s: %v, %s", name, result.Verdict, got)
		}
		if string(subject.Request) != c.body {
			t.Errorf("%s: the body of the call was changed: %s", name, subject.Request)
		}
	}
}

// A service that is elsewhere has to be public, and comes with its own credential.
func TestSearchesElsewhere(t *testing.T) {
	s := &standIn{t: t, want: wanted{"https://search.example.com/v1/search", map[string]string{"x-api-key": "own"}, `{"query":"` + strings.Repeat("é", maxQuery) + `","numResults":1,"contents":{"text":{"maxCharacters":2000}}}`}, reply: `{"results":[]}`}
	subject := subject(s, false)
	subject.Texts, subject.Request = []string{strings.Repeat("é", 1000)}, json.RawMessage(`{"messages":[]}`)
	check, err := guardrails.Lookup("exa.online").Make(json.RawMessage(`{"numResults":1,"credentials":{"apiKey":"own","baseUrl":"search.example.com/v1/"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check.Judge(t.Context(), subject); err != nil || !s.public {
		t.Errorf("%v, public %v", err, s.public)
	}
}
