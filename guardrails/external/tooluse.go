package external

import (
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// qualifireToolUse judges how an answer calls tools. It gets the conversation instead of texts.
var qualifireToolUse = row{
	id: "qualifire.toolUseQuality", doc: "Qualifire finds the right tools called, with the right arguments", vendor: qualifire, judges: answers,
	parameters: []guardrails.Parameter{qualifireMode},
	base:       "https://proxy.qualifire.ai", path: "/api/evaluation/evaluate", header: map[string]string{"X-Qualifire-API-Key": "{apiKey}"}, timeout: time.Minute,
	body:  object{"messages": "$conversation", "available_tools": "$tools", "tool_use_quality_check": true, "tuq_mode": "$mode"},
	takes: takesToolUse, values: toolUseValues, read: unless("status", "failed"),
}

// takesToolUse is the text of an answer or, if it only calls tools, their calls.
func takesToolUse(_ *check, s *guardrails.Subject) string {
	if text := s.Text(); text != "" {
		return text
	}
	calls := toolCalls(s.Response)
	if len(calls) == 0 {
		return ""
	}
	text, err := json.Marshal(calls)
	if err != nil {
		return ""
	}
	return string(text)
}

// toolUseValues has what was asked, its answer and the tools that the call offers.
func toolUseValues(_ *check, s *guardrails.Subject, _, name string) (any, bool) {
	switch name {
	case "conversation":
		answer := object{"role": "assistant", "content": s.Text()}
		if calls := toolCalls(s.Response); len(calls) > 0 {
			answer["tool_calls"] = calls
		}
		if prompt, ok := asked(s); ok {
			return list{object{"role": "user", "content": prompt}, answer}, true
		}
		return list{answer}, true
	case "tools":
		tools := offered(s.Request)
		return tools, len(tools) > 0
	}
	return nil, false
}

// offered are the functions among the tools of a call, in the words of any endpoint.
func offered(body []byte) (all list) {
	for _, tool := range guardrails.Elements(gjson.GetBytes(body, "tools")) {
		if f := tool.Get("function"); f.IsObject() {
			tool = f
		}
		if tool.Get("name").Str == "" {
			continue
		}
		parameters := tool.Get("parameters")
		if !parameters.Exists() {
			parameters = tool.Get("input_schema") // of messages
		}
		one := object{"name": tool.Get("name").Str, "description": tool.Get("description").Str}
		if parameters.IsObject() {
			one["parameters"] = json.RawMessage(parameters.Raw)
		}
		all = append(all, one)
	}
	return all
}

// toolCalls are the calls of functions in an answer, in the words of any endpoint.
func toolCalls(body []byte) (all list) {
	add := func(id, name, arguments gjson.Result) {
		if name.Str == "" {
			return
		}
		one := object{"id": id.Str, "name": name.Str, "arguments": object{}}
		switch {
		case arguments.IsObject():
			one["arguments"] = json.RawMessage(arguments.Raw)
		case gjson.Valid(arguments.Str) && gjson.Parse(arguments.Str).IsObject():
			one["arguments"] = json.RawMessage(arguments.Str)
		case arguments.Str != "":
			one["arguments"] = arguments.Str
		}
		all = append(all, one)
	}
	for _, c := range guardrails.Elements(gjson.GetBytes(body, "choices.0.message.tool_calls")) {
		add(c.Get("id"), c.Get("function.name"), c.Get("function.arguments"))
	}
	for _, part := range guardrails.Elements(gjson.GetBytes(body, "content")) { // of messages
		if part.Get("type").Str == "tool_use" {
			add(part.Get("id"), part.Get("name"), part.Get("input"))
		}
	}
	for _, item := range guardrails.Elements(gjson.GetBytes(body, "output")) { // of responses
		if item.Get("type").Str == "function_call" {
			add(item.Get("call_id"), item.Get("name"), item.Get("arguments"))
		}
	}
	return all
}
