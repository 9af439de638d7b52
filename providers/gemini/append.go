package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Options are the differences between the providers that use the dialect.
type Options struct {
	// Model is the model's plain name, which decides how thinking is requested.
	Model string
	// IDs is set if calls and their results have ids.
	IDs bool
}

// Append appends a request as a body of generateContent. What the API does not support is
// left out, with a warning of the request where its caller may count on it.
func Append(dst []byte, r *chat.Request, o Options) ([]byte, error) {
	warn := r.Warn
	if !o.IDs {
		ordered := *r
		ordered.Messages = inOrderOfCalls(r.Messages)
		r = &ordered
	}
	w := writer{Builder: dst, r: r, o: o, warn: warn}
	w.Open('{')
	err := w.members()
	w.Close('}')
	return w.Builder, err
}

type writer struct {
	jsonscan.Builder
	r    *chat.Request
	o    Options
	warn func(what string)
}

func (w *writer) members() error {
	r := w.r
	if err := r.AllowParts(chat.Text, chat.Image, chat.File, chat.Audio, chat.Thinking, chat.Redacted, chat.Refusal); err != nil {
		return err
	}
	if err := files(r); err != nil {
		return err
	}
	if system := r.System(); len(system) > 0 {
		w.Key("systemInstruction").Open('{')
		w.Key("parts").Open('[')
		for i := range system {
			w.text(system[i].Text)
		}
		w.Close(']')
		w.Close('}')
		w.dropEmpty(`"systemInstruction":{"parts":[]}`)
	}
	w.Key("contents").Open('[')
	w.contents()
	w.Close(']')
	w.generationConfig()
	if err := w.tools(); err != nil {
		return err
	}
	w.extras(topExtras)
	return nil
}

// contents writes the turns. Consecutive tool results answer one turn of the model's, so
// they are merged into one turn.
func (w *writer) contents() {
	var late []chat.Part // the parts of results that are not text
	results := false     // a turn of results is open
	closeResults := func() {
		if !results {
			return
		}
		for i := range late {
			w.part(&late[i])
		}
		late, results = nil, false
		w.Close(']')
		w.Close('}')
	}
	for i := range w.r.Messages {
		m := &w.r.Messages[i]
		switch m.Role {
		case chat.System:
			continue
		case chat.ToolResult:
			if !results {
				w.open("user")
				results = true
			}
			late = append(late, w.result(m, i)...)
			continue
		}
		closeResults()
		w.turn(m)
	}
	closeResults()
}

// inOrderOfCalls are messages whose results stand as the calls do that they answer. Without
// ids, two results of one function are told apart by nothing else.
func inOrderOfCalls(all []chat.Message) []chat.Message {
	copied := false
	for i := range all {
		if all[i].Role != chat.Assistant || len(all[i].Calls) < 2 {
			continue
		}
		end := i + 1
		for end < len(all) && all[end].Role == chat.ToolResult {
			end++
		}
		at := func(m chat.Message) int {
			n := slices.IndexFunc(all[i].Calls, func(c chat.Call) bool { return c.ID.Text() == m.CallID.Text() })
			if n < 0 {
				return len(all[i].Calls)
			}
			return n
		}
		byCall := func(a, b chat.Message) int { return at(a) - at(b) }
		if slices.IsSortedFunc(all[i+1:end], byCall) {
			continue
		}
		if !copied {
			all, copied = slices.Clone(all), true
		}
		slices.SortStableFunc(all[i+1:end], byCall)
	}
	return all
}

func (w *writer) open(role string) {
	w.Open('{')
	w.Key("role").Text(role)
	w.Key("parts").Open('[')
}

// turn writes a turn of the user or the model. A turn without content is dropped, because
// the API refuses it.
func (w *writer) turn(m *chat.Message) {
	start := len(w.Builder)
	role := "user"
	if m.Role == chat.Assistant {
		role = "model"
	}
	w.open(role)
	empty := len(w.Builder)
	first := true
	_ = m.Each(func(p *chat.Part) error {
		if m.Role == chat.Assistant && p.Kind == chat.Text && !p.Signature.Empty() {
			w.signed(p)
		} else {
			w.part(p)
		}
		return nil
	}, func(c *chat.Call) error {
		w.call(c, first)
		first = false
		return nil
	})
	if len(w.Builder) == empty {
		w.Builder = w.Builder[:start]
		return
	}
	w.Close(']')
	w.Close('}')
}

