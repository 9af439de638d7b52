package inference

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// reply answers a call for a hook. The answer is watched like that of a provider.
func reply(w http.ResponseWriter, x *exchange.Exchange, r *Reply, visits []Visit) {
	x.CacheStatus, x.Admitted = r.CacheStatus, true
	if x.CacheStatus == "" && x.Endpoint.Cacheable {
		x.CacheStatus = exchange.CacheDisabled
	}
	to := watcher{x: x}
	to.of(x.Chosen())
	body, status := annotateReply(visits, r)
	to.out.Status = status
	x.AnswerBy(to.attempt)
	h := w.Header()
	x.SetHeader(h)
	h["Content-Type"] = []string{r.Type}
	if r.Type != "text/event-stream" {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		w.WriteHeader(status)
		to.noteFirstByte()
		to.book(membersOf(body))
		x.Excerpts.Sent(body)
		_, _ = w.Write(body)
		return
	}
	w.WriteHeader(status)
	s := newStream(io.NopCloser(bytes.NewReader(body)), &to, 0)
	s.addedUsage = to.attempt.Payload().WithoutUsage()
	_, _ = io.Copy(w, s)
}
