package responses_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/responses"
)

const owned = "0123456789abcdef0123456789abcdef" // the unique part of a response's id

func TestTheOwnerOfAnItem(t *testing.T) {
	for id, want := range map[string]string{
		"msg_" + owned + "00": "resp_" + owned, "rs_" + owned + "i0f": "resp_" + owned,
		"msg_" + owned: "", "msg_short": "", owned + "00": "", "": "",
	} {
		if got := responses.Owner(id); got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}

func TestReferencesAreExpanded(t *testing.T) {
	unreadable := errors.New("unreadable")
	find := func(id string) ([]byte, error) {
		switch id {
		case "a":
			return []byte(`{"found":"a"}`), nil
		case "bad":
			return nil, unreadable
		case "huge":
			return []byte(`"` + strings.Repeat("x", responses.MaxExpanded/2) + `"`), nil
		}
		return nil, nil
	}
	for input, want := range map[string]struct {
		out string // "": nothing changes
		err error
	}{
		`"a string with \"id\""`:               {"", nil},
		`[]`:                                   {"", nil},
		`[{"role":"user","content":"hi"}]`:     {"", nil},
		`[{"type":"item_reference","id":"a"}]`: {`[{"found":"a"}]`, nil},
		`[{"id":"a"}]`:                         {`[{"found":"a"}]`, nil},
		`[{"type":null,"id":"a"}]`:             {`[{"found":"a"}]`, nil},
		`[{"id":"a"}, {"role":"user"},{"id":"b"},{"id":"a"}]`: {`[{"found":"a"},{"role":"user"},{"id":"b"},{"found":"a"}]`, nil},
		`[{"id":"b"}]`:                                            {"", nil},
		`[{"type":"message","id":"a"}]`:                           {"", nil},
		`[{"id":"a","content":"hi"}]`:                             {"", nil},
		`[{"id":""}]`:                                             {"", nil},
		`[{"id":"a"},{"id":"bad"},{"id":"a"}]`:                    {"", unreadable},
		`[{"id":"huge"},{"id":"huge"}]`:                           {"", responses.ErrExpanded},
		`[{"id":"a"},` + strings.Repeat(`{"id":"b"},`, 2) + `{}]`: {`[{"found":"a"},{"id":"b"},{"id":"b"},{}]`, nil},
	} {
		got, err := responses.Expand([]byte(input), find)
		if string(got) != want.out || !errors.Is(err, want.err) || (got == nil) != (want.out == "") {
			t.Errorf("%s: got %.200s, %v; want %.200s, %v", input, got, err, want.out, want.err)
		}
	}
}

func TestItemsAreListedInTheFormOfTheAPI(t *testing.T) {
	for items, want := range map[string][]string{
		`"hi"`:                            {`{"id":"msg_1i00","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":"hi"}]}`},
		`[{"role":"user","content":"q"}]`: {`{"id":"msg_1i00","type":"message","role":"user","content":[{"type":"input_text","text":"q"}],"status":"completed"}`},
		`[{"role":"assistant","content":"a","id":"own"},{"type":"message","role":"user","content":[],"status":"incomplete"}]`: {
			`{"id":"own","type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}],"status":"completed"}`,
			`{"id":"msg_1i01","type":"message","role":"user","content":[],"status":"incomplete"}`,
		},
		`[{"type":"function_call","id":"","name":"f"},{"type":"reasoning","summary":[]},{"type":"function_call_output","output":"x"}]`: {
			`{"id":"fc_1i00","type":"function_call","name":"f","status":"completed"}`,
			`{"id":"rs_1i01","type":"reasoning","summary":[]}`,
			`{"id":"fco_1i02","type":"function_call_output","output":"x","status":"completed"}`,
		},
	} {
		got := responses.Items([]byte(items), "resp_1")
		if len(got) != len(want) {
			t.Errorf("%s: %d items", items, len(got))
			continue
		}
		for i, m := range got {
			if string(m.Value) != want[i] || !strings.HasPrefix(want[i], `{"id":"`+m.Name+`"`) {
				t.Errorf("%s: item %d is %s, %s; want %s", items, i, m.Name, m.Value, want[i])
			}
		}
	}
	many := responses.Items([]byte(`[`+strings.Repeat(`{},`, 16)+`{}]`), "resp_1")
	if many[9].Name != "msg_1i09" || many[16].Name != "msg_1i10" {
		t.Errorf("got %s and %s", many[9].Name, many[16].Name)
	}
}

func TestTheHeadOfARequest(t *testing.T) {
	for body, want := range map[string]responses.Head{
		`{}`: {Store: true},
		`{"model":"m", "input":"hi","store":true,"truncation":"disabled"}`:                  {Input: chat.Raw(`"hi"`), At: 21, Store: true},
		`{"previous_response_id":"resp_1","store":false,"truncation":"auto","input":[{} ]}`: {Previous: "resp_1", Auto: true, Input: chat.Raw(`[{} ]`), At: 76},
	} {
		got := responses.ReadHead([]byte(body))
		if got.Previous != want.Previous || string(got.Input) != string(want.Input) || got.Store != want.Store || got.Auto != want.Auto || want.Input != nil && !strings.HasPrefix(body[got.At:], string(want.Input)) {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// OpenAI gets back what is its own, and not what the gateway added to the answers of others.
func TestWhatTheGatewayAddedIsStripped(t *testing.T) {
	seal := string(chat.AppendSeal(nil, "thinking", "anthropic", []byte("data")))
	ours := `{"type":"reasoning","summary":[],"encrypted_content":"` + seal + `"}`
	theirs := `{"type":"reasoning","summary":[],"encrypted_content":"abc"}`
	for body, want := range map[string]string{
		`{"input":"hi"}`:                                    "",
		`{"input":[` + theirs + `]}`:                        "",
		`{"model":"m","input":[` + ours + `]}`:              `{"model":"m","input":[]}`,
		`{"input":[` + ours + "," + theirs + `],"x":"gw:"}`: `{"input":[` + theirs + `],"x":"gw:"}`,
		`{"input":[{"type":"function_call","name":"f","extra_content":{"google":{}},"arguments":"{}"}]}`: `{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}`,
		`{"input":[{"type":"message","encrypted_content":"` + seal + `"}]}`:                              "",
		`{"extra_content":1,"input":[]}`: "",
		`{"extra_content":1,"input":[`:   "",
	} {
		if got, _ := responses.Pass([]byte(body), chat.Limits{}); string(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}
