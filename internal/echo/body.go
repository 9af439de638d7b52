package echo

import (
	"bytes"
	"errors"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"
)

const (
	// maxBody is the maximum size of a request body, in bytes.
	maxBody = 64 << 20

	// maxDepth is the maximum nesting of a body. gjson validates recursively, so a
	// large body of brackets would exhaust the stack and end the process.
	maxDepth = 1000

	// maxKept is the size of the largest buffer that is kept for reuse, and the most
	// memory that is reserved because of a Content-Length.
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
		// One more than MinRead, so that the read that finds the end of the body does
		// not grow the buffer.
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
	body := gjson.ParseBytes(buf.Bytes()) // a copy, so that buf can be reused
	if !body.IsObject() {
		return gjson.Result{}, badRequest("the body is not a JSON object")
	}
	return body, nil
}

// nestsDeeper reports whether the objects and arrays of a JSON text, or of the
// beginning of one, are nested more than depth levels.
func nestsDeeper(text []byte, depth int) bool {
	// Almost every body has fewer brackets than the levels allowed, and counting
	// brackets is much faster than scanning strings.
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
