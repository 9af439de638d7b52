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
}

// NewReader returns a reader of body, which is one value.
func NewReader(body []byte) *Reader {
	r := new(Reader)
	r.Reset(body)
	return r
}

// Reset makes the reader read body from its beginning.
func (r *Reader) Reset(body []byte) {
	*r = Reader{s: body}
	r.i = r.s.space(0)
}

// Err is the first fault, a *SyntaxError; once the body was read, also data that
// follows its value.
func (r *Reader) Err() error {
	if r.err == nil && r.depth == 0 && r.i > 0 {
		if end := r.s.space(r.i); end != len(r.s) {
			return r.s.errorAt(end, "unexpected data after the JSON value")
		}
	}
	return r.err
}

// Kind tells what the value is that comes next.
func (r *Reader) Kind() Kind {
	if r.err != nil {
		return None
	}
	return r.s.Kind(r.i)
}

// Raw reads the next value, whatever it is, and returns it as it stands. It is valid
// as long as the body is.
func (r *Reader) Raw() []byte {
	if r.err != nil {
		return nil
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

// Value is Raw, but nil for null.
func (r *Reader) Value() []byte {
	if raw := r.Raw(); len(raw) > 0 && raw[0] != 'n' {
		return raw
	}
	return nil
}

// String reads the next value and returns it, quotes included, if it is a string.
func (r *Reader) String() []byte {
	if raw := r.Raw(); len(raw) > 0 && raw[0] == '"' {
		return raw
	}
	return nil
}

// Object reads the next value and calls visit for each of its members, if it is an
// object, which it reports.
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

// Array reads the next value and calls visit for each of its elements, if it is an
// array, which it reports.
func (r *Reader) Array(visit func()) bool {
	if r.Kind() != Array {
		r.Raw()
		return false
	}
	r.depth++
	end, err := r.s.Array(r.i, r.depth-1, func(_, at int) (int, error) {
		r.i = at
		visit()
		return r.visited(at)
	})
	r.depth--
	return r.leave(end, err)
}

// visited skips the value at a place if its visitor left it.
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

// Peek is where the next value starts, for [Reader.Since].
func (r *Reader) Peek() int { return r.i }

// Since returns what was read since a place that Peek gave.
func (r *Reader) Since(start int) []byte {
	if r.err != nil {
		return nil
	}
	return r.s[start:r.i:r.i]
}
