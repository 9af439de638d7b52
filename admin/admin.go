// Package admin implements the control plane's HTTP API. Authentication, scopes, workspace
// boundaries, validation, paging, envelopes and audit records are the same for every
// resource, and implemented once. The file of a resource only has what is specific to it.
package admin

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/removal"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/storage"
)

// Services are the services that the control plane manages, and what it uses besides.
type Services struct {
	stores.Set

	DB database
	// CheckServices are what checks work with that ask others, for a workspace. It may be nil.
	CheckServices func(workspaceID string) guardrails.Services
	ParseOptions  routing.Options // of saved configs
	// MayUse reports whether a workspace, or for "" any, may use a provider in the operator's
	// configuration. It may be nil.
	MayUse func(workspaceID, slug string) bool
	// Price returns what a model of a provider, by its name or slug, costs in a workspace, or
	// nil if no price is known. It may be nil.
	Price         func(workspaceID, provider, model string) *prices.Price
	Breakers      breakers
	Trail         trail
	Records       Records
	Rotations     rotations // notified of rotated keys; may be nil
	Removals      removals
	Mail          mailer // of invites; nil: their links are handed on
	BaseURL       string // where the control plane is, for links
	Authenticator authenticator
	Guard         hostGuard
	Managers      map[string]secrets.Manager // of secret references
	Identities    routing.Identities         // what providers' credentials may be of the gateway's machine
	Headers       *exchange.Headers
	InFlight      *inflight.Budget // accounts for the memory of bodies; may be nil
	Resync        func()           // fetches anew what is cached of other systems; may be nil
	KeyPrefix     string           // of new service keys
	BlockInline   *bool            // what the operator's configuration says of block_inline_config; nil: nothing
	CountryHeader string           // with the client's country, from trusted proxies; may be ""
	Now           func() time.Time
	Random        io.Reader
	Logger        *zap.Logger
}

// The parts of services that the control plane only reads. It uses the whole of the
// services that it manages, which it reads within its transactions.
type (
	database interface {
		Update(ctx context.Context, fn func(*storage.Txn) error) error
	}
	rotations interface{ Rotated(k *credentials.APIKey) }
	breakers  interface{ Snapshot() []routing.OpenBreaker }
	trail     interface {
		Add(tx *storage.Txn, r *audit.Record) error
		Refused(ctx context.Context, r *audit.Record) error
		Unknown()
		List(ctx context.Context, f *audit.Filter, skip, limit int) (*audit.List, error)
	}
	authenticator interface {
		Authenticate(token string) (*credentials.Caller, *credentials.Error)
		Knows(token string) bool
		Recognizes(token string) bool
		exchange.OperatorKeys
	}
	// removals removes what deleted workspaces have; see [removal.Remover].
	removals interface {
		Has(tx *storage.Txn, workspace string) []string
		Wake()
	}
	mailer    interface{ Send(m *mail.Message) }
	hostGuard interface {
		Check(host string) (*url.URL, error)
	}
)

// Records is the part of the request log that the control plane uses; see [reqlog.Store].
type Records interface {
	Add(r *reqlog.Record) bool
	List(ctx context.Context, f *reqlog.Filter, p reqlog.Page) (*reqlog.List, error)
	Find(ctx context.Context, id string, f *reqlog.Filter) (*reqlog.Record, error)
	Bodies(ctx context.Context, r *reqlog.Record) error
	MaxBody() int
}

// An API serves the control plane below /v1 and /v2.
type API struct {
	Services
	mux      *router
	huma     huma.API
	refusal  map[bool]*huma.Response // what errors are in the document; true: those of paths that show faults
	refusals *throttle
	// strangers throttles clients of open routes, by their addresses.
	strangers *throttle
	written   *fairshare.Quota // of custom records, by key
	// Of rows of the audit trail, by workspace: those of changes, and those of refusals.
	changes, turnedAway *fairshare.Quota
	views               map[string]any // of type view, by path

	documents *documents
	defaults  *defaultCollections
}

