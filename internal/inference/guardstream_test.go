package inference

import (
	"bytes"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Of any stream, the events that are JSON objects are left, in order; one without others is as it was.
func FuzzWellFormedEvents(f *testing.F) {
	for _, seed := range []string{
		"data: {\"a\":1}\n\ndata: {half\n\ndata: [DONE]\n\n", "event: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata: x", "\ufeffdata: {}\rdata: {}\r\r: c\n\n", "data: [DONE]\n\ndata: {\"a\":2}\n\ndata: [\n\n",
	} {
		f.Add([]byte(seed))
	}
	objects := func(t *testing.T, stream []byte) (all [][]byte, malformed int, done bool) {
		events := new(chat.SSE)
		take := func(_ string, data []byte) error {
			switch {
			case events.Done():
			case jsonscan.Members(data, nil) != nil:
				malformed++
			default:
				all = append(all, bytes.ReplaceAll(data, []byte("\n"), []byte(" ")))
			}
			return nil
		}
		if events.Push(stream, take) != nil || events.Rest(take) != nil {
			t.Skip()
		}
		return all, malformed, events.Done()
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		before, malformed, done := objects(t, stream)
		dropped := 0
		kept := wellFormedEvents(bytes.Clone(stream), func() { dropped++ })
		after, left, ends := objects(t, kept)
		if dropped != malformed || left != 0 || ends != done || !slices.EqualFunc(before, after, bytes.Equal) {
			t.Fatalf("%q becomes %q: %d of %d dropped", stream, kept, dropped, malformed)
		}
		if malformed == 0 && !bytes.Equal(kept, stream) {
			t.Fatalf("%q becomes %q", stream, kept)
		}
	})
}
