package hooks

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A Span is where a text stands in a body: a string with its quotes.
type Span struct{ Start, End int }

// A Reading is what a hook judges of a body.
type Reading struct {
	Spans  []Span // of the texts, in the order in which they are judged: what a model thought comes before what it said
	Calls  bool   // an answer calls tools
	Tokens string // the member that has numbers of tokens instead of texts, which nobody can read; "": none has
}

// Texts returns where the texts are that a hook judges. The body is valid JSON in the dialect of
// an endpoint.
func Texts(endpoint string, phase guardrails.Phase, body []byte, scope Scope) Reading {
	d := dialects[endpoint]
	if d == nil {
		return Reading{}
	}
	w := &walker{s: body, scope: scope}
	read := d.request
	if phase == guardrails.Output {
		read = d.answer
	}
	if read == nil || jsonscan.Members(body, func(m jsonscan.Member) error {
		read(w, m.Key.String(), m.Start)
		return nil
	}) != nil {
		return Reading{}
	}
	w.latest()
	return Reading{w.spans, w.calls, w.tokens}
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
						w.text(at)
					}
				})
			}
		},
	},
	"embed": {request: func(w *walker, key string, at int) {
		if key == "input" {
			w.textOrList(key, at)
		}
	}},
	"messages":            {request: messagesRequest, answer: messagesAnswer},
	"createModelResponse": {request: responsesRequest, answer: responsesAnswer},
}

func chatRequest(w *walker, key string, at int) {
	switch key {
	case "messages":
		w.messages(at)
	case "prediction": // what the answer is expected to be
		w.object(at, func(key string, at int) {
			if key == "content" {
				w.content(at)
			}
		})
	}
}

func chatAnswer(w *walker, key string, at int) {
	if key != "choices" {
		return
	}
	w.choices(at, func(key string, at int) {
		if key != "message" {
			return
		}
		w.object(at, func(key string, at int) {
			switch {
			case thoughts[key]:
				w.content(at)
			case key == "content_blocks": // they repeat the rest
				w.thinking(at)
			}
		})
		w.object(at, func(key string, at int) {
			switch key {
			case "content", "refusal":
				w.content(at)
			case "tool_calls", "function_call":
				w.toolCalls(at)
			case "audio":
				w.object(at, func(key string, at int) {
					if key == "transcript" {
						w.text(at)
					}
				})
			}
		})
	})
}

// thoughts are the members of a message, as providers name them, that have what a model thought.
var thoughts = map[string]bool{"reasoning_content": true, "reasoning": true, "reasoning_details": true, "thinking": true}

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

func messagesRequest(w *walker, key string, at int) {
	switch {
	case key == "messages":
		w.messages(at)
	case key == "system" && w.scope.System:
		w.content(at)
	}
}

func messagesAnswer(w *walker, key string, at int) {
	if key == "content" {
		w.content(at)
	}
}

func responsesRequest(w *walker, key string, at int) {
	switch {
	case key == "input" && w.s.Kind(at) == jsonscan.String:
		w.text(at)
	case key == "input":
		w.messages(at)
	case key == "instructions" && w.scope.Instructions:
		w.text(at)
	case key == "prompt": // one that the provider has saved
		w.object(at, func(key string, at int) {
			if key == "variables" {
				w.object(at, func(_ string, at int) { w.variable(at) })
			}
		})
	}
}

func responsesAnswer(w *walker, key string, at int) {
	if key == "output" {
		w.array(at, func(at int) { w.item(at) })
	}
}

// A walker collects the texts of a body. Positions are those of values that were scanned before,
// so that no scan fails.
type walker struct {
	s     jsonscan.Scanner
	scope Scope
	spans []Span
	calls bool

	tokens string // see [Reading]

	turns []turn
}

// A turn is a message: whose it is, and which of the spans are its.
type turn struct {
	role     string
	from, to int
}