// New returns the API for the given services.
func New(s Services) *API {
	mux := new(router)
	format := huma.Format{
		// Objects of any members, such as tags, have them in the same order each time.
		Marshal: func(w io.Writer, v any) error { return json.MarshalWrite(w, v, json.Deterministic(true)) },
		// Unlike encoding/json, this rejects duplicate keys and matches names exactly.
		// Huma's validation ignores case, so other spellings must be rejected here.
		Unmarshal: func(data []byte, v any) error {
			err := misread(json.Unmarshal(data, v, json.RejectUnknownMembers(true)))
			if whole, ok := v.(*any); ok { // for its schema
				*whole = cutLists(*whole)
			}
			return err
		},
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "AI gateway control plane", Version: "2.0.0"},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key":       {Type: "apiKey", In: "header", Name: "x-gw-api-key"},
					"bearer":    {Type: "http", Scheme: "bearer"},
					"anthropic": {Type: "apiKey", In: "header", Name: "x-api-key", Description: "Where there is neither of the others, as Anthropic's clients send it."},
				},
			},
			Security: []map[string][]string{{"key": {}}, {"bearer": {}}, {"anthropic": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
	}
	a := &API{Services: s, mux: mux, huma: bounded{humago.New(mux, config)}, refusals: newThrottle(s.Now), strangers: newThrottle(s.Now), written: newCustomQuota(s.Now), changes: newTrailQuota(trailRowsAtOnce, trailBytesAtOnce, s.Now), turnedAway: newTrailQuota(trailRowsAtOnce, trailBytesAtOnce, s.Now), views: make(map[string]any), documents: &documents{forms: make(map[[2]string][]byte)}, defaults: &defaultCollections{directory: s.Directory}}
	a.refusal = errorResponses(a.huma.OpenAPI())
	a.auditLogs()
	a.organisation()
	a.resync()
	a.workspaces()
	a.users()
	a.invites()
	a.apiKeys()
	a.virtualKeys()
	a.secretReferences()
	a.integrations()
	a.providers()
	a.configs()
	a.modelAliases()
	a.pricing()
	a.prompts()
	a.partials()
	a.labels()
	a.collections()
	a.guardrails()
	a.guardrailDefaults()
	a.plugins()
	a.health()
	a.self()
	a.keyDetails()
	a.rateLimits()
	a.usageLimits()
	a.batches()
	a.logs()
	a.fieldRestrictions()
	describe(a.huma.OpenAPI())
	return a
}

// ServeHTTP answers all requests with a reserved path. Unknown paths are answered with
// 404.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if exchange.KeyInPath(r.URL.EscapedPath(), a.Authenticator) {
		writeError(w, r, failure(http.StatusBadRequest, "path: a service key in it, which URLs give away; send it as the header x-gw-api-key, and replace the key"))
		return
	}
	if !utf8.ValidString(r.URL.Path) {
		writeError(w, r, failure(http.StatusBadRequest, "path: expected UTF-8, percent-encoded"))
		return
	}
	if p := pageFor(r); p != nil {
		p.ServeHTTP(w, r)
		return
	}
	if a.serveDocument(w, r) {
		return
	}
	if r.URL.Path != path.Clean(r.URL.Path) {
		writeError(w, r, failure(http.StatusNotFound, "Nothing is served at %s", credentials.Clip(r.URL.Path)))
		return
	}
	if _, pattern := a.mux.Handler(r); pattern == "" {
		writeError(w, r, a.unserved(r))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// Paths returns the paths of the control plane below /v1, sorted.
func (a *API) Paths() []string { return slices.Sorted(maps.Keys(a.huma.OpenAPI().Paths)) }

// unserved returns the error for a path, or a method of a path, that is not served.
func (a *API) unserved(r *http.Request) *Error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		e := failure(http.StatusNotFound, "Nothing is served at %s", credentials.Clip(r.URL.Path))
		if to := exchange.Nearest(r.URL.Path, a.Paths()...); to != "" {
			e.Data.Message += "; did you mean " + to + "?"
		}
		return e
	}
	e := failure(http.StatusMethodNotAllowed, "Method not allowed: got %s, expected %s", credentials.Clip(r.Method), strings.Join(allow, " or "))
	e.Data.Message += a.servedBelow(r)
	e.allow = strings.Join(allow, ", ")
	return e
}

// servedBelow returns the paths below the path of a request that support its method, or
// "".
func (a *API) servedBelow(r *http.Request) string {
	base := r.URL.Path[:len("/v1")]
	var paths []string
	for p, item := range a.huma.OpenAPI().Paths {
		operation := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete}[r.Method]
		rest, below := strings.CutPrefix(p, "/v1"+r.URL.Path[len(base):]+"/")
		if operation != nil && below && !strings.Contains(rest, "{") {
			paths = append(paths, base+p[len("/v1"):])
		}
	}
	if len(paths) == 0 {
		return ""
	}
	slices.Sort(paths)
	return "; " + r.Method + " is served at " + strings.Join(paths, ", ")
}

func writeError(w http.ResponseWriter, r *http.Request, e *Error) {
	w.Header().Set("Content-Type", "application/json")
	maps.Copy(w.Header(), e.GetHeaders())
	w.WriteHeader(e.status)
	_ = json.MarshalWrite(w, e.at(r.URL.Path)) // fails only if the client has disconnected
}

// Interface guards
var (
	_ http.Handler = (*API)(nil)
	_ error        = (*Error)(nil)
	_ removals     = (*removal.Remover)(nil)
)
