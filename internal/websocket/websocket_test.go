package websocket_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/websocket"
)

// reader returns a reader whose memory is accounted for in held.
func reader(masked bool, held *int) *websocket.Reader {
	return &websocket.Reader{
		Masked: masked, Max: 1 << 20,
		Reserve: func(n int) error { *held += n; return nil },
		Free:    func(n int) { *held -= n },
	}
}

// read reads a stream in pieces of the given sizes, and what is left in one.
func read(r *websocket.Reader, stream []byte, sizes []int) (all []websocket.Message, err error) {
	keep := func(m websocket.Message) error {
		m.Payload = bytes.Clone(m.Payload)
		if m.Mask != nil {
			key := *m.Mask
			m.Mask = &key
		}
		all = append(all, m)
		return nil
	}
	for _, n := range sizes {
		n = min(n, len(stream))
		if err = r.Read(stream[:n], keep); err != nil {
			return all, err
		}
		stream = stream[n:]
	}
	return all, r.Read(stream, keep)
}

func same(a, b websocket.Message) bool {
	return a.Opcode == b.Opcode && bytes.Equal(a.Payload, b.Payload) && (a.Mask == nil) == (b.Mask == nil) && (a.Mask == nil || *a.Mask == *b.Mask)
}

// Messages that were cut into fragments, with control frames between them, are the same however
// the stream comes, and what is made of them reads the same again.
func TestMessagesSurviveFragmentsAndPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		masked := rapid.Bool().Draw(t, "masked")
		key := func() *[4]byte {
			if !masked {
				return nil
			}
			k := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "key"))
			return &k
		}
		var stream []byte
		var want []websocket.Message
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			payload := rapid.SliceOfN(rapid.Byte(), 0, 70000).Draw(t, "payload")
			m := websocket.Message{Opcode: rapid.SampledFrom([]byte{websocket.Text, websocket.Binary}).Draw(t, "opcode"), Payload: payload, Mask: key()}
			part := m
			for range rapid.IntRange(0, 3).Draw(t, "fragments") {
				n := rapid.IntRange(0, len(payload)).Draw(t, "length")
				part.Payload, payload = payload[:n], payload[n:]
				at := len(stream)
				stream = websocket.Append(stream, part)
				stream[at] &^= 0x80 // another follows
				if rapid.Bool().Draw(t, "ping") {
					ping := websocket.Message{Opcode: websocket.Ping, Payload: []byte("are you there"), Mask: key()}
					stream, want = websocket.Append(stream, ping), append(want, ping)
				}
				part = websocket.Message{Mask: key()}
			}
			part.Payload = payload
			stream, want = websocket.Append(stream, part), append(want, m)
		}
		held := 0
		r := reader(masked, &held)
		got, err := read(r, stream, rapid.SliceOfN(rapid.IntRange(0, 5000), 0, 30).Draw(t, "pieces"))
		if err != nil || !slices.EqualFunc(got, want, same) {
			t.Fatalf("read %d messages, want %d: %v", len(got), len(want), err)
		}
		if held > 64<<10 {
			t.Errorf("%d bytes are held between messages", held)
		}
		var again []byte
		for _, m := range got {
			again = websocket.Append(again, m)
		}
		if got, err := read(reader(masked, &held), again, nil); err != nil || !slices.EqualFunc(got, want, same) {
			t.Errorf("what was made of them reads differently: %v", err)
		}
	})
}

