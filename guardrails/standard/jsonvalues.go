package standard

import (
	"context"
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Why a text has JSON that nobody knows.
var errDeepJSON = guardrails.Unreadable("the text has brackets that are nested too deeply to be read as JSON")

// errEnough ends a search that has found what decides.
var errEnough = errors.New("enough is known")

// eachJSON calls visit with the JSON objects and arrays in a text, and with all JSON that is alone
// in a fenced block, until it returns an error. Some may be visited twice. all is how much of
// the text is looked at:
//
//   - If it is false, a text that is JSON as a whole is all that is visited. Otherwise, arrays
//     count only in fenced blocks. This is how to find JSON that has to be there.
//   - If it is true, arrays count everywhere, and what they have in them, too, so that nothing
//     around JSON hides it. This is how to find JSON that must not be there.
//
// Objects in other objects do not count. The error says that some of the text could not be read, or
// is that of visit or of the context.
func eachJSON(ctx context.Context, text string, all bool, visit func(value string) error) error {
	s := jsonSearch{pacer: pacer{ctx: ctx}, scanner: jsonscan.Scanner(text), text: text, all: all, visit: visit}
	if whole := strings.TrimSpace(text); !all && whole != "" && (whole[0] == '{' || whole[0] == '[') {
		switch ok, err := isJSON(whole); {
		case err != nil:
			return err
		case ok:
			return visit(whole)
		}
	}
	if err := s.fenced(); err != nil {
		return err
	}
	return s.between()
}

// A jsonSearch is a search for JSON in a text. It takes linear time: no bracket is read again that
// was open when a value turned out not to be JSON, so that what is read twice is in strings of such
// a value, or complete.
type jsonSearch struct {
	scanner jsonscan.Scanner
	text    string
	all     bool
	visit   func(value string) error

	open   []int    // the brackets of the value that is read
	failed []uint64 // a bit for each byte: an open bracket of a value that is not JSON
	pacer
}

// fenced visits the JSON of fenced blocks that is not an object. What is after one fence and before
// the next counts, wherever a block may begin.
func (s *jsonSearch) fenced() error {
	for b := range fencedBlocks(s.text) {
		inside := strings.TrimSpace(b.inside)
		if inside == "" || inside[0] == '{' || s.all && inside[0] == '[' {
			continue // between visits it
		}
		ok, err := isJSON(inside)
		if err == nil && ok {
			err = s.visit(inside)
		}
		if err == nil {
			err = s.pace(len(inside))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// between visits the objects and arrays between whatever else there is.
func (s *jsonSearch) between() error {
	for at := 0; ; {
		next := s.next(at)
		if next < 0 {
			return nil
		}
		at = next
		if err := s.pace(next - at + 1); err != nil {
			return err
		}
		if s.hasFailed(at) {
			at++
			continue
		}
		s.open = s.open[:0]
		end, err := s.value(at, 0, nil)
		if broken := new(jsonscan.SyntaxError); errors.As(err, &broken) {
			if broken.TooDeep {
				return errDeepJSON
			}
			if err := s.pace(broken.Offset - at); err != nil {
				return err
			}
			for _, bracket := range s.open {
				s.fail(bracket)
			}
			at++
			continue
		}
		if err := s.found(at, end); err != nil {
			return err
		}
		if err := s.pace(end - at); err != nil {
			return err
		}
		at = end
	}
}

// found visits a value, and what is in it, if it is an array.
func (s *jsonSearch) found(at, end int) error {
	if s.text[at] == '{' {
		return s.visit(s.text[at:end])
	}
	_, err := s.value(at, 0, s.visit)
	return err
}

// next is where an object may begin, or an array.
func (s *jsonSearch) next(at int) int {
	var next int
	if s.all {
		next = strings.IndexAny(s.text[at:], "{[")
	} else {
		next = strings.IndexByte(s.text[at:], '{')
	}
	if next < 0 {
		return -1
	}
	return at + next
}

// value reads the value at a place, and returns where it ends. visit, if it is not nil, is called with
// the arrays and objects in arrays, and with the value itself.
func (s *jsonSearch) value(at, depth int, visit func(string) error) (end int, err error) {
	switch s.scanner.Kind(at) {
	case jsonscan.Object:
		s.open = append(s.open, at)
		end, err = s.scanner.Object(at, depth, func(_ jsonscan.Key, at int) (int, error) { return s.value(at, depth+1, nil) })
	case jsonscan.Array:
		s.open = append(s.open, at)
		end, err = s.scanner.Array(at, depth, func(_, at int) (int, error) { return s.value(at, depth+1, visit) })
	default:
		return s.scanner.Value(at, depth)
	}
	if err != nil {
		return 0, err
	}
	s.open = s.open[:len(s.open)-1]
	if visit != nil {
		err = visit(s.text[at:end])
	}
	return end, err
}

func (s *jsonSearch) fail(at int) {
	if s.failed == nil {
		s.failed = make([]uint64, len(s.text)/64+1)
	}
	s.failed[at/64] |= 1 << (at % 64)
}

func (s *jsonSearch) hasFailed(at int) bool {
	return s.failed != nil && s.failed[at/64]>>(at%64)&1 != 0
}

// isJSON reports whether a text is JSON. The error says that this is not known.
func isJSON(text string) (bool, error) {
	end, err := jsonscan.Scanner(text).Value(0, 0)
	if broken := new(jsonscan.SyntaxError); errors.As(err, &broken) && broken.TooDeep {
		return false, errDeepJSON
	}
	return err == nil && end == len(text), nil
}
