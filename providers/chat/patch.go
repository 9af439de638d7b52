package chat

import (
	"bytes"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Patch edits a JSON body while it reads it, in one pass. What is not edited keeps its
// bytes, and a body in which nothing is edited costs no memory.
type Patch struct {
	jsonscan.Reader
	body []byte
	out  []byte // the edited body[:done]; nil: nothing was edited so far
	done int

	types []typed // of objects that are being read, each inside the one before
}

// typed is an object whose type is known.
type typed struct {
	start, end int
	kind       Literal
}

// Start begins to read a body that was checked before.
func (p *Patch) Start(body []byte) {
	p.Again(body)
	p.body, p.out, p.done, p.types = body, nil, 0, p.types[:0]
}

// Edited returns the edited body, or nil if nothing was edited or it is not JSON, which the
// caller of the reader reports.
func (p *Patch) Edited() []byte {
	if p.out == nil || p.Err() != nil {
		return nil
	}
	return append(p.out, p.body[p.done:]...)
}

// Replace replaces body[start:end], which must not be before an earlier edit.
func (p *Patch) Replace(start, end int, with []byte) {
	if p.Err() != nil || start < p.done {
		return
	}
	if p.out == nil {
		const room = 256 // for what is added
		p.out = make([]byte, 0, len(p.body)+room)
	}
	p.out = append(append(p.out, p.body[p.done:start]...), with...)
	p.done = end
}

// Add adds members, encoded, to the object that was just read. It must have one already.
func (p *Patch) Add(members string) {
	end := p.Peek() - 1
	p.Replace(end, end, []byte(","+members))
}

// Members reads an object, and removes the members for which keep returns false. keep may
// leave a value unread. If the value is not an object, it is skipped.
func (p *Patch) Members(keep func(key jsonscan.Key) bool) bool {
	l := p.list()
	return p.Object(func(key jsonscan.Key) {
		before := p.mark()
		start := p.Peek()
		kept := keep(key)
		p.leave(&l, before, start, kept)
	})
}

// Elements is like Members, for the elements of an array. It returns how many were kept.
func (p *Patch) Elements(keep func() bool) (kept int) {
	l := p.list()
	p.Array(func() {
		before := p.mark()
		start := p.Peek()
		if p.leave(&l, before, start, keep()) {
			kept++
		}
	})
	return kept
}

// Type returns the member type of the object at a position, which is being read: it may follow. An object is read once
// for that, however often it is asked for.
func (p *Patch) Type(object int) Literal {
	for n := len(p.types); n > 0; n-- {
		t := &p.types[n-1]
		if t.start == object {
			return t.kind
		}
		if t.start < object && object < t.end { // object is inside it
			break
		}
		p.types = p.types[:n-1]
	}
	var (
		r    jsonscan.Reader
		kind Literal
	)
	r.Again(p.body[object:])
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = r.String()
		}
	})
	p.types = append(p.types, typed{object, object + r.Peek(), kind})
	return kind
}

// A list is what is known of an object or an array that is being read.
type list struct {
	last int  // the end of what was kept, or was removed, so far
	some bool // something was kept
}

func (p *Patch) list() list { return list{last: p.Peek() + 1} }

// leave ends an element that begins at start, and reports whether it was kept.
func (p *Patch) leave(l *list, before mark, start int, kept bool) bool {
	if p.Peek() == start {
		p.Raw()
	}
	if p.Err() != nil {
		return kept
	}
	end := p.Peek()
	if kept {
		l.last, l.some = end, true
		return true
	}
	p.reset(before)
	if !l.some {
		end = p.afterComma(end)
	}
	p.Replace(l.last, end, nil)
	l.last = end
	return false
}

// afterComma returns where the next element begins, or the list ends.
func (p *Patch) afterComma(i int) int {
	space := func() {
		for i < len(p.body) && bytes.IndexByte([]byte(" \t\r\n"), p.body[i]) >= 0 {
			i++
		}
	}
	if space(); i < len(p.body) && p.body[i] == ',' {
		i++
		space()
	}
	return i
}

// A mark is a state to which a patch can return.
type mark struct{ out, done int }

func (p *Patch) mark() mark { return mark{len(p.out), p.done} }

// reset undoes what was edited since. The reader stays where it is.
func (p *Patch) reset(m mark) {
	if p.out != nil {
		p.out, p.done = p.out[:m.out], m.done
	}
}

// User reads the id of the end user, and cuts one that is too long. It reports false if the
// provider takes none of its kind.
func (p *Patch) User(l Limits) bool {
	start := p.Peek()
	id := Literal(p.String())
	fit := l.UserID(id)
	if fit != nil && len(fit) < len(id) {
		p.Replace(start, p.Peek(), fit)
	}
	return fit != nil || id == nil
}

// Rename reads the name of a tool, and replaces it if the provider would refuse it.
func (p *Patch) Rename(names *Renames) {
	start := p.Peek()
	if short := names.Of(p.String()); short != nil {
		p.Replace(start, p.Peek(), short)
	}
}

// RenameOf is like Rename, for the name of the object at a position, which is only that of a
// tool if the object, which is being read, has one of these types.
func (p *Patch) RenameOf(object int, names *Renames, types ...string) {
	start := p.Peek()
	if short := names.Of(p.String()); short != nil && slices.ContainsFunc(types, p.Type(object).Is) {
		p.Replace(start, p.Peek(), short)
	}
}
