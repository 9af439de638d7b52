package messages

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// DefaultMaxTokens is the max_tokens of requests without a limit, because Messages requires
// one.
const DefaultMaxTokens = 4096

// MaxTemperature is the highest temperature. That of OpenAI is 2.
const MaxTemperature = 1

// Options are the differences between the providers that use the dialect.
type Options struct {
	// Version is the anthropic_version of the body, for providers that do not use the
	// header.
	Version string
	// NoModel is set if the model is in the path. Name is its name, if it is not the request's.
	NoModel bool
	Name    string
	// NoStream is set if the path says whether to stream.
	NoStream bool
}

// Append appends a request as a Messages body. Consecutive messages of one role are merged.
// What the API refuses is left out: blank texts and stop sequences, messages without content,
// and thinking without a signature. What it does not support is an error of type *chat.Unsupported.
func Append(dst []byte, r *chat.Request, o Options) ([]byte, error) {
	if err := r.OneChoice(); err != nil {
		return nil, err
	}
	if err := r.NoForeignTools(); err != nil {
		return nil, err
	}
	w := writer{Turns: chat.Turns{Builder: dst}}
	b := &w.Builder
	name := o.Name
	if name == "" {
		name = r.Model.Text()
	}
	m := ModelOf(name)
	thinking := Continued(m.Thinking(r), r.Messages)
	r = AnswersByTool(r, m, thinking)
	b.Open('{')
	if o.Version != "" {
		b.Key("anthropic_version").Text(o.Version)
	}
	if !o.NoModel {
		b.Member("model", r.Model)
	}
	if r.MaxTokens != nil {
		b.Key("max_tokens").Raw(r.MaxTokens)
	} else { // max_tokens includes the thinking budget, which must be smaller
		b.Key("max_tokens").Int(DefaultMaxTokens + budget(thinking))
	}
	if err := w.system(r); err != nil {
		return dst, err
	}
	b.Key("messages").Open('[')
	err := w.messages(Prefill(r.Messages))
	b.Close(']')
	temperature, topP, topK := m.Sampling(r, thinking)
	b.Member("temperature", temperature)
	b.Member("top_p", topP)
	b.Member("top_k", topK)
	if stops := slices.DeleteFunc(slices.Clone(r.Stop), chat.Literal.Blank); len(stops) > 0 {
		chat.AppendTexts(b.Key("stop_sequences"), stops)
	}
	if r.User != nil {
		b.Key("metadata").Open('{')
		b.Key("user_id").Raw(r.User)
		b.Close('}')
	}
	b.Member("thinking", thinking)
	w.own(r, m)
	w.tools(r, m, Choice(r.ToolChoice, thinking))
	if r.Stream && !o.NoStream {
		b.Key("stream").Bool(true)
	}
	b.Close('}')
	return w.Builder, err
}

// budget returns the thinking budget in tokens, or 0 if there is none.
func budget(thinking chat.Raw) (n int64) {
	r := jsonscan.NewReader(thinking)
	r.Object(func(key jsonscan.Key) {
		if key.Is("budget_tokens") {
			n = max(0, chat.Int(r.Value()))
		}
	})
	return n
}

type writer struct {
	chat.Turns
}

// system writes the system prompt: a string, or blocks if there are several parts or cache
// points.
func (w *writer) system(r *chat.Request) error {
	var blocks []chat.Part
	for i := range r.Messages {
		if r.Messages[i].Role != chat.System {
			continue
		}
		for _, p := range r.Messages[i].Parts {
			switch {
			case p.Kind != chat.Text:
				return unsupported(i, "The provider's instructions are text alone; send what else there is as the user")
			case !p.Text.Blank():
				blocks = append(blocks, p)
			}
		}
	}
	switch {
	case len(blocks) == 0:
	case len(blocks) == 1 && blocks[0].Cache == nil:
		w.Key("system").Raw(blocks[0].Text)
	default:
		w.Key("system").Open('[')
		for i := range blocks {
			w.text(&blocks[i])
		}
		w.Close(']')
	}
	return nil
}

