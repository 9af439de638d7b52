package jsonscan

// A Reader reads a body value by value, in one pass, and stops at the first fault:
// after it every method returns nothing, and [Reader.Err] the fault.
//
//	r := jsonscan.NewReader(body)
//	r.Object(func(key jsonscan.Key) {
//		if key.Is("messages") {
//			r.Array(func() { … })
//		}
//	})
//
// A visitor reads the value that it is called for with one of the methods; what it
// leaves is skipped, and checked too.
type Reader struct {
	s     Scanner
	i     int
	depth int
	err   error

	checked bool // see Again

	own    budget
	budget *budget // nil: as many elements as there are
}

// NewReader returns a reader of body, which is one value.
func NewReader(body []byte) *Reader {
	r := new(Reader)
	r.Reset(body)
	return r
}

// Reset makes the reader read body from its beginning.
func (r *Reader) Reset(body []byte) {
	*r = Reader{s: body, own: r.own, budget: r.budget}
	r.i = r.s.space(0)
}

// Again makes the reader read body, which was read before and is JSON: characters of strings are
// not checked once more, which takes most of the time.
func (r *Reader) Again(body []byte) {
	r.Reset(body)
	r.checked = true
}

// Err returns the first error, a *SyntaxError, a *[LimitError] or what [Reader.Fail] was given. After the body was read, data that follows
// its value is an error, too.
func (r *Reader) Err() error {
	if r.err == nil && r.budget != nil {
		r.err = r.budget.err
	}
	if r.err == nil && r.depth == 0 && r.i > 0 {
		if end := r.s.space(r.i); end != len(r.s) {
			return r.s.errorAt(end, "unexpected data after the JSON value")
		}
	}
	return r.err
}

// Kind returns the kind of the next value.
func (r *Reader) Kind() Kind {
	if r.err != nil {
		return None
	}
	return r.s.Kind(r.i)
}

// Raw reads the next value and returns its encoding, which is valid as long as the body is.
func (r *Reader) Raw() []byte {
	if r.err != nil {
		return nil
	}
	if r.checked {
		if end := r.s.closing(r.i); end > 0 {
			raw := r.s[r.i:end:end]
			r.i = end
			return raw
		}
	}
	end, err := r.s.Value(r.i, r.depth)
	if err != nil {
		r.err = err
		return nil
	}
	raw := r.s[r.i:end:end]
	r.i = end
	return raw
}

// Value is like Raw, but returns nil for null.
func (r *Reader) Value() []byte {
	if raw := r.Raw(); len(raw) > 0 && raw[0] != 'n' {
		return raw
	}
	return nil
}

// String reads the next value and returns its encoding, including the quotes, if it is a
// string.
func (r *Reader) String() []byte {
	if raw := r.Raw(); len(raw) > 0 && raw[0] == '"' {
		return raw
	}
	return nil
}

// Object reads the next value. If it is an object, it calls visit for each of its members.
// It reports whether it is one.
func (r *Reader) Object(visit func(Key)) bool {
	if r.Kind() != Object {
		r.Raw()
		return false
	}
	r.depth++
	end, err := r.s.Object(r.i, r.depth-1, func(key Key, at int) (int, error) {
		r.i = at
		visit(key)
		return r.visited(at)
	})
	r.depth--
	return r.leave(end, err)
}

// Array reads the next value. If it is an array, it calls visit for each of its elements.
// It reports whether it is one.
func (r *Reader) Array(visit func()) bool {
	if r.Kind() != Array {
		r.Raw()
		return false
	}
	r.depth++
	end, err := r.s.Array(r.i, r.depth-1, func(_, at int) (int, error) {
		if r.i = at; !r.Spend() {
			return at, r.err
		}
		visit()
		return r.visited(at)
	})
	r.depth--
	return r.leave(end, err)
}

// visited skips the value at a position if its visitor has not read it.
func (r *Reader) visited(at int) (int, error) {
	if r.err == nil && r.i == at {
		r.Raw()
	}
	return r.i, r.err
}

func (r *Reader) leave(end int, err error) bool {
	if err != nil {
		r.err = err
		return false
	}
	r.i = end
	return true
}

// Peek returns the position of the next value, for [Reader.Since].
func (r *Reader) Peek() int { return r.i }

// Since returns what was read since a position returned by Peek.
func (r *Reader) Since(start int) []byte {
	if r.err != nil {
		return nil
	}
	return r.s[start:r.i:r.i]
}
