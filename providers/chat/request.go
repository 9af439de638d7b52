// Package chat represents conversations with a model independently of any provider: what a
// call asks for ([Request]), and what a model answers, piece by piece ([Event]). The
// dialects of clients (Chat Completions, Messages, Responses) parse requests and write
// answers; those of providers write requests and parse answers. So any client dialect can
// be used with any provider.
//
// Values that are only passed on are not decoded. Text is a JSON string with its quotes and
// escapes (a [Literal]), and a schema or a number is its bytes. They share the memory of
// the body that they come from, and are valid as long as it is.
//
// The package is pure: it uses no HTTP, no clock and no random source.
package chat

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Literal is an encoded JSON string, including the quotes. Nil means absent.
type Literal []byte

// Quote encodes a string as a literal.
func Quote(s string) Literal { return jsonscan.AppendQuoted(nil, s) }

// Blank reports whether the text consists of white space only.
func (l Literal) Blank() bool {
	if l.Empty() {
		return true
	}
	if c := l[1]; c > ' ' && c != '\\' && c < utf8.RuneSelf {
		return false
	}
	return strings.TrimSpace(l.Text()) == ""
}

// Text returns the decoded text.
func (l Literal) Text() string {
	if len(l) < 2 {
		return ""
	}
	return jsonscan.Unquote(l)
}

// Bytes returns the decoded text, which is part of the literal unless that has escapes.
func (l Literal) Bytes() []byte {
	if l.Empty() {
		return nil
	}
	return jsonscan.UnquoteBytes(l)
}

// Empty reports whether the text is empty.
func (l Literal) Empty() bool { return len(l) <= 2 }

// Len returns the number of characters of the text.
func (l Literal) Len() int {
	if l.escaped() {
		return utf8.RuneCountInString(l.Text())
	}
	return max(0, utf8.RuneCount(l)-2)
}

// Is reports whether the text equals s.
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

// Raw is an encoded JSON value. Nil means absent.
type Raw []byte

// A Request is what a call asks a model for. A null member counts as absent.
type Request struct {
	Model    Literal
	Messages []Message

	Tools      []Tool
	ToolChoice ToolChoice
	Functions  bool // the tools came as functions, so the answer must have function calls
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
	Thoughts         bool // the caller asks for a summary of the reasoning
	User             Literal
	Metadata         Raw
	Stream           bool
	IncludeUsage     bool // the caller asked for a stream's usage

	// Extra has the members that dialects do not share, such as safe_prompt. Each
	// provider's dialect picks its own by name.
	Extra []Member

	// Warnings say what of the request was left out although its caller may count on it.
	Warnings []string

	called map[string][]placedCall // by id; made when it is first needed
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

// Warn records that something of the request was left out.
func (r *Request) Warn(what string) { r.Warnings = append(r.Warnings, what) }

// A Role is the role of a message's author.
type Role uint8

// The roles. A tool message answers the call with CallID.
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

	CallID Literal // of a tool result
	Name   Literal // of a tool result: the function, if the caller names it
	Failed bool    // of a tool result: the tool failed
}

// Add appends parts to the message, after its calls.
func (m *Message) Add(parts ...Part) {
	for i := range m.Calls {
		m.Calls[i].Before += len(parts)
	}
	m.Parts = append(m.Parts, parts...)
}

// Each visits the parts and calls of the message in their order, until one returns an
// error.
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

// A PartKind is the kind of a part.
type PartKind uint8

// The kinds of parts.
const (
	Text PartKind = iota
	Image
	File // a document
	Audio
	Thinking // of an assistant; Signature is the provider's
	Redacted // encrypted thinking, in Data
	Refusal  // of an assistant, in Text
	Other    // specific to a provider, in Other
)

