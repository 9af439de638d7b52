package chat

// An EventKind is what an event says.
type EventKind uint8

// The kinds of events, in the order in which an answer has them. Of a stream, texts and
// arguments come in pieces.
const (
	Start        EventKind = iota // ID, Model and Created of the answer, where it has them
	TextPiece                     // Text of the answer
	TextSeal                      // Signature of the text before it
	RefusalPiece                  // Text in which the model refuses
	ThoughtPiece                  // Text of its reasoning
	ThoughtSeal                   // Signature of the reasoning before it
	ThoughtBlob                   // redacted reasoning, in Text
	CallStart                     // a call of a tool begins: Tool, ID, Name, Signature
	CallPiece                     // of its arguments: Tool, and Text, a piece of JSON as a literal
	LogProbs                      // Raw, as OpenAI has them
	Annotation                    // Raw, a citation as OpenAI has it
	Finish                        // the choice ends: Finish, RawFinish
	UsageEvent                    // Usage, of all so far
	Failure                       // the answer ends with an error: Text is its message, Name its type
)

// Block reports whether an event is of a text or a thought, as content blocks hold them.
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
	Tool   int // which of the choice's calls, from 0

	ID, Model Literal
	Created   int64 // Unix seconds; 0: unknown
	Name      Literal
	Text      Literal
	Signature Literal
	Raw       Raw

	Finish    FinishReason
	RawFinish Literal // the provider's own word

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

// String is OpenAI's word for the reason.
func (f FinishReason) String() string {
	return [...]string{"stop", "length", "tool_calls", "content_filter"}[f]
}

// A Sink takes the events of an answer, in order. An event is valid until Event returns.
type Sink interface{ Event(e *Event) }

// A Decoder reads the answers of a provider. Whole reads an answer in one piece with
// status 200; the others read one stream: Message each of its messages, End its end.
// A fault in the provider's JSON is an error; a message that says nothing is none.
type Decoder interface {
	Whole(body []byte, to Sink) error
	Message(name string, data []byte, to Sink) error
	// End reports whether the stream came to its end, or broke off before it.
	End(to Sink) (whole bool)
}
