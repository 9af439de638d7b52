package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caddy-gw/gateway/providers/chat"
)

// A shape converts the answers of an endpoint from streams to complete bodies and back.
type shape struct {
	whole  func(events []object) (object, error)
	events func(answer object) []event
	done   bool   // a stream ends with [DONE]
	holds  string // the member that every valid answer has
}

// object is a JSON object; its numbers keep their digits.
type object = map[string]any

// An event is a server-sent event. Its name is empty if the events of the endpoint have
// no names.
type event struct {
	name string
	data object
}

// shapes are the endpoints whose streams are stored.
var shapes = map[string]shape{
	"chatComplete":        {wholeChat, chatEvents, true, "choices"},
	"complete":            {wholeText, textEvents, true, "choices"},
	"messages":            {wholeMessage, messageEvents, false, "content"},
	"createModelResponse": {wholeResponse, responseEvents, false, "output"},
}

// Streams reports whether streams of an endpoint can be stored.
func Streams(endpoint string) bool { _, ok := shapes[endpoint]; return ok }

// As returns the body of the entry as a stream or as a complete answer, converting it
// if it was stored in the other form.
func (e *Entry) As(endpoint string, stream bool) ([]byte, error) {
	if e.Stream == stream {
		return e.Body, nil
	}
	s, ok := shapes[endpoint]
	if !ok {
		return nil, fmt.Errorf("answers of %s do not stream", endpoint)
	}
	if stream {
		answer, err := parse(e.Body)
		if err != nil {
			return nil, err
		}
		if _, ok := answer[s.holds].([]any); !ok {
			return nil, fmt.Errorf("an answer without %s", s.holds)
		}
		return appendStream(s.events(answer), s.done)
	}
	events, err := parseStream(e.Body)
	if err != nil {
		return nil, err
	}
	answer, err := s.whole(events)
	if err != nil {
		return nil, err
	}
	return encodeObject(answer)
}

func parse(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("not an object")
	}
	return o, nil
}

func parseStream(body []byte) (events []object, err error) {
	f := new(chat.SSE)
	take := func(_ string, data []byte) error {
		o, err := parse(data)
		if err == nil {
			events = append(events, o)
		}
		return err
	}
	if err = f.Push(body, take); err == nil {
		err = f.Rest(take)
	}
	if err == nil && len(events) == 0 {
		err = errors.New("a stream without events")
	}
	return events, err
}

func encodeObject(o object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func appendStream(events []event, done bool) ([]byte, error) {
	var b []byte
	for _, ev := range events {
		data, err := encodeObject(ev.data)
		if err != nil {
			return nil, err
		}
		if ev.name != "" {
			b = append(append(append(b, "event: "...), ev.name...), '\n')
		}
		b = append(append(append(b, "data: "...), data...), "\n\n"...)
	}
	if done {
		b = append(b, "data: [DONE]\n\n"...)
	}
	return b, nil
}

// list returns the objects in an array, without any other elements.
func list(v any) (objects []object) {
	array, _ := v.([]any)
	for _, e := range array {
		if o, ok := e.(object); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

func index(o object) int {
	n, _ := o["index"].(json.Number)
	i, _ := n.Int64()
	return int(i)
}

// without returns a copy of an object without some members.
func without(o object, names ...string) object {
	copied := make(object, len(o))
	for k, v := range o {
		copied[k] = v
	}
	for _, name := range names {
		delete(copied, name)
	}
	return copied
}

// with returns a copy of an object with more members, which are given as names and
// values.
func with(o object, members ...any) object {
	copied := without(o)
	for i := 0; i+1 < len(members); i += 2 {
		copied[members[i].(string)] = members[i+1]
	}
	return copied
}
