package jsonscan

import (
	"errors"
	"strconv"
)

const (
	// FewElements is how many elements may be decoded of any body.
	FewElements = 4096
	// BytesPerElement is what a body has for each element, if more of it are decoded.
	BytesPerElement = 32
)

// A budget bounds how many elements of a body are decoded: "[1,1" has one for two bytes, and
// what is made of one may take hundreds.
type budget struct {
	spent, limit int
	err          error
}

// A LimitError says that a body has more elements than are decoded of one of its size.
type LimitError struct {
	Path  string // of the first element that is too many, such as messages[4096]
	Limit int
}

func (e *LimitError) Error() string {
	return "more than " + strconv.Itoa(e.Limit) + " elements, which is the limit for a body of this size"
}

// Bounded is like [NewReader], for a body that is decoded to something larger: it may have
// [FewElements] elements of arrays that are visited, or one for each [BytesPerElement] bytes if
// those are more. One too many is a *[LimitError].
func Bounded(body []byte) *Reader {
	r := new(Reader)
	r.ResetBounded(body)
	return r
}

// ResetBounded is like Reset, and [Bounded].
func (r *Reader) ResetBounded(body []byte) {
	r.Reset(body)
	r.bound(len(body))
}

// AgainBounded is like Again, and [Bounded].
func (r *Reader) AgainBounded(body []byte) {
	r.Again(body)
	r.bound(len(body))
}

func (r *Reader) bound(size int) {
	r.own = budget{limit: max(FewElements, size/BytesPerElement)}
	r.budget = &r.own
}

// Within returns a reader of a value of the body, whose elements count as those of the body.
func (r *Reader) Within(value []byte) *Reader {
	inside := new(Reader)
	inside.ResetWithin(r, value)
	return inside
}

// ResetWithin is like Reset, and [Reader.Within] another reader.
func (r *Reader) ResetWithin(other *Reader, value []byte) {
	r.budget = other.budget
	r.Reset(value)
}

// Spend counts what is kept of the body besides the elements of arrays, such as members that are
// not known. It reports false if that is too much, or there was another error.
func (r *Reader) Spend() bool {
	b := r.budget
	if b == nil || r.err != nil {
		return r.err == nil
	}
	if b.spent++; b.err == nil && b.spent > b.limit {
		b.err = &LimitError{r.Path(), b.limit}
	}
	r.err = b.err
	return r.err == nil
}

// Fail ends the reading, and that of all values of the same body if it is bounded, with an error
// of what visits it.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	if r.budget != nil && r.budget.err == nil {
		r.budget.err = err
	}
}

// BodyErr is the error that ended the reading of all of a bounded body.
func (r *Reader) BodyErr() error {
	if r.budget == nil {
		return nil
	}
	return r.budget.err
}

// Path returns where the next value is in what is read, such as messages[0].content[2].
func (r *Reader) Path() string {
	path, _ := r.s.path(nil, r.s.space(0), 0, r.i)
	return string(path)
}

var errFound = errors.New("found")

// path appends the way from the value at i to the one at another position in it.
func (s Scanner) path(dst []byte, i, depth, to int) ([]byte, error) {
	inside := func(at int, appendName func([]byte) []byte) (int, error) {
		end, err := s.Value(at, depth+1)
		if at <= to && (err != nil || to < end) {
			if dst = appendName(dst); at < to {
				dst, _ = s.path(dst, at, depth+1, to)
			}
			return 0, errFound
		}
		return end, err
	}
	var err error
	switch s.Kind(i) {
	case Object:
		_, err = s.Object(i, depth, func(key Key, at int) (int, error) {
			return inside(at, func(dst []byte) []byte {
				if len(dst) > 0 {
					dst = append(dst, '.')
				}
				return append(dst, key.Bytes()[:min(len(key.Bytes()), maxName)]...)
			})
		})
	case Array:
		_, err = s.Array(i, depth, func(index, at int) (int, error) {
			return inside(at, func(dst []byte) []byte {
				return append(strconv.AppendInt(append(dst, '['), int64(index), 10), ']')
			})
		})
	}
	return dst, err
}

const maxName = 64 // bytes of a member's name in a path
