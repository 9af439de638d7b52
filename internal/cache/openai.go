package cache

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// unjoined are the members of a delta that are never split, and may be repeated.
var unjoined = []string{"id", "type", "role", "name", "object", "model"}

// merge adds a chunk of a stream to the previous ones: strings are concatenated, lists
// are merged by the index of their elements, and any other value replaces the previous
// one. What is not complete yet is a text or merged; see settled.
func merge(to, piece object) {
	for k, v := range piece {
		switch v := v.(type) {
		case nil:
			if _, given := to[k]; !given {
				to[k] = nil
			}
		case string:
			old := textOf(to[k])
			if len(old.b) == 0 || !slices.Contains(unjoined, k) {
				old.b = append(old.b, v...)
			}
			to[k] = old
		case object:
			old, _ := to[k].(object)
			if old == nil {
				old = make(object)
			}
			merge(old, v)
			to[k] = old
		case []any:
			old := mergedOf(to[k])
			old.add(v)
			to[k] = old
		default:
			to[k] = v
		}
	}
}

// A text is a string of which more may come.
type text struct{ b []byte }

func textOf(v any) *text {
	switch v := v.(type) {
	case *text:
		return v
	case string:
		return &text{[]byte(v)}
	}
	return new(text)
}

// A merged is a list whose elements are merged by their index.
type merged struct {
	all []any
	at  map[int]int // the first object with an index
}

func mergedOf(v any) *merged {
	if m, ok := v.(*merged); ok {
		return m
	}
	m := &merged{all: []any{}, at: make(map[int]int)}
	old, _ := v.([]any)
	for _, e := range old {
		m.push(e)
	}
	return m
}

func (m *merged) push(e any) {
	if o, ok := e.(object); ok {
		if _, taken := m.at[index(o)]; !taken {
			m.at[index(o)] = len(m.all)
		}
	}
	m.all = append(m.all, e)
}

func (m *merged) add(piece []any) {
	for _, e := range piece {
		o, isObject := e.(object)
		if _, indexed := o["index"]; !isObject || !indexed {
			m.push(e)
			continue
		}
		at, found := m.at[index(o)]
		if !found {
			at = len(m.all)
			m.push(object{"index": o["index"]})
		}
		merge(m.all[at].(object), o)
	}
}

// settled returns a value that was merged, of which no more comes.
func settled(v any) any {
	switch v := v.(type) {
	case *text:
		return string(v.b)
	case *merged:
		for i, e := range v.all {
			v.all[i] = settled(e)
		}
		return v.all
	case object:
		for k, member := range v {
			v[k] = settled(member)
		}
	}
	return v
}

// top returns the members of the chunks of a stream without their choices.
func top(chunks []object, kind string) object {
	answer := make(object)
	for _, c := range chunks {
		for k, v := range c {
			if old, given := answer[k]; k != "choices" && (!given || old == nil || k == "usage" && v != nil) {
				answer[k] = v
			}
		}
	}
	answer["object"] = kind
	delete(answer, "obfuscation")
	return answer
}

// choices merges the choices of a stream by their index.
func choices(chunks []object) ([]object, error) {
	joined := mergedOf(nil)
	for _, c := range chunks {
		for _, choice := range list(c["choices"]) {
			joined.add([]any{with(choice, "index", number(index(choice)))})
		}
	}
	all := list(settled(joined))
	if len(all) == 0 {
		return nil, errors.New("a stream without a choice")
	}
	slices.SortFunc(all, func(a, b object) int { return index(a) - index(b) })
	return all, nil
}

func number(i int) json.Number { return json.Number(strconv.Itoa(i)) }

func wholeChat(chunks []object) (object, error) {
	all, err := choices(chunks)
	if err != nil {
		return nil, err
	}
	answer := top(chunks, "chat.completion")
	var messages []any
	for _, c := range all {
		message, _ := c["delta"].(object)
		if message == nil {
			message = make(object)
		}
		if _, calls := message["tool_calls"]; calls {
			var bare []any
			calls := list(message["tool_calls"])
			slices.SortStableFunc(calls, func(a, b object) int { return index(a) - index(b) })
			for _, call := range calls {
				bare = append(bare, without(call, "index"))
			}
			message["tool_calls"] = bare
			if message["content"] == "" { // set by the chunk with the role
				message["content"] = nil
			}
		}
		if blocks := list(message["content_blocks"]); blocks != nil {
			message["content_blocks"] = wholeBlocks(blocks)
		}
		if _, given := message["content"]; !given {
			message["content"] = nil
		}
		message["role"] = "assistant"
		one := with(without(c, "delta"), "message", message)
		if _, given := one["logprobs"]; !given {
			one["logprobs"] = nil
		}
		messages = append(messages, one)
	}
	answer["choices"] = messages
	return answer, nil
}

// wholeBlocks assembles content blocks from their pieces, which have no types.
func wholeBlocks(pieces []object) (blocks []any) {
	for _, p := range pieces {
		delta, _ := p["delta"].(object)
		kind := "text"
		switch {
		case delta["data"] != nil:
			kind = "redacted_thinking"
		case delta["thinking"] != nil || delta["signature"] != nil:
			kind = "thinking"
			if delta["thinking"] == nil {
				delta = with(delta, "thinking", "")
			}
		}
		blocks = append(blocks, with(delta, "type", kind))
	}
	return blocks
}

func chatEvents(answer object) (events []event) {
	head := with(without(answer, "choices", "usage"), "object", "chat.completion.chunk")
	chunk := func(choice object) { events = append(events, event{"", with(head, "choices", []any{choice})}) }
	for _, c := range list(answer["choices"]) {
		at := number(index(c))
		message, _ := c["message"].(object)
		chunk(object{"index": at, "delta": object{"role": "assistant", "content": ""}, "finish_reason": nil})
		delta := make(object)
		for k, v := range message {
			if v != nil && k != "role" && v != "" {
				delta[k] = v
			}
		}
		if calls := list(delta["tool_calls"]); calls != nil {
			var indexed []any
			for i, call := range calls {
				indexed = append(indexed, with(call, "index", number(i)))
			}
			delta["tool_calls"] = indexed
		}
		if blocks := list(delta["content_blocks"]); blocks != nil {
			var pieces []any
			for i, b := range blocks {
				pieces = append(pieces, object{"index": number(i), "delta": without(b, "type")})
			}
			delta["content_blocks"] = pieces
		}
		piece := object{"index": at, "delta": delta, "finish_reason": nil}
		if c["logprobs"] != nil {
			piece["logprobs"] = c["logprobs"]
		}
		chunk(piece)
		chunk(with(without(c, "message", "logprobs"), "delta", object{}))
	}
	return withUsage(events, head, answer)
}

// withUsage appends the chunk with the usage to a stream.
func withUsage(events []event, head, answer object) []event {
	if answer["usage"] == nil {
		return events
	}
	return append(events, event{"", with(head, "choices", []any{}, "usage", answer["usage"])})
}

func wholeText(chunks []object) (object, error) {
	all, err := choices(chunks)
	if err != nil {
		return nil, err
	}
	answer := top(chunks, "text_completion")
	var messages []any
	for _, c := range all {
		messages = append(messages, c)
	}
	answer["choices"] = messages
	return answer, nil
}

func textEvents(answer object) (events []event) {
	head := without(answer, "choices", "usage")
	for _, c := range list(answer["choices"]) {
		events = append(events, event{"", with(head, "choices", []any{c})})
	}
	return withUsage(events, head, answer)
}
