// Package chat is a conversation with a model in no provider's words: what a call
// asks for ([Request]), and what a model says, piece by piece ([Event]). Dialects read
// and write it: those of callers (Chat Completions, Messages, Responses) parse requests
// and write answers, those of providers write requests and parse answers. With it, any
// of the one speaks to any of the other.
//
// Nothing is decoded that is only passed on. Values stand as they did in the body they
// came in: text is a JSON string with its quotes and escapes (a [Literal]), and a schema
// or a number is its bytes. They are valid as long as that body is.
//
// The package is pure: no HTTP, no clock, no random source.
package chat

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/prices"
)

// A Literal is a JSON string as it stands in a body, quotes included; nil is none.
type Literal []byte

// Quote makes a literal of a text.
func Quote(s string) Literal { return jsonscan.AppendQuoted(nil, s) }

// Blank reports whether there is no text but space.
func (l Literal) Blank() bool {
	if l.Empty() {
		return true
	}
	if c := l[1]; c > ' ' && c != '\\' && c < utf8.RuneSelf {
		return false
	}
	return strings.TrimSpace(l.Text()) == ""
}

// Text is the decoded text.
func (l Literal) Text() string {
	if len(l) < 2 {
		return ""
	}
	return jsonscan.Unquote(l)
}

// Empty reports whether there is no text.
func (l Literal) Empty() bool { return len(l) <= 2 }

// Len is the number of characters of the text.
func (l Literal) Len() int {
	if l.escaped() {
		return utf8.RuneCountInString(l.Text())
	}
	return max(0, utf8.RuneCount(l)-2)
}

// Is reports whether the text is s.
func (l Literal) Is(s string) bool {
	return len(l) >= 2 && (string(l[1:len(l)-1]) == s || l.escaped() && l.Text() == s)
}

func (l Literal) escaped() bool {
	for _, c := range l {
		if c == '\\' {
			return true
		}
	}
	return false
}

// Raw is a JSON value as it stands in a body; nil is none.
type Raw []byte

// A Request is what a call asks a model for. Null is absent.
type Request struct {
	Model    Literal
	Messages []Message

	Tools      []Tool
	ToolChoice ToolChoice
	Functions  bool // the tools are functions, as calls had before tools: so is the answer's
	Parallel   Raw  // whether several tools may be called at once; true or false

	MaxTokens        Raw
	Temperature      Raw
	TopP             Raw
	TopK             Raw
	Seed             Raw
	N                Raw
	FrequencyPenalty Raw
	PresencePenalty  Raw
	LogitBias        Raw
	LogProbs         Raw
	TopLogProbs      Raw
	Stop             []Literal
	Format           Format
	Thinking         Raw // {"type":"enabled","budget_tokens":n}
	Effort           Literal
	User             Literal
	Metadata         Raw
	Stream           bool
	IncludeUsage     bool // the caller asked for a stream's usage

	// Extra are the members that no dialect shares, such as safe_prompt. A dialect picks
	// those of its provider by name.
	Extra []Member

	called map[string][]placedCall // by id, once somebody asked
}

// A Member is one member of an object.
type Member struct {
	Name  string
	Value Raw
}

// Lookup returns the extra member name, or nil.
func (r *Request) Lookup(name string) Raw {
	for i := range r.Extra {
		if r.Extra[i].Name == name {
			return r.Extra[i].Value
		}
	}
	return nil
}

// A Role is who speaks.
type Role uint8

// The roles. Of a Tool message, CallID says which call it answers.
const (
	User Role = iota
	System
	Assistant
	ToolResult
)

// A Message is one turn.
type Message struct {
	Role  Role
	Parts []Part
	Calls []Call // of an assistant

	CallID Literal // of a tool's result
	Name   Literal // of a tool's result: the function, where the caller says it
	Failed bool    // of a tool's result: the tool failed
}

// Add adds a part at the end of the message, after its calls.
func (m *Message) Add(parts ...Part) {
	for i := range m.Calls {
		m.Calls[i].Before += len(parts)
	}
	m.Parts = append(m.Parts, parts...)
}

