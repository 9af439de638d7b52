package exchange

import (
	"bytes"
	"strings"
)

// An excerpt is the beginning of an answer's body, for the request log.
type excerpt struct {
	limit int // of it, and of what is kept of the request's body; 0: nobody asks for them
	deaf  bool

	request     []byte // the same of the request, of which the body is gone
	requestSize int64

	full bool // there is no memory for more
	b    []byte
	size int64
}

// URLPath is the path that was called, escaped.
func (x *Exchange) URLPath() string { return x.request.URL.EscapedPath() }

// Listen has up to limit bytes of the call's bodies kept for [Exchange.Excerpts]. A call
// with x-gw-debug: false has none kept.
func (x *Exchange) Listen(limit int) {
	if limit == 0 {
		return
	}
	if debug, _ := x.Gateway.Headers.Get(x.request.Header, HeaderDebug); !strings.EqualFold(debug, "false") {
		x.said.limit = limit
	}
}

// Listens reports whether bodies are kept.
func (x *Exchange) Listens() bool { return x.said.limit > 0 }

// Hear is told what of the answer's body goes to the client, as it goes.
func (x *Exchange) Hear(p []byte) {
	s := &x.said
	if s.limit == 0 || s.deaf {
		return
	}
	s.size += int64(len(p))
	p = p[:min(len(p), s.limit-len(s.b))]
	if need := len(s.b) + len(p); need > cap(s.b) && !s.full {
		size := min(max(need, 2*cap(s.b)), s.limit)
		if s.full = x.Hold(size-cap(s.b)) != nil; !s.full {
			s.b = append(make([]byte, 0, size), s.b...)
		}
	}
	if !s.full {
		s.b = append(s.b, p...)
	}
}

// HearText says what an answer is, before it comes: only text is kept.
func (x *Exchange) HearText(media, encoding string) {
	text := media == "" || strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml")
	x.said.deaf = !text || encoding != "" && encoding != "identity"
}

// Excerpts are what is kept of the bodies of the request, where that is JSON, and of the
// answer; and how long they were. One that is not kept is nil.
func (x *Exchange) Excerpts() (request []byte, requestSize int64, answer []byte, answerSize int64) {
	request, requestSize = x.said.request, x.said.requestSize
	if body := x.JSON(); body != nil && x.Listens() {
		request, requestSize = x.said.head(body), int64(len(body))
	}
	return request, requestSize, x.said.b, x.said.size
}

// head is a copy of what is kept of a request's body.
func (s *excerpt) head(body []byte) []byte { return bytes.Clone(body[:min(len(body), s.limit)]) }
