package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Limits are restrictions of a provider on requests. A zero value means no limit.
type Limits struct {
	// ToolName is the maximum length of a tool's name, which then consists of letters,
	// digits, underscores and hyphens. Other names are replaced, and restored in the
	// answer.
	ToolName int
	// User is the maximum length of the end user's id in characters. Longer ids are cut.
	User int
	// NoEmail is set if the end user's id must not be an email address. Such an id is
	// dropped.
	NoEmail bool
	// NeedsUser is set if a conversation needs more than system messages. If it has nothing
	// else, they are sent as user messages.
	NeedsUser bool
	// SystemFirst is set if only the first message may be a system message, as in the chat
	// templates of most open models. Later ones are added to it.
	SystemFirst bool
	// NoAllowedTools is set if the provider does not know a tool_choice of type allowed_tools. Only
	// those tools are sent then, as they are in every translated request.
	NoAllowedTools bool
	// NoUserAfterResult is set if the model must speak between tool results and the user.
	NoUserAfterResult bool
	// UserFirst is set if the first turn must be the user's.
	UserFirst bool
}

// Arrange normalizes a request within the provider's limits: it keeps only the tools that
// the caller allows, drops a tool choice without tools, and moves tool results right behind
// the calls, and system messages to where the provider takes them. It returns the original names of renamed tools, by their new names.
func (r *Request) Arrange(l Limits) map[string]Literal {
	r.allow()
	if len(r.Tools) == 0 {
		r.ToolChoice, r.Parallel = ToolChoice{}, nil
	}
	r.Messages = ResultsFirst(r.Messages)
	if l.SystemFirst {
		r.systemFirst()
	}
	if l.NeedsUser {
		r.needUser()
	}
	if l.NoUserAfterResult {
		r.separateResults()
	}
	if l.UserFirst {
		r.userFirst()
	}
	r.pictures()
	r.user(l)
	return r.rename(l.ToolName)
}

func (r *Request) user(l Limits) {
	if r.User != nil {
		r.User = l.UserID(r.User)
	}
}

// UserID returns the id of an end user as the provider takes it, or nil if it takes none of
// its kind.
func (l Limits) UserID(id Literal) Literal {
	switch {
	case l.NoEmail && strings.Contains(id.Text(), "@"):
		return nil
	case l.User > 0 && id.Len() > l.User:
		return Quote(string([]rune(id.Text())[:l.User]))
	}
	return id
}

// paragraph separates system messages that become one.
var paragraph = Part{Kind: Text, Text: Literal(`"\n\n"`)}

// systemFirst makes all system messages one, which comes first. Agents add instructions in the
// middle of a conversation: Claude Code reminders, Codex messages of developers.
func (r *Request) systemFirst() {
	isSystem := func(m Message) bool { return m.Role == System }
	if i := slices.IndexFunc(r.Messages, isSystem); i < 0 || i == 0 && !slices.ContainsFunc(r.Messages[1:], isSystem) {
		return
	}
	first := Message{Role: System}
	out := make([]Message, 1, len(r.Messages)+1)
	for _, m := range r.Messages {
		if m.Role != System {
			out = append(out, m)
			continue
		}
		if !slices.ContainsFunc(m.Parts, Part.hasContent) {
			continue
		}
		if first.Parts != nil {
			first.Parts = append(first.Parts, paragraph)
		}
		first.Parts = append(first.Parts, m.Parts...)
	}
	if out[0] = first; first.Parts == nil {
		out = out[1:]
	}
	r.Messages = out
}

// acknowledgement is what the model says between results and the user, where it must.
var acknowledgement = Message{Role: Assistant, Parts: []Part{{Kind: Text, Text: Literal(`"OK."`)}}}

// separateResults puts a message of the model between results of tools and the user's next
// words, which a client has if the user interrupted the model.
func (r *Request) separateResults() {
	n := 0
	for i := range r.Messages {
		if r.interrupted(i) {
			n++
		}
	}
	if n == 0 {
		return
	}
	out := make([]Message, 0, len(r.Messages)+n)
	for i := range r.Messages {
		if r.interrupted(i) {
			out = append(out, acknowledgement)
		}
		out = append(out, r.Messages[i])
	}
	r.Messages = out
}

// opening is what the user says first, where the model must not speak first.
var opening = Message{Role: User, Parts: []Part{{Kind: Text, Text: Literal(`"Continue."`)}}}

// userFirst puts a message of the user before the first turn if that is the model's, as in a
// conversation whose older half was dropped.
func (r *Request) userFirst() {
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role == System || len(m.Calls) == 0 && !slices.ContainsFunc(m.Parts, Part.hasContent) {
			continue
		}
		if m.Role == Assistant {
			r.Messages = slices.Insert(slices.Clone(r.Messages), i, opening)
		}
		return
	}
}

// pictures makes images of the files that are images, which providers take as such.
func (r *Request) pictures() {
	for i := range r.Messages {
		for k := range r.Messages[i].Parts {
			if p := &r.Messages[i].Parts[k]; p.Kind == File && p.FileID == nil && strings.HasPrefix(p.MediaType, "image/") {
				p.Kind = Image
			}
		}
	}
}

