package hooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Span is where a text stands in a body: a string with its quotes.
type Span struct{ Start, End int }

// A Reading is what a hook judges of a body.
type Reading struct {
	Spans  []Span // of the texts, in the order in which they are judged: what a model thought comes before what it said
	Calls  bool   // an answer calls tools
	Unread string // what has texts that nobody can read, such as numbers of tokens; "": nothing has
}

// Texts returns where the texts are that a hook judges. The body is valid JSON in the dialect of
// an endpoint.
func Texts(endpoint string, phase guardrails.Phase, body []byte, scope Scope) Reading {
	d := dialects[endpoint]
	if d == nil {
		return Reading{}
	}
	w := &walker{s: body, scope: scope, blocks: endpoint == "messages", items: endpoint == "createModelResponse", answer: phase == guardrails.Output}
	read := d.request
	if phase == guardrails.Output {
		read = d.answer
	}
	if read == nil || jsonscan.Members(body, func(m jsonscan.Member) error {
		key := m.Key.String()
		w.spelling(&w.given, textMembers, key)
		read(w, key, m.Start)
		return nil
	}) != nil {
		return Reading{}
	}
	w.latest()
	return Reading{w.spans, w.calls, cmp.Or(w.misspelled, w.unread)}
}

// textMembers are the members of the bodies of calls that have their texts, and kindMembers those of a message, an
// item or a part that say what it is. Providers differ in which of two they take, and some take one in any letter
// case, so that no other text may pass beside the one that is judged.
var (
	textMembers = []string{"messages", "input", "inputs", "texts", "prompt", "suffix", "system", "instructions", "prediction", "documents"}
	kindMembers = []string{"role", "type"}
	variables   = []string{"variables"} // of a saved prompt
)

// spelling notes that a member of a call may be taken for another one of these: it differs in letter case, or is given twice. given
// has a bit for each that was given before.
func (w *walker) spelling(given *uint16, members []string, key string) {
	if w.answer {
		return
	}
	for i, name := range members {
		switch bit := uint16(1) << i; {
		case key == name && *given&bit == 0:
			*given |= bit
			return
		case key == name:
			w.misspelled = "'" + name + "' is given twice"
			return
		case len(key) >= len(name) && strings.EqualFold(key, name):
			w.misspelled = "'" + guardrails.Excerpt(key) + "' differs from '" + name + "' in letter case only"
			return
		}
	}
}

// Judged reports whether the calls of an endpoint are judged, and in a phase.
func Judged(endpoint string, phase guardrails.Phase) bool {
	d := dialects[endpoint]
	return d != nil && (phase == guardrails.Input || d.answer != nil)
}

// ErrReplacement is the error of texts that cannot be put back.
var ErrReplacement = errors.New("the texts do not fit the body")

// Replace returns the body with other texts where the spans are, which may be in any order.
func Replace(body []byte, spans []Span, texts []string) ([]byte, error) {
	if len(spans) != len(texts) {
		return nil, ErrReplacement
	}
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return spans[a].Start - spans[b].Start })
	out := make([]byte, 0, len(body)+len(body)/8)
	at := 0
	for _, i := range order {
		s := spans[i]
		if s.Start < at || s.End > len(body) {
			return nil, ErrReplacement
		}
		out = append(out, body[at:s.Start]...)
		if old := body[s.Start:s.End]; jsonscan.Unquote(old) == texts[i] {
			out = append(out, old...)
		} else {
			out = jsonscan.AppendQuoted(out, texts[i])
		}
		at = s.End
	}
	return append(out, body[at:]...), nil
}

// A dialect says where its texts are: it is called with each member of a body.
type dialect struct {
	request, answer func(w *walker, key string, at int)
}

