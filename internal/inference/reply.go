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
	status := http.StatusOK
	if x.Judged != nil && x.Judged.Failed {
		status = exchange.StatusHooksFailed
	}
	to.out.Status = status
	x.AnswerBy(to.attempt)
	h := w.Header()
	x.SetHeader(h)
	h["Content-Type"] = []string{r.Type}
	if r.Type != "text/event-stream" {
		body := r.Body
		if x.Judged != nil {
			body = withResults(body, x.Judged.JSON())
		}
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		w.WriteHeader(status)
		to.noteFirstByte()
		to.book(membersOf(body))
		x.Sent(body)
		_, _ = w.Write(body)
		return
	}
	w.WriteHeader(status)
	s := newStream(io.NopCloser(bytes.NewReader(append(resultsEvent(x), r.Body...))), &to, 0)
	s.addedUsage = to.attempt.WithoutUsage()
	_, _ = io.Copy(w, s)
}
