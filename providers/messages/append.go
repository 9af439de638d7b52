package messages

import (
	"encoding/base64"
	"strconv"

	"github.com/caddy-gw/gateway/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// DefaultMaxTokens is asked for where the caller does not say: Messages wants a bound.
const DefaultMaxTokens = 4096

// Options are what those who speak the dialect want different.
type Options struct {
	// Version is the anthropic_version in the body, in the place of a header's.
	Version string
	// NoModel: the model stands in the path.
	NoModel bool
	// NoStream: whether to stream stands in the path.
	NoStream bool
}

// Append writes a request as a body of Messages. Neighbours of one role become one
// message, and what the API refuses is left out.
func Append(dst []byte, r *chat.Request, o Options) ([]byte, error) {
	w := writer{Builder: dst}
	b := &w.Builder
	b.Open('{')
	if o.Version != "" {
		b.Key("anthropic_version").Text(o.Version)
	}
	if !o.NoModel {
		b.Member("model", r.Model)
	}
	if r.MaxTokens != nil {
		b.Key("max_tokens").Raw(r.MaxTokens)
	} else {
		b.Key("max_tokens").Int(DefaultMaxTokens)
	}
	if system := r.System(); len(system) > 0 {
		b.Key("system")
		if len(system) == 1 && system[0].Cache == nil {
			b.Raw(system[0].Text)
		} else {
			w.blocks(system)
		}
	}
	b.Key("messages").Open('[')
	err := w.messages(r.Messages)
	b.Close(']')
	b.Member("temperature", r.Temperature)
	b.Member("top_p", r.TopP)
	b.Member("top_k", r.TopK)
	if len(r.Stop) > 0 {
		chat.AppendTexts(b.Key("stop_sequences"), r.Stop)
	}
	if r.User != nil {
		b.Key("metadata").Open('{')
		b.Key("user_id").Raw(r.User)
		b.Close('}')
	}
	b.Member("thinking", r.Thinking)
	if r.Format.Kind == chat.FormatSchema && r.Format.Schema != nil {
		b.Key("output_config").Open('{')
		b.Key("format").Open('{')
		b.Key("type").Text("json_schema")
		b.Key("schema").Raw(r.Format.Schema)
		b.Close('}')
		b.Close('}')
	}
	w.tools(r)
	if r.Stream && !o.NoStream {
		b.Key("stream").Bool(true)
	}
	b.Close('}')
	return w.Builder, err
}

type writer struct{ jsonscan.Builder }

func (w *writer) messages(all []chat.Message) error {
	last := chat.System // no message is open
	for i := range all {
		m := &all[i]
		role := m.Role
		switch role {
		case chat.System:
			continue
		case chat.ToolResult:
			role = chat.User
		}
		if last != role {
			if last != chat.System {
				w.Close(']')
				w.Close('}')
			}
			w.Open('{')
			w.Key("role").Text(map[chat.Role]string{chat.User: "user", chat.Assistant: "assistant"}[role])
			w.Key("content").Open('[')
			last = role
		}
		if err := w.message(m, i); err != nil {
			return err
		}
	}
	if last != chat.System {
		w.Close(']')
		w.Close('}')
	}
	return nil
}

func (w *writer) message(m *chat.Message, at int) error {
	if m.Role == chat.ToolResult {
		return w.result(m, at)
	}
	if err := w.parts(m.Parts, at); err != nil {
		return err
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		w.Open('{')
		w.Key("type").Text("tool_use")
		w.Member("id", c.ID)
		w.Member("name", c.Name)
		w.Key("input").Raw(c.Input())
		w.Member("cache_control", c.Cache)
		w.Close('}')
	}
	return nil
}

func (w *writer) result(m *chat.Message, at int) error {
	w.Open('{')
	w.Key("type").Text("tool_result")
	w.Member("tool_use_id", m.CallID)
	var cache chat.Raw
	switch n := len(m.Parts); {
	case n == 0:
		w.Key("content").Text("")
	case n == 1 && m.Parts[0].Kind == chat.Text:
		w.Key("content").Raw(m.Parts[0].Text)
		cache = m.Parts[0].Cache
	default:
		w.Key("content").Open('[')
		if err := w.parts(m.Parts, at); err != nil {
			return err
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

func (w *writer) blocks(parts []chat.Part) {
	w.Open('[')
	for i := range parts {
		w.text(&parts[i])
	}
	w.Close(']')
}

func (w *writer) text(p *chat.Part) {
	if p.Text.Empty() { // the API refuses empty blocks
		return
	}
	w.Open('{')
	w.Key("type").Text("text")
	w.Key("text").Raw(p.Text)
	w.Member("cache_control", p.Cache)
	w.Close('}')
}

func (w *writer) parts(parts []chat.Part, at int) error {
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case chat.Text, chat.Refusal:
			w.text(p)
		case chat.Thinking:
			if p.Signature.Empty() { // the API takes its own thoughts only
				continue
			}
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
			w.Open('{')
			w.Key("type").Text("document")
			w.source(p)
			w.Member("title", p.Name)
			w.Member("cache_control", p.Cache)
			w.Close('}')
		default:
			return &chat.Unsupported{Param: "messages[" + strconv.Itoa(at) + "].content", Message: "The provider takes no audio; send text, images or documents"}
		}
	}
	return nil
}

func text(l chat.Literal) []byte {
	if l == nil {
		return []byte(`""`)
	}
	return l
}

func (w *writer) source(p *chat.Part) {
	w.Key("source").Open('{')
	switch {
	case p.FileID != nil:
		w.Key("type").Text("file")
		w.Key("file_id").Raw(p.FileID)
	case p.URL != nil:
		w.Key("type").Text("url")
		w.Key("url").Raw(p.URL)
	case p.Kind == chat.File && p.MediaType == "text/plain":
		data, err := base64.StdEncoding.DecodeString(string(p.Data))
		if err != nil {
			data = p.Data
		}
		w.Key("type").Text("text")
		w.Key("media_type").Text("text/plain")
		w.Key("data").Text(string(data))
	default:
		media := p.MediaType
		if media == "" {
			media = map[chat.PartKind]string{chat.Image: "image/png", chat.File: "application/pdf"}[p.Kind]
		}
		w.Key("type").Text("base64")
		w.Key("media_type").Text(media)
		w.Key("data").Quoted(p.Data)
	}
	w.Close('}')
}

func (w *writer) tools(r *chat.Request) {
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
		w.Key("input_schema").Raw(t.Schema())
		w.Member("cache_control", t.Cache)
		w.Close('}')
	}
	w.Close(']')
	one := string(r.Parallel) == "false"
	mode := r.ToolChoice.Mode
	if mode == chat.Unset {
		if !one {
			return
		}
		mode = chat.Auto
	}
	w.Key("tool_choice").Open('{')
	w.Key("type").Text([...]string{chat.Auto: "auto", chat.Required: "any", chat.None: "none", chat.Named: "tool"}[mode])
	if mode == chat.Named {
		w.Member("name", r.ToolChoice.Name)
	}
	if one && mode != chat.None {
		w.Key("disable_parallel_tool_use").Bool(true)
	}
	w.Close('}')
}