var dialects = map[string]*dialect{
	"chatComplete": {request: chatRequest, answer: chatAnswer},
	"complete": {
		request: func(w *walker, key string, at int) {
			if key == "prompt" || key == "suffix" {
				w.textOrList(key, at)
			}
		},
		answer: func(w *walker, key string, at int) {
			if key == "choices" {
				w.choices(at, func(key string, at int) {
					if key == "text" {
						w.every(at)
					}
				})
			}
		},
	},
	"embed": {request: func(w *walker, key string, at int) {
		switch key {
		case "input", "inputs", "texts": // the others are of servers other than OpenAI's
			w.textOrList(key, at)
		case "messages":
			w.every(at)
		}
	}},
	"messages":            {request: messagesRequest, answer: messagesAnswer},
	"createModelResponse": {request: responsesRequest, answer: responsesAnswer},
	// Lines of their files, which are in the dialects of many providers.
	"createBatch": {request: everyMember}, "createFinetune": {request: everyMember},
}

func everyMember(w *walker, key string, at int) { w.value(key, at) }

func chatRequest(w *walker, key string, at int) {
	switch key {
	case "messages":
		w.messages(at)
	case "prediction", "documents": // what the answer is expected to be, or to be based on
		w.every(at)
	}
}

func chatAnswer(w *walker, key string, at int) {
	if key == "choices" {
		w.choices(at, func(key string, at int) {
			if key == "message" {
				w.item(at)
			}
		})
	}
}

// thoughts are the members of a message, as providers name them, that have what a model thought.
var thoughts = map[string]bool{"reasoning_content": true, "reasoning": true, "reasoning_details": true, "thinking": true}

func messagesRequest(w *walker, key string, at int) {
	switch {
	case key == "messages":
		w.messages(at)
	case key == "system" && w.scope.System:
		w.parts(at)
	}
}

func messagesAnswer(w *walker, key string, at int) {
	if key == "content" {
		w.parts(at)
	}
}

func responsesRequest(w *walker, key string, at int) {
	switch {
	case key == "input":
		w.text(at)
		w.messages(at)
	case key == "instructions" && w.scope.Instructions:
		w.every(at)
	case key == "prompt": // one that the provider has saved
		var given uint16
		w.object(at, func(key string, at int) {
			w.spelling(&given, variables, key)
			if key == "variables" {
				w.every(at)
			}
		})
	}
}

func responsesAnswer(w *walker, key string, at int) {
	if key == "output" {
		w.array(at, func(at int) { w.item(at) })
	}
}

// choices visits the members of the first choice, or of all.
func (w *walker) choices(at int, visit func(key string, at int)) {
	n := 0
	w.array(at, func(at int) {
		if n++; n == 1 || w.scope.Choices {
			w.object(at, visit)
		}
	})
}

// textOrList adds the value of a member: a text or a list of texts. Numbers of tokens, or lists of
// them, cannot be read.
func (w *walker) textOrList(key string, at int) {
	if w.s.Kind(at) != jsonscan.Array {
		w.every(at)
	}
	w.array(at, func(at int) {
		switch w.s.Kind(at) {
		case jsonscan.String, jsonscan.Object:
			w.every(at)
		default:
			w.unread = "'" + key + "' has numbers of tokens instead of text"
		}
	})
}

// messages adds the texts of a conversation; latest then keeps those that are judged.
func (w *walker) messages(at int) {
	turn := func(at int) {
		t := turn{from: len(w.spans)}
		before := w.unread
		w.unread = ""
		w.text(at)
		t.role = w.item(at)
		t.to, t.unread, w.unread = len(w.spans), w.unread, before
		w.turns = append(w.turns, t)
	}
	w.array(at, turn)
	if w.s.Kind(at) == jsonscan.Object {
		turn(at)
	}
}