func unsupported(at int, message string) error {
	return &chat.Unsupported{Param: "messages[" + strconv.Itoa(at) + "].content", Message: message}
}

func (w *writer) messages(all []chat.Message) error {
	for i := range all {
		m := &all[i]
		var err error
		switch m.Role {
		case chat.System:
		case chat.ToolResult:
			w.Turn(chat.User)
			err = w.result(m, i)
		default:
			err = w.message(m, i)
		}
		if err != nil {
			return err
		}
	}
	w.End()
	return nil
}

func (w *writer) message(m *chat.Message, at int) error {
	return m.Each(func(p *chat.Part) error {
		if !Sendable(p) {
			return nil
		}
		w.Turn(m.Role)
		return w.part(p, at)
	}, func(c *chat.Call) error {
		w.Turn(m.Role)
		w.Open('{')
		w.Key("type").Text("tool_use")
		w.Member("id", callID(c.ID))
		w.Member("name", c.Name)
		w.Key("input").Raw(c.Input())
		w.Member("cache_control", c.Cache)
		w.Close('}')
		return nil
	})
}

const maxCallID = 256

// callID returns a call id that the API accepts, or nil if there is none.
func callID(id chat.Literal) chat.Literal {
	if id == nil {
		return nil
	}
	return chat.PlainID(id, maxCallID)
}

// Sendable reports whether the API accepts a part: no blank text, and only its own
// thinking, which has a signature.
func Sendable(p *chat.Part) bool {
	switch p.Kind {
	case chat.Text, chat.Refusal:
		return !p.Text.Blank()
	case chat.Thinking:
		return !p.Signature.Empty()
	}
	return true
}

func (w *writer) result(m *chat.Message, at int) error {
	w.Open('{')
	w.Key("type").Text("tool_result")
	w.Member("tool_use_id", callID(m.CallID))
	var cache chat.Raw
	switch n := len(m.Parts); {
	case n == 0:
		w.Key("content").Text("")
	case n == 1 && m.Parts[0].Kind == chat.Text:
		w.Key("content").Raw(text(m.Parts[0].Text))
		cache = m.Parts[0].Cache
	default:
		w.Key("content").Open('[')
		for i := range m.Parts {
			if p := &m.Parts[i]; Sendable(p) {
				if err := w.part(p, at); err != nil {
					return err
				}
			}
		}
		w.Close(']')
	}
	if m.Failed {
		w.Key("is_error").Bool(true)
	}
	w.Member("cache_control", cache)
	w.Close('}')
	return nil
}

func (w *writer) text(p *chat.Part) {
	w.Open('{')
	w.Key("type").Text("text")
	w.Key("text").Raw(p.Text)
	w.Member("cache_control", p.Cache)
	w.Close('}')
}

func (w *writer) part(p *chat.Part, at int) error {
	switch p.Kind {
	case chat.Text, chat.Refusal:
		w.text(p)
	case chat.Thinking:
		w.Open('{')
		w.Key("type").Text("thinking")
		w.Key("thinking").Raw(text(p.Text))
		w.Key("signature").Raw(p.Signature)
		w.Close('}')
	case chat.Redacted:
		w.Open('{')
		w.Key("type").Text("redacted_thinking")
		w.Key("data").Quoted(p.Data)
		w.Close('}')
	case chat.Image:
		w.Open('{')
		w.Key("type").Text("image")
		w.source(p)
		w.Member("cache_control", p.Cache)
		w.Close('}')
	case chat.File:
		if !document(p) {
			return unsupported(at, "The provider takes documents of text and PDF only, not of type "+p.MediaType)
		}
		w.Open('{')
		w.Key("type").Text("document")
		w.source(p)
		w.Member("title", p.Name)
		w.Member("cache_control", p.Cache)
		w.Close('}')
	case chat.Other:
		w.Raw(p.Other)
	default:
		return unsupported(at, "The provider takes no audio; send text, images or documents")
	}
	return nil
}

