package hooks

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
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
	// Alone: no other event has any of the text, which is no track.
	Alone bool
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
	p := &pieces{walker: walker{s: data, scope: scope, blocks: endpoint == "messages", items: endpoint == "createModelResponse", answer: true}, kind: gjson.GetBytes(data, "type").Str}
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
		p.found.Pieces = append(p.found.Pieces, Piece{Track: Track{kind, p.track.Index, part}, Span: Span{at, end}, Whole: p.whole})
	}
}

// Kinds of texts that only some hooks judge.
const (
	ofCalls   = "arguments" // what tools are called with
	ofResults = "results"   // what they return
)

// alone adds the strings in a member, each of which is a text by itself.
func (p *pieces) alone(kind, key string, at int) {
	before := len(p.spans)
	p.value(key, at)
	for _, s := range p.spans[before:] {
		p.found.Pieces = append(p.found.Pieces, Piece{Track: Track{Kind: kind, Index: p.track.Index}, Span: s, Alone: true})
	}
	p.spans = p.spans[:before]
}

// calls adds the strings in a member that has what a tool is called with, and results those in what
// it returned.
func (p *pieces) calls(key string, at int) {
	if p.scope.ToolArguments {
		p.alone(ofCalls, key, at)
	}
}

func (p *pieces) results(key string, at int) {
	if p.scope.ToolResults {
		p.alone(ofResults, key, at)
	}
}

// piece adds a member with a part of a text, which is named after it, or else the strings in it.
func (p *pieces) piece(key string, at int) {
	if raw := p.raw(at); raw != nil && !unspoken[key] && !opaque(key, raw) {
		p.add(key, 0, at)
	} else if raw == nil {
		p.alone("", key, at)
	}
}

// integer returns the integer in a member of the object at a position, or another one.
func (p *pieces) integer(at int, name string, other int) (n int) {
	n = other
	p.object(at, func(key string, at int) {
		if key == name {
			n = 0
			if end, err := p.s.Value(at, 1); err == nil {
				n = int(gjson.ParseBytes(p.s[at:end]).Int())
			}
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
		p.track.Index = max(p.integer(at, "index", n), 0) // none is before the first
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
			visit(p.integer(at, "index", n), at)
		})
	}
	switch {
	case key == "content_blocks": // they repeat the rest, and are removed
	case key == "content", key == "refusal", thoughts[key]:
		p.add(key, 0, at)
		list(func(n, at int) {
			if key == "content" {
				n = 0 // parts of one text
			}
			if p.s.Kind(at) != jsonscan.Object {
				p.alone("", key, at)
			}
			p.object(at, func(member string, at int) {
				if member == "text" || member == "summary" {
					p.add(key, n, at)
				} else {
					p.alone("", member, at)
				}
			})
		})
		if p.s.Kind(at) == jsonscan.Object {
			p.alone("", key, at)
		}
	case key == "audio":
		p.object(at, func(key string, at int) {
			switch key {
			case "transcript":
				p.add(key, 0, at)
			case "data":
			default:
				p.alone("", key, at)
			}
		})
	case (key == "tool_calls" || key == "function_call") && !p.scope.ToolArguments:
	case key == "function_call":
		p.object(at, func(key string, at int) {
			if key == "arguments" && p.s.Kind(at) == jsonscan.String {
				p.add("function_call", 0, at)
			} else {
				p.calls(key, at)
			}
		})
	case key == "tool_calls":
		list(func(n, at int) {
			p.object(at, func(key string, at int) {
				if key != "function" && key != "custom" {
					p.calls(key, at)
					return
				}
				p.object(at, func(key string, at int) {
					if (key == "arguments" || key == "input") && p.s.Kind(at) == jsonscan.String {
						p.add(ofCalls, n, at)
					} else {
						p.calls(key, at)
					}
				})
			})
		})
	default:
		p.piece(key, at)
	}
}

