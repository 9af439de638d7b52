package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// Limits are what a provider refuses that others take. Zero is no limit.
type Limits struct {
	// ToolName is how many letters, digits, underscores and hyphens the name of a tool has
	// at most. Others are replaced, and the answer has them as the caller wrote them.
	ToolName int
	// User is how many characters the name of the end user has at most. Longer ones are cut.
	User int
	// NoEmail: the name of the end user must not be an e-mail address. It is left out.
	NoEmail bool
	// NeedsUser: a conversation must hold more than what the system says. What it says alone
	// is the user's.
	NeedsUser bool
}

// Arrange brings a request into the order that providers want, within their limits: only
// the tools that the caller allows, no choice where there are none, and the results of
// calls right behind the calls. It returns the names of tools that were replaced, by the
// ones in their place.
func (r *Request) Arrange(l Limits) map[string]Literal {
	r.allow()
	if len(r.Tools) == 0 {
		r.ToolChoice, r.Parallel = ToolChoice{}, nil
	}
	r.Messages = resultsFirst(r.Messages)
	if l.NeedsUser {
		r.needUser()
	}
	r.user(l)
	return r.rename(l.ToolName)
}

func (r *Request) user(l Limits) {
	if r.User == nil {
		return
	}
	text := r.User.Text()
	switch {
	case l.NoEmail && strings.Contains(text, "@"):
		r.User = nil
	case l.User > 0 && utf8.RuneCountInString(text) > l.User:
		r.User = Quote(string([]rune(text)[:l.User]))
	}
}

// needUser makes what the system says the user's, where nobody else says anything.
func (r *Request) needUser() {
	for i := range r.Messages {
		if m := &r.Messages[i]; m.Role != System && (len(m.Calls) > 0 || slices.ContainsFunc(m.Parts, Part.says)) {
			return
		}
	}
	r.Messages = slices.Clone(r.Messages)
	for i := range r.Messages {
		if r.Messages[i].Role == System {
			r.Messages[i].Role = User
		}
	}
}

// says reports whether a part is more than a blank text.
func (p Part) says() bool { return p.Kind != Text && p.Kind != Refusal || !p.Text.Blank() }

// allow leaves the tools that the choice allows.
func (r *Request) allow() {
	allowed := r.ToolChoice.Allowed
	if allowed == nil {
		return
	}
	r.ToolChoice.Allowed = nil
	r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t Tool) bool {
		return !slices.ContainsFunc(allowed, t.is)
	})
}

// is reports whether a tool is the one that a caller names: a function by its name, another
// tool by its type.
func (t Tool) is(name Literal) bool {
	if t.Other == nil {
		return t.Name.Text() == name.Text()
	}
	named := false
	r := jsonscan.NewReader(t.Other)
	r.Object(func(key jsonscan.Key) {
		if (key.Is("type") || key.Is("name")) && r.Kind() == jsonscan.String {
			named = named || Literal(r.String()).Text() == name.Text()
		}
	})
	return named
}

// resultsFirst moves the results of a turn's calls right behind the turn, whatever a client
// put between.
func resultsFirst(all []Message) []Message {
	var out []Message // nil: all as they are, so far
	taken := make([]bool, 0)
	for i := range all {
		if i < len(taken) && taken[i] {
			continue
		}
		if out != nil {
			out = append(out, all[i])
		}
		if all[i].Role != Assistant || len(all[i].Calls) == 0 {
			continue
		}
		open := len(all[i].Calls)
		between := false
		for k := i + 1; k < len(all) && open > 0; k++ {
			switch m := &all[k]; {
			case m.Role == Assistant && len(m.Calls) > 0 && !between:
				between = true
			case m.Role != ToolResult:
				between = true
			case k < len(taken) && taken[k], !all[i].calls(m.CallID):
			default:
				open--
				if between && out == nil {
					out, taken = slices.Clone(all[:i+1]), make([]bool, len(all))
					for j := i + 1; j < k; j++ {
						if all[j].Role == ToolResult && all[i].calls(all[j].CallID) {
							out, taken[j] = append(out, all[j]), true
						}
					}
				}
				if out != nil {
					out, taken[k] = append(out, *m), true
				}
			}
		}
	}
	if out == nil {
		return all
	}
	return out
}

func (m *Message) calls(id Literal) bool {
	return slices.ContainsFunc(m.Calls, func(c Call) bool { return !id.Empty() && c.ID.Text() == id.Text() })
}

// rename replaces the names of tools that are longer than most, or have characters beside
// letters, digits, underscores and hyphens.
func (r *Request) rename(most int) map[string]Literal {
	if most == 0 {
		return nil
	}
	var was map[string]Literal
	replace := func(name *Literal) {
		if fits(jsonscan.Inside(*name), most) {
			return
		}
		whole := *name
		text := whole.Text()
		if fits([]byte(text), most) {
			return
		}
		short := shortened(text, most)
		if was == nil {
			was = make(map[string]Literal)
		}
		was[short] = whole
		*name = Quote(short)
	}
	tools := r.Tools
	for i := range tools {
		if tools[i].Other == nil {
			replace(&tools[i].Name)
		}
	}
	replace(&r.ToolChoice.Name)
	for i := range r.Messages {
		m := &r.Messages[i]
		for k := range m.Calls {
			replace(&m.Calls[k].Name)
		}
		if m.Role == ToolResult {
			replace(&m.Name)
		}
	}
	return was
}

func fits(name []byte, most int) bool {
	return len(name) <= most && !slices.ContainsFunc(name, func(c byte) bool { return unplain(rune(c)) })
}

// shortened is a name that fits, and that no other name becomes: it ends with a digest.
func shortened(name string, most int) string {
	const digits = 8
	sum := sha256.Sum256([]byte(name))
	kept := strings.Map(func(c rune) rune {
		if unplain(c) {
			return '_'
		}
		return c
	}, name)
	return kept[:min(len(kept), most-digits-1)] + "_" + hex.EncodeToString(sum[:digits/2])
}

// Renamed is a decoder whose calls have the names that the caller knows tools by.
func Renamed(d Decoder, names map[string]Literal) Decoder {
	if names == nil {
		return d
	}
	return &renamer{d, names}
}

type renamer struct {
	Decoder
	names map[string]Literal
}

func (d *renamer) Whole(body []byte, to Sink) error { return d.Decoder.Whole(body, d.sink(to)) }

func (d *renamer) Message(name string, data []byte, to Sink) error {
	return d.Decoder.Message(name, data, d.sink(to))
}

func (d *renamer) End(to Sink) bool { return d.Decoder.End(d.sink(to)) }

func (d *renamer) sink(to Sink) Sink { return &renamingSink{to, d.names} }

type renamingSink struct {
	to    Sink
	names map[string]Literal
}

func (s *renamingSink) Event(e *Event) {
	if e.Kind == CallStart {
		if name, ok := s.names[e.Name.Text()]; ok {
			e.Name = name
		}
	}
	s.to.Event(e)
}
