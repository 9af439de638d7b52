package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/jsonscan"
)

// Words are what a provider that speaks like OpenAI calls differently, and does not
// know. Its zero value is OpenAI.
type Words struct {
	// Names are its own names of members, by OpenAI's.
	Names map[string]string
	// Required is its word for a tool_choice that must call a tool; default: required.
	Required string
	// Without are members, by OpenAI's names, that it refuses.
	Without []string
	// Extra are the members of its own that go on; nil: all.
	Extra []string
	// Thoughts: content may be an array that holds thinking.
	Thoughts bool
	// CallID makes an id of a call one that it takes; nil: it takes all.
	CallID func(id Literal) Literal
	// More adds members; nil: none.
	More func(b *jsonscan.Builder, r *Request)
}

// key begins a member by its OpenAI name, or reports that the provider has none.
func (w *Words) key(b *jsonscan.Builder, name string) bool {
	if slices.Contains(w.Without, name) {
		return false
	}
	if own, ok := w.Names[name]; ok {
		name = own
	}
	b.Key(name)
	return true
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Append writes a request as a body of Chat Completions.
func (w *Words) Append(dst []byte, r *Request) []byte {
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Member("model", r.Model)
	b.Key("messages").Open('[')
	for i := range r.Messages {
		w.message(&b, &r.Messages[i])
	}
	b.Close(']')
	for _, m := range []struct {
		name  string
		value []byte
	}{
		{"max_completion_tokens", r.MaxTokens},
		{"temperature", r.Temperature},
		{"top_p", r.TopP},
		{"top_k", r.TopK},
		{"seed", r.Seed},
		{"n", r.N},
		{"frequency_penalty", r.FrequencyPenalty},
		{"presence_penalty", r.PresencePenalty},
		{"logit_bias", r.LogitBias},
		{"logprobs", r.LogProbs},
		{"top_logprobs", r.TopLogProbs},
		{"thinking", r.Thinking},
		{"reasoning_effort", r.Effort},
		{"user", r.User},
		{"metadata", r.Metadata},
		{"parallel_tool_calls", r.Parallel},
	} {
		if m.value != nil && w.key(&b, m.name) {
			b.Raw(m.value)
		}
	}
	if len(r.Stop) > 0 && w.key(&b, "stop") {
		AppendTexts(&b, r.Stop)
	}
	w.format(&b, &r.Format)
	w.tools(&b, r)
	for _, m := range r.Extra {
		if w.Extra == nil || slices.Contains(w.Extra, m.Name) {
			b.Raw(jsonscan.AppendQuoted(nil, m.Name))
			b = append(append(b, ':'), m.Value...)
		}
	}
	if r.Stream {
		b.Key("stream").Bool(true)
		if w.key(&b, "stream_options") {
			b.Raw([]byte(`{"include_usage":true}`))
		}
	}
	if w.More != nil {
		w.More(&b, r)
	}
	b.Close('}')
	return b
}

// AppendTexts adds an array of strings.
func AppendTexts(b *jsonscan.Builder, texts []Literal) {
	b.Open('[')
	for _, t := range texts {
		b.Raw(t)
	}
	b.Close(']')
}

var roleNames = [...]string{User: "user", System: "system", Assistant: "assistant", ToolResult: "tool"}

func (w *Words) message(b *jsonscan.Builder, m *Message) {
	b.Open('{')
	b.Key("role").Text(roleNames[m.Role])
	if m.Role == ToolResult {
		b.Member("tool_call_id", w.callID(m.CallID))
		b.Member("name", m.Name)
	}
	switch parts := w.sendable(m.Parts); {
	case len(parts) == 0 && len(m.Calls) > 0:
		b.Key("content").Raw([]byte("null"))
	case len(parts) == 0:
		b.Key("content").Text("")
	case len(parts) == 1 && parts[0].Kind == Text && parts[0].Cache == nil:
		b.Key("content").Raw(parts[0].Text)
	case onlyText(parts) && m.Role != User:
		b.Key("content").Raw(JoinText(parts))
	default:
		b.Key("content").Open('[')
		for i := range parts {
			appendPart(b, &parts[i])
		}
		b.Close(']')
	}
	if len(m.Calls) > 0 {
		b.Key("tool_calls").Open('[')
		for i := range m.Calls {
			c := &m.Calls[i]
			b.Open('{')
			b.Member("id", w.callID(c.ID))
			b.Key("type").Text("function")
			b.Key("function").Open('{')
			b.Member("name", c.Name)
			b.Key("arguments").Raw(orElse(c.Arguments, `"{}"`))
			b.Close('}')
			extraContent(b, c.Signature)
			b.Close('}')
		}
		b.Close(']')
	}
	b.Close('}')
}

func (w *Words) callID(id Literal) Literal {
	if w.CallID == nil || id == nil {
		return id
	}
	return w.CallID(id)
}

// sendable are the parts that the provider knows.
func (w *Words) sendable(parts []Part) []Part {
	if w.Thoughts || !slices.ContainsFunc(parts, Part.thought) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), Part.thought)
}