// messages reads a member of an event of Messages.
func (p *pieces) messages(key string, at int) {
	switch {
	case p.kind == "content_block_stop" && key == "index":
		p.found.Ends = append(p.found.Ends, p.track.Index)
	case p.kind == "message_stop":
		p.found.All = true
	case key == "message":
		p.object(at, func(key string, at int) {
			if key == "content" {
				p.alone("", key, at)
			}
		})
	case key == "content_block":
		kind := p.member(at, "type")
		p.object(at, func(key string, at int) {
			switch {
			case strings.HasSuffix(kind, "tool_use") && key == "input":
				p.calls(key, at)
			case strings.HasSuffix(kind, "tool_result") && key == "content":
				p.results(key, at)
			default:
				p.piece(key, at)
			}
		})
	case key == "delta" && p.kind == "content_block_delta":
		p.object(at, func(key string, at int) {
			switch {
			case key != "partial_json":
				p.piece(key, at)
			case p.scope.ToolArguments:
				p.add(key, 0, at)
			}
		})
	}
}

// responseTexts are the texts in the events of Responses, by the middle of their types: the kind of
// the track, and the member that says which part it is. Texts of other events are tracks of their
// own.
var responseTexts = map[string][2]string{
	"output_text": {"text", "content_index"}, "refusal": {"refusal", "content_index"}, "reasoning_text": {"reasoning", "content_index"},
	"reasoning_summary_text": {"summary", "summary_index"}, "reasoning_summary_part": {"summary", "summary_index"}, "content_part": {"", "content_index"},
	"function_call_arguments": {ofCalls}, "custom_tool_call_input": {ofCalls}, "mcp_call_arguments": {ofCalls}, "output_item": {},
}

// responses reads a member of an event of Responses.
func (p *pieces) responses(key string, at int) {
	name, phase, _ := strings.Cut(strings.TrimPrefix(p.kind, "response."), ".")
	if key == "response" {
		p.whole = name == "completed" || name == "incomplete" || name == "failed"
		p.found.All = p.whole
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
		if name, phase = p.unknown(); strings.Contains(name, "_call") {
			name = ofCalls
		}
		text[0] = name
	}
	if text[0] == ofCalls && !p.scope.ToolArguments {
		return
	}
	p.whole = phase == "done"
	part := 0
	if text[1] != "" {
		part = int(gjson.GetBytes(p.s, text[1]).Int())
	}
	raw := p.raw(at)
	switch {
	case key == "item":
		p.item(at)
	case key == "part":
		p.part(text[0], part, at)
	case key == "delta" && phase == "delta" && raw != nil:
		p.add(text[0], part, at)
	case phase == "done" && raw != nil && !unspoken[key] && !opaque(key, raw):
		p.add(text[0], part, at)
	case text[0] == ofCalls:
		p.calls(key, at)
	default:
		p.alone("", key, at)
	}
}

// unknown splits the type of an event before its last part.
func (p *pieces) unknown() (name, phase string) {
	i := strings.LastIndexByte(p.kind, '.')
	return p.kind[:max(i, 0)], p.kind[i+1:]
}

// item reads an item of a response.
func (p *pieces) item(at int) {
	kind := p.member(at, "type")
	p.object(at, func(key string, at int) {
		of := ""
		switch {
		case isCall(kind) && (key == "arguments" || key == "input") && p.raw(at) != nil:
			if p.scope.ToolArguments {
				p.add(ofCalls, 0, at)
			}
			return
		case isCall(kind) && results[key], isResult(kind):
			p.results(key, at)
			return
		case key == "summary":
			of = "summary"
		case key == "content" && kind == "reasoning":
			of = "reasoning"
		case key == "content":
		case isCall(kind):
			p.calls(key, at)
			return
		}
		if key != "summary" && key != "content" || p.s.Kind(at) != jsonscan.Array {
			p.alone("", key, at)
			return
		}
		n := -1
		p.array(at, func(at int) {
			n++
			p.part(of, n, at)
		})
	})
}

// part reads a part of an item: of reasoning, or of a message.
func (p *pieces) part(of string, n, at int) {
	if p.s.Kind(at) != jsonscan.Object {
		p.alone("", "", at)
	}
	p.object(at, func(key string, at int) {
		switch {
		case p.raw(at) == nil:
			p.alone("", key, at)
		case key == "refusal", key == "text" && of == "":
			p.add(key, n, at)
		case key == "text":
			p.add(of, n, at)
		default:
			p.alone("", key, at)
		}
	})
}