func TestFramesThatAreRefused(t *testing.T) {
	key := &[4]byte{1, 2, 3, 4}
	text := func(payload string) []byte {
		return websocket.Append(nil, websocket.Message{Opcode: websocket.Text, Payload: []byte(payload), Mask: key})
	}
	with := func(frame []byte, change func([]byte)) []byte {
		change(frame)
		return frame
	}
	for name, c := range map[string]struct {
		stream []byte
		code   int
	}{
		"a frame without a mask":       {websocket.Append(nil, websocket.Message{Opcode: websocket.Text}), websocket.CodeProtocol},
		"a compressed frame":           {with(text("x"), func(f []byte) { f[0] |= 0x40 }), websocket.CodeProtocol},
		"an unknown opcode":            {with(text("x"), func(f []byte) { f[0] = 0x83 }), websocket.CodeProtocol},
		"an unknown control opcode":    {with(text("x"), func(f []byte) { f[0] = 0x8b }), websocket.CodeProtocol},
		"a continuation of nothing":    {with(text("x"), func(f []byte) { f[0] = 0x80 }), websocket.CodeProtocol},
		"a message within another":     {append(with(text("x"), func(f []byte) { f[0] = 0x01 }), text("y")...), websocket.CodeProtocol},
		"a ping in fragments":          {with(text("x"), func(f []byte) { f[0] = websocket.Ping }), websocket.CodeProtocol},
		"a long ping":                  {with(text(string(make([]byte, 126))), func(f []byte) { f[0] = 0x80 | websocket.Ping }), websocket.CodeProtocol},
		"a message that is too long":   {text(string(make([]byte, 1<<20+1))), websocket.CodeTooBig},
		"a length that overflows":      {[]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}, websocket.CodeTooBig},
		"fragments that are too long":  {append(with(text(string(make([]byte, 1<<20))), func(f []byte) { f[0] = 0x01 }), with(text("x"), func(f []byte) { f[0] = 0x80 })...), websocket.CodeTooBig},
		"a message longer than an int": {[]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}, websocket.CodeTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			held := 0
			r := reader(true, &held)
			got, err := read(r, c.stream, nil)
			var wrong *websocket.Error
			if !errors.As(err, &wrong) || wrong.Code != c.code || len(got) > 0 {
				t.Fatalf("read %v, %v", got, err)
			}
			if again := r.Read(text("x"), nil); again != err {
				t.Errorf("read on: %v", again)
			}
		})
	}
}

// Memory is reserved as a message comes, not as its header promises.
func TestALengthReservesNothing(t *testing.T) {
	held := 0
	r := reader(true, &held)
	if err := r.Read([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x0f, 0, 0, 1, 2, 3, 4, 'x'}, nil); err != nil || held > 1024 {
		t.Errorf("%d bytes are held: %v", held, err)
	}
	full := errors.New("full")
	r.Reserve = func(int) error { return full }
	if err := r.Read(make([]byte, 4096), nil); err != full {
		t.Errorf("read on without memory: %v", err)
	}
}

func TestReasonsOfCloseFramesAreShortened(t *testing.T) {
	frame := websocket.AppendClose(nil, websocket.CodeViolation, string(bytes.Repeat([]byte("é"), 100)))
	held := 0
	got, err := read(reader(false, &held), frame, nil)
	if err != nil || len(got) != 1 || got[0].Opcode != websocket.Close || string(got[0].Payload) != "\x03\xf0"+string(bytes.Repeat([]byte("é"), 61)) {
		t.Errorf("%v, %v", got, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(websocket.Append(nil, websocket.Message{Opcode: websocket.Text, Payload: []byte("text")}), false, uint8(1))
	f.Add(websocket.Append(nil, websocket.Message{Opcode: websocket.Text, Payload: []byte("text"), Mask: &[4]byte{1, 2, 3, 4}}), true, uint8(3))
	f.Add([]byte{0x01, 0x01, 'a', 0x89, 0x00, 0x80, 0x01, 'b'}, false, uint8(2))
	f.Fuzz(func(t *testing.T, stream []byte, masked bool, size uint8) {
		held := 0
		whole, err := read(reader(masked, &held), stream, nil)
		pieces, errOfPieces := read(reader(masked, &held), stream, slices.Repeat([]int{int(size) + 1}, len(stream)))
		if (err == nil) != (errOfPieces == nil) || !slices.EqualFunc(whole, pieces, same) {
			t.Fatalf("%v (%v), in pieces %v (%v)", whole, err, pieces, errOfPieces)
		}
		var out []byte
		for _, m := range whole {
			out = websocket.Append(out, m)
		}
		if again, err := read(reader(masked, &held), out, nil); err != nil || !slices.EqualFunc(whole, again, same) {
			t.Errorf("made %v (%v) of %v", again, err, whole)
		}
	})
}