func onlyText(parts []Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool { return p.Kind != Text || p.Cache != nil })
}

// JoinText is the text of all text parts.
func JoinText(parts []Part) (joined Literal) {
	for i := range parts {
		if parts[i].Kind == Text || parts[i].Kind == Refusal {
			joined = Join(joined, parts[i].Text)
		}
	}
	if joined == nil {
		return Literal(`""`)
	}
	return joined
}

func appendPart(b *jsonscan.Builder, p *Part) {
	b.Open('{')
	switch p.Kind {
	case Text:
		b.Key("type").Text("text")
		b.Member("text", p.Text)
	case Refusal:
		b.Key("type").Text("refusal")
		b.Member("refusal", p.Text)
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
		b.Member("filename", p.Name)
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
		_, format, _ := bytes.Cut([]byte(p.MediaType), []byte("/"))
		b.Key("format").Text(string(format))
		b.Close('}')
	}
	b.Member("cache_control", p.Cache)
	b.Close('}')
}

// Source is the URL of a part, a data URI where it holds data.
func (p *Part) Source() Literal {
	if p.URL != nil {
		return p.URL
	}
	uri := append([]byte(`"data:`), jsonscan.AppendEscaped(nil, p.MediaType)...)
	uri = append(append(uri, ";base64,"...), p.Data...)
	return append(uri, '"')
}

func (w *Words) format(b *jsonscan.Builder, f *Format) {
	if f.Kind == FormatUnset || !w.key(b, "response_format") {
		return
	}
	b.Open('{')
	switch f.Kind {
	case FormatJSON:
		b.Key("type").Text("json_object")
	case FormatSchema:
		b.Key("type").Text("json_schema")
		b.Key("json_schema").Open('{')
		b.Key("name").Raw(orElse(f.Name, `"answer"`))
		b.Member("description", f.Description)
		b.Member("schema", f.Schema)
		b.Member("strict", f.Strict)
		b.Close('}')
	default:
		b.Key("type").Text("text")
	}
	b.Close('}')
}

func (w *Words) tools(b *jsonscan.Builder, r *Request) {
	if len(r.Tools) > 0 {
		b.Key("tools").Open('[')
		for i := range r.Tools {
			t := &r.Tools[i]
			if t.Other != nil {
				b.Raw(t.Other)
				continue
			}
			b.Open('{')
			b.Key("type").Text("function")
			b.Key("function").Open('{')
			b.Member("name", t.Name)
			b.Member("description", t.Description)
			b.Key("parameters").Raw(t.Schema())
			b.Member("strict", t.Strict)
			b.Close('}')
			b.Member("cache_control", t.Cache)
			b.Close('}')
		}
		b.Close(']')
	}
	mode := r.ToolChoice.Mode
	if mode == Unset || !w.key(b, "tool_choice") {
		return
	}
	switch mode {
	case Auto:
		b.Text("auto")
	case None:
		b.Text("none")
	case Required:
		b.Text(or(w.Required, "required"))
	case Named:
		b.Open('{')
		b.Key("type").Text("function")
		b.Key("function").Open('{')
		b.Member("name", r.ToolChoice.Name)
		b.Close('}')
		b.Close('}')
	}
}

// Schema is the schema of a tool's parameters; that of none where it takes none.
func (t *Tool) Schema() Raw {
	if t.Parameters == nil {
		return Raw(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}
