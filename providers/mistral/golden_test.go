package mistral_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	_ "github.com/caddy-gw/gateway/providers/mistral"
)

func TestGolden(t *testing.T) { dialecttest.Run(t, "mistral-ai") }
