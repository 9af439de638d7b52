package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func FuzzCheck(f *testing.F) {
	for i, table := range tables {
		f.Add(uint8(i), []byte(minimal[table]))
	}
	for _, body := range []string{
		chat(`,"n":1e2,"logit_bias":{"1":-0.5e1},"stop":["a","b"],"stream":true,"stream_options":{}`),
		chat(`,"tool_choice":{"type":"function","function":{"name":"f"}},"MODEL":1`),
		`{"messages":[{"role":"us\u0065r","content":[{}]},{"r\u006fle":null}]}`,
		`{"messages":[{"role":"user","content_blocks":[[{"extr\u0061_content":{"store":1}}]]}],"logit_bias":{"reasoning_content":1}}`,
		"{\"ſtream\":true,\"x\":[[[[]]]]}", `{"messages":[{"role":"robot"}`, `{"model":"a","model":"b"`,
	} {
		f.Add(uint8(0), []byte(body))
	}
	f.Add(uint8(1), []byte(`{"prompt":[[1,2],[3.0]],"best_of":3,"n":2e0}`))
	f.Add(uint8(4), []byte(`{"metadata":{"\ud83d\ude00":"\u00e9"}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		table := tables[int(which)%len(tables)]
		r, err := Check(table, body)
		isObject := json.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
		var (
			syntax *jsonscan.SyntaxError
			fault  *Error
		)
		switch {
		case errors.As(err, &syntax):
			if isObject && !strings.Contains(syntax.What, "deep") {
				t.Fatalf("%q is called bad syntax: %v", body, err)
			}
		case !isObject:
			t.Fatalf("%q is not a JSON object, but: %v", body, err)
		case errors.As(err, &fault):
			if fault.Param == "" || fault.Code == "" || fault.Message == "" {
				t.Fatalf("%q: a fault that does not say: %+v", body, fault)
			}
		case err != nil:
			t.Fatalf("%q: error of type %T", body, err)
		default:
			for i := range table.Fields.rows {
				name := table.Fields.rows[i].Name
				s := r.Span(name)
				if s.End != 0 && !json.Valid(body[s.Start:s.End]) {
					t.Fatalf("%q: %s stands at %v, which is not a value", body, name, s)
				}
			}
			if got, want := r.names, namesOf(t, body); got != want {
				t.Fatalf("%q: the names %b; expected %b", body, got, want)
			}
			if r.Empty != (bytes.Trim(body[r.Open:], " \t\r\n")[0] == '}') {
				t.Fatalf("%q: empty: %v", body, r.Empty)
			}
		}
	})
}