// item adds the texts of a message, or of an item of a response, and returns whose it is. What a
// model thought comes before what it said.
func (w *walker) item(at int) (role string) {
	kind := w.member(at, "type")
	role = w.member(at, "role")
	called := w.items && isCall(kind)
	w.calls = w.calls || called
	switch {
	case !w.items || role != "":
	case called || kind == "reasoning":
		role = "assistant"
	case isResult(kind):
		role = "tool"
	}
	var given uint16
	w.object(at, func(key string, at int) {
		w.spelling(&given, kindMembers, key)
		switch {
		case key == "content_blocks" && w.answer: // they repeat the rest
			w.thinking(at)
		case thoughts[key], key == "content_blocks":
			w.parts(at)
		}
	})
	w.object(at, func(key string, at int) {
		switch {
		case thoughts[key], key == "content_blocks":
		case key == "content", key == "summary":
			w.parts(at)
		case key == "audio":
			w.object(at, func(key string, at int) {
				if key != "data" {
					w.value(key, at)
				}
			})
		case key == "tool_calls", key == "function_call":
			w.calls = w.calls || w.s.Kind(at) == jsonscan.Object || w.s.Kind(at) == jsonscan.Array
			w.within(w.scope.ToolArguments, key, at)
		case called && results[key]:
			w.within(w.scope.ToolResults, key, at)
		case called:
			w.within(w.scope.ToolArguments, key, at)
		default:
			w.value(key, at)
		}
	})
	return role
}

// isCall reports whether an item of a response calls a tool: one of the client's, or of the
// provider's.
func isCall(kind string) bool {
	return strings.HasSuffix(kind, "_call") || kind == "mcp_approval_request"
}

// isResult reports whether an item of a response is what a tool has returned.
func isResult(kind string) bool {
	return strings.HasSuffix(kind, "_output") || kind == "mcp_list_tools"
}

// results are the members of a call that have what the provider's tool returned.
var results = map[string]bool{"output": true, "outputs": true, "results": true, "error": true}

// parts adds the texts of a content: a string, or those of its parts.
func (w *walker) parts(at int) {
	w.text(at)
	w.array(at, w.parts)
	if w.s.Kind(at) == jsonscan.Object {
		w.part(at)
	}
}

// part adds the texts of a part of a content. Blocks of Messages are also what tools are called
// with, and what they return.
func (w *walker) part(at int) {
	kind := w.member(at, "type")
	called, returned := w.blocks && strings.HasSuffix(kind, "tool_use"), w.blocks && strings.HasSuffix(kind, "tool_result")
	w.calls = w.calls || called
	var given uint16
	w.object(at, func(key string, value int) {
		w.spelling(&given, kindMembers, key)
		switch {
		case called && key == "input":
			w.within(w.scope.ToolArguments, key, value)
		case returned && key == "content":
			if w.scope.ToolResults {
				w.parts(value)
			}
		default:
			w.memberOf(at, key, value)
		}
	})
}

// thinking adds what the blocks of a message say that a model thought.
func (w *walker) thinking(at int) {
	w.array(at, func(at int) {
		w.object(at, func(key string, at int) {
			if key == "thinking" {
				w.text(at)
			}
		})
	})
}

// latest keeps of a conversation the last message, and those that the scope adds.
func (w *walker) latest() {
	if len(w.turns) == 0 {
		return
	}
	first, last := w.turns[0].from, w.turns[len(w.turns)-1].to
	kept := w.spans[:first:first]
	for i, t := range w.turns {
		var judged bool
		switch {
		case i == len(w.turns)-1:
			judged = true
		case t.role == "system" || t.role == "developer":
			judged = w.scope.System
		case t.role == "tool" || t.role == "function":
			judged = w.scope.ToolResults
		default:
			judged = w.scope.AllTurns
		}
		if judged {
			kept = append(kept, w.spans[t.from:t.to]...)
			w.unread = cmp.Or(w.unread, t.unread)
		}
	}
	w.spans = append(kept, w.spans[last:]...)
	w.calls = false // those of the conversation
}

// values are the texts at spans of a body.
func values(body []byte, spans []Span) []string {
	texts := make([]string, len(spans))
	for i, s := range spans {
		texts[i] = jsonscan.Unquote(body[s.Start:s.End])
	}
	return texts
}

// sizeOf is how long texts are at most, in bytes.
func sizeOf(spans []Span) (n int) {
	for _, s := range spans {
		n += s.End - s.Start
	}
	return n
}

// isObject reports whether a body is a JSON object.
func isObject(body json.RawMessage) bool { return jsonscan.Members(body, nil) == nil }
