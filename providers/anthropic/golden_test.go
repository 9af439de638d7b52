package anthropic_test

import (
	"testing"

	_ "github.com/caddy-gw/gateway/providers/anthropic"
)

func TestGolden(t *testing.T) { dialect.Run(t) }
