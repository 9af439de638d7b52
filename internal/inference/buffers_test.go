package inference

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// burst is a stream of n events that come at once, in portions of what net/http reads.
func burst(n int) (io.ReadCloser, string) {
	events := strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"word "}}]}`+"\n\n", n)
	return io.NopCloser(&atMost{strings.NewReader(events), 4 << 10}), events
}

type atMost struct {
	r    io.Reader
	most int
}

func (p *atMost) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.most)]) }

// Each Read of a stream becomes a write to the client: the beginning, which is looked at first,
// must not become more of them.
func TestABurstIsPassedOnInAsManyPiecesAsItCame(t *testing.T) {
	t.Parallel()
	src, events := burst(200)
	seen, err := firstEvents(new(exchange.Call), src, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cap(seen) > 5<<10 || len(seen) != 4<<10 {
		t.Errorf("the beginning is %d bytes in %d", len(seen), cap(seen))
	}
	s := newStream(&peeked{seen: seen, src: src}, watchingChat(), 0)
	var got []byte
	reads, p := 0, make([]byte, 32<<10)
	for {
		n, err := s.Read(p)
		got = append(got, p[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		reads++
	}
	if !bytes.HasPrefix(got, []byte(events)) {
		t.Errorf("got %d bytes of %d", len(got), len(events))
	}
	if most := len(events)/(4<<10) + 2; reads > most { // the last of them is the end
		t.Errorf("%d reads; expected at most %d", reads, most)
	}
}

// The buffer of a stream is another's once it is closed.
func TestAClosedStreamHasNoBuffer(t *testing.T) {
	t.Parallel()
	src, _ := burst(1000)
	s := newStream(src, watchingChat(), 0)
	p := make([]byte, 100)
	for range 200 { // its buffer has become large, and something is left in it
		if _, err := s.Read(p); err != nil {
			t.Fatal(err)
		}
	}
	if s.pooled == nil {
		t.Fatal("the buffer is not pooled")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s.buf != nil || s.pooled != nil {
		t.Error("the buffer is still held")
	}
	if n, err := s.Read(p); n != 0 || err == nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
}
