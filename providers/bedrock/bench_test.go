package bedrock

import (
	"fmt"
	"testing"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/providers"
)

func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10} {
		c := newCall(b, providers.ChatComplete, string(dialecttest.Conversation("anthropic.claude-x-v1:0", size)))
		p := provider()
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(c.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Prepare(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// chunks are streams in their midst, and the bytes of one more piece of text.
func chunks(t testing.TB) map[string]struct {
	stream providers.Stream
	piece  []byte
} {
	t.Helper()
	s := streams(t)
	out := make(map[string]struct {
		stream providers.Stream
		piece  []byte
	})
	for dialect, piece := range map[string][]byte{
		"chat":     frame(t, "contentBlockDelta", []byte(`{"contentBlockIndex":0,"delta":{"text":"Hello, world"},"p":"abcdefghijklmno"}`)),
		"messages": frame(t, "chunk", []byte(`{"bytes":"eyJ0eXBlIjoiY29udGVudF9ibG9ja19kZWx0YSIsImluZGV4IjowLCJkZWx0YSI6eyJ0eXBlIjoidGV4dF9kZWx0YSIsInRleHQiOiJIZWxsbyJ9fQ==","p":"abc"}`)),
	} {
		if _, err := s[dialect].Translate(nil, frame(t, "messageStart", []byte(`{"role":"assistant"}`))); err != nil {
			t.Fatal(err)
		}
		out[dialect] = struct {
			stream providers.Stream
			piece  []byte
		}{s[dialect], piece}
	}
	return out
}

func BenchmarkChunk(b *testing.B) {
	for dialect, c := range chunks(b) {
		b.Run(dialect, func(b *testing.B) {
			b.SetBytes(int64(len(c.piece)))
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				var err error
				if out, err = c.stream.Translate(out[:0], c.piece); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAChunkCostsFewAllocations(t *testing.T) {
	const most = 45 // nearly all of them the decoder's, of the frame
	for dialect, c := range chunks(t) {
		var out []byte
		t.Run(dialect, func(t *testing.T) {
			alloctest.AtMost(t, most, 100, func() {
				var err error
				if out, err = c.stream.Translate(out[:0], c.piece); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
