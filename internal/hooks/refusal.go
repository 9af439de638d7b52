package hooks

import (
	"time"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Why says why a hook refuses.
func Why(h *Hook, phase guardrails.Phase) string {
	what := "The guardrail checks before the request failed"
	switch phase {
	case guardrails.Output:
		what = "The guardrail checks after the request failed"
	case guardrails.Start:
		what = "The guardrail checks at the start of the request failed"
	case guardrails.Input:
	}
	what += ": " + h.ID
	for _, u := range h.Checks {
		if u.Check == nil && u.Err != nil && !u.Disabled {
			return what + ": the check " + guardrails.Excerpt(u.ID) + " cannot be made: " + u.Err.Error()
		}
	}
	return what
}

// SoftRefusal is an answer in the dialect of an endpoint that says why there is no other; nil: the
// endpoint has no such answers.
func SoftRefusal(endpoint, id, model, why string, at time.Time) []byte {
	var b jsonscan.Builder
	b.Open('{')
	usage := func(names ...string) {
		b.Key("usage").Open('{')
		for _, name := range names {
			b.Key(name).Int(0)
		}
		b.Close('}')
	}
	switch endpoint {
	case "chatComplete", "complete":
		object, prefix := "chat.completion", "chatcmpl-"
		if endpoint == "complete" {
			object, prefix = "text_completion", "cmpl-"
		}
		b.Key("id").Text(prefix + id)
		b.Key("object").Text(object)
		b.Key("created").Int(at.Unix())
		b.Key("model").Text(model)
		b.Key("choices").Open('[')
		b.Open('{')
		b.Key("index").Int(0)
		if endpoint == "complete" {
			b.Key("text").Text(why)
		} else {
			b.Key("message").Open('{')
			b.Key("role").Text("assistant")
			b.Key("content").Text(why)
			b.Close('}')
		}
		b.Key("finish_reason").Text("stop")
		b.Close('}')
		b.Close(']')
		usage("prompt_tokens", "completion_tokens", "total_tokens")
	case "messages":
		b.Key("id").Text("msg_" + id)
		b.Key("type").Text("message")
		b.Key("role").Text("assistant")
		b.Key("model").Text(model)
		b.Key("content").Open('[')
		b.Open('{')
		b.Key("type").Text("text")
		b.Key("text").Text(why)
		b.Close('}')
		b.Close(']')
		b.Key("stop_reason").Text("end_turn")
		b.Key("stop_sequence").Raw([]byte("null"))
		usage("input_tokens", "output_tokens")
	case "createModelResponse":
		b.Key("id").Text("resp_" + id)
		b.Key("object").Text("response")
		b.Key("created_at").Int(at.Unix())
		b.Key("status").Text("completed")
		b.Key("model").Text(model)
		b.Key("output").Open('[')
		b.Open('{')
		b.Key("type").Text("message")
		b.Key("id").Text("msg_" + id)
		b.Key("status").Text("completed")
		b.Key("role").Text("assistant")
		b.Key("content").Open('[')
		b.Open('{')
		b.Key("type").Text("output_text")
		b.Key("text").Text(why)
		b.Key("annotations").Raw([]byte("[]"))
		b.Close('}')
		b.Close(']')
		b.Close('}')
		b.Close(']')
		usage("input_tokens", "output_tokens", "total_tokens")
	default:
		return nil
	}
	b.Close('}')
	return b
}
