package prompts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/caddy-gw/gateway/internal/prompts/template"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Compiled is a parsed version of a prompt or partial.
type Compiled struct {
	Chat       bool   // it renders messages, not the prompt of a text completion
	VirtualKey string // or the provider or config for its completions
	Partial    *template.Partial

	members  []member
	index    map[string]int      // of the members, by their names
	size     int                 // its share of the cache, in bytes
	defaults *template.Variables // of parameters.variables; nil: none
}

// A member is a field of the rendered body.
type member struct {
	name  string
	value *template.Template
	field string // the field of the content that it comes from
}

// A FieldError is an error in a field of a prompt's content.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// CompilePartial parses the text of a partial.
func CompilePartial(c *Content) (*Compiled, error) {
	p, err := template.ParsePartial(c.String)
	if err != nil {
		return nil, &FieldError{"string", err.Error()}
	}
	return &Compiled{Partial: p}, nil
}

// notSaved are parameters that a prompt does not render. Whether an answer is streamed
// is up to the call.
var notSaved = map[string]bool{"stream": true, "variables": true, "prompt_id": true}

// A part is a field of the body that a version comes to, before it is rendered.
type part struct {
	name  string
	field string // of the content, that it comes from
	json  []byte
	raw   bool // it is JSON once it is rendered
}

// parts returns what a version is made of, each field once, and the values of variables that calls leave out, if it has
// any. The error is a *[FieldError].
func (c *Content) parts() (all []part, defaults *template.Variables, err error) {
	index := make(map[string]int)
	add := func(p part) {
		if i, twice := index[p.name]; twice {
			all[i] = p
			return
		}
		index[p.name] = len(all)
		all = append(all, p)
	}
	if len(c.Parameters) > 0 {
		err := jsonscan.Members(c.Parameters, func(m jsonscan.Member) error {
			name, raw := m.Key.String(), bytes.Clone(c.Parameters[m.Start:m.End])
			if name == "variables" && raw[0] == '{' {
				v, err := template.ReadVariables(raw)
				defaults = &v
				return err
			}
			if !notSaved[name] {
				add(part{name: name, field: "parameters." + name, json: raw})
			}
			return nil
		})
		if err != nil {
			return nil, nil, &FieldError{"parameters", err.Error()}
		}
	}
	if c.Model != "" {
		add(part{name: "model", field: "model", json: jsonscan.AppendQuoted(nil, c.Model)})
	}
	for _, m := range []struct {
		name string
		raw  []byte
	}{{"tools", c.Tools}, {"tool_choice", c.ToolChoice}, {"functions", c.Functions}} {
		if len(m.raw) > 0 {
			add(part{name: m.name, field: m.name, json: m.raw})
		}
	}
	text := strings.TrimSpace(c.String)
	switch {
	case c.Raw:
		add(part{name: messages, field: "string", json: []byte(text), raw: true})
	case c.isChat():
		add(part{name: messages, field: "string", json: []byte(text)})
	case isMessagesOnceRendered(text):
		return nil, nil, &FieldError{"string", "the messages are not valid JSON before rendering; fix them, or set is_raw_template to 1"}
	default:
		add(part{name: "prompt", field: "string", json: jsonscan.AppendQuoted(nil, c.String)})
	}
	return all, defaults, nil
}

// messages is the field that makes a prompt one of chat completions.
const messages = "messages"

// Compile parses the content of a version. The error is a *[FieldError].
func Compile(c *Content) (*Compiled, error) {
	parts, defaults, err := c.parts()
	if err != nil {
		return nil, err
	}
	out := &Compiled{VirtualKey: c.VirtualKey, index: make(map[string]int, len(parts)), defaults: defaults}
	for i, p := range parts {
		var t *template.Template
		if p.raw {
			t, err = template.Raw(string(p.json))
		} else {
			t, err = template.JSON(p.json)
		}
		if err != nil {
			return nil, &FieldError{p.field, err.Error()}
		}
		out.index[p.name] = i
		out.members = append(out.members, member{p.name, t, p.field})
	}
	out.Chat = c.isChat()
	return out, nil
}

// isChat reports whether the version is for chat completions, not text completions.
func (c *Content) isChat() bool { return c.Raw || isMessages([]byte(strings.TrimSpace(c.String))) }

// isMessages reports whether text is a JSON array of objects.
func isMessages(text []byte) bool {
	r := jsonscan.NewReader(text)
	n, others := 0, 0
	ok := r.Array(func() {
		if n++; r.Kind() != jsonscan.Object {
			others++
		}
	})
	return ok && r.Err() == nil && n > 0 && others == 0
}

// isMessagesOnceRendered reports whether text begins like messages, with an array whose
// first element is an object or a tag.
func isMessagesOnceRendered(text string) bool {
	inside, ok := strings.CutPrefix(text, "[")
	return ok && strings.HasPrefix(strings.TrimSpace(inside), "{")
}

// Uses returns the names that the prompt's texts refer to.
func (c *Compiled) Uses() template.Names {
	if c.Partial != nil {
		return c.Partial.Uses()
	}
	all := make([]*template.Template, len(c.members))
	for i := range c.members {
		all[i] = c.members[i].value
	}
	return template.UsesOf(all)
}

// compiled caches compiled versions by their ids, since versions never change. It has
// two generations: when the younger one is full, the older one is dropped. A version
// that is used moves to the younger one.
type compiled struct {
	mu         sync.RWMutex
	young, old map[string]*Compiled
	filled     int // size of the versions in young, in bytes
}

