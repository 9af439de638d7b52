package handlers

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/exchange"
)

// serveNext passes a request that is none of the gateway's on to the next handler. If no handler
// of the site answers it, the answer is 404, which names the path that was probably meant: Caddy's
// own would be an empty 200, in which clients look for what is not there.
func (l *accessLog) serveNext(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	watched := &answerWatcher{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	if err := next.ServeHTTP(watched, r); err != nil || watched.answered {
		return err
	}
	path, _ := exchange.RedactPath(r.URL.Path, l.own)
	exchange.Unserved(path, meantPath(path)).Write(w, nil, exchange.EnvelopeOf(r))
	return nil
}

// meantPath is the path of the API that a path outside of it ends with, or is spelt nearly as; "" if
// there is none. Clients are configured with a base URL that lacks /v1, or has something before it.
func meantPath(path string) string {
	served := func(path string) bool { return exchange.Served(path) || admin.Reserved(path) }
	path = strings.TrimRight(path, "/")
	if at := strings.LastIndex(path, "/v1/"); at > 0 && served(path[at:]) {
		return path[at:]
	}
	for rest := path; rest != ""; {
		if served("/v1" + rest) {
			return "/v1" + rest
		}
		at := strings.IndexByte(rest[1:], '/')
		if at < 0 {
			break
		}
		rest = rest[1+at:]
	}
	return exchange.Nearest(path)
}

// An answerWatcher notes whether a handler has answered.
type answerWatcher struct {
	*caddyhttp.ResponseWriterWrapper
	answered bool
}

func (w *answerWatcher) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.answered = true
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

func (w *answerWatcher) Write(b []byte) (int, error) {
	w.answered = true
	return w.ResponseWriterWrapper.Write(b)
}

func (w *answerWatcher) ReadFrom(r io.Reader) (int64, error) {
	w.answered = true
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends the header if nothing did before.
func (w *answerWatcher) FlushError() error {
	w.answered = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *answerWatcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.answered = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Interface guards
var (
	_ http.ResponseWriter = (*answerWatcher)(nil)
	_ http.Hijacker       = (*answerWatcher)(nil)
	_ io.ReaderFrom       = (*answerWatcher)(nil)
)
