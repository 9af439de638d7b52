package chat

// An EventKind is the kind of an event.
type EventKind uint8

// The kinds of events, in the order in which an answer has them. In a stream, texts and
// arguments come in pieces.
const (
	Start        EventKind = iota // ID, Model and Created of the answer, if known
	TextPiece                     // Text of the answer
	TextSeal                      // Signature of the preceding text
	RefusalPiece                  // Text of a refusal
	ThoughtPiece                  // Text of its reasoning
	ThoughtSeal                   // Signature of the preceding reasoning
	ThoughtBlob                   // redacted reasoning, in Text
	CallStart                     // the start of a tool call: Tool, ID, Name, Signature
	CallPiece                     // arguments: Tool, and Text, a piece of JSON as a literal
	CallEnd                       // the call Tool is complete, where the provider says so
	LogProbs                      // Raw, in OpenAI's form
	Annotation                    // Raw, a citation in OpenAI's form
	WebSearch                     // a search of the web that the provider has made: ID, and the query in Text
	Finish                        // the choice ends: Finish, RawFinish
	UsageEvent                    // Usage so far
	Failure                       // the answer ends with an error: its message in Text, its type in Name
)

// Block reports whether the event is of text or reasoning, which content blocks hold.
func (k EventKind) Block() bool {
	switch k {
	case TextPiece, TextSeal, RefusalPiece, ThoughtPiece, ThoughtSeal, ThoughtBlob:
		return true
	}
	return false
}

// An Event is a piece of an answer.
type Event struct {
	Kind   EventKind
	Choice int // 0 for the first
	Tool   int // index of the call within the choice

	ID, Model Literal
	Created   int64 // Unix seconds; 0: unknown
	Name      Literal
	Text      Literal
	Signature Literal
	Raw       Raw

	Finish    FinishReason
	RawFinish Literal // the provider's own value

	Usage Usage
}

// A FinishReason is why a choice ended.
type FinishReason uint8

// The reasons.
const (
	Stop FinishReason = iota
	Length
	ToolCalls
	ContentFilter
)

// String returns OpenAI's name of the reason.
func (f FinishReason) String() string {
	return [...]string{"stop", "length", "tool_calls", "content_filter"}[f]
}

// A Sink receives the events of an answer, in order. An event is valid until Event returns.
type Sink interface{ Event(e *Event) }

// A Decoder decodes one answer of a provider: either Body, for a complete answer with
// status 200; or Message for each message of a stream, and then End. Invalid JSON is an
// error; a message without content is not.
type Decoder interface {
	Body(body []byte, to Sink) error
	Message(name string, data []byte, to Sink) error
	// End reports whether the stream was complete when it ended.
	End(to Sink) (whole bool)
}
