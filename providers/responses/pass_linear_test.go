package responses

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

// A tool is not read again for each of its names: this takes minutes if it takes n² steps.
func TestToolsTakeLinearTime(t *testing.T) {
	t.Parallel()
	Pass([]byte(`{"tools":[{`+strings.Repeat(`"name":" ",`, 200_000)+`"type":"function"}]}`), chat.Limits{ToolName: 64})
}