// unsigned is the signature that Google documents for calls without one. From the third
// generation on, models refuse a turn whose first call has no signature, and calls by other
// models, or from clients that keep only OpenAI's fields, have none.
const unsigned = "skip_thought_signature_validator"

func (w *writer) call(c *chat.Call, first bool) {
	w.Open('{')
	w.Key("functionCall").Open('{')
	if w.o.IDs {
		w.Member("id", c.ID)
	}
	w.Member("name", c.Name)
	w.Key("args").Raw(c.Input())
	w.Close('}')
	switch {
	case !c.Signature.Empty():
		w.Key("thoughtSignature").Raw(c.Signature)
	case first && hasLevels(w.o.Model):
		w.Key("thoughtSignature").Text(unsigned)
	}
	w.Close('}')
}

// result writes the result of a tool call, and returns its parts that are not text.
func (w *writer) result(m *chat.Message, at int) (late []chat.Part) {
	name := w.r.CallName(m.CallID, at)
	if name.Empty() {
		name = m.Name
	}
	if name.Empty() {
		name = m.CallID
	}
	w.Open('{')
	w.Key("functionResponse").Open('{')
	if w.o.IDs {
		w.Member("id", m.CallID)
	}
	w.Member("name", name)
	w.Key("response")
	content := chat.JoinText(m.Parts)
	text := []byte(content.Text())
	object := jsonscan.Members(text, nil) == nil
	switch { // the response must be an object
	case object && !m.Failed:
		w.Raw(text)
	case object:
		w.Open('{')
		w.Key("error").Raw(text)
		w.Close('}')
	default:
		key := "output"
		if m.Failed {
			key = "error"
		}
		w.Open('{')
		w.Key(key).Raw(content)
		w.Close('}')
	}
	w.Close('}')
	w.Close('}')
	for i := range m.Parts {
		if k := m.Parts[i].Kind; k == chat.Image || k == chat.File || k == chat.Audio {
			late = append(late, m.Parts[i])
		}
	}
	return late
}

// signed writes a text with its signature. The text may be empty.
func (w *writer) signed(p *chat.Part) {
	w.Open('{')
	w.Key("text").Raw(p.Text)
	w.Key("thoughtSignature").Raw(p.Signature)
	w.Close('}')
}

func (w *writer) text(t chat.Literal) {
	if t.Empty() {
		return
	}
	w.Open('{')
	w.Key("text").Raw(t)
	w.Close('}')
}

// part writes a part. Thinking is left out: the API only wants the signatures of calls
// back, and other providers' signatures are of no use to it.
func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.Text, chat.Refusal:
		w.text(p.Text)
	case chat.Image, chat.File, chat.Audio:
		w.media(p)
	}
}

// files refuses file ids that are not Google's.
func files(r *chat.Request) error {
	for i := range r.Messages {
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			if p.FileID == nil || p.URL != nil {
				continue
			}
			if id := p.FileID.Text(); !strings.HasPrefix(id, filesOf) && !strings.Contains(id, "://") {
				at := "messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(k) + "]"
				return &chat.Unsupported{Param: at, Message: "Invalid file_id in '" + at + "': the provider takes the URI of a file that it holds (files/…, https://… or gs://…), or the file as data"}
			}
		}
	}
	return nil
}

// filesOf is the prefix of file names in the Files API.
const filesOf = "files/"

func (w *writer) media(p *chat.Part) {
	uri := p.URL
	if uri == nil {
		uri = p.FileID
	}
	w.Open('{')
	if uri == nil {
		w.Key("inlineData").Open('{')
		w.Key("mimeType").Text(p.Media(""))
		w.Key("data").Quoted(p.Data)
	} else {
		where := uri.Text()
		if strings.HasPrefix(where, filesOf) { // a file of the Files API, by its name only
			where = "https://generativelanguage.googleapis.com/v1beta/" + where
			uri = chat.Quote(where)
		}
		w.Key("fileData").Open('{')
		w.Key("mimeType").Text(p.Media(where))
		w.Key("fileUri").Raw(uri)
	}
	w.Close('}')
	w.Close('}')
}
