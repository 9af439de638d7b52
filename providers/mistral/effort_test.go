package mistral

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func TestTheEffortIsOneThatTheModelKnows(t *testing.T) {
	for _, c := range []struct{ model, effort, want string }{
		{"mistral-small-latest", "none", "none"},
		{"mistral-small-2603", "minimal", "none"},
		{"mistral-small-latest", "low", "high"},
		{"mistral-medium-3-5", "medium", "high"},
		{"mistral-medium-3-5", "max", "high"},
		{"mistral-large-4-0", "minimal", "low"},
		{"mistral-large-4", "low", "low"},
		{"mistral-large-latest", "medium", "medium"},
		{"mistral-large-latest", "xhigh", "high"},
		{"mistral-small-latest", "tomorrow", "tomorrow"}, // the provider says what is wrong
		{"mistral-large-2512", "high", ""},
		{"mistral-medium-2508", "high", ""},
		{"magistral-medium-latest", "high", ""},
		{"ministral-8b-latest", "high", ""},
		{"codestral-latest", "high", ""},
		{"devstral-medium-latest", "high", ""},
		{"pixtral-large-latest", "high", ""},
		{"open-mistral-nemo", "high", ""},
		{"mistral-tiny", "high", ""},
	} {
		var b jsonscan.Builder
		b.Open('{')
		writeEffort(&b, &chat.Request{Model: chat.Quote(c.model), Effort: chat.Quote(c.effort)})
		b.Close('}')
		want := `{"reasoning_effort":"` + c.want + `"}`
		if c.want == "" {
			want = "{}"
		}
		if string(b) != want {
			t.Errorf("%s with %s: got %s, want %s", c.model, c.effort, b, want)
		}
	}
}
