package azure_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for _, provider := range []string{"azure-openai", "azure-ai"} {
		dialecttest.Dialect{Provider: provider, Model: "gpt-5", Settings: map[string]string{"azure_resource_name": "r"}}.CheckNoAnswers(t)
	}
}