// Each visits the parts and calls of the message in their order, until an error.
func (m *Message) Each(part func(*Part) error, call func(*Call) error) error {
	next := 0
	for i := 0; i <= len(m.Parts); i++ {
		for ; next < len(m.Calls) && m.Calls[next].Before >= len(m.Parts)-i; next++ {
			if err := call(&m.Calls[next]); err != nil {
				return err
			}
		}
		if i < len(m.Parts) {
			if err := part(&m.Parts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A PartKind is what a part of a message is.
type PartKind uint8

// The kinds of parts.
const (
	Text PartKind = iota
	Image
	File // a document
	Audio
	Thinking // of an assistant; Signature is the provider's seal on it
	Redacted // thinking that only the provider can read, in Data
	Refusal  // of an assistant, in Text
	Other    // of a provider's own, in Other
)

// A Part is a piece of a message.
type Part struct {
	Kind PartKind
	Text Literal

	// Of an image, a document or audio: a URL, or the data with its media type, or the
	// id of a file that the provider holds.
	URL       Literal
	MediaType string
	Data      []byte // base64, as it stands between quotes
	FileID    Literal
	Name      Literal
	Detail    Literal

	Signature Literal // of thinking; of text, what Google wants back
	Cache     Raw     // cache_control: the prompt up to here is to be cached

	// Other is a part of a kind that is not known, as it stands; the rest is empty. It
	// goes on to who may know it, and is refused by who does not ([Request.Only]): a
	// prompt is never shortened in silence.
	Other Raw
}

// A Call is a call of a tool by the model.
type Call struct {
	ID        Literal
	Name      Literal
	Arguments Literal // a JSON object as text
	Signature Literal // of the thought that led to it
	Cache     Raw
	Before    int // how many parts of its message follow it, as when a model thinks between calls
}

// Input is the arguments as an object: {} where there are none, or where they are not one.
func (c *Call) Input() Raw {
	text := []byte(c.Arguments.Text())
	if jsonscan.Members(text, nil) != nil {
		return Raw("{}")
	}
	return text
}

// A Tool is a function that the model may call.
type Tool struct {
	Name        Literal
	Description Literal
	Parameters  Raw // JSON schema; nil: it takes none
	Strict      Raw
	Cache       Raw
	Extra       []Member // that no dialect shares, such as defer_loading
	// Other is a tool of a provider's own, as it stands; the rest is empty.
	Other Raw
}

// A ToolMode is how free the model is to call tools.
type ToolMode uint8

// The modes. Unset leaves it to the provider.
const (
	Unset ToolMode = iota
	Auto
	None
	Required
	Named
)

// A ToolChoice says whether the model must call a tool.
type ToolChoice struct {
	Mode ToolMode
	Name Literal // of the one to call, if Named
	// Allowed are the names of the functions, and the types of other tools, that may be
	// called; nil: all.
	Allowed []Literal
}

// A FormatKind is what the answer must be.
type FormatKind uint8

// The kinds of formats.
const (
	FormatUnset FormatKind = iota
	FormatText
	FormatJSON
	FormatSchema
)

// A Format is the form of the answer that is asked for.
type Format struct {
	Kind        FormatKind
	Name        Literal
	Description Literal
	Schema      Raw
	Strict      Raw
}

// System returns the parts of every system message, in order.
func (r *Request) System() []Part {
	var parts []Part
	for i := range r.Messages {
		if r.Messages[i].Role == System {
			parts = append(parts, r.Messages[i].Parts...)
		}
	}
	return parts
}

// Room is how many bytes a body is given that a request is written in, which came in one
// of so many: every turn takes some more words in one dialect than in another.
func (r *Request) Room(body int) int {
	const perTurn, beside = 64, 512
	return body + perTurn*len(r.Messages) + beside
}

// Only refuses a request with parts that are of none of some kinds.
func (r *Request) Only(kinds ...PartKind) error {
	for i := range r.Messages {
		for k := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[k]
			if !slices.Contains(kinds, p.Kind) {
				at := "messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(k) + "]"
				return &Unsupported{Param: at, Message: "Invalid value for '" + at + "': the provider takes no content of this type"}
			}
		}
	}
	return nil
}

// Usage is what a provider says was used, in tokens, by the common rules: the prompt
// includes what came from caches and what was written to them, the completion includes
// reasoning.
type Usage struct {
	prices.Usage
	Total int64
}
