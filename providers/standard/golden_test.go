package standard_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

// The cases are of providers that speak OpenAI's API, each of which call.json names.
func TestGolden(t *testing.T) { dialecttest.Dialect{Provider: "openai", Model: "gpt-5"}.Run(t) }
