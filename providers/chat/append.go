package chat

import (
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// An Encoder writes requests for a provider whose API resembles OpenAI's. Its fields say
// how it differs; the zero value writes OpenAI's.
type Encoder struct {
	// Names maps OpenAI's names of members to the provider's.
	Names map[string]string
	// Required is the value of tool_choice that requires a tool call. Default: required.
	Required string
	// Omit lists members that the provider refuses, by OpenAI's names: members of the body,
	// the name of a tool result, and strict of a function.
	Omit []string
	// Extra lists the provider's own members, which are forwarded. If it is nil, all
	// members that are not OpenAI's are.
	Extra []string
	// ThinkingParts is set if content may be an array with thinking parts.
	ThinkingParts bool
	// ReturnReasoning is set if the provider expects the reasoning of earlier turns back,
	// in reasoning_content.
	ReturnReasoning bool
	// Prefix is set if a final assistant message must be marked as the beginning of the
	// answer.
	Prefix bool
	// OpenAIOnly is set if the provider refuses extensions of messages and tools, such as
	// cache_control and extra_content.
	OpenAIOnly bool
	// StringContent is set if content must be a string wherever it is text alone.
	StringContent bool
	// NoSchemas is set if the provider has JSON as a format of the answer, but no schemas of it.
	// They are described to the model instead.
	NoSchemas bool
	// NoFileURLs is set if the provider fetches no documents.
	NoFileURLs bool
	// MaxTemperature is the highest temperature. Default: OpenAI's.
	MaxTemperature float64
	// ResultMedia is set if tool results may hold images and documents. Otherwise, these
	// follow the results in a user message.
	ResultMedia bool
	// Part writes a part that the provider represents in its own way, and reports whether
	// it did. It may be nil.
	Part func(b *jsonscan.Builder, p *Part) bool
	// CallID converts a call id to one that the provider accepts. If it is nil, all are
	// accepted.
	CallID func(id Literal) Literal
	// WriteExtra writes further members. It may be nil.
	WriteExtra func(b *jsonscan.Builder, r *Request)
}

// key writes the key of a member given by its OpenAI name. It reports false if the provider
// has no such member.
func (w *Encoder) key(b *jsonscan.Builder, name string) bool {
	if slices.Contains(w.Omit, name) {
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

// Check returns an [*Unsupported] if a request has what cannot be written for the provider.
func (w *Encoder) Check(r *Request) error {
	if err := r.NoForeignTools(); err != nil {
		return err
	}
	for i := range r.Messages {
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			var why string
			switch {
			case p.Kind == Image && p.FileID != nil && p.URL == nil && p.Data == nil:
				why = "the provider takes images by URL or as data, not as file_id"
			case p.Kind == File && p.URL != nil && p.FileID == nil && w.NoFileURLs:
				why = "the provider takes documents as data or as file_id, not by URL"
			default:
				continue
			}
			at := "messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(k) + "]"
			return &Unsupported{Param: at, Message: "Invalid value for '" + at + "': " + why}
		}
	}
	return nil
}

// Append appends a request as a Chat Completions body.
func (w *Encoder) Append(dst []byte, r *Request) []byte {
	temperature := r.Temperature
	if w.MaxTemperature > 0 {
		temperature = AtMost(temperature, w.MaxTemperature)
	}
	if w.NoSchemas && r.Format.Kind == FormatSchema {
		own := *r
		own.Format = Format{Kind: FormatJSON}
		own.Messages = slices.Insert(slices.Clone(r.Messages), 0, Message{Role: System, Parts: []Part{{Kind: Text, Text: r.Format.Described()}}})
		r = &own
	}
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Member("model", r.Model)
	b.Key("messages").Open('[')
	w.messages(&b, r.Messages)
	b.Close(']')
	for _, m := range []struct {
		name  string
		value []byte
	}{
		{"max_completion_tokens", r.MaxTokens},
		{"temperature", temperature},
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
	if w.WriteExtra != nil {
		w.WriteExtra(&b, r)
	}
	b.Close('}')
	return b
}

// AppendTexts writes an array of strings.
func AppendTexts(b *jsonscan.Builder, texts []Literal) {
	b.Open('[')
	for _, t := range texts {
		b.Raw(t)
	}
	b.Close(']')
}

var roleNames = [...]string{User: "user", System: "system", Assistant: "assistant", ToolResult: "tool"}

func (w *Encoder) messages(b *jsonscan.Builder, all []Message) {
	var late []Part
	for i := range all {
		m := &all[i]
		if w.Prefix && i == len(all)-1 && m.Role == Assistant && len(m.Calls) == 0 {
			w.message(b, m, Member{"prefix", Raw("true")})
			return
		}
		if m.Role == ToolResult && !w.ResultMedia {
			m, late = apart(m, late)
		} else if late != nil {
			w.message(b, &Message{Role: User, Parts: late})
			late = nil
		}
		w.message(b, m)
	}
	if late != nil {
		w.message(b, &Message{Role: User, Parts: late})
	}
}

// apart removes the parts of a tool result that are not text, and appends them to late.
func apart(m *Message, late []Part) (*Message, []Part) {
	if !slices.ContainsFunc(m.Parts, Part.media) {
		return m, late
	}
	text := *m
	text.Parts = nil
	for _, p := range m.Parts {
		if p.media() {
			late = append(late, p)
		} else {
			text.Parts = append(text.Parts, p)
		}
	}
	return &text, late
}

func (p Part) media() bool {
	_, text := p.PlainText()
	return !text && (p.Kind == Image || p.Kind == File || p.Kind == Audio)
}

func (w *Encoder) message(b *jsonscan.Builder, m *Message, more ...Member) {
	b.Open('{')
	b.Key("role").Text(roleNames[m.Role])
	if m.Role == ToolResult {
		b.Member("tool_call_id", w.callID(m.CallID))
		if m.Name != nil && w.key(b, "name") {
			b.Raw(m.Name)
		}
	}
	switch parts := w.sendable(m.Parts); {
	case len(parts) == 0 && len(m.Calls) > 0:
		b.Key("content").Raw([]byte("null"))
	case len(parts) == 0:
		b.Key("content").Text("")
	case w.onlyText(parts) && (len(parts) == 1 || m.Role != User || w.StringContent):
		b.Key("content").Raw(JoinText(parts))
	default:
		b.Key("content").Open('[')
		for i := range parts {
			w.part(b, &parts[i])
		}
		b.Close(']')
	}
	if w.ReturnReasoning && m.Role == Assistant {
		reasoning := thoughts(m.Parts)
		if reasoning == nil && len(m.Calls) > 0 {
			reasoning = Literal(`""`) // calls without the member are refused, such as those by another model
		}
		b.Member("reasoning_content", reasoning)
	}
	for _, member := range more {
		b.Member(member.Name, member.Value)
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
			if !w.OpenAIOnly {
				extraContent(b, c.Signature)
			}
			b.Close('}')
		}
		b.Close(']')
	}
	b.Close('}')
}

func (w *Encoder) callID(id Literal) Literal {
	if w.CallID == nil || id == nil {
		return id
	}
	return w.CallID(id)
}

func (w *Encoder) format(b *jsonscan.Builder, f *Format) {
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

func (w *Encoder) tools(b *jsonscan.Builder, r *Request) {
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
			if t.Strict != nil && w.key(b, "strict") {
				b.Raw(t.Strict)
			}
			b.Close('}')
			w.cache(b, t.Cache)
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

// Described returns the instruction to answer in the format, which has to have the word JSON.
func (f *Format) Described() Literal {
	text := "Answer with a JSON object"
	if description := f.Description.Text(); description != "" {
		text += " (" + description + ")"
	}
	if f.Schema != nil {
		text += " that matches this JSON schema, and with nothing else:\n" + string(f.Schema)
	}
	return Quote(text)
}

// noParameters is the schema of a tool without parameters.
const noParameters = `{"type":"object","properties":{}}`

// Schema returns the schema of a tool's parameters, which is an empty object schema for a
// tool without. Some providers refuse schemas without a type, so it is added: arguments are
// always an object.
func (t *Tool) Schema() Raw {
	if t.Parameters == nil {
		return Raw(noParameters)
	}
	typed, members := false, false
	r := jsonscan.NewReader(t.Parameters)
	if !r.Object(func(key jsonscan.Key) {
		members = true
		typed = r.Kind() != jsonscan.Null && key.Is("type") || typed && !key.Is("type")
	}) || typed {
		return t.Parameters
	}
	if !members {
		return Raw(noParameters)
	}
	b := jsonscan.Builder(make([]byte, 0, len(t.Parameters)+16))
	b.Open('{')
	b.Key("type").Text("object")
	r.Reset(t.Parameters)
	r.Object(func(key jsonscan.Key) {
		if value := r.Raw(); !key.Is("type") {
			b.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
			b = append(append(b, ':'), value...)
		}
	})
	b.Close('}')
	return Raw(b)
}