// variable adds the value of a variable: a text, or a part of a message.
func (w *walker) variable(at int) {
	w.text(at)
	w.object(at, func(key string, at int) {
		if key == "text" {
			w.text(at)
		}
	})
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

// content adds the texts of a content: a string, or those of its parts.
func (w *walker) content(at int) {
	w.text(at)
	w.array(at, func(at int) {
		if w.s.Kind(at) == jsonscan.String {
			w.text(at)
			return
		}
		kind := ""
		w.object(at, func(key string, at int) {
			if key == "type" {
				kind = w.string(at)
			}
		})
		w.object(at, func(key string, at int) {
			switch {
			case strings.HasSuffix(kind, "tool_result"):
				if key == "content" && w.scope.ToolResults {
					w.content(at)
				}
			case strings.HasSuffix(kind, "tool_use"):
				w.calls = true
				if key == "input" && w.scope.ToolArguments {
					w.strings(at)
				}
			case kind == "document" || kind == "search_result":
				w.document(key, at)
			case key == "text" || key == "refusal" || key == "thinking" || key == "summary":
				w.text(at)
			}
		})
	})
}

// document adds the texts of a member of a document, or of what a search has found: its title and
// what it says, but no document that is a file.
func (w *walker) document(key string, at int) {
	switch key {
	case "title", "context":
		w.text(at)
	case "content":
		w.content(at)
	case "source":
		kind := ""
		w.object(at, func(key string, at int) {
			if key == "type" {
				kind = w.string(at)
			}
		})
		w.object(at, func(key string, at int) {
			switch {
			case key == "data" && kind == "text":
				w.text(at)
			case key == "content" && kind == "content":
				w.content(at)
			}
		})
	}
}

// toolCalls adds what tools are called with.
func (w *walker) toolCalls(at int) {
	call := func(at int) {
		w.calls = true
		if !w.scope.ToolArguments {
			return
		}
		w.object(at, func(key string, at int) {
			switch key {
			case "arguments", "input":
				w.text(at)
			case "function", "custom":
				w.object(at, func(key string, at int) {
					if key == "arguments" || key == "input" {
						w.text(at)
					}
				})
			}
		})
	}
	w.array(at, call)
	if w.s.Kind(at) == jsonscan.Object {
		call(at)
	}
}

// messages adds the texts of a conversation; latest then keeps those that are judged.
func (w *walker) messages(at int) {
	w.array(at, func(at int) {
		t := turn{from: len(w.spans)}
		if w.s.Kind(at) == jsonscan.String {
			w.text(at)
		}
		t.role = w.item(at)
		t.to = len(w.spans)
		w.turns = append(w.turns, t)
	})
}

// item adds the texts of a message, or of an item of a response, and returns whose it is.
func (w *walker) item(at int) (role string) {
	kind := ""
	w.object(at, func(key string, at int) {
		switch key {
		case "role":
			role = w.string(at)
		case "type":
			kind = w.string(at)
		}
	})
	switch kind {
	case "function_call", "custom_tool_call", "mcp_call":
		w.toolCalls(at)
		return "assistant"
	case "function_call_output", "custom_tool_call_output":
		role = "tool"
	case "reasoning":
		role = "assistant"
	}
	w.object(at, func(key string, at int) {
		if thoughts[key] || key == "content_blocks" {
			w.content(at)
		}
	})
	w.object(at, func(key string, at int) {
		switch key {
		case "content", "output", "summary":
			w.content(at)
		case "tool_calls", "function_call":
			w.toolCalls(at)
		}
	})
	return role
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

// withoutCopies removes from an answer what repeats texts of it that were replaced: probabilities
// of tokens, blocks of content and speech.
func withoutCopies(answer []byte) []byte {
	drop := func(list, members string, copies ...string) {
		gjson.GetBytes(answer, list).ForEach(func(i, v gjson.Result) bool {
			for _, name := range copies {
				if v.Get(members + name).Exists() {
					if out, err := sjson.DeleteBytes(answer, list+"."+strconv.FormatInt(i.Int(), 10)+"."+members+name); err == nil {
						answer = out
					}
				}
			}
			return true
		})
	}
	drop("choices", "", "logprobs")
	drop("choices", "message.", "content_blocks", "audio")
	for i := range gjson.GetBytes(answer, "output.#").Int() {
		drop("output."+strconv.FormatInt(i, 10)+".content", "", "logprobs")
	}
	return answer
}

// isObject reports whether a body is a JSON object.
func isObject(body json.RawMessage) bool { return jsonscan.Members(body, nil) == nil }
