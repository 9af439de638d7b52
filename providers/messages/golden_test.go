package messages_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
)

func TestGolden(t *testing.T) { dialecttest.Run(t, "openai") }
