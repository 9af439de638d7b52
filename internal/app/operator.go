package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/audit"
)

func init() {
	caddy.RegisterModule(operatorAPI{})
}

// operatorAPI serves the gateway's operator at Caddy's admin endpoint, below /gw/. Whoever can
// use that can also replace the configuration, and so needs no API key:
//
//	/gw/v1/…                 the control plane, as the organisation's owner
//	POST /gw/audit/verify    compares the audit trail with its seals and with checkpoints
//	GET /gw/backup           a backup of the store
//	GET /gw/doctor           what is right and wrong with the gateway
//	POST /gw/export          the control plane as a document
//	POST /gw/import          makes the control plane what a document says
type operatorAPI struct{}

// CaddyModule returns the Caddy module information.
func (operatorAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.gw", New: func() caddy.Module { return new(operatorAPI) }}
}

// Routes returns the routes of the admin endpoint.
func (operatorAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/gw/", Handler: caddy.AdminHandlerFunc(serveOperator)}}
}

// serveOperator serves the running gateway, if there is one.
func serveOperator(w http.ResponseWriter, r *http.Request) error {
	module, err := caddy.ActiveContext().AppIfConfigured("gw")
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("this Caddy runs no gateway (there is no gw app in its configuration)")}
	}
	rt, err := module.(*App).Runtime(r.Context())
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: fmt.Errorf("the gateway has not started: %w", err)}
	}
	rt.Operator().ServeHTTP(w, r)
	return nil
}

// Operator returns the handler of the routes below /gw/.
func (rt *Runtime) Operator() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/gw/v1/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/gw", rt.Admin).ServeHTTP(w, r.WithContext(admin.AsOperator(r.Context())))
	})
	mux.HandleFunc("POST /gw/audit/verify", rt.verifyAudit)
	mux.HandleFunc("GET /gw/backup", rt.backup)
	mux.HandleFunc("GET /gw/doctor", rt.serveDoctor)
	mux.HandleFunc("POST /gw/export", rt.serveExport)
	mux.HandleFunc("POST /gw/import", rt.serveImport)
	return mux
}

// AuditQuestion is the body of /gw/audit/verify.
type AuditQuestion struct {
	Checkpoints []audit.Checkpoint `json:"checkpoints"`
	Keys        []string           `json:"keys"` // earlier ones
}

// maxQuestion bounds the body of /gw/audit/verify, in bytes: checkpoints of some ten years.
const maxQuestion = 512 << 20

func (rt *Runtime) verifyAudit(w http.ResponseWriter, r *http.Request) {
	var q AuditQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&q); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	var keys []audit.Key
	for _, secret := range q.Keys {
		k, err := audit.NewKey(strings.TrimSpace(secret))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		keys = append(keys, k)
	}
	report, err := rt.Trail.Verify(r.Context(), q.Checkpoints, keys...)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // fails only if the client has disconnected
}

// backup streams a backup. One that breaks off lacks its end, by which it is recognised.
func (rt *Runtime) backup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := rt.DB.Backup(r.Context(), w); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Offline opens the store of a configuration of the gw app, for whoever wants to see or change
// it while Caddy does not run. It creates none. release closes it.
func Offline(ctx context.Context, config json.RawMessage) (rt *Runtime, release func() error, err error) {
	var a *App
	cfg := &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "WARN"}}}},
		AppsRaw: caddy.ModuleMap{"gw": config},
	}
	c, err := caddy.ProvisionContext(cfg)
	if err != nil {
		return nil, nil, err
	}
	module, err := c.App("gw")
	if err != nil {
		return nil, nil, err
	}
	a = module.(*App)
	a.offline = true
	dir := a.driver.CanonicalDir()
	if files, err := os.ReadDir(dir); dir != "" && (err != nil || len(files) == 0) {
		return nil, nil, fmt.Errorf("there is no store in %s; name the server with --address, or its configuration with --config", dir)
	}
	if err := a.Start(); err != nil {
		return nil, nil, errors.Join(err, a.Cleanup())
	}
	return a.runtime, a.Cleanup, nil
}

// Interface guards
var _ caddy.AdminRouter = operatorAPI{}
