package routing

import (
	"strconv"
	"strings"
)

// A Path is the path of a value in a body: messages[0].content. Names are separated by
// dots, [n] is an element of an array, [*] every element.
type Path []Step

// A Step is one part of a path.
type Step struct {
	Name  string
	Index int // of an element; or Name, or Every
}

// Special values of Index.
const (
	Name  = -1 // the step is a member's name
	Every = -2 // [*]
)

const (
	maxPath  = 512 // bytes
	maxSteps = 16
	maxIndex = 9999
)

// ParsePath parses a path. The message says what is wrong with it, or is empty.
func ParsePath(s string) (path Path, message string) {
	const expected = "expected a path such as metadata.user, tools[0] or messages[*].name"
	if s == "" || len(s) > maxPath {
		return nil, expected + " of 1 to " + strconv.Itoa(maxPath) + " bytes"
	}
	for part := range strings.SplitSeq(s, ".") {
		name, rest, indexed := strings.Cut(part, "[")
		if name == "" || strings.Contains(name, "]") {
			return nil, expected
		}
		path = append(path, Step{Name: name, Index: Name})
		for indexed {
			var in string
			var closed bool
			if in, rest, closed = strings.Cut(rest, "]"); !closed {
				return nil, expected
			}
			step := Step{Index: Every}
			if in != "*" {
				n, err := strconv.ParseUint(in, 10, 32)
				if err != nil || n > maxIndex || strconv.FormatUint(n, 10) != in {
					return nil, expected + ", with positions from 0 to " + strconv.Itoa(maxIndex)
				}
				step.Index = int(n)
			}
			path = append(path, step)
			if rest == "" {
				break
			}
			if rest[0] != '[' {
				return nil, expected
			}
			rest = rest[1:]
		}
	}
	if len(path) > maxSteps {
		return nil, "expected a path of at most " + strconv.Itoa(maxSteps) + " steps"
	}
	return path, ""
}

func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch s.Index {
		case Name:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Name)
		case Every:
			b.WriteString("[*]")
		default:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		}
	}
	return b.String()
}

// every reports whether the path can match more than one value.
func (p Path) every() bool {
	for _, s := range p {
		if s.Index == Every {
			return true
		}
	}
	return false
}
