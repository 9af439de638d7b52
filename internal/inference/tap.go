package inference

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A tap reads a few members of an answer as its bytes pass, however long it is and in whatever
// portions it comes, and how long its texts are. It does not validate: what it finds in other data than JSON is undefined.
type tap struct {
	members

	depth    int
	inString bool
	escaped  bool // the last byte was a backslash
	keyNext  bool // a key of the answer itself comes next
	inKey    bool
	keyRead  bool // its value comes next
	key      []byte
	value    *[]byte // of the current member; nil: it is not kept

	texts  int                 // bytes of the texts that passed
	next   textKind            // of the value that comes next
	inText bool                // the string is a text
	within int                 // depth of the object that a tool is called with; 0: it is not in one
	name   [maxTextMember]byte // the beginning of the last string, of any depth
	length int                 // how long that is

	interprets bool // an item with the code of a tool began

	typeNext, inType bool // a member "type" comes next; the string is its value
}

// members are the raw values of an answer's members; nil: it does not have it, or it is longer
// than maxMember.
type members struct {
	id, model, usage, usageInfo, failure, choices, object, duration []byte

	output []byte // of any length; nil: hosted has what a tap found
	hosted hosted
}

// hosted is how often a provider has called its own tools that cost something.
type hosted struct{ web, files int64 }

// hostedIn counts in the output of a response. A [tap] finds the same.
func hostedIn(output []byte) hosted {
	var t tap
	t.write(output)
	return t.hosted
}

// note notes the type of an item, or of what it did. Of the actions of a web search, only
// a search itself costs something.
func (h *hosted) note(word []byte) {
	switch string(word) {
	case "web_search_call":
		h.web++
	case "file_search_call":
		h.files++
	case "open_page", "find_in_page":
		h.web = max(0, h.web-1)
	}
}

const (
	maxMember = 64 << 10 // no usage is longer
	maxKey    = 64       // bytes of a key that matters, each of which may be escaped
)

// of returns where a member is kept, or nil if it is not.
func (m *members) of(key []byte) *[]byte {
	switch string(key) {
	case "id":
		return &m.id
	case "model":
		return &m.model
	case "usage":
		return &m.usage
	case "usage_info":
		return &m.usageInfo
	case "error":
		return &m.failure
	case "choices":
		return &m.choices
	case "object":
		return &m.object
	case "duration":
		return &m.duration
	}
	return nil
}

// membersOf are the members of an answer that is there as a whole. They are parts of it.
func membersOf(answer []byte) *members {
	m := new(members)
	if s := jsonscan.Scanner(answer); s.Document(func(key jsonscan.Key, at int) (int, error) {
		end, err := s.Value(at, 1)
		to := m.of(key.Bytes())
		if key.Is("output") {
			to = &m.output
		}
		if err == nil && to != nil {
			if *to = s[at:end:end]; end-at > maxMember && to != &m.choices && to != &m.output {
				*to = nil
			}
		}
		return end, err
	}) == nil {
		return m
	}
	var t tap // it takes anything
	t.write(answer)
	return &t.members
}

func (t *tap) write(p []byte) {
	for len(p) > 0 {
		if t.inString {
			p = p[t.text(p):]
		} else {
			p = p[t.structure(p):]
		}
	}
}

// text reads on in a string, at most to its end.
func (t *tap) text(p []byte) (n int) {
	for t.inString && n < len(p) {
		if t.escaped {
			t.escaped = false
			n++
			continue
		}
		end := bytes.IndexByte(p[n:], '"')
		if end < 0 {
			end = len(p) - n
		}
		if escape := bytes.IndexByte(p[n:n+end], '\\'); escape >= 0 {
			// What comes before the quote has more of them, as a rule: look at these alone.
			n += t.escapes(p[n:n+end], escape)
			continue
		}
		n += end
		if n < len(p) {
			n++
			t.inString = false
		}
	}
	t.keep(p[:n])
	t.noteText(p[:n])
	if t.inKey && !t.inString {
		t.inKey, t.keyRead = false, true
	}
	return n
}

// noteText notes a part of a string, which may have its last quote.
func (t *tap) noteText(part []byte) {
	if t.within > 0 {
		t.texts += len(part)
		return
	}
	if !t.inString && len(part) > 0 {
		part = part[:len(part)-1]
	}
	if t.length < len(t.name) {
		copy(t.name[t.length:], part)
	}
	t.length += len(part)
	switch {
	case t.inText:
		t.texts += len(part)
	case !t.inString && t.length <= len(t.name):
		t.interprets = t.interprets || string(t.name[:t.length]) == interpreterCall
		if t.inType {
			t.hosted.note(t.name[:t.length])
		}
	}
}

