package chat

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
)

func request(t *testing.T, messages string) *Request {
	t.Helper()
	r, err := Parse([]byte(`{"model":"m","messages":[` + messages + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ids are those of a request's calls and results.
func ids(r *Request) string {
	var all []string
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			all = append(all, c.ID.Text())
		}
		if m.Role == ToolResult {
			all = append(all, "="+m.CallID.Text())
		}
	}
	return strings.Join(all, " ")
}

func TestResultsFindTheirCalls(t *testing.T) {
	const f, g, a = `{"function":{"name":"f"}}`, `{"function":{"name":"g"}}`, `{"id":"a","function":{"name":"f"}}`
	for _, c := range []struct{ messages, want string }{
		{`{"role":"assistant","tool_calls":[` + f + `,` + g + `]},{"role":"tool"},{"role":"tool"}`, "call_0_0 call_0_1 =call_0_0 =call_0_1"},
		{`{"role":"assistant","tool_calls":[` + f + `,` + g + `]},{"role":"tool","name":"g"},{"role":"tool"}`, "call_0_0 call_0_1 =call_0_1 =call_0_0"},
		{`{"role":"assistant","tool_calls":[` + a + `,` + f + `]},{"role":"tool","tool_call_id":"a"},{"role":"tool","name":"f"}`, "a call_0_1 =a =call_0_1"},
		{`{"role":"assistant","tool_calls":[` + a + `]},{"role":"tool","tool_call_id":""},{"role":"tool"}`, "a =a ="},
		{`{"role":"tool"}`, "="},
		{`{"role":"assistant","function_call":{"name":"f"}},{"role":"function","name":"f"},{"role":"assistant","function_call":{"name":"f"}},{"role":"function","name":"f"}`, "call_0_0 =call_0_0 call_2_0 =call_2_0"},
	} {
		if got := ids(request(t, c.messages)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.messages, got, c.want)
		}
	}
}

func TestCallNameIsThatOfTheLatestCallBefore(t *testing.T) {
	r := request(t, `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a"},`+
		`{"role":"assistant","tool_calls":[{"id":"\u0061","function":{"name":"g"}}]},{"role":"tool","tool_call_id":"a"}`)
	for i, want := range []string{"", "f", "f", "g"} {
		if got := r.CallName(Quote("a"), i).Text(); got != want {
			t.Errorf("before message %d: got %q, want %q", i, got, want)
		}
	}
	if got := r.CallName(Quote("b"), 4); got != nil {
		t.Errorf("got %s of no call", got)
	}
}

// What costs the square of a body's size would let one caller stop the others. Here it is
// seen in what is allocated.
func TestTextsAndCallsCostWhatTheirSizeIs(t *testing.T) {
	parts := make([]Part, 10000)
	for i := range parts {
		parts[i].Text = Quote("word ")
	}
	alloctest.AtMost(t, 1, 10, func() { JoinText(parts) })
	r := request(t, strings.Repeat(`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]},`, 1000)+`{"role":"user","content":"Hi"}`)
	r.CallName(Quote("a"), 1)
	id := Quote("of no call")
	alloctest.AtMost(t, 2, 10, func() { r.CallName(id, 1000) })
}

func TestPlainIDKeepsWhatIsPlain(t *testing.T) {
	for id, want := range map[string]string{
		"toolu_1-A": "toolu_1-A", "functions.f:0": "functions_f_0", "": "", "\u00fc": "__", "aaaa" + "bbbbbbbbbbbbbbbb": "bbbbbbbbbbbbbbbb",
	} {
		if got := PlainID(Quote(id), 16).Text(); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}
