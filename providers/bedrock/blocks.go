package bedrock

import (
	"strconv"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/messages"
)

// messages writes the turns. Roles must alternate, so consecutive messages of one role are
// merged, which also keeps the results of one turn's calls together.
func (w *writer) messages(all []chat.Message) error {
	for i := range all {
		m := &all[i]
		at := "messages[" + strconv.Itoa(i) + "]"
		var err error
		switch m.Role {
		case chat.User, chat.Assistant:
			err = w.message(m, at)
		case chat.ToolResult:
			err = w.result(m, at)
		}
		if err != nil {
			return err
		}
	}
	w.endTurn()
	return nil
}

// turn starts a turn of a role, or continues it.
func (w *writer) turn(role chat.Role) {
	if !w.In(role) {
		w.endTurn()
	}
	w.Turn(role)
}

// endTurn ends a turn. Converse refuses one that has documents and no text.
func (w *writer) endTurn() {
	if w.documents && !w.texts {
		w.text(chat.Literal(`"See the document."`))
	}
	w.documents, w.texts = false, false
	w.End()
}

func (w *writer) message(m *chat.Message, at string) error {
	return m.Each(func(p *chat.Part) error {
		if !messages.Sendable(p) {
			return nil
		}
		w.turn(m.Role)
		w.texts = w.texts || p.Kind == chat.Text || p.Kind == chat.Refusal
		w.documents = w.documents || p.Kind == chat.File
		if err := w.part(p, at); err != nil {
			return err
		}
		w.cachePoint(p.Cache)
		return nil
	}, func(c *chat.Call) error {
		w.turn(m.Role)
		w.Open('{')
		w.Key("toolUse").Open('{')
		w.Key("toolUseId").Raw(callID(c.ID))
		w.Member("name", c.Name)
		w.Key("input").Raw(c.Input())
		w.Close('}')
		w.Close('}')
		w.cachePoint(c.Cache)
		return nil
	})
}

func (w *writer) result(m *chat.Message, at string) error {
	w.turn(chat.User)
	w.Open('{')
	w.Key("toolResult").Open('{')
	w.Key("toolUseId").Raw(callID(m.CallID))
	w.Key("content").Open('[')
	var cache chat.Raw
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Cache != nil { // cache points are not allowed inside a result, so it is written after it
			cache = p.Cache
		}
		if !messages.Sendable(p) {
			continue
		}
		if err := w.part(p, at); err != nil {
			return err
		}
	}
	w.Close(']')
	if m.Failed {
		w.Key("status").Text("error")
	}
	w.Close('}')
	w.Close('}')
	w.cachePoint(cache)
	return nil
}

func (w *writer) text(l chat.Literal) {
	w.Open('{')
	w.Key("text").Raw(l)
	w.Close('}')
}

func (w *writer) part(p *chat.Part, at string) error {
	switch p.Kind {
	case chat.Text, chat.Refusal:
		w.text(p.Text)
	case chat.Thinking:
		w.Open('{')
		w.Key("reasoningContent").Open('{')
		w.Key("reasoningText").Open('{')
		w.Key("text").Raw(orEmpty(p.Text))
		w.Key("signature").Raw(p.Signature)
		w.Close('}')
		w.Close('}')
		w.Close('}')
	case chat.Redacted:
		w.Open('{')
		w.Key("reasoningContent").Open('{')
		w.Key("redactedContent").Quoted(p.Data)
		w.Close('}')
		w.Close('}')
	case chat.Other:
		return &chat.Unsupported{Param: at + ".content", Message: "Bedrock takes text, images, documents and audio only"}
	default:
		return w.media(p, at)
	}
	return nil
}

const maxCallID = 64

// callID converts a call id to one that Converse accepts.
func callID(id chat.Literal) chat.Literal {
	if id.Empty() {
		return chat.Literal(`"_"`)
	}
	return chat.PlainID(id, maxCallID)
}
