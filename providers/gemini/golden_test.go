package gemini_test

import (
	"testing"

	_ "github.com/caddy-gw/gateway/providers/gemini"
)

func TestGolden(t *testing.T) { dialect.Run(t) }
