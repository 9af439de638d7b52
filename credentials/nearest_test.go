package credentials

import (
	"strings"
	"testing"
)

func TestNearestFindsWhatWasMeant(t *testing.T) {
	among := []string{"openai-prod", "openai-test", "local", "x"}
	for name, want := range map[string]string{
		"openai-prdo": "openai-prod", "openaiprod": "openai-prod", "openai-tset": "openai-test", "locla": "local", "loc": "",
		"": "", "y": "", "anthropic": "", strings.Repeat("x", 100): "",
	} {
		if got := Nearest(name, among); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := Nearest("local", nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}
