package responses

import (
	"bytes"
	"encoding/json"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// echoed lists the members of a request that a response repeats, and their default values;
// "": none.
var echoed = []struct{ name, otherwise string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", ""},
	{"metadata", "{}"},
	{"parallel_tool_calls", "true"},
	{"previous_response_id", "null"},
	{"prompt_cache_key", ""},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", ""},
	{"store", "true"},
	{"temperature", "1"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", ""},
	{"top_p", "1"},
	{"truncation", `"disabled"`},
	{"user", ""},
}

// Echo returns the members of a response that repeat its request: a list of members without
// braces, on one line, which does not share the body's memory.
func Echo(body []byte) []byte {
	values := make([]chat.Raw, len(echoed))
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		for i := range echoed {
			if key.Is(echoed[i].name) {
				values[i] = r.Value()
				return
			}
		}
	})
	b := jsonscan.Builder(`"background":false`)
	for i, e := range echoed {
		switch {
		case values[i] != nil:
			b.Key(e.name).Raw(line(values[i]))
		case e.otherwise != "":
			b.Key(e.name).Raw([]byte(e.otherwise))
		}
	}
	return b
}

// line returns a value on one line, as streams require.
func line(value []byte) []byte {
	if !bytes.ContainsAny(value, "\r\n") {
		return value
	}
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return []byte("null")
	}
	return out.Bytes()
}

// A Head holds the members of a request that the gateway itself evaluates.
type Head struct {
	Previous string   // previous_response_id, or ""
	Input    chat.Raw // a string or an array of items
	At       int      // position of the input in the body
	Store    bool
	Auto     bool // truncation: auto
}

// ReadHead reads these members of a request.
func ReadHead(body []byte) Head {
	h := Head{Store: true}
	r := jsonscan.NewReader(body)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "previous_response_id":
			h.Previous = chat.Literal(r.String()).Text()
		case "input":
			h.At = r.Peek()
			h.Input = r.Value()
		case "store":
			h.Store = string(r.Raw()) != "false"
		case "truncation":
			h.Auto = chat.Literal(r.String()).Is("auto")
		}
	})
	return h
}
