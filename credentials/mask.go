package credentials

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Mask hides credentials in what was received from somebody they were sent to. It is used by
// several goroutines at once, once it is complete. A nil Mask hides nothing.
//
// A credential is found as it is, and as it is in a JSON string, however that was escaped and
// however often. Each byte of it is replaced, so that lengths stay. Only whole credentials are
// hidden: if parts of one were, a caller who makes a provider repeat guesses could find it piece
// by piece.
type Mask struct {
	words []word // the longest first
	few   [2]word
}

// A word is a text that is hidden.
type word struct {
	text string
	head string // the beginning of text that is never escaped, at most maxHead bytes
	bare bool   // none of it is ever escaped
}

const (
	// MinMasked is the least length, in bytes, of a credential that a [Mask] hides: a shorter
	// one could be a word.
	MinMasked = 8

	maxHead        = 8
	maxBackslashes = 8 // in a row; JSON in JSON in JSON has 7 before a quote
)

// Add adds a credential.
func (m *Mask) Add(s Secret) { m.add(s.Reveal()) }

func (m *Mask) add(text string) {
	if len(text) < MinMasked || slices.ContainsFunc(m.words, func(w word) bool { return w.text == text }) {
		return
	}
	bare := 0
	for bare < len(text) && isBare(text[bare]) {
		bare++
	}
	if m.words == nil {
		m.words = m.few[:0]
	}
	m.words = append(m.words, word{text: text, head: text[:min(bare, maxHead)], bare: bare == len(text)})
	slices.SortStableFunc(m.words, func(a, b word) int { return cmp.Compare(len(b.text), len(a.text)) })
}

// isBare reports whether no encoder of JSON escapes a byte.
func isBare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' || c == ':' || c == ' '
}

// AddHeader adds the values of headers that may be credentials: those whose names say so, and
// others that are no words, unless the header is known to be something else. What follows a scheme,
// such as Bearer, counts by itself.
func (m *Mask) AddHeader(h http.Header) {
	for name, values := range h {
		named := namesCredential(name)
		if !named && slices.Contains(noCredentials, name) {
			continue
		}
		for _, v := range values {
			if _, token, ok := strings.Cut(v, " "); ok && strings.IndexByte(token, ' ') < 0 {
				v = token
			}
			if named || len(v) >= minUnnamed || strings.ContainsAny(v, "0123456789") {
				m.add(v)
			}
		}
	}
}

// minUnnamed is the least length of a value without digits that counts as a credential although the
// name of its header does not say so: words, such as production, are shorter.
const minUnnamed = 16

// noCredentials are headers that operators set and that are no credentials.
var noCredentials = []string{
	"Accept", "Accept-Language", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Http-Referer", "Openai-Beta", "Openai-Organization",
	"Openai-Project", "Origin", "Referer", "User-Agent", "X-Title",
}

