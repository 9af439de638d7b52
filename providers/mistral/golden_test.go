package mistral_test

import (
	"testing"

	_ "github.com/caddy-gw/gateway/providers/mistral"
)

func TestGolden(t *testing.T) { dialect.Run(t) }
