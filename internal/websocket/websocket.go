// Package websocket puts the frames of a WebSocket (RFC 6455, section 5) together into messages,
// and makes frames of messages. It is for a connection that passes through, which WebSocket libraries
// are not: they own the connection, and answer pings and closes themselves. Extensions, such as
// compression, are not supported.
package websocket

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Opcodes of whole messages and of control frames.
const (
	Text   = 1
	Binary = 2
	Close  = 8
	Ping   = 9
	Pong   = 10
)

// Codes that a close frame gives (RFC 6455, section 7.4.1, and its registry).
const (
	CodeProtocol    = 1002
	CodeUnsupported = 1003
	CodeViolation   = 1008
	CodeTooBig      = 1009
	CodeTryAgain    = 1013
	CodeBadGateway  = 1014
)

const (
	maxControl = 125 // bytes of the payload of a control frame
	smallest   = 512 // bytes that are reserved for a message
	kept       = 64 << 10
)

// An Error is why frames cannot be read any further.
type Error struct {
	Code   int // for a close frame
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func protocolError(format string, args ...any) *Error {
	return &Error{CodeProtocol, fmt.Sprintf(format, args...)}
}

// A Message is a whole message or a control frame.
type Message struct {
	Opcode  byte
	Payload []byte   // unmasked; valid until the function that it was given to returns
	Mask    *[4]byte // the key of its first frame; nil: frames of this direction are not masked
}

// A Reader puts the frames of one direction together. It is not safe for concurrent use.
type Reader struct {
	// Masked: frames are those of a client.
	Masked bool
	// Max is how long a message may be, in bytes.
	Max int
	// Reserve and Free account for memory. An error of Reserve ends the reading.
	Reserve func(n int) error
	Free    func(n int)

	header [14]byte
	have   int // bytes of header
	err    error

	inside  bool // of a frame, behind its header
	opcode  byte
	last    bool   // the frame ends its message
	left    uint64 // bytes of the frame's payload to come
	key     [4]byte
	masked  int // bytes of the frame's payload that were read
	control []byte

	open    bool // a message has begun
	kind    byte
	first   [4]byte // the key of its first frame
	message []byte
}

// Read reads bytes of the stream, and calls each for what they complete, in order. Its error, or
// an *[Error], is returned, also by every further call.
func (r *Reader) Read(b []byte, each func(Message) error) error {
	for r.err == nil && len(b) > 0 {
		var n int
		if r.inside {
			n, r.err = r.payload(b)
		} else {
			n, r.err = r.head(b)
		}
		b = b[n:]
		if r.err == nil && r.inside && r.left == 0 {
			r.err = r.end(each)
		}
	}
	return r.err
}

// Begun reports whether a message, or a frame, has begun and not ended.
func (r *Reader) Begun() bool { return r.open || r.inside || r.have > 0 }

// head reads bytes of a frame's header.
func (r *Reader) head(b []byte) (n int, err error) {
	for r.have < r.headerSize() && n < len(b) {
		r.header[r.have] = b[n]
		r.have++
		n++
	}
	if r.have < r.headerSize() {
		return n, nil
	}
	return n, r.begin()
}

// headerSize is how long the header is, as far as it was read.
func (r *Reader) headerSize() int {
	if r.have < 2 {
		return 2
	}
	size := 2
	switch r.header[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if r.header[1]&0x80 != 0 {
		size += 4
	}
	return size
}

// begin checks the header of a frame.
func (r *Reader) begin() error {
	h := r.header[:r.have]
	r.have = 0
	r.last, r.opcode = h[0]&0x80 != 0, h[0]&0x0f
	control := r.opcode >= Close
	rest := h[2:]
	switch length := h[1] & 0x7f; length {
	case 126:
		r.left, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 127:
		r.left, rest = binary.BigEndian.Uint64(rest), rest[8:]
	default:
		r.left = uint64(length)
	}
	masked := h[1]&0x80 != 0
	switch {
	case h[0]&0x70 != 0:
		return protocolError("a frame uses an extension that was not agreed on")
	case masked != r.Masked:
		return protocolError("a frame of a client must be masked, and one of a server must not")
	case control && (r.opcode > Pong || !r.last || r.left > maxControl):
		return protocolError("a control frame with opcode %d is fragmented, too long or unknown", r.opcode)
	case !control && (r.opcode > Binary || r.open == (r.opcode != 0)):
		return protocolError("a frame with opcode %d cannot follow here", r.opcode)
	case !control && r.left > uint64(max(0, r.Max-len(r.message))):
		return &Error{CodeTooBig, fmt.Sprintf("a message is longer than %d bytes", r.Max)}
	}
	if masked {
		r.key = [4]byte(rest)
	}
	if !control && !r.open {
		r.open, r.kind, r.first = true, r.opcode, r.key
	}
	r.inside, r.masked = true, 0
	return nil
}

// payload reads bytes of a frame's payload.
func (r *Reader) payload(b []byte) (int, error) {
	n := len(b)
	if uint64(n) > r.left {
		n = int(r.left)
	}
	into := &r.message
	if r.opcode >= Close {
		into = &r.control
	} else if err := r.grow(n); err != nil {
		return 0, err
	}
	start := len(*into)
	*into = append(*into, b[:n]...)
	if r.Masked {
		mask((*into)[start:], &r.key, r.masked)
		r.masked += n
	}
	r.left -= uint64(n)
	return n, nil
}

// grow makes room for n more bytes of the message.
func (r *Reader) grow(n int) error {
	has, size := cap(r.message), len(r.message)+n
	if size <= has {
		return nil
	}
	size = min(max(2*has, size, smallest), max(r.Max, size))
	if err := r.Reserve(size); err != nil {
		return err
	}
	r.message = append(make([]byte, 0, size), r.message...)
	r.Free(has)
	return nil
}

// end ends a frame, and perhaps its message.
func (r *Reader) end(each func(Message) error) error {
	r.inside = false
	if r.opcode >= Close {
		err := each(r.done(r.opcode, r.control, &r.key))
		r.control = r.control[:0]
		return err
	}
	if !r.last {
		return nil
	}
	r.open = false
	err := each(r.done(r.kind, r.message, &r.first))
	if r.message = r.message[:0]; cap(r.message) > kept {
		r.Free(cap(r.message))
		r.message = nil
	}
	return err
}

func (r *Reader) done(opcode byte, payload []byte, key *[4]byte) Message {
	m := Message{Opcode: opcode, Payload: payload}
	if r.Masked {
		m.Mask = key
	}
	return m
}

// mask masks or unmasks bytes that begin at an offset of a frame's payload.
func mask(b []byte, key *[4]byte, offset int) {
	if rest := offset & 3; rest != 0 {
		key = &[4]byte{key[rest], key[(rest+1)&3], key[(rest+2)&3], key[(rest+3)&3]}
	}
	word := uint64(binary.LittleEndian.Uint32(key[:]))
	word |= word << 32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^word)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= key[i&3]
	}
}

// Append appends a message as one frame. Its payload is not changed.
func Append(dst []byte, m Message) []byte {
	dst = append(dst, 0x80|m.Opcode)
	var masked byte
	if m.Mask != nil {
		masked = 0x80
	}
	switch n := len(m.Payload); {
	case n <= maxControl:
		dst = append(dst, masked|byte(n))
	case n <= 0xffff:
		dst = binary.BigEndian.AppendUint16(append(dst, masked|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, masked|127), uint64(n))
	}
	if m.Mask != nil {
		dst = append(dst, m.Mask[:]...)
	}
	start := len(dst)
	dst = append(dst, m.Payload...)
	if m.Mask != nil {
		mask(dst[start:], m.Mask, 0)
	}
	return dst
}

// MaxHeader is how many bytes [Append] adds to a payload at most.
const MaxHeader = 14

// AppendClose appends a close frame of a server. The reason is shortened to what fits.
func AppendClose(dst []byte, code int, reason string) []byte {
	if len(reason) > maxControl-2 {
		reason = reason[:maxControl-2]
		for !utf8.ValidString(reason) {
			reason = reason[:len(reason)-1]
		}
	}
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	return Append(dst, Message{Opcode: Close, Payload: payload})
}
