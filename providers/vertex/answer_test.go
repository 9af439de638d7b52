package vertex_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for _, model := range []string{"gemini-2.5-flash", "claude-sonnet-4-5@20250929", "meta/llama-3.3-70b-instruct-maas"} {
		dialecttest.Dialect{
			Provider: "vertex-ai", Model: model, Settings: map[string]string{"vertex_region": "global", "vertex_project_id": "p"},
		}.CheckNoAnswers(t)
	}
}
