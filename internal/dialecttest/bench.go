package dialecttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers"
)

// Conversation returns the body of a Chat Completions request of about the given size in
// bytes: turns of text, and a tool.
func Conversation(model string, size int) []byte {
	var turns []string
	for n := 0; n < size; n += 1024 {
		turns = append(turns, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[len(turns)%2], strings.Repeat("words ", 160)))
	}
	return fmt.Appendf(nil, `{"model":%q,"max_tokens":100,"temperature":0.5,"messages":[%s],"tools":[{"type":"function","function":{"name":"f",`+
		`"parameters":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}}}]}`, model, strings.Join(turns, ","))
}

// BenchmarkRequest translates requests of 2 KB and of 200 KB.
func (d Dialect) BenchmarkRequest(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		body := Conversation(d.Model, size)
		c := (&Case{Endpoint: providers.ChatComplete, Body: body}).Call(d.Provider)
		if c.Provider.Dialect == nil && c.Provider.Encoder == nil { // its body is passed on
			c = (&Case{Endpoint: providers.Messages, Body: body}).Call(d.Provider)
		}
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Provider.Prepare(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// midst returns a stream that has begun, for a client whose dialect is not the provider's.
func (d Dialect) midst(t testing.TB, begin []byte) providers.Stream {
	t.Helper()
	s := d.Answer(t, d.speaks(t)[0]).Stream
	if _, err := s.Translate(nil, begin); err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkPiece translates a piece of a stream that has begun with begin.
func (d Dialect) BenchmarkPiece(b *testing.B, begin, piece string) {
	s, dst, in := d.midst(b, []byte(begin)), make([]byte, 0, 4096), []byte(piece)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Translate(dst[:0], in); err != nil {
			b.Fatal(err)
		}
	}
}

// CheckAllocations bounds the allocations for a piece of a stream that has begun with
// begin.
func (d Dialect) CheckAllocations(t *testing.T, begin, piece string, most float64) {
	t.Helper()
	s, dst, in := d.midst(t, []byte(begin)), make([]byte, 0, 4096), []byte(piece)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := s.Translate(dst[:0], in); err != nil {
			t.Fatal(err)
		}
	}); n > most {
		t.Errorf("got %v allocations, want at most %v", n, most)
	}
}
