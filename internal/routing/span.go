package routing

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The functions below find values in valid JSON without decoding it. For anything else they
// return errNotJSON or an arbitrary span within b, and never panic.
var errNotJSON = errors.New("not the JSON object that it was taken for")

// A member is the position of a member of an object.
type member struct {
	rawKey     []byte // including the quotes
	key        int    // start of the key
	start, end int    // of the value
}

// is reports whether the decoded key equals name.
func (m *member) is(name string) bool {
	raw := m.rawKey[1 : len(m.rawKey)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	return text(m.rawKey) == name
}

// name returns the decoded key.
func (m *member) name() string { return text(m.rawKey) }

// text decodes a JSON string.
func text(raw []byte) string {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// quote encodes s as a JSON string.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// eachMember calls visit for every member of the object that b starts with, and returns the
// position of the object's closing brace.
func eachMember(b []byte, visit func(m member)) (end int, err error) {
	i := space(b, 0)
	if at(b, i) != '{' {
		return 0, errNotJSON
	}
	if i = space(b, i+1); at(b, i) == '}' {
		return i, nil
	}
	for {
		m := member{key: i}
		if at(b, i) != '"' {
			return 0, errNotJSON
		}
		if i, err = skipString(b, i); err != nil {
			return 0, err
		}
		m.rawKey = b[m.key:i]
		if i = space(b, i); at(b, i) != ':' {
			return 0, errNotJSON
		}
		m.start = space(b, i+1)
		if m.end, err = skip(b, m.start); err != nil {
			return 0, err
		}
		visit(m)
		switch i = space(b, m.end); at(b, i) {
		case '}':
			return i, nil
		case ',':
			i = space(b, i+1)
		default:
			return 0, errNotJSON
		}
	}
}

// eachElement calls visit with the index and the span of every element of the array that b
// starts with.
func eachElement(b []byte, visit func(n, start, end int)) error {
	i := space(b, 0)
	if at(b, i) != '[' {
		return errNotJSON
	}
	if i = space(b, i+1); at(b, i) == ']' {
		return nil
	}
	for n := 0; ; n++ {
		end, err := skip(b, i)
		if err != nil {
			return err
		}
		visit(n, i, end)
		switch i = space(b, end); at(b, i) {
		case ']':
			return nil
		case ',':
			i = space(b, i+1)
		default:
			return errNotJSON
		}
	}
}

// at returns the byte at i, or 0, which is never valid, past the end.
func at(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns the end of the value that starts at i.
func skip(b []byte, i int) (int, error) {
	switch at(b, i) {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && !ends[b[i]] {
		i++
	}
	if i == start {
		return 0, errNotJSON
	}
	return i, nil
}

// ends has the bytes that end a number or a literal.
var ends = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, ',': true, ':': true, '}': true, ']': true, '{': true, '[': true, '"': true}

func skipNested(b []byte, i int) (int, error) {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case '"':
			end, err := skipString(b, i)
			if err != nil {
				return 0, err
			}
			i = end - 1
		}
	}
	return 0, errNotJSON
}

// skipString jumps from quote to quote: one after an odd number of backslashes is part of
// the string.
func skipString(b []byte, i int) (int, error) {
	open := i
	for {
		n := bytes.IndexByte(b[i+1:], '"')
		if n < 0 {
			return 0, errNotJSON
		}
		i += 1 + n
		slash := i
		for slash-1 > open && b[slash-1] == '\\' {
			slash--
		}
		if (i-slash)%2 == 0 {
			return i + 1, nil
		}
	}
}

// lookup returns the value at a path in the JSON value b. The last of duplicate keys
// counts; gjson would use the first.
func lookup(b []byte, path Path) (value []byte, ok bool) {
	for _, step := range path {
		found := false
		var start, end int
		var err error
		if step.Index == Name {
			_, err = eachMember(b, func(m member) {
				if m.is(step.Name) {
					start, end, found = m.start, m.end, true
				}
			})
		} else {
			err = eachElement(b, func(n, from, to int) {
				if n == step.Index {
					start, end, found = from, to, true
				}
			})
		}
		if err != nil || !found {
			return nil, false
		}
		b = b[start:end]
	}
	return b, true
}
