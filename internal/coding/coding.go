// Package coding decodes the content codings of HTTP, within bounds.
package coding

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// MaxRatio bounds the ratio of decoded to encoded size, for each coding.
	MaxRatio = 100
	// free is the decoded size up to which the ratio is not checked, in bytes.
	free = 1 << 20
	// maxCodings bounds the number of codings of a body.
	maxCodings = 2
	// maxWindow bounds the window of zstd (RFC 9659), in bytes. The other formats have
	// fixed bounds.
	maxWindow = 8 << 20
)

// Supported lists the codings, in the form of Accept-Encoding.
const Supported = "gzip, deflate, br, zstd"

// codecs open the decoders of the codings and reserve their memory.
var codecs = map[string]func(l *layer) (io.Reader, error){
	"gzip":    unzip,
	"x-gzip":  unzip,
	"deflate": inflate,
	"br":      openBrotli,
	"zstd":    openZstd,
}

// Of returns the codings of a body in the order in which they were applied, in lower case and
// without identity.
func Of(h http.Header) (codings []string) {
	for _, v := range h["Content-Encoding"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				codings = append(codings, name)
			}
		}
	}
	return codings
}

// Unknown returns the first coding that cannot be decoded, or all of them if there are too
// many, or "" if all can be decoded.
func Unknown(codings []string) string {
	for _, name := range codings {
		if _, ok := codecs[name]; !ok {
			return name
		}
	}
	if len(codings) > maxCodings {
		return strings.Join(codings, ", ")
	}
	return ""
}

// An Error means that a body is not valid in its coding.
type Error struct {
	Coding string
	Err    error
}

func (e *Error) Error() string { return "decoding " + e.Coding + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ErrRatio means that the decoded body is too much larger than the encoded one.
var ErrRatio = fmt.Errorf("it becomes more than %d times its size", MaxRatio)

// Memory accounts for the memory of decoders.
type Memory interface {
	Reserve(n int) error
	Free(n int)
}

// A Reader decodes a body. It reads nothing before the first Read, and no further than it
// needs. Errors of the source and of the memory are returned unchanged; others are of type
// *Error.
type Reader struct {
	top    io.Reader
	memory Memory
	held   int
	err    error
}

// NewReader returns a reader for a body in the given codings, all of which must be known.
func NewReader(src io.Reader, codings []string, memory Memory) *Reader {
	r := &Reader{top: src, memory: memory}
	for i := len(codings) - 1; i >= 0; i-- {
		r.top = &layer{of: r, coding: codings[i], src: counter{src: r.top}}
	}
	return r
}

func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.top.Read(p)
	r.err = err
	return n, err
}

// Release frees the memory. The reader must not be used after it.
func (r *Reader) Release() {
	if r.held > 0 {
		r.memory.Free(r.held)
		r.held = 0
	}
}

// A layer decodes one of the codings.
type layer struct {
	of     *Reader
	coding string
	src    counter
	dec    io.Reader
	out    int64

	refused error // why there was no memory
}

// A counter counts the bytes read, and keeps the error that ended reading.
type counter struct {
	src io.Reader
	n   int64
	err error // other than io.EOF
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (l *layer) Read(p []byte) (int, error) {
	if l.dec == nil {
		dec, err := codecs[l.coding](l)
		if err != nil {
			return 0, l.failure(err)
		}
		l.dec = dec
	}
	n, err := l.dec.Read(p)
	l.out += int64(n)
	switch {
	case l.out > free && l.out > MaxRatio*l.src.n:
		return 0, &Error{l.coding, ErrRatio}
	case err != nil && err != io.EOF:
		return n, l.failure(err)
	}
	return n, err
}

// failure returns the error of the source if there is one, since a decoder may have wrapped
// it.
func (l *layer) failure(err error) error {
	switch {
	case l.src.err != nil:
		return l.src.err
	case l.refused != nil:
		return l.refused
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return &Error{l.coding, err}
}

// reserve reserves memory for a window and the decoder's own needs.
func (l *layer) reserve(window int) error {
	n := window + 64<<10
	if l.refused = l.of.memory.Reserve(n); l.refused == nil {
		l.of.held += n
	}
	return l.refused
}

func unzip(l *layer) (io.Reader, error) {
	if err := l.reserve(32 << 10); err != nil {
		return nil, err
	}
	return gzip.NewReader(&l.src)
}

// inflate reads deflate with the zlib header, as the standard requires, or without it, as
// some send it.
func inflate(l *layer) (io.Reader, error) {
	if err := l.reserve(32 << 10); err != nil {
		return nil, err
	}
	b := bufio.NewReader(&l.src)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

// openBrotli reads the window size from the first bits (RFC 7932, section 9.1).
func openBrotli(l *layer) (io.Reader, error) {
	var head [1]byte
	if _, err := io.ReadFull(&l.src, head[:]); err != nil {
		return nil, err
	}
	bits := 16
	if first := head[0]; first&1 != 0 {
		switch n, m := int(first>>1&7), int(first>>4&7); {
		case n != 0:
			bits = 17 + n
		case m == 0:
			bits = 17
		default:
			bits = 8 + m
		}
	}
	if err := l.reserve(1 << bits); err != nil {
		return nil, err
	}
	return brotli.NewReader(io.MultiReader(bytes.NewReader(head[:]), &l.src)), nil
}

// openZstd reads the window size from the header of the first frame. Later frames must not
// need more.
func openZstd(l *layer) (io.Reader, error) {
	var header zstd.Header
	head := make([]byte, 0, zstd.HeaderMaxSize)
	for header.HeaderSize == 0 {
		n, failed := l.src.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		err := header.Decode(head)
		switch {
		case err == nil:
		case !errors.Is(err, io.ErrUnexpectedEOF), len(head) == cap(head):
			return nil, err
		case failed != nil:
			return nil, failed
		default:
			header = zstd.Header{}
		}
	}
	window := header.WindowSize
	switch {
	case header.Skippable:
		window = maxWindow
	case header.SingleSegment:
		window = header.FrameContentSize
	}
	if window = max(window, zstd.MinWindowSize); window > maxWindow {
		return nil, zstd.ErrWindowSizeExceeded
	}
	if err := l.reserve(int(window)); err != nil {
		return nil, err
	}
	// With concurrency 1 it has no goroutines, and need not be closed.
	return zstd.NewReader(io.MultiReader(bytes.NewReader(head), &l.src),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
}
