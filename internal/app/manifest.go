package app

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/manifest"
	"github.com/caddy-gw/gateway/storage"
)

// An ExportQuestion is the body of /gw/export.
type ExportQuestion struct {
	Key []byte `json:"key,omitempty"` // that secrets are sealed to; none: they are left out
}

// An ImportQuestion is the body of /gw/import.
type ImportQuestion struct {
	Document json.RawMessage `json:"document"`
	Key      []byte          `json:"key,omitempty"` // that its secrets are sealed to, if any is
	DryRun   bool            `json:"dry_run,omitempty"`
	// AllowMissing: what configs, prompts, model aliases, conditions and mappings of secrets refer to need not exist.
	AllowMissing bool `json:"allow_missing,omitempty"`
	// AllOthers: the answer names all objects that the store has and the document has not.
	AllOthers bool `json:"all_others,omitempty"`
}

// maxDocument bounds the body of /gw/import, in bytes: some 300,000 objects.
const maxDocument = 512 << 20

// manifests returns what makes documents of the store.
func (a *App) manifests(c *core) *manifest.Services {
	return &manifest.Services{
		Set: c.Set, DB: c.DB, Trail: c.Trail,
		Managers: a.managers, Identities: a.ProviderIdentity, ParseOptions: a.parse, Guard: a.guard, IsEndpoint: exchange.IsEndpoint, Now: time.Now, Random: rand.Reader,
	}
}

// operatorRecord is the beginning of a row of the audit trail about the operator. The rows of a request have its id in common.
func operatorRecord(r *http.Request, scope string) audit.Record {
	ip, _, _ := net.SplitHostPort(r.RemoteAddr) // "" on a Unix socket
	return audit.Record{
		KeyID: credentials.OperatorID, KeyName: credentials.OperatorID, Scope: scope, Method: r.Method, Path: r.URL.Path,
		Status: http.StatusOK, RequestID: storage.NewID(rand.Reader), IP: ip, UserAgent: credentials.Clip(r.UserAgent()),
	}
}

// sealerOf returns the sealer of a key; nil: there is none.
func sealerOf(key []byte) (*manifest.Sealer, error) {
	if len(key) == 0 {
		return nil, nil
	}
	return manifest.NewSealer(key)
}

func (rt *Runtime) serveExport(w http.ResponseWriter, r *http.Request) {
	var q ExportQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&q); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	sealer, err := sealerOf(q.Key)
	if err != nil {
		http.Error(w, "key: "+err.Error(), http.StatusBadRequest)
		return
	}
	document, err := rt.manifests.Export(sealer)
	if err == nil {
		record := operatorRecord(r, "organisations.export")
		record.Type = audit.Organisations
		record.OrganisationID = rt.Directory.Organisation().ID
		err = rt.DB.Update(r.Context(), func(tx *storage.Txn) error { return rt.Trail.Add(tx, &record) })
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = jsonv2.MarshalWrite(w, document) // fails only if the client has disconnected
}

func (rt *Runtime) serveImport(w http.ResponseWriter, r *http.Request) {
	var q ImportQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDocument)).Decode(&q); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	in := &manifest.Import{DryRun: q.DryRun, AllowMissing: q.AllowMissing, AllOthers: q.AllOthers, Record: operatorRecord(r, "")}
	var err error
	if in.Sealer, err = sealerOf(q.Key); err != nil {
		http.Error(w, "key: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := in.Document.UnmarshalJSON(q.Document); err != nil { // by itself, or the error would name a type of Go
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	report, err := rt.manifests.Import(r.Context(), in)
	var field *manifest.Error
	switch {
	case errors.As(err, &field):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // fails only if the client has disconnected
	}
}
