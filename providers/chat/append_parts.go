package chat

import (
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// sendable are the parts that the provider knows. Thoughts with a seal are another
// provider's, and those that only their maker can read are nobody else's.
func (w *Words) sendable(parts []Part) []Part {
	foreign := func(p Part) bool { return p.thought() && (!w.Thoughts || p.Kind == Redacted || !p.Signature.Empty()) }
	if !slices.ContainsFunc(parts, foreign) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), foreign)
}

// thoughts is what a model thought in a turn, nil where it did not. That it cannot be read is
// no thought to others.
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

// onlyText reports whether parts can be written as one text.
func (w *Words) onlyText(parts []Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool { return p.Kind != Text || p.Cache != nil && !w.Bare })
}

func (w *Words) part(b *jsonscan.Builder, p *Part) {
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

func (w *Words) cache(b *jsonscan.Builder, cache Raw) {
	if !w.Bare {
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
		if p.FileID == nil { // data wants a name
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

// fileName is a name, as a literal, for a document that came without one.
func (p *Part) fileName() string {
	_, ending, _ := strings.Cut(p.MediaType, "/")
	if ending == "" || strings.ContainsFunc(ending, unplain) {
		ending = "pdf"
	}
	return `"document.` + ending + `"`
}

// Source is the URL of a part, a data URI where it holds data.
func (p *Part) Source() Literal {
	if p.URL != nil {
		return p.URL
	}
	uri := make([]byte, 0, len(p.MediaType)+len(p.Data)+32)
	uri = jsonscan.AppendEscaped(append(uri, `"data:`...), p.MediaType)
	uri = append(append(uri, ";base64,"...), p.Data...)
	return append(uri, '"')
}
