package exchange

import (
	"bytes"
	"strings"
)

// excerpts are the beginnings of a call's bodies, for the request log.
type excerpts struct {
	limit int // of each, in bytes; 0: none are kept

	request     []byte // of the request, whose body is gone
	requestSize int64

	answer     []byte
	answerSize int64
	binary     bool // the answer is not a text, and not kept
	full       bool // there is no memory for more of it
}

// KeepExcerpts has up to limit bytes of each of the call's bodies kept for
// [Exchange.Excerpts], unless the call says x-gw-debug: false.
func (x *Exchange) KeepExcerpts(limit int) {
	if limit == 0 {
		return
	}
	if !x.Caching.Off {
		x.excerpts.limit = limit
	}
}

// KeepsExcerpts reports whether parts of the bodies are kept.
func (x *Exchange) KeepsExcerpts() bool { return x.excerpts.limit > 0 }

// Sent notes a part of the answer's body that goes to the client.
func (x *Exchange) Sent(p []byte) {
	e := &x.excerpts
	if e.limit == 0 || e.binary {
		return
	}
	e.answerSize += int64(len(p))
	p = p[:min(len(p), e.limit-len(e.answer))]
	if need := len(e.answer) + len(p); need > cap(e.answer) && !e.full {
		size := min(max(need, 2*cap(e.answer)), e.limit)
		if e.full = x.Reserve(size-cap(e.answer)) != nil; !e.full {
			e.answer = append(make([]byte, 0, size), e.answer...)
		}
	}
	if !e.full {
		e.answer = append(e.answer, p...)
	}
}

// SendsType notes the media type and the encoding of an answer before it is sent: only text
// is kept.
func (x *Exchange) SendsType(media, encoding string) {
	text := media == "" || strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml")
	x.excerpts.binary = !text || encoding != "" && encoding != "identity"
}

// Excerpts are what is kept of the bodies of the request, if that is JSON, and of the
// answer; and how long they were. One that is not kept is nil.
func (x *Exchange) Excerpts() (request []byte, requestSize int64, answer []byte, answerSize int64) {
	request, requestSize = x.excerpts.request, x.excerpts.requestSize
	if body := x.JSON(); body != nil && x.KeepsExcerpts() {
		x.keepRequest(body)
		request, requestSize = x.excerpts.request, x.excerpts.requestSize
	}
	answer, answerSize = x.excerpts.answer, x.excerpts.answerSize
	return request, requestSize, answer, answerSize
}

// keepRequest keeps the beginning of the request's body, or of what hooks have made of it: what
// they removed is not kept.
func (x *Exchange) keepRequest(body []byte) {
	if a := x.chosen; a != nil && a.rewritten != nil {
		body = a.rewritten.b
	}
	x.excerpts.request, x.excerpts.requestSize = x.excerpts.head(body), int64(len(body))
}

// head is a copy of what is kept of a request's body.
func (e *excerpts) head(body []byte) []byte { return bytes.Clone(body[:min(len(body), e.limit)]) }
