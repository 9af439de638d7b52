package anthropic_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	_ "github.com/caddy-gw/gateway/providers/anthropic"
)

func TestGolden(t *testing.T) { dialecttest.Run(t, "anthropic") }
