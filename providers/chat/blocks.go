package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// blocks are the content_blocks of a message, in which the gateway's own answers carry the
// model's reasoning.
type blocks struct {
	parts []Part
	calls []placedID
}

// A placedID is the id of a call among the blocks.
type placedID struct {
	id Literal
	at int // number of blocks before it
}

func (p *parser) blocks() (b blocks) {
	p.each(func() {
		part := p.part()
		switch {
		case part.Kind == Other:
			if id := calledID(part.Other); id != nil {
				b.calls = append(b.calls, placedID{id, len(b.parts)})
			}
		case part.thought(), part.Kind == Text && part.Text != nil:
			b.parts = append(b.parts, part)
		}
	})
	return b
}

// calledID returns the id of the call that a block stands for, or nil.
func calledID(block Raw) (id Literal) {
	var kind Literal
	r := jsonscan.NewReader(block)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("id"):
			id = r.String()
		}
	})
	if !kind.Is("tool_use") {
		return nil
	}
	return id
}

// withBlocks adds the thinking of a message's content blocks to its parts. If the blocks
// have the same text as the message, they replace its parts and calls, in their order; if a
// client has changed the text, the thinking is put before it.
func (m *Message) withBlocks(b blocks) {
	if len(b.parts) == 0 || slices.ContainsFunc(m.Parts, Part.thought) {
		return
	}
	text := !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind != Text || p.Cache != nil })
	if !text || !bytes.Equal(JoinText(m.Parts), JoinText(b.parts)) {
		thoughts := slices.DeleteFunc(b.parts, func(p Part) bool { return p.Kind == Text })
		m.Parts = append(thoughts, m.Parts...)
		return
	}
	m.Parts = b.parts
	for _, c := range b.calls {
		for i := range m.Calls {
			if m.Calls[i].ID.Text() == c.id.Text() {
				m.Calls[i].Before = len(b.parts) - c.at
			}
		}
	}
}
