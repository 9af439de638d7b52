package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxPlaced is how many calls of a turn are remembered. The results of more are looked at again.
const maxPlaced = 32

// Placed follows whether tool results stand right behind their calls.
type Placed struct {
	ids    [maxPlaced]Literal
	calls  int
	behind bool // only results came since the calls
}

// Turn begins a turn of the assistant.
func (o *Placed) Turn() { o.calls, o.behind = 0, true }

// Call is called for each call of the turn.
func (o *Placed) Call(id Literal) {
	if o.calls < maxPlaced {
		o.ids[o.calls] = id
	}
	o.calls++
}

// Other is called for what is neither a call nor a result.
func (o *Placed) Other() { o.behind = false }

// Result reports whether a result is in its place.
func (o *Placed) Result(id Literal) bool {
	return o.behind && o.calls <= maxPlaced && slices.ContainsFunc(o.ids[:o.calls], func(call Literal) bool {
		return bytes.Equal(call, id)
	})
}

// moveResults moves tool results right behind their calls. It returns nil if they are there.
func moveResults(body []byte) []byte {
	var p Patch
	p.Start(body)
	p.AgainBounded(body)
	p.Members(func(key jsonscan.Key) bool {
		if !key.Is("messages") {
			return true
		}
		start := p.Peek()
		var all []Message
		p.Array(func() { all = append(all, opaque(p.Within(p.Raw()))) })
		if sorted := ResultsFirst(all); len(all) > 0 && &sorted[0] != &all[0] {
			var b jsonscan.Builder
			b.Open('[')
			for _, m := range sorted {
				b.Raw(m.Parts[0].Other)
			}
			b.Close(']')
			p.Replace(start, p.Peek(), b)
		}
		return true
	})
	return p.Edited()
}

// opaque returns a message of which nothing is known but its calls, or the call that it
// answers.
func opaque(r *jsonscan.Reader) Message {
	start := r.Peek()
	var m Message
	p := &parser{r: r}
	p.r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "role":
			m.Role = roles[Literal(p.r.String()).Text()]
		case "tool_calls":
			p.each(func() { m.Calls = append(m.Calls, p.call()) })
		case "tool_call_id":
			m.CallID = p.r.String()
		}
	})
	m.Parts = []Part{{Kind: Other, Other: r.Since(start)}}
	return m
}
