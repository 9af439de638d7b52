package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func TestAProbeSaysWhyTheGatewayShouldGetNoCalls(t *testing.T) {
	draining := caddy.NewReplacer()
	draining.Set("http.shutting_down", true)
	serving := caddy.NewReplacer()
	serving.Set("http.shutting_down", false)
	unwritable := func() error { return errors.New("the store is not writable") }
	fine := func() error { return nil }
	for name, c := range map[string]struct {
		path     string
		ready    func() error
		replacer *caddy.Replacer
		status   int
		body     string
	}{
		"ready":                  {"/readyz", fine, serving, 200, `{"status":"ok"}`},
		"draining":               {"/readyz", fine, draining, 503, `{"status":"unavailable","reason":"draining"}`},
		"the store":              {"/health", unwritable, serving, 503, `{"status":"unavailable","reason":"the store is not writable"}`},
		"alive while draining":   {"/livez", fine, draining, 200, `{"status":"ok"}`},
		"alive without a store":  {"/livez", unwritable, serving, 200, `{"status":"ok"}`},
		"not below a server":     {"/health", fine, nil, 200, `{"status":"ok"}`},
		"none of the probes":     {"/healthz", fine, serving, 0, ""},
		"below one of the paths": {"/health/x", fine, serving, 0, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.replacer != nil {
			r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, c.replacer))
		}
		w := httptest.NewRecorder()
		served := probe{c.ready}.serve(w, r)
		if served != (c.status != 0) || served && (w.Code != c.status || w.Body.String() != c.body) {
			t.Errorf("%s: %v %d %s", name, served, w.Code, w.Body)
		}
		if (w.Code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", name, w.Header().Get("Retry-After"))
		}
	}
}
