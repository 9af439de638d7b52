// Package mistral provides Mistral AI. Its API is similar to OpenAI's: unknown members are
// refused, some have other names, and content may be an array.
package mistral

import (
	"crypto/sha256"
	"errors"
	"net/http"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

func init() {
	providers.Register(providers.Provider{
		Name:    "mistral-ai",
		Limits:  &chat.Limits{ToolName: 64, NeedsUser: true, SystemFirst: true, NoUserAfterResult: true},
		BaseURL: "https://api.mistral.ai/v1",
		Serves:  []string{providers.Embed, providers.OCR},
		Encoder: &chat.Encoder{
			Names:          map[string]string{"max_completion_tokens": "max_tokens", "seed": "random_seed"},
			Required:       "any",
			Omit:           []string{"user", "logit_bias", "logprobs", "top_logprobs", "top_k", "thinking", "metadata", "stream_options", "reasoning_effort"},
			Extra:          []string{"safe_prompt", "prediction", "prompt_mode", "min_tokens", "guardrails", "document_image_limit", "document_page_limit"},
			ThinkingParts:  true,
			Prefix:         true,
			OpenAIOnly:     true,
			MaxTemperature: 1.5,
			ResultMedia:    true,
			Part:           part,
			CallID:         callID,
			WriteExtra:     writeEffort,
		},
		Endpoints: map[string]providers.Endpoint{providers.Embed: embed, providers.Moderate: moderate},
	})
}

const (
	idLength = 9 // of a call id: older models refuse other lengths
	alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
)

// callID converts a call id to Mistral's form. A call and its result are converted alike.
func callID(id chat.Literal) chat.Literal {
	text := id.Text()
	if len(text) == idLength && alphanumeric(text) {
		return id
	}
	sum := sha256.Sum256([]byte(text))
	out := make([]byte, idLength)
	for i := range out {
		out[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return chat.Quote(string(out))
}

func alphanumeric(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// part writes the parts that Mistral represents in its own way: documents, which it takes
// by URL, audio, and refusals, which it does not support.
func part(b *jsonscan.Builder, p *chat.Part) bool {
	switch _, text := p.PlainText(); {
	case text:
		return false
	case p.Kind == chat.File && p.FileID != nil:
		b.Open('{')
		b.Key("type").Text("file")
		b.Key("file_id").Raw(p.FileID)
	case p.Kind == chat.File:
		b.Open('{')
		b.Key("type").Text("document_url")
		b.Key("document_url").Raw(p.Source())
		b.Member("document_name", p.Name)
	case p.Kind == chat.Audio:
		b.Open('{')
		b.Key("type").Text("input_audio")
		if p.URL != nil {
			b.Key("input_audio").Raw(p.URL)
		} else {
			b.Key("input_audio").Quoted(p.Data)
		}
	case p.Kind == chat.Refusal:
		b.Open('{')
		b.Key("type").Text("text")
		b.Key("text").Raw(p.Text)
	default:
		return false
	}
	b.Close('}')
	return true
}

// moderate adds the member flagged to each result, which Mistral does not send.
func moderate(*providers.Call) (*providers.Request, error) {
	return &providers.Request{Answer: &providers.Answer{Body: func(dst, body []byte, _ http.Header) ([]byte, error) {
		return appendFlagged(dst, body)
	}}}, nil
}

func appendFlagged(dst, body []byte) ([]byte, error) {
	b := jsonscan.Builder(dst)
	r := jsonscan.NewReader(body)
	b.Open('{')
	answered := false
	r.Object(func(key jsonscan.Key) {
		answered = answered || key.Is("results")
		b.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
		b = append(b, ':')
		if !key.Is("results") || r.Kind() != jsonscan.Array {
			b.Raw(r.Raw())
			return
		}
		b.Open('[')
		r.Array(func() { result(&b, r) })
		b.Close(']')
	})
	b.Close('}')
	if r.Err() == nil && !answered {
		return dst, errors.New("no results: " + chat.NoAnswer(body, "it has none").Text.Text())
	}
	return b, r.Err()
}

func result(b *jsonscan.Builder, r *jsonscan.Reader) {
	b.Open('{')
	flagged, given := false, false
	ok := r.Object(func(key jsonscan.Key) {
		value := r.Raw()
		if key.Is("flagged") {
			given = true
		}
		if key.Is("categories") {
			c := jsonscan.NewReader(value)
			c.Object(func(jsonscan.Key) { flagged = string(c.Raw()) == "true" || flagged })
		}
		b.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
		*b = append(append(*b, ':'), value...)
	})
	if ok && !given {
		b.Key("flagged").Bool(flagged)
	}
	b.Close('}')
}