// interrupted reports whether a message of the user follows a result.
func (r *Request) interrupted(i int) bool {
	return i > 0 && r.Messages[i].Role == User && r.Messages[i-1].Role == ToolResult
}

// needUser turns the system messages into user messages if there are no others.
func (r *Request) needUser() {
	for i := range r.Messages {
		if m := &r.Messages[i]; m.Role != System && (len(m.Calls) > 0 || slices.ContainsFunc(m.Parts, Part.hasContent)) {
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

// hasContent reports whether a part is more than blank text.
func (p Part) hasContent() bool { return p.Kind != Text && p.Kind != Refusal || !p.Text.Blank() }

// allow removes the tools that the tool choice does not allow.
func (r *Request) allow() {
	allowed := r.ToolChoice.Allowed
	if allowed == nil {
		return
	}
	r.ToolChoice.Allowed = nil
	names := namesOf(allowed)
	r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t Tool) bool { return !t.among(names) })
}

// namesOf returns a set of names.
func namesOf(names []Literal) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name.Text()] = true
	}
	return set
}

// among reports whether the name of a tool is in a set: that of a function, and the name or the type of other tools.
func (t Tool) among(names map[string]bool) bool {
	if t.Other == nil {
		return names[t.Name.Text()]
	}
	named := false
	r := jsonscan.NewReader(t.Other)
	r.Object(func(key jsonscan.Key) {
		if (key.Is("type") || key.Is("name")) && r.Kind() == jsonscan.String {
			named = named || names[Literal(r.String()).Text()]
		}
	})
	return named
}

// ResultsFirst moves the results of a turn's calls right behind the turn. If they are there, it
// returns the same slice. Each call has the first result behind it that no earlier call has. The time does not depend
// on how many calls have no result, and results no call.
func ResultsFirst(all []Message) []Message {
	if inPlace(all) {
		return all
	}
	results := make(map[string][]int) // by the id of their call, those that no call has
	for i := range all {
		if id := all[i].CallID; all[i].Role == ToolResult && !id.Empty() {
			results[id.Text()] = append(results[id.Text()], i)
		}
	}
	var (
		out   []Message // nil: unchanged so far
		taken []bool
		own   []int
		other int // the first message behind the turn that is no result
	)
	for i := range all {
		if out != nil {
			if taken[i] {
				continue
			}
			out = append(out, all[i])
		}
		if all[i].Role != Assistant || len(all[i].Calls) == 0 {
			continue
		}
		own = own[:0]
		for k := range all[i].Calls {
			id := all[i].Calls[k].ID.Text()
			left := results[id]
			for len(left) > 0 && left[0] < i {
				left = left[1:]
			}
			if len(left) > 0 {
				own, left = append(own, left[0]), left[1:]
				results[id] = left
			}
		}
		if len(own) == 0 {
			continue
		}
		slices.Sort(own)
		for other = max(other, i+1); other < len(all) && all[other].Role == ToolResult; {
			other++
		}
		if out == nil && own[len(own)-1] < other { // nothing stands between
			continue
		}
		if out == nil {
			out, taken = slices.Clone(all[:i+1]), make([]bool, len(all))
		}
		for _, k := range own {
			out, taken[k] = append(out, all[k]), true
		}
	}
	if out == nil {
		return all
	}
	return out
}

// inPlace reports whether all results stand right behind their calls.
func inPlace(all []Message) bool {
	var placed Placed
	for i := range all {
		switch m := &all[i]; {
		case m.Role == Assistant && len(m.Calls) > 0:
			placed.Turn()
			for k := range m.Calls {
				placed.Call(m.Calls[k].ID)
			}
		case m.Role != ToolResult:
			placed.Other()
		case !placed.Result(m.CallID):
			return false
		}
	}
	return true
}

// Renames are tools whose names a provider would refuse: they are too long, or have other
// characters than letters, digits, underscores and hyphens.
type Renames struct {
	Most int                // the maximum length; 0: any name will do
	Was  map[string]Literal // the original names, by what they are replaced with; nil: none is
}

// Of returns what a name is replaced with, or nil if it stays.
func (n *Renames) Of(name Literal) Literal {
	if n.Most == 0 || fits(jsonscan.Inside(name), n.Most) {
		return nil
	}
	text := name.Text()
	if fits([]byte(text), n.Most) {
		return nil
	}
	short := shortened(text, n.Most)
	if n.Was == nil {
		n.Was = make(map[string]Literal)
	}
	n.Was[short] = bytes.Clone(name)
	return Quote(short)
}

// rename replaces the names of tools that the provider would refuse, and returns the original ones.
func (r *Request) rename(most int) map[string]Literal {
	names := Renames{Most: most}
	replace := func(name *Literal) {
		if short := names.Of(*name); short != nil {
			*name = short
		}
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
	return names.Was
}

func fits(name []byte, most int) bool {
	return len(name) <= most && !slices.ContainsFunc(name, func(c byte) bool { return unplain(rune(c)) })
}

// shortened returns a name that fits. It ends with a digest, so that different names stay
// different.
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

// Renamed wraps a decoder so that calls have the original names of their tools.
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

func (d *renamer) Body(body []byte, to Sink) error { return d.Decoder.Body(body, d.sink(to)) }

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
