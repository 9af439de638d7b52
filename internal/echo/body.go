package echo

import (
	"bytes"
	"errors"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"
)

const (
	// maxBody is how many bytes a request's body may have.
	maxBody = 64 << 20

	// maxDepth is how deep a body may nest. gjson validates by recursion, and
	// a large enough body of brackets would exhaust the stack, which ends the
	// process.
	maxDepth = 1000

	// maxKept is the largest buffer kept for the next request, and the most
	// reserved on the word of a Content-Length.
	maxKept = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

var errTooLarge = refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)

// readBody reads the body once and returns it as a valid JSON object.
func readBody(w http.ResponseWriter, r *http.Request) (gjson.Result, error) {
	if r.ContentLength > maxBody {
		return gjson.Result{}, errTooLarge
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxKept {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if n := r.ContentLength; n > 0 {
		// One more than MinRead, so that the read that finds the end of the
		// body does not grow the buffer again.
		buf.Grow(int(min(n, maxKept-bytes.MinRead)) + bytes.MinRead)
	}

	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return gjson.Result{}, errTooLarge
		}
		return gjson.Result{}, badRequest("reading the body: %v", err)
	}
	if nestsDeeper(buf.Bytes(), maxDepth) {
		return gjson.Result{}, badRequest("the body nests deeper than %d levels", maxDepth)
	}
	if !gjson.ValidBytes(buf.Bytes()) {
		return gjson.Result{}, badRequest("the body is not valid JSON")
	}
	body := gjson.ParseBytes(buf.Bytes()) // copies: buf is free again
	if !body.IsObject() {
		return gjson.Result{}, badRequest("the body is not a JSON object")
	}
	return body, nil
}

// nestsDeeper tells whether the objects and arrays of a JSON text, or of the
// beginning that is one, nest more than depth levels.
func nestsDeeper(text []byte, depth int) bool {
	// Almost every body has fewer brackets than it may have levels, and
	// counting is many times faster than following strings.
	if bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= depth {
		return false
	}
	level, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if level++; level > depth {
				return true
			}
		case c == ']' || c == '}':
			level--
		}
	}
	return false
}