func text(l chat.Literal) []byte {
	if l == nil {
		return []byte(`""`)
	}
	return l
}

// unknownType is the media type of data of which none is known.
const unknownType = "application/octet-stream"

// texts lists media types of texts besides text/*.
var texts = []string{
	"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/csv",
	"application/javascript", "application/typescript", "application/sql", "application/x-sh", "application/x-ndjson", "application/jsonl",
}

// plainText returns the text of a document that is one.
func plainText(p *chat.Part) (text string, ok bool) {
	if text, ok = p.PlainText(); ok {
		return text, true
	}
	media, _, _ := strings.Cut(p.MediaType, ";")
	if p.Kind != chat.File || p.Data == nil ||
		!slices.Contains(texts, media) && !strings.HasSuffix(media, "+json") && !strings.HasSuffix(media, "+xml") {
		return "", false
	}
	b, err := base64.StdEncoding.AppendDecode(nil, p.Data)
	return string(b), err == nil
}

// document reports whether the API takes a document: a file that it holds or fetches, a text or a PDF.
func document(p *chat.Part) bool {
	if _, ok := plainText(p); ok || p.FileID != nil || p.URL != nil || strings.HasPrefix(p.MediaType, "text/") {
		return true // a text that is not base64 is the API's to refuse
	}
	switch p.MediaType {
	case "", unknownType, "application/pdf":
		return true
	}
	return false
}

func (w *writer) source(p *chat.Part) {
	w.Key("source").Open('{')
	plain, isText := plainText(p)
	switch {
	case p.FileID != nil:
		w.Key("type").Text("file")
		w.Key("file_id").Raw(p.FileID)
	case p.URL != nil:
		w.Key("type").Text("url")
		w.Key("url").Raw(p.URL)
	case isText:
		w.Key("type").Text("text")
		w.Key("media_type").Text("text/plain")
		w.Key("data").Text(plain)
	default:
		media := p.MediaType
		if media == "" || media == unknownType {
			media = map[chat.PartKind]string{chat.Image: "image/png", chat.File: "application/pdf"}[p.Kind]
		}
		w.Key("type").Text("base64")
		w.Key("media_type").Text(media)
		w.Key("data").Quoted(p.Data)
	}
	w.Close('}')
}

func (w *writer) tools(r *chat.Request, m Model, choice chat.ToolChoice) {
	if len(r.Tools) == 0 {
		return
	}
	w.Key("tools").Open('[')
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Other != nil {
			w.Raw(t.Other)
			continue
		}
		w.Open('{')
		w.Member("name", t.Name)
		w.Member("description", t.Description)
		if string(t.Strict) == "true" && m.Schemas() {
			w.Key("input_schema").Raw(ClosedSchema(t.Schema()))
			w.Key("strict").Bool(true)
		} else {
			w.Key("input_schema").Raw(t.Schema())
		}
		for _, m := range t.Extra {
			if slices.Contains(ownOfTools, m.Name) {
				w.Key(m.Name).Raw(m.Value)
			}
		}
		w.Member("cache_control", t.Cache)
		w.Close('}')
	}
	w.Close(']')
	one := string(r.Parallel) == "false"
	mode := choice.Mode
	if mode == chat.Unset {
		if !one {
			return
		}
		mode = chat.Auto
	}
	w.Key("tool_choice").Open('{')
	w.Key("type").Text([...]string{chat.Auto: "auto", chat.Required: "any", chat.None: "none", chat.Named: "tool"}[mode])
	if mode == chat.Named {
		w.Member("name", choice.Name)
	}
	if one && mode != chat.None {
		w.Key("disable_parallel_tool_use").Bool(true)
	}
	w.Close('}')
}
