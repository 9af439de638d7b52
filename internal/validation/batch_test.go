package validation

import (
	"strings"
	"testing"
)

func TestBatchRows(t *testing.T) {
	members := map[string]string{"input_file_id": `"f"`, "endpoint": `"/v1/chat/completions"`, "completion_window": `"24h"`}
	for field := range members {
		for value, code := range map[string]string{``: MissingParameter, `null`: MissingParameter, `7`: InvalidType, `{}`: InvalidType} {
			var b []string
			for name, other := range members {
				if name == field {
					other = value
				}
				if other != "" {
					b = append(b, `"`+name+`":`+other)
				}
			}
			mustRefuse(t, Batch, "{"+strings.Join(b, ",")+"}", field, code)
		}
	}
	testRules(t, Batch, `{"input_file_id":"f","endpoint":"/v1/embeddings","completion_window":"24h"}END`, []rule{metadataRule, {"model", []string{`"m"`}, notText, nil}})
}
