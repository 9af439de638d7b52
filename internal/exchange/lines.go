package exchange

import (
	"bytes"
	"sync/atomic"
	"unicode/utf8"

	"github.com/caddy-gw/gateway/internal/forms"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxLine is how long a line of a file may be that a batch is made of, in bytes.
const maxLine = 4 << 20

// batchLine is the endpoint of a line of a batch's file, which is a call of any endpoint.
var batchLine = Endpoint{Name: "batchLine", Objects: items}

// fileLines looks at the lines of a file as they pass: a batch makes a call of each. It reports
// whether all of them could be read and name only what they may.
type fileLines struct {
	lease   *inflight.Lease // of the call
	partial []byte          // the beginning of a line
	over    atomic.Bool     // the file came to its end
	unread  atomic.Bool     // a line could not be read, or names what it may not
}

// read reports whether the whole file was read, and names only what it may.
func (l *fileLines) read() bool { return l.over.Load() && !l.unread.Load() }

// write looks at a part of the file; passes reports whether a line that is JSON names only
// what it may.
func (l *fileLines) write(b []byte, passes func([]byte) bool) {
	for !l.unread.Load() {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		if !ended || len(l.partial) > 0 {
			l.keep(line)
			line = l.partial
		}
		if !ended {
			return
		}
		l.look(line, passes)
		l.partial, b = l.partial[:0], rest
	}
}

// end looks at the last line of a file.
func (l *fileLines) end(passes func([]byte) bool) {
	if !l.unread.Load() {
		l.look(l.partial, passes)
		l.partial = l.partial[:0]
	}
}

func (l *fileLines) keep(b []byte) {
	size, has := len(l.partial)+len(b), cap(l.partial)
	if size > maxLine || size > has && l.lease.Grow(2*size-has) != nil {
		l.giveUp()
		return
	}
	if size > has {
		l.partial = append(make([]byte, 0, 2*size), l.partial...)
	}
	l.partial = append(l.partial, b...)
}

func (l *fileLines) giveUp() {
	l.unread.Store(true)
	l.partial = nil
}

// look looks at a line. One that begins as no JSON does is not a call, and names nothing, unless there is an object in
// it: readers differ in what ends a line.
func (l *fileLines) look(line []byte, passes func([]byte) bool) {
	line = bytes.Trim(line, blanks)
	switch {
	case len(line) == 0:
	case line[0] == '{', line[0] == '[':
		r := jsonscan.NewReader(line)
		if r.Raw(); r.Err() != nil || !utf8.Valid(line) || !passes(line) {
			l.giveUp()
		}
	case line[0] <= ' ' || line[0] > '~' || bytes.IndexByte(line, 0) >= 0 || bytes.IndexByte(line, '{') >= 0: // perhaps in another encoding
		l.giveUp()
	}
}

// plainPart reports whether the content of a part is as it is read here: UTF-8 if it is text.
func plainPart(p *forms.Part) bool { return utf8Charset(p.Charset) }
