package echo

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// nowhere is a client that discards everything.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) WriteHeader(int)             {}
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) Flush()                      {}

func BenchmarkServeHTTP(b *testing.B) {
	kilobytes := func(n int) string { return strings.Repeat("The quick brown fox. ", n*1000/21) }
	chat := func(text, more string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]` + more + `}`
	}
	for _, bench := range []struct{ name, path, body string }{
		{"chat/2KB", "/v1/chat/completions", chat(kilobytes(2), "")},
		{"chat/200KB", "/v1/chat/completions", chat(kilobytes(200), "")},
		{"chat/stream/2KB", "/v1/chat/completions", chat(kilobytes(2), `,"stream":true`)},
		{"chat/tool", "/v1/chat/completions", chat("hello", `,"tools":`+tools)},
		{"embedding/1536", "/v1/embeddings", `{"input":"hello","dimensions":1536,"encoding_format":"base64"}`},
		{"moderation", "/v1/moderations", `{"input":"hello"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := new(Echo)
			w := nowhere{make(http.Header)}
			body := strings.NewReader(bench.body)
			r, err := http.NewRequest(http.MethodPost, bench.path, io.NopCloser(body))
			if err != nil {
				b.Fatal(err)
			}
			r.ContentLength = int64(len(bench.body))
			b.ReportAllocs()
			b.SetBytes(r.ContentLength)
			for b.Loop() {
				body.Reset(bench.body)
				if err := e.ServeHTTP(w, r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
