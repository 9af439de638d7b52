package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Message collects the events of an answer and writes it as one message.
type Message struct {
	chat.Style
	events Events
	blocks []piece
	failed *chat.Event
}

// A piece is a content block that is being collected.
type piece struct {
	kind      blockKind
	tool      int
	text      []byte // without the quotes: the text, the data or the arguments
	signature []byte
	id, name  chat.Literal
}

// Event handles an event.
func (m *Message) Event(e *chat.Event) {
	if e.Choice != 0 || m.events.note(e) {
		return
	}
	switch e.Kind {
	case chat.Failure:
		m.failed = &chat.Event{Kind: chat.Failure, Text: append(chat.Literal(nil), e.Text...), Name: append(chat.Literal(nil), e.Name...)}
	case chat.TextPiece, chat.RefusalPiece:
		m.block(textBlock).add(e.Text)
	case chat.ThoughtPiece:
		m.block(thinkingBlock).add(e.Text)
	case chat.ThoughtSeal:
		p := m.block(thinkingBlock)
		p.signature = append(p.signature, jsonscan.Inside(e.Signature)...)
	case chat.ThoughtBlob:
		m.blocks = append(m.blocks, piece{kind: redactedBlock})
		m.blocks[len(m.blocks)-1].add(e.Text)
	case chat.CallStart:
		m.events.called = true
		if !e.Signature.Empty() {
			m.blocks = append(m.blocks, piece{kind: redactedBlock})
			m.blocks[len(m.blocks)-1].add(appendSeal(m.Dialect, e.Signature))
		}
		m.blocks = append(m.blocks, piece{
			kind: toolBlock, tool: e.Tool, id: append(chat.Literal(nil), e.ID...), name: append(chat.Literal(nil), e.Name...),
		})
	case chat.CallPiece:
		for i := len(m.blocks) - 1; i >= 0; i-- { // nearly always the last one
			if p := &m.blocks[i]; p.kind == toolBlock && p.tool == e.Tool {
				p.add(e.Text)
				return
			}
		}
	}
}

func (p *piece) add(text chat.Literal) { p.text = append(p.text, jsonscan.Inside(text)...) }

// block returns the current block if it is of the given kind, or a new one.
func (m *Message) block(kind blockKind) *piece {
	n := len(m.blocks)
	if n == 0 || m.blocks[n-1].kind != kind || kind == thinkingBlock && m.blocks[n-1].signature != nil {
		m.blocks = append(m.blocks, piece{kind: kind})
		n++
	}
	return &m.blocks[n-1]
}

// Failed returns the error that the provider answered with, or nil.
func (m *Message) Failed() *chat.Event { return m.failed }

// Append appends the message.
func (m *Message) Append(dst []byte) []byte {
	b := jsonscan.Builder(dst)
	m.events.Style = m.Style
	m.events.head(&b)
	b.Key("content").Open('[')
	for i := range m.blocks {
		p := &m.blocks[i]
		if p.kind == textBlock && len(p.text) == 0 { // the API refuses an empty text block when it is sent back
			continue
		}
		b.Open('{')
		b.Key("type").Text(p.kind.String())
		switch p.kind {
		case textBlock:
			b.Key("text").Quoted(p.text)
		case thinkingBlock:
			b.Key("thinking").Quoted(p.text)
			b.Key("signature").Quoted(p.signature)
		case redactedBlock:
			b.Key("data").Quoted(p.text)
		case toolBlock:
			b.Key("id").Raw(text(p.id))
			b.Key("name").Raw(text(p.name))
			call := chat.Call{Arguments: append(append([]byte{'"'}, p.text...), '"')}
			b.Key("input").Raw(call.Input())
		}
		b.Close('}')
	}
	b.Close(']')
	b.Key("stop_reason").Text(m.events.reason())
	b.Key("stop_sequence").Raw([]byte("null"))
	b.Key("usage")
	appendUsage(&b, m.events.usage)
	b.Close('}')
	return b
}

type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	redactedBlock
	toolBlock
)

func (k blockKind) String() string {
	return [...]string{"", "text", "thinking", "redacted_thinking", "tool_use"}[k]
}

// AppendCount appends the answer to a request for the number of tokens of a call.
func AppendCount(dst []byte, tokens int64) []byte {
	b := jsonscan.Builder(dst)
	b.Open('{')
	b.Key("input_tokens").Int(tokens)
	b.Close('}')
	return b
}

func appendUsage(b *jsonscan.Builder, u chat.Usage) {
	b.Open('{')
	b.Key("input_tokens").Int(max(0, u.Prompt-u.CacheRead-u.CacheWrite))
	b.Key("cache_creation_input_tokens").Int(u.CacheWrite)
	if u.CacheHour > 0 {
		b.Key("cache_creation").Open('{')
		b.Key("ephemeral_5m_input_tokens").Int(max(0, u.CacheWrite-u.CacheHour))
		b.Key("ephemeral_1h_input_tokens").Int(u.CacheHour)
		b.Close('}')
	}
	b.Key("cache_read_input_tokens").Int(u.CacheRead)
	b.Key("output_tokens").Int(u.Completion)
	u.AppendSearches(b)
	b.Close('}')
}
