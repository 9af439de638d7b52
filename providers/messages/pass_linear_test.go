package messages

import (
	"strings"
	"testing"
)

// A block is not read again for each of its names and contents: this takes minutes if it takes n² steps.
func TestBlocksTakeLinearTime(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for _, member := range []string{`"name":" "`, `"content":[{"name":" "}]`} {
		for _, kind := range []string{"tool_use", "tool_result"} {
			Pass([]byte(`{"messages":[{"role":"user","content":[{` + strings.Repeat(member+",", n) + `"type":"` + kind + `"}]}]}`))
		}
	}
}
