// Package cohere provides Cohere, version 2 of its API.
package cohere

import (
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "cohere",
		Limits:  &chat.Limits{ToolName: 64, NeedsUser: true},
		BaseURL: "https://api.cohere.com",
		Serves:  []string{},
		Dialect: &providers.Dialect{
			Request: request,
			Decoder: func(*providers.Call) chat.Decoder { return new(decoder) },
		},
		Endpoints: map[string]providers.Endpoint{
			providers.Embed:      embed,
			providers.Rerank:     at("/v2/rerank"),
			providers.ListModels: listModels,
		},
	})
}

// at returns an endpoint that differs from OpenAI's by its path only.
func at(path string) providers.Endpoint {
	return func(c *providers.Call) (*providers.Request, error) {
		return &providers.Request{URL: providers.VersionedURL(c.Base, path, c.Query)}, nil
	}
}

var words = chat.Encoder{
	Names: map[string]string{"max_completion_tokens": "max_tokens", "top_p": "p", "top_k": "k", "stop": "stop_sequences"},
	Omit: []string{
		"n", "user", "thinking", "logit_bias", "top_logprobs", "reasoning_effort", "metadata", "parallel_tool_calls",
		"stream_options", "tool_choice", "response_format", "name", "strict",
	},
	Extra:      []string{"documents", "citation_options", "safety_mode", "strict_tools", "priority"},
	OpenAIOnly: true,
	Part:       part,
	WriteExtra: more,
}

func request(c *providers.Call, r *chat.Request) (*providers.Request, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	return &providers.Request{URL: providers.VersionedURL(c.Base, "/v2/chat", c.Query), Body: words.Append(make([]byte, 0, r.SizeHint(len(c.Body))), r)}, nil
}

// check refuses several choices, and content that Cohere does not support, which is anything but text and
// images. Text documents are sent as text, and other documents in the member documents.
func check(r *chat.Request) error {
	if err := r.OneChoice(); err != nil {
		return err
	}
	if err := words.Check(r); err != nil {
		return err
	}
	for i := range r.Messages {
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			_, text := p.PlainText()
			if !text && (p.Kind == chat.File || p.Kind == chat.Audio || p.Kind == chat.Other) {
				at := "messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(k) + "]"
				return &chat.Unsupported{Param: at, Message: "Invalid value for '" + at + "': Cohere takes texts and images only; send documents in 'documents'"}
			}
		}
	}
	return nil
}

// part writes a refusal as text, because Cohere has no refusals.
func part(b *jsonscan.Builder, p *chat.Part) bool {
	if p.Kind != chat.Refusal {
		return false
	}
	b.Open('{')
	b.Key("type").Text("text")
	b.Key("text").Raw(p.Text)
	b.Close('}')
	return true
}

// more writes the members that Cohere represents in another way.
func more(b *jsonscan.Builder, r *chat.Request) {
	thinking(b, r.Thinking)
	switch r.ToolChoice.Mode {
	case chat.Required, chat.Named: // Cohere cannot be told to call a certain tool
		b.Key("tool_choice").Text("REQUIRED")
	case chat.None:
		b.Key("tool_choice").Text("NONE")
	}
	switch r.Format.Kind {
	case chat.FormatJSON, chat.FormatSchema:
		b.Key("response_format").Open('{')
		b.Key("type").Text("json_object")
		if r.Format.Kind == chat.FormatSchema {
			b.Member("json_schema", r.Format.Schema)
		}
		b.Close('}')
	}
}

// thinking writes the thinking budget. Cohere has only one way of thinking, and its own
// name for the budget.
func thinking(b *jsonscan.Builder, asked chat.Raw) {
	if asked == nil {
		return
	}
	kind, budget := chat.Literal(`"enabled"`), chat.Raw(nil)
	r := jsonscan.NewReader(asked)
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "type":
			if t := chat.Literal(r.String()); t.Is("disabled") {
				kind = t
			}
		case "budget_tokens", "token_budget":
			budget = r.Value()
		}
	})
	b.Key("thinking").Open('{')
	b.Key("type").Raw(kind)
	b.Member("token_budget", budget)
	b.Close('}')
}

// listModels converts Cohere's list of models to OpenAI's.
func listModels(c *providers.Call) (*providers.Request, error) {
	return &providers.Request{
		URL: providers.VersionedURL(c.Base, "/v1/models", "page_size=1000"),
		Answer: &providers.Answer{Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
			b := jsonscan.Builder(dst)
			b.Open('{')
			b.Key("object").Text("list")
			b.Key("data").Open('[')
			r := jsonscan.NewReader(body)
			r.Object(func(key jsonscan.Key) {
				if key.Is("models") {
					r.Array(func() { model(&b, r) })
				}
			})
			b.Close(']')
			b.Close('}')
			return b, r.Err()
		}},
	}, nil
}

func model(b *jsonscan.Builder, r *jsonscan.Reader) {
	var name []byte
	r.Object(func(key jsonscan.Key) {
		if key.Is("name") {
			name = r.String()
		}
	})
	if name == nil {
		return
	}
	b.Open('{')
	b.Key("id").Raw(name)
	b.Key("object").Text("model")
	b.Key("created").Int(0)
	b.Key("owned_by").Text("cohere")
	b.Close('}')
}
