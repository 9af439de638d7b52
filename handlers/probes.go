package handlers

import (
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
)

// A probe answers load balancers and supervisors, which have no key.
type probe struct {
	ready func() error // why the gateway cannot serve calls; see app.App.Ready
}

// serve answers a request for one of the paths of the probes, and reports whether it was one:
// /livez says that the process answers; /readyz and /health, that it can serve calls. They say no
// more than that, because anyone may ask.
func (p probe) serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	why := ""
	switch r.URL.Path {
	case "/livez":
	case "/readyz", "/health":
		if why = p.unready(r); why != "" {
			w.Header().Set("Retry-After", "1")
		}
	default:
		return false
	}
	status, body := http.StatusOK, `{"status":"ok"}`
	if why != "" {
		status, body = http.StatusServiceUnavailable, `{"status":"unavailable","reason":"`+why+`"}`
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // an error means that the client left
	}
	return true
}

// unready is why the gateway should get no calls, in one word; "" if it should.
func (p probe) unready(r *http.Request) string {
	if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		// Within the shutdown_delay, Caddy still serves, and says so.
		if v, _ := replacer.GetString("http.shutting_down"); v == "true" {
			return "draining"
		}
	}
	if err := p.ready(); err != nil {
		return err.Error()
	}
	return ""
}
