package vertex_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	_ "github.com/caddy-gw/gateway/providers/vertex"
)

func TestGolden(t *testing.T) { dialecttest.Dialect{Provider: "vertex-ai"}.Run(t) }
