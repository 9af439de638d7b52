package chat_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

func TestAToolThatIsNoFunctionStaysAsItStands(t *testing.T) {
	r, err := chat.Parse([]byte(`{"model":"m","messages":[],"tools":[{"google_search":{}},{"type":"web_search"},{"function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ other, name string }{{`{"google_search":{}}`, ""}, {`{"type":"web_search"}`, ""}, {"", "f"}, {"", "g"}} {
		if got := r.Tools[i]; string(got.Other) != want.other || got.Name.Text() != want.name {
			t.Errorf("tool %d: got %s %s, want %+v", i, got.Other, got.Name, want)
		}
	}
}
