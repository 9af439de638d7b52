package cohere_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	_ "github.com/caddy-gw/gateway/providers/cohere"
)

func TestGolden(t *testing.T) { dialecttest.Run(t, "cohere") }
