package chat

import (
	"slices"
	"strconv"
	"strings"
)

// IdentifyCalls gives ids to calls without one, such as those of the legacy function_call,
// and to results without one the id of the call that they answer: the first call of the
// turn before that has no result yet, and that is of the function that the result names, if
// it names one. A result that answers no call stays without an id.
func (r *Request) IdentifyCalls() {
	if !slices.ContainsFunc(r.Messages, Message.unidentified) {
		return
	}
	var turn openCalls
	for i := range r.Messages {
		switch m := &r.Messages[i]; {
		case m.Role == Assistant && len(m.Calls) > 0:
			for k := range m.Calls {
				if m.Calls[k].ID.Empty() {
					m.Calls[k].ID = Quote("call_" + strconv.Itoa(i) + "_" + strconv.Itoa(k))
				}
			}
			turn = newOpenCalls(m.Calls)
		case m.Role == ToolResult && m.CallID.Empty():
			m.CallID = turn.take(m.Name.Text())
		case m.Role == ToolResult:
			turn.answered(m.CallID.Text())
		}
	}
}

func (m Message) unidentified() bool {
	return m.Role == ToolResult && m.CallID.Empty() ||
		slices.ContainsFunc(m.Calls, func(c Call) bool { return c.ID.Empty() })
}

// openCalls holds the calls of a turn that have no result yet, in order, and also by
// function name and by id.
type openCalls struct {
	calls        []Call
	taken        []bool
	byName, byID map[string][]int
	next         int // index of the first call that may be open
}

func newOpenCalls(calls []Call) openCalls {
	o := openCalls{calls, make([]bool, len(calls)), make(map[string][]int, len(calls)), make(map[string][]int, len(calls)), 0}
	for i := range calls {
		name, id := calls[i].Name.Text(), calls[i].ID.Text()
		o.byName[name], o.byID[id] = append(o.byName[name], i), append(o.byID[id], i)
	}
	return o
}

// first returns the first open call of a list, and shortens the list by it.
func (o *openCalls) first(of map[string][]int, key string) (call int, ok bool) {
	for of[key] != nil {
		i := of[key][0]
		if of[key] = of[key][1:]; len(of[key]) == 0 {
			delete(of, key)
		}
		if !o.taken[i] {
			o.taken[i] = true
			return i, true
		}
	}
	return 0, false
}

func (o *openCalls) answered(id string) { o.first(o.byID, id) }

// take returns the id of the call that a result without an id answers.
func (o *openCalls) take(name string) Literal {
	if i, ok := o.first(o.byName, name); ok {
		return o.calls[i].ID
	}
	for ; o.next < len(o.calls); o.next++ {
		if !o.taken[o.next] {
			o.taken[o.next] = true
			return o.calls[o.next].ID
		}
	}
	return nil
}

// CallName returns the name of the function that the call with the given id calls,
// searching the messages before the given one. The messages must not change between calls.
func (r *Request) CallName(id Literal, before int) Literal {
	if r.called == nil {
		r.called = make(map[string][]placedCall)
		for i := range r.Messages {
			for k := range r.Messages[i].Calls {
				c := &r.Messages[i].Calls[k]
				text := c.ID.Text()
				r.called[text] = append(r.called[text], placedCall{i, c.Name})
			}
		}
	}
	calls := r.called[id.Text()]
	i, _ := slices.BinarySearchFunc(calls, before, func(c placedCall, before int) int { return c.at - before })
	if i == 0 {
		return nil
	}
	return calls[i-1].name
}

// A placedCall is a function call in the message at an index.
type placedCall struct {
	at   int
	name Literal
}

// PlainID converts an id to one of letters, digits, hyphens and underscores, with at most
// the given length, for providers that do not accept other ids. A call and its result are
// converted alike.
func PlainID(id Literal, most int) Literal {
	inside := id.Text()
	if len(inside) <= most && strings.IndexFunc(inside, unplain) < 0 {
		return id
	}
	out := append(make(Literal, 0, most+2), '"')
	for _, c := range []byte(inside)[max(0, len(inside)-most):] {
		if unplain(rune(c)) {
			c = '_'
		}
		out = append(out, c)
	}
	return append(out, '"')
}

// PlainName reports whether a character may be in the name of a tool at every provider.
func PlainName(c byte) bool { return !unplain(rune(c)) }

func unplain(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
}
