package inference

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// reply answers a call for a hook. The answer is watched like that of a provider.
func reply(w http.ResponseWriter, x *exchange.Exchange, r *Reply) {
	x.CacheStatus, x.Admitted = r.CacheStatus, true
	to := watcher{x: x}
	to.of(x.Chosen())
	to.out.Status = http.StatusOK
	x.AnswerBy(to.attempt)
	h := w.Header()
	x.SetHeader(h)
	h["Content-Type"] = []string{r.Type}
	if r.Type != "text/event-stream" {
		h["Content-Length"] = []string{strconv.Itoa(len(r.Body))}
		w.WriteHeader(http.StatusOK)
		to.noteFirstByte()
		to.book(membersOf(r.Body))
		x.Sent(r.Body)
		_, _ = w.Write(r.Body)
		return
	}
	w.WriteHeader(http.StatusOK)
	s := newStream(io.NopCloser(bytes.NewReader(r.Body)), &to, 0)
	s.addedUsage = to.attempt.WithoutUsage()
	_, _ = io.Copy(w, s)
}
