package turns

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A conversation is what the provider does not store: the latest response of a WebSocket, and all
// before it.
type conversation struct {
	id    string // of the response; "": there is none
	base  string // the stored response that it goes on from, as JSON; "": it begins with items
	items []byte // of input and output, in order, separated by commas
}

// extend puts the items of the conversation before those of a request that goes on from it, and
// returns the stored response that the request then goes on from, as JSON.
func (c *conversation) extend(r *request) (base string) {
	if c.id == "" || r.previous == "" || gjson.Parse(r.previous).Str != c.id {
		return r.previous
	}
	r.before = c.items
	return c.base
}

// A request is a message of type response.create.
type request struct {
	rest     []byte // the members that are passed on as they are, separated by commas
	before   []byte // items of the conversation, separated by commas
	items    []byte // of the input, the same
	model    []byte // as JSON
	previous string // previous_response_id, as JSON; "": there is none
	unstored bool   // store is false
	warmUp   bool   // generate is false
}

// parse reads a message. The error is for the client.
func parse(message []byte) (*request, error) {
	r := &request{model: []byte("null")}
	var kind string
	var wrong error
	err := jsonscan.Members(message, func(m jsonscan.Member) error {
		value := message[m.Start:m.End]
		switch name := m.Key.String(); name {
		case "type":
			kind = gjson.ParseBytes(value).Str
			return nil
		case "stream", "background", "event_id": // of the transport
			return nil
		case "generate":
			r.warmUp = string(value) == "false"
			return nil
		case "previous_response_id":
			if r.previous = string(value); r.previous == "null" {
				r.previous = ""
			}
			return nil
		case "input":
			r.items, wrong = itemsOf(value)
			return wrong
		case "model":
			r.model = value
		case "store":
			r.unstored = string(value) == "false"
		}
		if len(r.rest) > 0 {
			r.rest = append(r.rest, ',')
		}
		r.rest = append(jsonscan.AppendQuoted(r.rest, m.Key.String()), ':')
		r.rest = append(r.rest, value...)
		return nil
	})
	switch {
	case wrong != nil:
		return nil, wrong
	case err != nil:
		return nil, fmt.Errorf("a message must be a JSON object: %w", err)
	case kind != "response.create":
		return nil, errors.New("expected a message of type response.create")
	}
	return r, nil
}

// itemsOf returns the items of an input. A text is a message of the user.
func itemsOf(input []byte) ([]byte, error) {
	switch v := gjson.ParseBytes(input); {
	case v.Type == gjson.String:
		return append(append([]byte(`{"role":"user","content":`), input...), '}'), nil
	case v.IsArray():
		return inside(v.Raw), nil
	case v.Type == gjson.Null:
		return nil, nil
	}
	return nil, errors.New("'input' has an invalid type: expected a text or an array")
}

// inside is what is between the brackets of an array, without blanks around it.
func inside(array string) []byte {
	if len(array) < 2 || array[0] != '[' {
		return nil
	}
	return []byte(strings.TrimSpace(array[1 : len(array)-1]))
}

// join appends lists of items.
func join(to []byte, lists ...[]byte) []byte {
	for _, items := range lists {
		if len(to) > 0 && len(items) > 0 {
			to = append(to, ',')
		}
		to = append(to, items...)
	}
	return to
}

// size is how long the body of the call is, about, in bytes.
func (r *request) size() int { return len(r.before) + 2*(len(r.rest)+len(r.items)) }

// body is the body of the call, which goes on from the stored response base.
func (r *request) body(base string) []byte {
	b := append(make([]byte, 0, len(r.before)+len(r.rest)+len(r.items)+len(base)+64), `{"stream":true,"input":[`...)
	if b = append(b, r.before...); len(r.before) > 0 && len(r.items) > 0 {
		b = append(b, ',')
	}
	b = append(append(b, r.items...), ']')
	if base != "" {
		b = append(append(b, `,"previous_response_id":`...), base...)
	}
	if len(r.rest) > 0 {
		b = append(append(b, ','), r.rest...)
	}
	return append(b, '}')
}
