package chat

import (
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// sendable returns the parts that the provider supports. Signed and redacted thinking is
// only of use to the provider that made it.
func (w *Encoder) sendable(parts []Part) []Part {
	foreign := func(p Part) bool {
		return p.thought() && (!w.ThinkingParts || p.Kind == Redacted || !p.Signature.Empty())
	}
	if !slices.ContainsFunc(parts, foreign) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), foreign)
}

// thoughts returns the reasoning of a turn, or nil. Redacted thinking is left out.
func thoughts(parts []Part) Literal {
	var texts []Part
	for _, p := range parts {
		if p.Kind == Thinking && !p.Text.Empty() {
			texts = append(texts, Part{Text: p.Text})
		}
	}
	if texts == nil {
		return nil
	}
	return JoinText(texts)
}

// onlyText reports whether the parts can be written as a single string.
func (w *Encoder) onlyText(parts []Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool { return p.Kind != Text || p.Cache != nil && !w.OpenAIOnly && !w.StringContent })
}

func (w *Encoder) part(b *jsonscan.Builder, p *Part) {
	if w.Part != nil && w.Part(b, p) {
		return
	}
	if p.Kind == Other {
		b.Raw(p.Other)
		return
	}
	b.Open('{')
	if text, ok := p.PlainText(); ok {
		b.Key("type").Text("text")
		b.Key("text").Text(text)
	} else {
		appendPart(b, p)
	}
	w.cache(b, p.Cache)
	b.Close('}')
}

func (w *Encoder) cache(b *jsonscan.Builder, cache Raw) {
	if !w.OpenAIOnly {
		b.Member("cache_control", cache)
	}
}

func appendPart(b *jsonscan.Builder, p *Part) {
	switch p.Kind {
	case Text:
		b.Key("type").Text("text")
		b.Key("text").Raw(orElse(p.Text, `""`))
	case Refusal:
		b.Key("type").Text("refusal")
		b.Key("refusal").Raw(orElse(p.Text, `""`))
	case Thinking:
		b.Key("type").Text("thinking")
		b.Key("thinking").Open('[')
		b.Open('{')
		b.Key("type").Text("text")
		b.Key("text").Raw(orElse(p.Text, `""`))
		b.Close('}')
		b.Close(']')
	case Image:
		b.Key("type").Text("image_url")
		b.Key("image_url").Open('{')
		b.Key("url").Raw(p.Source())
		b.Member("detail", p.Detail)
		b.Close('}')
	case File:
		b.Key("type").Text("file")
		b.Key("file").Open('{')
		if p.FileID == nil { // inline data needs a name
			b.Key("filename").Raw(orElse(p.Name, p.fileName()))
		} else {
			b.Member("filename", p.Name)
		}
		switch {
		case p.FileID != nil:
			b.Member("file_id", p.FileID)
		default:
			b.Key("file_data").Raw(p.Source())
		}
		b.Close('}')
	case Audio:
		b.Key("type").Text("input_audio")
		b.Key("input_audio").Open('{')
		b.Key("data").Quoted(p.Data)
		_, format, _ := strings.Cut(p.MediaType, "/")
		b.Key("format").Text(format)
		b.Close('}')
	}
}

// fileName returns a name, as a literal, for a document without one.
func (p *Part) fileName() string {
	_, ending, _ := strings.Cut(p.MediaType, "/")
	if ending == "" || strings.ContainsFunc(ending, unplain) {
		ending = "pdf"
	}
	return `"document.` + ending + `"`
}

// Source returns the URL of a part, or its data as a data URI.
func (p *Part) Source() Literal {
	if p.URL != nil {
		return p.URL
	}
	media := p.MediaType
	if media == "" {
		media = p.Media("")
	}
	uri := make([]byte, 0, len(media)+len(p.Data)+32)
	uri = jsonscan.AppendEscaped(append(uri, `"data:`...), media)
	uri = append(append(uri, ";base64,"...), p.Data...)
	return append(uri, '"')
}