// A Part is a piece of a message.
type Part struct {
	Kind PartKind
	Text Literal

	// The source of an image, a document or audio: a URL, data with a media type, or the id
	// of a file that the provider has.
	URL       Literal
	MediaType string
	Data      []byte // base64, without the quotes
	FileID    Literal
	Name      Literal
	Detail    Literal

	Signature Literal // of thinking; Google signs text, too
	Cache     Raw     // cache_control: marks the end of a prefix to be cached

	// Other is a part of an unknown kind, unchanged; all other fields are empty. It is
	// forwarded to providers that may know it and refused for others
	// ([Request.AllowParts]), so that a prompt is never shortened silently.
	Other Raw
}

// A Call is a tool call by the model.
type Call struct {
	ID        Literal
	Name      Literal
	Arguments Literal // a JSON object as a string
	Signature Literal // of the reasoning that led to it
	Cache     Raw
	Before    int // how many parts of its message follow it, since a model may think between calls
}

// Input returns the arguments as an object, which is empty if they are missing or not an
// object.
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
	Parameters  Raw // JSON schema; nil: no parameters
	Strict      Raw
	Cache       Raw
	Extra       []Member // members that dialects do not share, such as defer_loading
	Form        Form     // how the caller knows it
	// Other is a provider's own tool, unchanged; all other fields but Optional are empty.
	Other Raw
	// Optional is set if Other is a tool that runs at the provider and that a model can do
	// without, such as a web search. It is left out for providers that have no such tool
	// ([Request.OwnTools]).
	Optional bool
	// Foreign is set if Other is a tool of another API than the provider's: one of Anthropic's,
	// such as bash_20250124, or a custom tool of OpenAI's.
	Foreign bool
}

// NoForeignTools returns an [*Unsupported] if the request has a tool of another API.
func (r *Request) NoForeignTools() error {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Foreign {
			return &Unsupported{Param: "tools[" + strconv.Itoa(i) + "]", Message: "The provider has no tools of type '" + t.Kind() + "'; send functions"}
		}
	}
	return nil
}

// A ToolMode says whether the model may or must call tools.
type ToolMode uint8

// The modes. With Unset, the provider decides.
const (
	Unset ToolMode = iota
	Auto
	None
	Required
	Named
)

// A ToolChoice says which tools the model may or must call.
type ToolChoice struct {
	Mode ToolMode
	Name Literal // the tool to call, for Named
	// Allowed has the names of the functions and the types of the other tools that may be
	// called. If it is nil, all may be.
	Allowed []Literal
}

// A FormatKind is the kind of an answer's format.
type FormatKind uint8

// The kinds of formats.
const (
	FormatUnset FormatKind = iota
	FormatText
	FormatJSON
	FormatSchema
)

// A Format is the requested format of the answer.
type Format struct {
	Kind        FormatKind
	Name        Literal
	Description Literal
	Schema      Raw
	Strict      Raw
}

// System returns the parts of all system messages, in order.
func (r *Request) System() []Part {
	var parts []Part
	for i := range r.Messages {
		if r.Messages[i].Role == System {
			parts = append(parts, r.Messages[i].Parts...)
		}
	}
	return parts
}

// SizeHint estimates the size in bytes of an encoded request, given the size of the body
// that it was parsed from. Some dialects need more bytes for each turn than others.
func (r *Request) SizeHint(body int) int {
	const perTurn, extra = 64, 512
	return body + perTurn*len(r.Messages) + extra
}

// AllowParts returns an error if the request has parts of other kinds than the given ones.
func (r *Request) AllowParts(kinds ...PartKind) error {
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

// Usage is the number of tokens used. The prompt includes tokens that were read from or
// written to caches, and the completion includes reasoning.
type Usage struct {
	Prompt     int64 // including:
	CacheRead  int64
	CacheWrite int64 // including, for an hour:
	CacheHour  int64
	AudioIn    int64
	ImageIn    int64

	Completion int64 // including:
	AudioOut   int64
	ImageOut   int64
	Reasoning  int64

	WebSearches int64 // that the provider made

	Total int64 // as the provider says it; 0: it does not
}
