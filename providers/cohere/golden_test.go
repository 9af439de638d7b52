package cohere_test

import (
	"testing"

	_ "github.com/caddy-gw/gateway/providers/cohere"
)

func TestGolden(t *testing.T) { dialect.Run(t) }
