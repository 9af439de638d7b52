package hooks

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A Track is one of the texts of a stream, which comes in pieces.
type Track struct {
	Kind  string // the member that it is in, such as content
	Index int    // of the choice, the block or the item
	Part  int    // in it
}

// A Piece is a part of a text in an event.
type Piece struct {
	Track
	Span
	// Whole: the event repeats all of the text, which has ended.
	Whole bool
}

// An Event is what an event of a stream has to be judged.
type Event struct {
	Pieces []Piece // in the order in which they stand
	Ends   []int   // indices of tracks that end with the event
	All    bool    // all of them do
}

// Pieces returns the pieces of text in the data of an event, which is valid JSON in the dialect of
// an endpoint.
func Pieces(endpoint string, data []byte, scope Scope) Event {
	p := &pieces{walker: walker{s: data, scope: scope}, kind: gjson.GetBytes(data, "type").Str}
	read := map[string]func(key string, at int){
		"chatComplete": p.chat, "complete": p.chat, "messages": p.messages, "createModelResponse": p.responses,
	}[endpoint]
	if read == nil {
		return Event{}
	}
	if endpoint == "messages" || endpoint == "createModelResponse" {
		p.track.Index = int(gjson.GetBytes(data, map[bool]string{true: "index", false: "output_index"}[endpoint == "messages"]).Int())
	}
	_ = jsonscan.Members(data, func(m jsonscan.Member) error {
		read(m.Key.String(), m.Start)
		return nil
	})
	return p.found
}

// pieces collects the pieces in an event.
type pieces struct {
	walker
	kind  string // of the event
	track Track
	whole bool
	found Event
}

// add adds the string at a position to a text.
func (p *pieces) add(kind string, part, at int) {
	if p.s.Kind(at) != jsonscan.String {
		return
	}
	if end, _, err := p.s.String(at); err == nil {
		p.found.Pieces = append(p.found.Pieces, Piece{Track{kind, p.track.Index, part}, Span{at, end}, p.whole})
	}
}

// integer is the number at a position.
func (p *pieces) integer(at int) int {
	end, err := p.s.Value(at, 1)
	if err != nil {
		return 0
	}
	return int(gjson.ParseBytes(p.s[at:end]).Int())
}

// member returns the integer in a member of the object at a position, or another one.
func (p *pieces) member(at int, name string, other int) (n int) {
	n = other
	p.object(at, func(key string, at int) {
		if key == name {
			n = p.integer(at)
		}
	})
	return n
}

// chat reads a member of a chunk of a chat or a text completion.
func (p *pieces) chat(key string, at int) {
	if key != "choices" {
		return
	}
	n := -1
	p.array(at, func(at int) {
		n++
		p.track.Index = max(p.member(at, "index", n), 0) // none is before the first
		if p.track.Index > 0 && !p.scope.Choices {
			return
		}
		p.object(at, func(key string, at int) {
			switch key {
			case "text":
				p.add("text", 0, at)
			case "delta", "message":
				p.object(at, p.delta)
			case "finish_reason":
				if p.s.Kind(at) == jsonscan.String {
					p.found.Ends = append(p.found.Ends, p.track.Index)
				}
			}
		})
	})
}

// delta reads a member of the delta of a chat's choice.
func (p *pieces) delta(key string, at int) {
	list := func(visit func(n, at int)) {
		n := -1
		p.array(at, func(at int) {
			n++
			visit(p.member(at, "index", n), at)
		})
	}
	switch {
	case key == "content", key == "refusal", thoughts[key]:
		p.add(key, 0, at)
		list(func(n, at int) {
			if key == "content" {
				n = 0 // parts of one text
			}
			p.object(at, func(member string, at int) {
				if member == "text" || member == "summary" {
					p.add(key, n, at)
				}
			})
		})
	case key == "audio":
		p.object(at, func(key string, at int) {
			if key == "transcript" {
				p.add(key, 0, at)
			}
		})
	case key == "tool_calls" && p.scope.ToolArguments:
		list(func(n, at int) {
			p.object(at, func(key string, at int) {
				if key == "function" || key == "custom" {
					p.object(at, func(key string, at int) {
						if key == "arguments" || key == "input" {
							p.add("arguments", n, at)
						}
					})
				}
			})
		})
	}
}

// messages reads a member of an event of Messages.
func (p *pieces) messages(key string, at int) {
	switch {
	case p.kind == "content_block_stop" && key == "index":
		p.found.Ends = append(p.found.Ends, p.track.Index)
	case p.kind == "message_stop":
		p.found.All = true
	case key == "content_block", key == "delta" && p.kind == "content_block_delta":
		p.object(at, func(key string, at int) {
			switch {
			case key == "text" || key == "thinking":
				p.add(key, 0, at)
			case key == "partial_json" && p.scope.ToolArguments:
				p.add(key, 0, at)
			}
		})
	}
}

// responseTexts are the texts in the events of Responses, by the middle of their types: the kind of
// the track, and the member that says which part it is.
var responseTexts = map[string][2]string{
	"output_text": {"text", "content_index"}, "refusal": {"refusal", "content_index"}, "reasoning_text": {"reasoning", "content_index"},
	"reasoning_summary_text": {"summary", "summary_index"}, "reasoning_summary_part": {"summary", "summary_index"}, "content_part": {"", "content_index"},
	"function_call_arguments": {"arguments", ""}, "custom_tool_call_input": {"arguments", ""}, "mcp_call_arguments": {"arguments", ""},
	"output_item": {},
}

// responses reads a member of an event of Responses.
func (p *pieces) responses(key string, at int) {
	name, phase, _ := strings.Cut(strings.TrimPrefix(p.kind, "response."), ".")
	if key == "response" && (name == "completed" || name == "incomplete" || name == "failed") {
		p.whole, p.found.All = true, true
		p.object(at, func(key string, at int) {
			if key == "output" {
				p.track.Index = -1
				p.array(at, func(at int) {
					p.track.Index++
					p.item(at)
				})
			}
		})
		return
	}
	text, known := responseTexts[name]
	if !known {
		return
	}
	p.whole = phase == "done"
	part := int(gjson.GetBytes(p.s, text[1]).Int())
	switch {
	case text[0] == "arguments" && !p.scope.ToolArguments:
	case key == "item":
		p.item(at)
	case key == "part":
		p.part(text[0], part, at)
	case key == "delta" && phase == "delta", phase == "done" && (key == "text" || key == "refusal" || key == "arguments" || key == "input"):
		p.add(text[0], part, at)
	}
}

// item reads an item of a response.
func (p *pieces) item(at int) {
	kind := ""
	p.object(at, func(key string, at int) {
		if key == "type" {
			kind = p.string(at)
		}
	})
	p.object(at, func(key string, at int) {
		of := ""
		switch {
		case (key == "arguments" || key == "input") && p.scope.ToolArguments:
			p.add("arguments", 0, at)
		case key == "summary":
			of = "summary"
		case key == "content" && kind == "reasoning":
			of = "reasoning"
		}
		if key == "summary" || key == "content" {
			n := -1
			p.array(at, func(at int) {
				n++
				p.part(of, n, at)
			})
		}
	})
}

// part reads a part of an item: of reasoning, or of a message.
func (p *pieces) part(of string, n, at int) {
	p.object(at, func(key string, at int) {
		switch {
		case key == "refusal", key == "text" && of == "":
			p.add(key, n, at)
		case key == "text":
			p.add(of, n, at)
		}
	})
}
