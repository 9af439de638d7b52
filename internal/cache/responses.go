package cache

import "errors"

// wholeResponse returns the response in the last event of a stream.
func wholeResponse(events []object) (object, error) {
	last := events[len(events)-1]
	response, _ := last["response"].(object)
	if response == nil || last["type"] != "response.completed" && last["type"] != "response.incomplete" {
		return nil, errors.New("a stream that did not complete its response")
	}
	return response, nil
}

// responseEvents returns a response as events.
func responseEvents(response object) (events []event) {
	say := func(name string, members ...any) {
		members = append(members, "sequence_number", number(len(events)))
		events = append(events, event{name, with(object{"type": name}, members...)})
	}
	begun := with(response, "status", "in_progress", "output", []any{}, "usage", nil, "incomplete_details", nil)
	say("response.created", "response", begun)
	say("response.in_progress", "response", begun)
	for i, item := range list(response["output"]) {
		at := number(i)
		id := item["id"]
		begun := with(item, "status", "in_progress")
		switch item["type"] {
		case "message":
			begun["content"] = []any{}
		case "function_call":
			begun["arguments"] = ""
		case "reasoning":
			begun["summary"] = []any{}
		}
		say("response.output_item.added", "output_index", at, "item", begun)
		switch item["type"] {
		case "message":
			for n, part := range list(item["content"]) {
				where := []any{"item_id", id, "output_index", at, "content_index", number(n)}
				add := func(name string, members ...any) { say(name, append(members, where...)...) }
				kind, member := "response.output_text", "text"
				if part["type"] == "refusal" {
					kind, member = "response.refusal", "refusal"
				}
				add("response.content_part.added", "part", with(part, member, ""))
				add(kind+".delta", "delta", part[member])
				add(kind+".done", member, part[member])
				add("response.content_part.done", "part", part)
			}
		case "function_call":
			say("response.function_call_arguments.delta", "item_id", id, "output_index", at, "delta", item["arguments"])
			say("response.function_call_arguments.done", "item_id", id, "output_index", at, "arguments", item["arguments"])
		case "reasoning":
			for n, part := range list(item["summary"]) {
				where := []any{"item_id", id, "output_index", at, "summary_index", number(n)}
				add := func(name string, members ...any) { say(name, append(members, where...)...) }
				add("response.reasoning_summary_part.added", "part", with(part, "text", ""))
				add("response.reasoning_summary_text.delta", "delta", part["text"])
				add("response.reasoning_summary_text.done", "text", part["text"])
				add("response.reasoning_summary_part.done", "part", part)
			}
		}
		say("response.output_item.done", "output_index", at, "item", item)
	}
	end := "response.completed"
	if response["status"] == "incomplete" {
		end = "response.incomplete"
	}
	say(end, "response", response)
	return events
}
