package chat_test

import (
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
)

// A schema that says that it is of objects, or of what else, stays as it is, byte for
// byte; one that does not say becomes one of objects.
func TestTheSchemaOfAToolIsOfObjects(t *testing.T) {
	const none = `{"type":"object","properties":{}}`
	for schema, want := range map[string]string{
		``:                                    none,
		`{}`:                                  none,
		`{ }`:                                 none,
		`{"type":null}`:                       `{"type":"object"}`,
		`{"$ref":"#/$defs/a","$defs":{}}`:     `{"type":"object","$ref":"#/$defs/a","$defs":{}}`,
		`{"properties":{"type":{}}}`:          `{"type":"object","properties":{"type":{}}}`,
		`{"a\"b": 1}`:                         `{"type":"object","a\"b":1}`,
		`{"type":"string","type":null}`:       `{"type":"object"}`,
		`{ "properties":{}, "type":"object"}`: ``,
		`{"type":["object","null"]}`:          ``,
		`{"type":"array"}`:                    ``,
		`true`:                                ``,
	} {
		if want == "" {
			want = schema
		}
		tool := chat.Tool{}
		if schema != "" {
			tool.Parameters = chat.Raw(schema)
		}
		if got := string(tool.Schema()); got != want {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}
