package bedrock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/caddy-gw/gateway/providers/chat"
)

// A Framer splits a stream of type application/vnd.amazon.eventstream into its messages.
// Events are yielded by name. An exception, which ends the stream, is yielded by its name
// with the prefix [failed].
type Framer struct {
	decoder *eventstream.Decoder
	reader  bytes.Reader
	buf     []byte // an incomplete message
	payload []byte // of the latest message
}

// failed marks the name of a message that is an exception.
const failed = "!"

const (
	preludeSize = 12 // the length of the message, that of its headers, and their checksum
	frameSize   = preludeSize + 4
	maxHeaders  = 16 << 10 // the format allows more, but each one is compared with all before it
	maxMessage  = frameSize + maxHeaders + 16<<20
)

// Push takes the next bytes of the stream.
func (f *Framer) Push(src []byte, yield func(name string, data []byte) error) error {
	if len(f.buf) == 0 { // the usual case: only an incomplete rest is copied
		rest, err := f.messages(src, yield)
		f.buf = append(f.buf, rest...)
		return err
	}
	f.buf = append(f.buf, src...)
	rest, err := f.messages(f.buf, yield)
	if len(rest) < len(f.buf) {
		f.buf = f.buf[:copy(f.buf, rest)]
	}
	return err
}

// Buffered returns the size in bytes of the buffer for incomplete messages.
func (f *Framer) Buffered() int { return cap(f.buf) }

// messages yields the complete messages at the start of b and returns the rest.
func (f *Framer) messages(b []byte, yield func(name string, data []byte) error) (rest []byte, err error) {
	for {
		size, err := messageSize(b)
		if err != nil || size == 0 || size > len(b) {
			return b, err
		}
		if err := f.message(b[:size], yield); err != nil {
			return nil, err
		}
		b = b[size:]
	}
}

// messageSize returns the length of the message at the start of b, or 0 if more bytes are
// needed. It is checked at once, because a wrong length would stall the stream.
func messageSize(b []byte) (int, error) {
	if len(b) < preludeSize {
		return 0, nil
	}
	size, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		return 0, errors.New("the checksum of a message's length is wrong")
	case size < frameSize || size > maxMessage || headers > maxHeaders || headers > size-frameSize:
		return 0, fmt.Errorf("a message of %d bytes with %d bytes of headers", size, headers)
	}
	return int(size), nil
}

func (f *Framer) message(b []byte, yield func(name string, data []byte) error) error {
	if f.decoder == nil {
		f.decoder = eventstream.NewDecoder()
	}
	f.reader.Reset(b)
	m, err := f.decoder.Decode(&f.reader, f.payload)
	if err != nil {
		return fmt.Errorf("reading a message of the stream: %w", err)
	}
	if cap(m.Payload) > cap(f.payload) {
		f.payload = m.Payload
	}
	switch kind := text(m.Headers, ":message-type"); kind {
	case "event":
		return yield(text(m.Headers, ":event-type"), m.Payload)
	case "exception":
		return yield(failed+text(m.Headers, ":exception-type"), m.Payload)
	case "error": // it has no payload
		return yield(failed+text(m.Headers, ":error-code"), []byte(text(m.Headers, ":error-message")))
	}
	return nil // an unknown kind of message
}

func text(h eventstream.Headers, name string) string {
	if v, ok := h.Get(name).(eventstream.StringValue); ok {
		return string(v)
	}
	return ""
}

// Rest returns an error if the stream stopped within a message.
func (f *Framer) Rest(func(name string, data []byte) error) error {
	if len(f.buf) > 0 {
		return chat.ErrCut
	}
	return nil
}

// Interface guards
var _ chat.Framer = (*Framer)(nil)
