package dialecttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers"
)

// A Turn is a turn of a conversation with tools.
type Turn struct {
	Endpoint string // default: chatComplete
	Strict   bool
	Answer   []byte // the provider's answer to "Go"
}

// Again puts the answer to a turn, as a client received it, into the next call, with
// results for its tool calls: result 0, result 1 and so on. It returns the upstream body.
// The ids of the calls must be unique.
func (d Dialect) Again(t testing.TB, turn Turn) []byte {
	t.Helper()
	c := Case{Endpoint: turn.Endpoint, Strict: turn.Strict}
	if c.Endpoint == "" {
		c.Endpoint = providers.ChatComplete
	}
	c.Body = fmt.Appendf(nil, `{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"Go"}]}`, d.Model)
	out, err := d.prepare(t, c).Answer.Body(nil, turn.Answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := again(gjson.ParseBytes(out))
	if c.Endpoint == providers.Messages {
		next = againMessages(gjson.ParseBytes(out))
	}
	ids := make(map[string]bool)
	for _, id := range next.ids {
		if id == "" || ids[id] {
			t.Errorf("id %q is not unique", id)
		}
		ids[id] = true
	}
	c.Body = fmt.Appendf(nil, `{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"Go"},%s]}`, d.Model, strings.Join(next.messages, ","))
	return d.prepare(t, c).Body
}

func (d Dialect) prepare(t testing.TB, c Case) *providers.Request {
	t.Helper()
	call := d.call(&c)
	r, err := call.Provider.Prepare(call)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// following has the messages after the first one, and the ids of the calls in them.
type following struct{ messages, ids []string }

func again(answer gjson.Result) (f following) {
	message := answer.Get("choices.0.message")
	f.messages = []string{message.Raw}
	for i, c := range message.Get("tool_calls").Array() {
		f.ids = append(f.ids, c.Get("id").Str)
		f.messages = append(f.messages, fmt.Sprintf(`{"role":"tool","tool_call_id":%s,"content":"result %d"}`, c.Get("id").Raw, i))
	}
	return f
}

func againMessages(answer gjson.Result) (f following) {
	var results []string
	for _, b := range answer.Get("content").Array() {
		if b.Get("type").Str == "tool_use" {
			f.ids = append(f.ids, b.Get("id").Str)
			results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%s,"content":"result %d"}`, b.Get("id").Raw, len(results)))
		}
	}
	f.messages = []string{
		`{"role":"assistant","content":` + answer.Get("content").Raw + `}`,
		`{"role":"user","content":[` + strings.Join(results, ",") + `]}`,
	}
	return f
}

// SameJSON compares two texts as JSON.
func SameJSON(t testing.TB, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	x, _ := json.MarshalIndent(a, "", " ") // they were parsed from JSON
	y, _ := json.MarshalIndent(b, "", " ")
	if string(x) != string(y) {
		t.Errorf("got\n%s\nwant\n%s", x, y)
	}
}