// namesCredential reports whether the name of a header says that it is a credential.
func namesCredential(header string) bool {
	name := strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "cookie", "credential", "key", "passw", "secret", "session", "signature", "token"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// Empty reports whether the mask hides nothing.
func (m *Mask) Empty() bool { return m == nil || len(m.words) == 0 }

// Hide hides the credentials in b, which is complete, and reports whether there were any.
func (m *Mask) Hide(b []byte) (found bool) {
	if m == nil {
		return false
	}
	for i := range m.words {
		hidden, _ := m.words[i].hide(b)
		found = found || hidden
	}
	return found
}

// Pass hides the credentials in b, after which more follows, and returns how much of it is done:
// what is behind that may be the beginning of a credential.
func (m *Mask) Pass(b []byte) (done int) {
	done = len(b)
	if m == nil {
		return done
	}
	for i := range m.words {
		_, open := m.words[i].hide(b)
		done = min(done, open)
	}
	return done
}

// In reports whether there is a credential in b, which is complete.
func (m *Mask) In(b []byte) bool {
	if m == nil {
		return false
	}
	for i := range m.words {
		if _, n := m.words[i].next(b, 0); n > 0 {
			return true
		}
	}
	return false
}

// Text is a text without the credentials in it.
func (m *Mask) Text(s string) string {
	if m == nil || !slices.ContainsFunc(m.words, func(w word) bool { return len(s) >= len(w.text) && strings.Contains(s, w.head) }) {
		return s
	}
	b := []byte(s)
	if !m.Hide(b) {
		return s
	}
	return string(b)
}

// Header hides the credentials in the values of headers.
func (m *Mask) Header(h http.Header) {
	if m.Empty() {
		return
	}
	for _, values := range h {
		for i, v := range values {
			values[i] = m.Text(v)
		}
	}
}

// hide hides the word in b, and returns where its beginning may be at the end of b; len(b): it is
// not.
func (w *word) hide(b []byte) (found bool, open int) {
	for at := 0; ; {
		i, n := w.next(b, at)
		if n <= 0 {
			return found, i
		}
		cover(b[i : i+n])
		found, at = true, i+n
	}
}

// next finds the word in b[from:], and returns its length there. If it is not in it, n is 0 or less,
// and b[at:] may be the beginning of it.
func (w *word) next(b []byte, from int) (at, n int) {
	for at = from; ; at++ {
		if at = w.candidate(b, at); at == len(b) {
			return at, 0
		}
		if n = w.match(b[at:]); n != 0 {
			return at, n
		}
	}
}

// candidate returns where, from an index on, the head of the word is, or the beginning of it at
// the end of b; len(b): it is not.
func (w *word) candidate(b []byte, from int) int {
	switch len(w.head) {
	case 0: // the first byte may be escaped
		for from < len(b) && b[from] != w.text[0] && b[from] != '\\' {
			from++
		}
		return from
	case 1:
		if i := bytes.IndexByte(b[from:], w.head[0]); i >= 0 {
			return from + i
		}
		return len(b)
	}
	if i := bytes.Index(b[from:], []byte(w.head)); i >= 0 {
		return from + i
	}
	for from = max(from, len(b)-len(w.head)+1); from < len(b); from++ {
		if strings.HasPrefix(w.head, string(b[from:])) {
			break
		}
	}
	return from
}

// match returns the length of the word at the beginning of b: 0 if it is not there, -1 if b is too
// short to say.
func (w *word) match(b []byte) int {
	n := 0
	switch {
	case len(b) >= len(w.text):
		if string(b[:len(w.text)]) == w.text {
			return len(w.text)
		}
	case w.text[:len(b)] == string(b):
		n = -1
	}
	if w.bare {
		return n
	}
	if escaped := w.matchEscaped(b); escaped != 0 {
		return escaped
	}
	return n
}

// matchEscaped is match for a word in a JSON string, which may be in another one. A run of
// backslashes counts like one.
func (w *word) matchEscaped(b []byte) int {
	n := 0
	for left := w.text; left != ""; {
		if n == len(b) {
			return -1
		}
		if b[n] != '\\' {
			if b[n] != left[0] {
				return 0
			}
			n, left = n+1, left[1:]
			continue
		}
		after := strings.TrimLeft(left, `\`)
		most := maxBackslashes * max(len(left)-len(after), 1)
		for run := 0; n < len(b) && b[n] == '\\' && run < most; run++ {
			n++
		}
		if len(after) < len(left) {
			left = after
			continue
		}
		r, length := unescape(b[n:])
		if length <= 0 {
			return length
		}
		want, size := utf8.DecodeRuneInString(left)
		if r != want {
			return 0
		}
		n, left = n+length, left[size:]
	}
	return n
}

// unescape decodes what follows a backslash in a JSON string. n is its length: 0 if it is no
// escape, -1 if b is too short to say. Halves of surrogate pairs are no escapes: no credential has
// them.
func unescape(b []byte) (r rune, n int) {
	if len(b) == 0 {
		return 0, -1
	}
	switch c := b[0]; c {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		for _, digit := range b[1:min(len(b), 5)] {
			value := strings.IndexByte("0123456789abcdef", digit)
			if value < 0 {
				value = strings.IndexByte("0123456789ABCDEF", digit)
			}
			if value < 0 {
				return 0, 0
			}
			r = r<<4 | rune(value)
		}
		if len(b) < 5 {
			return 0, -1
		}
		return r, 5
	default:
		return rune(c), 1
	}
}

// cover replaces a credential, as [Secret.Hint] does, but keeps its length. One that is escaped
// gets no hint, which could end within an escape.
func cover(b []byte) {
	if len(b) >= 12 && !slices.ContainsFunc(b, func(c byte) bool { return c == '\\' || c >= utf8.RuneSelf }) {
		b = b[2 : len(b)-3]
	}
	for i := range b {
		b[i] = '*'
	}
}
