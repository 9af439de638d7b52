package inference

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
)

// maskBody masks the stored credentials of a call in an answer that passes as it is. The caller
// may see its own. Answers that may be cached are a model's, and not about the credential.
func (rt *roundTrip) maskBody(res *http.Response) error {
	if rt.secrets == nil || rt.x.Endpoint.Cacheable || res.Body == nil || res.Body == http.NoBody {
		return nil
	}
	words := maskable(rt.secrets(false))
	if len(words) == 0 {
		return nil
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return rt.unreadable(res, "the provider sent "+encoding+", which nobody asked for")
	}
	res.Body = newMasking(res.Body, words)
	return nil
}

// maskable are the credentials that are too long to be a word, the longest first.
func maskable(secrets []credentials.Secret) [][]byte {
	var words [][]byte
	for _, s := range secrets {
		if secret := s.Reveal(); len(secret) >= minSecret {
			words = append(words, []byte(secret))
		}
	}
	slices.SortFunc(words, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	return slices.CompactFunc(words, bytes.Equal)
}

// A masking body replaces credentials by masks of the same length. It holds back only what may be
// the beginning of one.
type masking struct {
	src   io.ReadCloser
	words [][]byte // the longest first
	held  []byte   // what is held back
	small []byte   // the buffer for readers with small ones
	ready []byte   // the part of small that was not returned yet
	err   error    // returned after ready
}

func newMasking(src io.ReadCloser, words [][]byte) *masking {
	return &masking{src: src, words: words}
}

func (m *masking) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if longest := len(m.words[0]); len(m.ready) == 0 && len(p) < 2*longest {
		if m.err != nil {
			return 0, m.err
		}
		if m.small == nil {
			m.small = make([]byte, 2*longest)
		}
		n, err := m.fill(m.small)
		m.ready, m.err = m.small[:n], err
	}
	if len(m.ready) > 0 {
		n := copy(p, m.ready)
		m.ready = m.ready[n:]
		return n, nil
	}
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.fill(p)
	m.err = err
	return n, err
}

// fill reads until there is something to pass on, or an error. What is held back is shorter than
// the longest word, which is shorter than p.
func (m *masking) fill(p []byte) (int, error) {
	for {
		from := copy(p, m.held)
		n, err := m.src.Read(p[from:])
		b := p[:from+n]
		passed := m.mask(b, err != nil)
		m.held = append(m.held[:0], b[passed:]...)
		if passed > 0 || err != nil {
			return passed, err
		}
		if n == 0 {
			return 0, nil
		}
	}
}

// mask masks the words in b, and returns how much of it can be passed on: everything, if this is
// the last of the body.
func (m *masking) mask(b []byte, last bool) (passed int) {
	for {
		open := len(b)
		if !last {
			open = m.begins(b, passed)
		}
		at, length := m.find(b, passed, open)
		if length == 0 {
			return open
		}
		hide(b[at : at+length])
		passed = at + length
	}
}

// find finds the first word that begins in b[from:to], the longest if there are several.
func (m *masking) find(b []byte, from, to int) (at, length int) {
	at = to
	for _, w := range m.words {
		if i := bytes.Index(b[from:min(len(b), at+len(w)-1)], w); i >= 0 && from+i < at {
			at, length = from+i, len(w)
		}
	}
	return at, length
}

// begins returns where, from an index on, b ends with an incomplete word.
func (m *masking) begins(b []byte, from int) int {
	first := len(b)
	for _, w := range m.words {
		for i := max(from, len(b)-len(w)+1); i < first; i++ {
			next := bytes.IndexByte(b[i:first], w[0])
			if next < 0 {
				break
			}
			i += next
			if bytes.HasPrefix(w, b[i:]) {
				first = i
			}
		}
	}
	return first
}

// hide masks a word like [credentials.Secret.Hint], but keeps its length.
func hide(word []byte) {
	if len(word) >= 12 {
		word = word[2 : len(word)-3]
	}
	for i := range word {
		word[i] = '*'
	}
}

func (m *masking) Close() error { return m.src.Close() }
