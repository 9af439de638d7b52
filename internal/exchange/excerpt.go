package exchange

import (
	"bytes"
	"strings"
)

// Excerpts are the beginnings of a call's bodies, for the request log. The zero value keeps none.
type Excerpts struct {
	limit  int // of each, in bytes
	memory *Memory

	request     []byte // of the request, whose body is gone
	requestSize int64

	answer     []byte
	answerSize int64
	binary     bool // the answer is not a text, and not kept
	full       bool // there is no memory for more of it
}

// KeepExcerpts has up to limit bytes of each of the call's bodies kept for
// [Excerpts.Parts], unless the call says x-gw-debug: false.
func (x *Exchange) KeepExcerpts(limit int) {
	if !x.Options.Caching.Off {
		x.Excerpts.limit, x.Excerpts.memory = limit, &x.Memory
	}
}

// Kept reports whether parts of the bodies are kept.
func (e *Excerpts) Kept() bool { return e.limit > 0 }

// Sent notes a part of the answer's body that goes to the client.
func (e *Excerpts) Sent(p []byte) {
	if e.limit == 0 || e.binary {
		return
	}
	e.answerSize += int64(len(p))
	p = p[:min(len(p), e.limit-len(e.answer))]
	if need := len(e.answer) + len(p); need > cap(e.answer) && !e.full {
		size := min(max(need, 2*cap(e.answer)), e.limit)
		if e.full = e.memory.Reserve(size-cap(e.answer)) != nil; !e.full {
			e.answer = append(make([]byte, 0, size), e.answer...)
		}
	}
	if !e.full {
		e.answer = append(e.answer, p...)
	}
}

// SendsType notes the media type and the encoding of an answer before it is sent: only text
// is kept.
func (e *Excerpts) SendsType(media, encoding string) {
	text := media == "" || strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml")
	e.binary = !text || encoding != "" && encoding != "identity"
}

// Parts are what is kept of the bodies of the request, if that is JSON, and of the answer; and how
// long they were. One that is not kept is nil.
func (e *Excerpts) Parts() (request []byte, requestSize int64, answer []byte, answerSize int64) {
	return e.request, e.requestSize, e.answer, e.answerSize
}

// keepRequest keeps the beginning of the request's body, or of what hooks have made of it: what
// they removed is not kept.
func (x *Exchange) keepRequest() {
	e, body := &x.Excerpts, x.Body.JSON()
	if body == nil || !e.Kept() {
		return
	}
	if a := x.chosen; a != nil && a.rewritten != nil {
		body = a.rewritten.b
	}
	e.request, e.requestSize = bytes.Clone(body[:min(len(body), e.limit)]), int64(len(body))
}