// nextText notes that the value of a member comes next, whose name was the last string.
func (t *tap) nextText() {
	if t.within == 0 && t.length <= len(t.name) {
		t.typeNext = string(t.name[:t.length]) == "type"
		if t.next = kindOf(t.name[:t.length]); t.interprets && string(t.name[:t.length]) == "code" {
			t.next = stringText
		}
	}
}

// beginText notes that a string begins, or an array or object at a depth.
func (t *tap) beginText(c byte, depth int) {
	switch {
	case t.within > 0:
	case c == '"':
		t.inText, t.length = t.next != noText, 0
		t.inType = t.typeNext
	case c == '{' && t.next == inputText:
		t.within = depth
	}
	t.next, t.typeNext = noText, false
}

// escapes passes over the escapes of a part of a string that has no quote in it, from the
// first of them on, and returns its length.
func (t *tap) escapes(p []byte, first int) int {
	for n := first; n < len(p); {
		n += 2 // a backslash, and what it escapes
		if n > len(p) {
			t.escaped = true // that comes next
			break
		}
		next := bytes.IndexByte(p[n:], '\\')
		if next < 0 {
			break
		}
		n += next
	}
	return len(p)
}

// structure reads on outside of strings, at most to the beginning of one.
func (t *tap) structure(p []byte) int {
	from := 0 // of what was not kept yet
	text := 0 // from where on it is in an object that a tool is called with
	for i, c := range p {
		switch c {
		case '"':
			t.keep(p[from : i+1])
			t.inString = true
			if t.within > 0 {
				t.texts += i + 1 - text
			}
			t.beginText(c, t.depth)
			if t.keyNext && t.depth == 1 {
				t.inKey, t.keyNext, t.key = true, false, t.key[:0]
			}
			return i + 1
		case '{', '[':
			t.depth++
			if t.depth == 1 {
				t.keyNext = c == '{'
			}
			if t.next == inputText {
				text = i
			}
			t.beginText(c, t.depth)
		case '}', ']':
			t.next = noText
			if t.within > 0 && t.depth == t.within {
				t.texts += i + 1 - text
				t.within = 0
			}
			if t.depth--; t.depth == 0 {
				t.keep(p[from:i])
				from = i
				t.value = nil
			}
		case ',':
			t.next = noText
			if t.depth == 1 {
				t.keep(p[from:i])
				from = i
				t.keyNext, t.value = true, nil
			}
		case ':':
			t.nextText()
			if t.depth == 1 && t.keyRead {
				t.keyRead = false
				t.begin()
				from = i + 1
			}
		}
	}
	t.keep(p[from:])
	if t.within > 0 {
		t.texts += len(p) - text
	}
	return len(p)
}

// begin begins the value of a member.
func (t *tap) begin() {
	key := bytes.TrimSuffix(t.key, []byte{'"'})
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(jsonscan.Unquote(append([]byte{'"'}, t.key...)))
	}
	if t.value = t.of(key); t.value != nil {
		*t.value = []byte{}
	}
	t.key = t.key[:0]
}

// keep keeps a part of a key or of a value.
func (t *tap) keep(p []byte) {
	switch {
	case t.inKey:
		if len(t.key)+len(p) <= maxKey {
			t.key = append(t.key, p...)
		} else {
			t.key = append(t.key[:0], '?') // not one of the members
		}
	case t.value == nil:
	case t.value == &t.choices: // only its presence matters
	case len(*t.value)+len(p) <= maxMember:
		*t.value = append(*t.value, p...)
	default:
		*t.value = (*t.value)[:0]
		t.value = nil
	}
}

// onlyError reports whether the answer is an error. A stored object, such as a job or a response,
// may contain the error that it ended with, but is an answer.
func (m *members) onlyError() bool {
	return len(m.failure) > 0 && !empty(gjson.ParseBytes(m.failure)) && m.choices == nil && m.id == nil && m.object == nil
}

// text is the value of a JSON string; "" if it is none.
func text(literal []byte) string {
	if literal = bytes.TrimSpace(literal); len(literal) < 2 || literal[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(literal)
}
