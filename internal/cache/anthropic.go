package cache

import (
	"encoding/json"
	"errors"
)

// wholeMessage builds a message from the events of a Messages stream.
func wholeMessage(events []object) (object, error) {
	var message object
	var blocks []object
	inputs := make(map[int]*text)
	for _, e := range events {
		delta, _ := e["delta"].(object)
		switch e["type"] {
		case "message_start":
			message, _ = e["message"].(object)
		case "content_block_start":
			block, _ := e["content_block"].(object)
			if index(e) != len(blocks) || block == nil {
				return nil, errors.New("content blocks out of order")
			}
			blocks = append(blocks, with(block))
		case "content_block_delta":
			if index(e) < 0 || index(e) >= len(blocks) {
				return nil, errors.New("a delta of no block")
			}
			block := blocks[index(e)]
			switch piece, _ := delta["partial_json"].(string); delta["type"] {
			case "input_json_delta":
				if inputs[index(e)] == nil {
					inputs[index(e)] = new(text)
				}
				inputs[index(e)].b = append(inputs[index(e)].b, piece...)
			case "citations_delta":
				cited, _ := block["citations"].([]any)
				block["citations"] = append(cited, delta["citation"])
			default:
				merge(block, without(delta, "type"))
			}
		case "message_delta":
			for k, v := range delta {
				message = with(message, k, v)
			}
			usage, _ := message["usage"].(object)
			more, _ := e["usage"].(object)
			for k, v := range more {
				if v != nil {
					usage = with(usage, k, v)
				}
			}
			message = with(message, "usage", usage)
		}
	}
	if message == nil {
		return nil, errors.New("a stream without a message")
	}
	content := make([]any, len(blocks))
	for i, b := range blocks {
		settled(b)
		if in := inputs[i]; in != nil && len(in.b) > 0 {
			input, err := parse(in.b)
			if err != nil {
				return nil, err
			}
			b["input"] = input
		}
		content[i] = b
	}
	return with(message, "content", content), nil
}

// messageEvents returns a message as events.
func messageEvents(message object) (events []event) {
	say := func(name string, members ...any) {
		events = append(events, event{name, with(object{"type": name}, members...)})
	}
	say("message_start", "message", with(message, "content", []any{}, "stop_reason", nil, "stop_sequence", nil))
	for i, b := range list(message["content"]) {
		at := number(i)
		delta := func(kind, name string, value any) {
			say("content_block_delta", "index", at, "delta", object{"type": kind, name: value})
		}
		empty, cited := without(b, "citations"), b["citations"]
		switch b["type"] {
		case "text":
			empty["text"] = ""
		case "thinking":
			empty["thinking"], empty["signature"] = "", ""
		case "tool_use", "server_tool_use":
			empty["input"] = object{}
		}
		say("content_block_start", "index", at, "content_block", empty)
		switch b["type"] {
		case "text":
			array, _ := cited.([]any)
			for _, c := range array {
				delta("citations_delta", "citation", c)
			}
			delta("text_delta", "text", b["text"])
		case "thinking":
			delta("thinking_delta", "thinking", b["thinking"])
			if b["signature"] != nil && b["signature"] != "" {
				delta("signature_delta", "signature", b["signature"])
			}
		case "tool_use", "server_tool_use":
			if input, err := json.Marshal(b["input"]); err == nil {
				delta("input_json_delta", "partial_json", string(input))
			}
		}
		say("content_block_stop", "index", at)
	}
	say("message_delta", "delta", object{"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}, "usage", message["usage"])
	say("message_stop")
	return events
}