// maxCompiled is the maximum size of the versions in a generation, in bytes.
const maxCompiled = 32 << 20

func (c *compiled) get(id string) *Compiled {
	c.mu.RLock()
	young, old := c.young[id], c.old[id]
	c.mu.RUnlock()
	if young == nil && old != nil {
		c.put(id, old)
		return old
	}
	return young
}

func (c *compiled) put(id string, v *Compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[id] != nil {
		return // another call was faster
	}
	if c.filled+v.size > maxCompiled || c.young == nil {
		c.old, c.young, c.filled = c.young, make(map[string]*Compiled), 0
	}
	c.young[id] = v
	c.filled += v.size
}

// Compiled returns a compiled version. A version is only read and parsed once.
func (s *Store) Compiled(ctx context.Context, p *Prompt, v *Version) (*Compiled, error) {
	if c := s.compiled.get(v.ID); c != nil {
		return c, nil
	}
	content, err := s.Content(ctx, p, v)
	if err != nil {
		return nil, fmt.Errorf("reading version %d of %s: %w", v.Number, p.Slug, err)
	}
	compile := Compile
	if p.Partial {
		compile = CompilePartial
	}
	c, err := compile(content)
	if err != nil {
		return nil, fmt.Errorf("version %d of %s: %w", v.Number, p.Slug, err)
	}
	if s.tx == nil { // what a transaction sees may be rolled back
		c.size = 4<<10 + content.Size() + c.parsed()
		s.compiled.put(v.ID, c)
	}
	return c, nil
}

// parsed is how much memory the parsed texts take, in bytes.
func (c *Compiled) parsed() (size int) {
	if c.Partial != nil {
		return c.Partial.Size()
	}
	for i := range c.members {
		size += c.members[i].value.Size()
	}
	return size
}

// MaxRendered is the maximum size of a rendered prompt, in bytes.
const MaxRendered = 8 << 20

// renderers are reused by further calls.
var renderers = sync.Pool{New: func() any { return &rendering{r: template.Renderer{Limit: MaxRendered}} }}

type rendering struct {
	r         template.Renderer
	variables template.Variables
	given     []bool // the members of the prompt that the call has itself
}

func givenTwice(name string) error {
	return &template.Error{Code: validation.DuplicateField, Message: name + ": given twice"}
}

// What a prompt has for calls that are streamed, and for those that are not, is not rendered for the others, which may
// not have it.
const (
	streamed    = "stream_options"
	notStreamed = "best_of"
)

// Render appends the body of a call: the fields of the prompt, overridden by those of
// body, which is an object with the variables. Partials are looked up in workspace. An
// error that is caused by the call is a *template.Error, whose Code refers to the
// variables if the error is in them.
func (s *Store) Render(ctx context.Context, dst []byte, workspace string, c *Compiled, body []byte) ([]byte, error) {
	w, _ := renderers.Get().(*rendering)
	defer renderers.Put(w)
	var variables []byte
	w.given = append(w.given[:0], make([]bool, len(c.members))...)
	b := dst
	b = append(b, '{')
	first := len(b)
	streams := false
	err := jsonscan.Members(body, func(m jsonscan.Member) error {
		switch {
		case m.Key.Is("stream"):
			streams = string(body[m.Start:m.End]) == "true"
		case m.Key.Is("variables"):
			if variables != nil {
				return givenTwice("variables")
			}
			variables = body[m.Start:m.End]
			return nil
		case m.Key.Is("prompt_id"): // sent in the body by one of the clients
			return nil
		}
		if i, ok := c.index[string(m.Key.Bytes())]; ok {
			if w.given[i] {
				return givenTwice(c.members[i].name)
			}
			w.given[i] = true
		}
		if len(b) > first {
			b = append(b, ',')
		}
		b = append(jsonscan.AppendQuoted(b, m.Key.Bytes()), ':')
		b = append(b, body[m.Start:m.End]...)
		return nil
	})
	if err != nil {
		return dst, err
	}
	if variables == nil {
		return dst, &template.Error{Code: "missing_required_parameter", Message: "variables: required, an object (it may be empty)"}
	}
	if err := w.variables.Read(variables); err != nil {
		return dst, &template.Error{Code: "invalid_type", Message: "variables: " + err.Error()}
	}
	w.r.Reset(c.defaults, &w.variables)
	var failed error
	w.r.Partial = func(name string) *template.Partial {
		p, v, ok := s.Find(workspace, name, true)
		if !ok {
			return nil
		}
		partial, err := s.Compiled(ctx, p, v)
		if err != nil {
			failed = errors.Join(failed, err)
			return nil
		}
		return partial.Partial
	}
	for i := range c.members {
		m := &c.members[i]
		if w.given[i] || m.name == streamed && !streams || m.name == notStreamed && streams {
			continue
		}
		if len(b) > first {
			b = append(b, ',')
		}
		b = append(jsonscan.AppendQuoted(b, m.name), ':')
		at := len(b)
		b, err = w.r.Append(b, m.value)
		switch {
		case failed != nil:
			return dst, failed
		case err != nil:
			return dst, err
		case len(b) > MaxRendered:
			return dst, &template.Error{Code: "prompt_too_large", Message: fmt.Sprintf("The rendered prompt is larger than %d bytes", MaxRendered)}
		case m.value.IsRaw() && !isMessages(b[at:]):
			return dst, &template.Error{Code: "invalid_json", Message: "Rendered with these variables, the prompt's messages are not a JSON array of objects"}
		}
	}
	return append(b, '}'), nil
}
