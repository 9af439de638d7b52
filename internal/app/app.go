// Package app implements the gw app, which has what the gateway's handlers share. It opens
// the storage when a configuration starts, and creates each service once.
package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/inference"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/mail"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/reqlog"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/telemetry"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/azurekv"
	"github.com/caddy-gw/gateway/storage"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the gw app, which holds the gateway's state and what its handlers share.
type App struct {
	// Where state is kept. Default: the driver badger, in the folder gw of Caddy's
	// data directory.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=gw.storage inline_key=driver"`

	// The organisation owner's service key, at least 32 characters long. Default:
	// one is made at the first start and shown once. Placeholders are replaced.
	AdminKey string `json:"admin_key,omitempty"`

	// A token, at least 32 characters long, with which other parts of the service read the
	// configs, prompts, guardrails, providers and virtual keys (masked) of the whole
	// organisation through the control plane, and nothing else. Placeholders are replaced.
	// Default: the environment's DATA_SERVICE_TOKEN, or none.
	DataServiceToken string `json:"data_service_token,omitempty"`

	// The key that seals provider secrets in the store, at least 32 characters
	// long. Placeholders are replaced. Default: what encryption_key_file holds.
	EncryptionKey string `json:"encryption_key,omitempty"`

	// A file that holds the encryption key. Default: a file with mode 0600 that is
	// made next to the store.
	EncryptionKeyFile string `json:"encryption_key_file,omitempty"`

	// Hosts that callers may name as custom hosts though they are private, on any
	// port: names, addresses, or *.domain. The environment's TRUSTED_CUSTOM_HOSTS
	// (separated by commas) is added. Default: none.
	TrustedCustomHosts []string `json:"trusted_custom_hosts,omitempty"`

	// What the gateway is for Azure, which checks of guardrails may use with azureAuthMode managed and
	// credentials that the organisation has saved: instance, a managed identity of the virtual machine by its
	// metadata service; app_service, one of App Service or Container Apps; or workload, that of the Kubernetes
	// service account. Default: none, and such checks fail.
	AzureIdentity string `json:"azure_identity,omitempty"`

	// What the gateway's machine is in the clouds aws and azure, which providers' credentials may use that the
	// organisation saves with aws_auth_type serviceRole, or assumedRole without keys, or with azure_auth_mode managed,
	// workload or entraFederated. For aws: instance, the role of the EC2 instance by its metadata service (IMDSv2);
	// container, that of the ECS task or the EKS pod identity; or web_identity, that of the Kubernetes service account.
	// For azure: instance, a managed identity of the virtual machine by its metadata service; app_service, one of App
	// Service or Container Apps; or workload, that of the Kubernetes service account. Default: none, and such
	// credentials are refused.
	ProviderIdentity map[string]string `json:"provider_identity,omitempty"`

	// More prefixes of the gateway's headers, such as x-acme-, which are read and
	// answered like x-gw-.
	HeaderPrefixes []string `json:"header_prefixes,omitempty"`

	// Whether only saved resources may be used, and no provider, host or config
	// that a caller names inline. true holds for all; false is the default of
	// data_plane_security_settings of the organisation and its workspaces. The
	// environment's BLOCK_INLINE_CONFIG=true turns it on too. Default: what those
	// settings say, which are on for organisations made since 2026-06-19.
	BlockInlineConfig *bool `json:"block_inline_config,omitempty"`

	// What the kept answers of all calls together may take, in bytes. Default: 256 MiB.
	CacheSize int64 `json:"cache_size,omitempty"`
	// Who shares the answers that the cache keeps: "workspace", each its own, or
	// "organisation", all workspaces. Default: workspace.
	CacheScope string `json:"cache_scope,omitempty"`

	// What the calls under way may hold in memory together, in bytes: bodies, copies of
	// them for another attempt, answers that are translated or kept. Default: a quarter of
	// GOMEMLIMIT where that is set, else of the control group's memory, else of the machine's.
	MaxInflightBytes int64 `json:"max_inflight_bytes,omitempty"`

	// How many inference calls may be under way together, from the first byte of a request to the
	// last of its answer; at least 16. Default: one for each 100 KiB of the default of
	// max_inflight_bytes, and at least 1,000.
	MaxInflightCalls int64 `json:"max_inflight_calls,omitempty"`

	// What the heap grows by between two garbage collections, in bytes: more saves CPU time,
	// and takes memory. At least 4 MiB; 0 keeps Go's own setting, and so does a GOGC in the
	// environment. Where much more is live, it is half of that. Default: 20 MiB.
	GCHeadroom *int64 `json:"gc_headroom,omitempty"`

	// The model of embeddings by which the cache finds answers to questions of the same
	// meaning. Default: none, and x-gw-cache: semantic is refused.
	SemanticCache *SemanticCache `json:"semantic_cache,omitempty"`

	// The request log. Default: records for 30 days in 1 GiB, without bodies.
	Logs *Logs `json:"logs,omitempty"`

	// The audit trail. Default: rows are kept forever, and only in the store.
	AuditLog *AuditLog `json:"audit_log,omitempty"`

	// The server that sends mail. Default: none, and links of invites are handed on by whoever
	// invites.
	SMTP *SMTP `json:"smtp,omitempty"`

	// Where alerts of budgets go, besides Caddy's events and mail. Default: nowhere.
	Alerts *Alerts `json:"alerts,omitempty"`

	// Issuers whose JSON Web Tokens are accepted instead of API keys. Default: none.
	JWT []*JWT `json:"jwt,omitempty"`

	// Providers by their slugs: usable as x-gw-provider: <slug>, or as model
	// @<slug>/<model>.
	Providers map[string]*Provider `json:"providers,omitempty"`

	// Where the values of secret references are, by the names of guest modules. Default:
	// hashicorp_vault, aws_sm and azure_kv, each with its own defaults.
	SecretsRaw caddy.ModuleMap `json:"secrets,omitempty" caddy:"namespace=gw.secrets"`

	// Models that stand for others, where a call names no provider: each for @<slug>/<model>,
	// or for the slug of a config. Those that a workspace makes by the control plane come
	// before, and those of providers that it may not use are not there. Default: none.
	Aliases map[string]string `json:"aliases,omitempty"`

	// Paths other than the gateway's endpoints that the credentials of virtual keys go to, as
	// a provider's own. Default: none but the providers' own.
	PassthroughPaths []string `json:"passthrough_paths,omitempty"`

	// Models that the metrics tell apart, as providers get them, besides those that
	// saved configs name. All others are counted as "other", because callers choose
	// their names. Default: none.
	MetricModels []string `json:"metric_models,omitempty"`

	// What models cost, instead of list prices; of several that fit, the first counts.
	Prices []Price `json:"prices,omitempty"`

	// A file of list prices, in the form of data.json of github.com/pydantic/genai-prices.
	// Placeholders are replaced. Default: those of this build.
	PricesFile string `json:"prices_file,omitempty"`

	driver    Driver
	adminKey  credentials.Secret
	dataToken credentials.Secret
	master    credentials.Secret
	guard     *credentials.HostGuard
	azure     *azurekv.Identity // of checks; nil: none
	machine   upstream.Machine  // of providers
	headers   *exchange.Headers
	providers map[string]*credentials.Provider
	paths     credentials.Paths // of virtual keys
	transport *inference.Transport
	logger    *zap.Logger
	limits    exchange.Limits
	services  *Services     // of the store, from Start on
	timeout   time.Duration // REQUEST_TIMEOUT
	keyPrefix string        // API_KEY_PREFIX
	metrics   *telemetry.Metrics
	prices    *prices.Table
	managers  map[string]secrets.Manager

	blockInline bool // BLOCK_INLINE_CONFIG
	logged      reqlog.Settings
	parse       routing.Options
	sites       []Site
	headroom    int64

	ready   chan struct{} // closed when runtime is set
	runtime *Runtime
	mail    *mail.Sender // nil: no mail is sent

	offline         bool         // it is not Caddy that starts it; see Offline
	held            string       // key in cores; empty: no store is open
	releaseHeadroom func()       // lets go of the collector; nil: it is not held
	releaseTrail    func() error // nil: the audit trail is not configured
	releaseEvents   func()       // nil: rotations are not configured
	releaseAlerts   func()       // nil: alerts are not configured
	emit            func(name string, data map[string]any)
}

// The values of CacheScope.
const (
	scopeWorkspace    = "workspace"
	scopeOrganisation = "organisation"
)

// SemanticCache is a model of embeddings.
type SemanticCache struct {
	// The slug of the provider that has it. Required.
	Provider string `json:"provider"`

	// Its name. Default: text-embedding-3-small.
	Model string `json:"model,omitempty"`

	// The cosine from which on two questions are the same, above 0 and at most 1.
	// Default: 0.95.
	Threshold float64 `json:"threshold,omitempty"`
}

// Provider is a provider of the configuration: a saved resource, whose own key is
// used and whose address is the operator's choice.
type Provider struct {
	// The dialect it speaks: the name of a built-in provider. Required.
	Type string `json:"type"`

	// Where it is, up to where an endpoint's path such as /chat/completions begins; for google, vertex-ai, bedrock and cohere, up to the version.
	// It may be private. Default: the built-in provider's.
	BaseURL string `json:"base_url,omitempty"`

	// Its credential. Placeholders are replaced. Required without base_url, unless a setting
	// or a header is the credential.
	APIKey string `json:"api_key,omitempty"`

	// Settings of the provider, such as aws_region. Placeholders are replaced.
	Settings map[string]string `json:"settings,omitempty"`

	// Headers that every request gets. Placeholders are replaced.
	Headers http.Header `json:"headers,omitempty"`

	// Ids or slugs of the workspaces that may use it. Default: all.
	Workspaces []string `json:"workspaces,omitempty"`

	// Paths other than the gateway's endpoints that its credential goes to: /v1/foo/* for
	// every method, "POST /v1/bar" for one. Default: none but the provider's own.
	PassthroughPaths []string `json:"passthrough_paths,omitempty"`
}

// A Driver is a guest module in the namespace gw.storage.
type Driver interface {
	// CanonicalDir identifies what the driver opens. Two drivers with the same value open
	// the same store.
	CanonicalDir() string
	Open(logger *zap.Logger) (storage.Store, error)
}

// CaddyModule returns the Caddy module information. It copies nothing of the app: events are emitted
// in its name while it is cleaned up.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw", New: func() caddy.Module { return new(App) }}
}

// minKey is the minimum length of a configured key. A 256-bit key in hexadecimal is twice
// as long.
const minKey = 32

// minInflight is the minimum of max_inflight_bytes.
const minInflight = 1 << 20

// minCalls is the minimum of max_inflight_calls: of fewer, fair shares would be none.
const minCalls = 16

// Provision resolves placeholders and checks the configuration. It opens nothing, so that a
// configuration can be validated while the gateway runs.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.ready = make(chan struct{})
	if err := a.SemanticCache.provision(a.Providers); err != nil {
		return err
	}
	switch {
	case a.CacheSize < 0:
		return errors.New("cache_size: expected a size, such as 256MiB")
	case a.CacheScope != "" && a.CacheScope != scopeWorkspace && a.CacheScope != scopeOrganisation:
		return fmt.Errorf("cache_scope: expected workspace or organisation, got %q", a.CacheScope)
	case a.CacheSize == 0:
		a.CacheSize = cache.DefaultSize
	}
	switch {
	case a.MaxInflightBytes < 0 || a.MaxInflightBytes > 0 && a.MaxInflightBytes < minInflight:
		return fmt.Errorf("max_inflight_bytes: expected at least 1 MiB, got %d bytes", a.MaxInflightBytes)
	case a.MaxInflightBytes == 0:
		a.MaxInflightBytes = inflight.Default()
	}
	switch {
	case a.MaxInflightCalls < 0 || a.MaxInflightCalls > 0 && a.MaxInflightCalls < minCalls:
		return fmt.Errorf("max_inflight_calls: expected at least %d, got %d", minCalls, a.MaxInflightCalls)
	case a.MaxInflightCalls == 0:
		a.MaxInflightCalls = inflight.DefaultCalls()
	}
	headroom := int64(DefaultGCHeadroom)
	if a.GCHeadroom != nil {
		headroom = *a.GCHeadroom
	}
	if headroom != 0 && headroom < minGCHeadroom {
		return fmt.Errorf("gc_headroom: expected at least 4 MiB, or 0 for Go's own setting, got %d bytes", headroom)
	}
	a.headroom = headroom
	var err error
	if a.logged, err = a.Logs.settings(); err != nil {
		return err
	}
	if a.AuditLog == nil {
		a.AuditLog = new(AuditLog)
	}
	if err := a.AuditLog.provision(ctx); err != nil {
		return err
	}
	if err := a.SMTP.provision(a.logger); err != nil {
		return err
	}
	if err := a.Alerts.provision(); err != nil {
		return fmt.Errorf("alerts: %w", err)
	}
	if err := a.provisionJWT(); err != nil {
		return err
	}
	if a.StorageRaw == nil {
		a.StorageRaw = json.RawMessage(`{"driver":"badger"}`)
	}
	driver, err := ctx.LoadModule(a, "StorageRaw")
	if err != nil {
		return fmt.Errorf("loading the storage driver: %w", err)
	}
	a.driver = driver.(Driver)
	if err := a.loadSecretManagers(ctx); err != nil {
		return err
	}
	if a.adminKey, err = secret("admin_key", a.AdminKey, minKey); err != nil {
		return err
	}
	if a.dataToken, err = secret("data_service_token", cmp.Or(a.DataServiceToken, os.Getenv("DATA_SERVICE_TOKEN")), minKey); err != nil {
		return err
	}
	if !a.dataToken.Empty() && a.dataToken.Equal(a.adminKey) {
		return errors.New("data_service_token: it is the admin_key; make another")
	}
	if a.master, err = secret("encryption_key", a.EncryptionKey, minKey); err != nil {
		return err
	}
	if a.EncryptionKey != "" && a.EncryptionKeyFile != "" {
		return errors.New("encryption_key: give a key or a file, not both")
	}
	trusted := append(strings.Split(os.Getenv("TRUSTED_CUSTOM_HOSTS"), ","), a.TrustedCustomHosts...)
	if a.guard, err = credentials.NewHostGuard(trusted); err != nil {
		return fmt.Errorf("trusted_custom_hosts: %w", err)
	}
	if err := a.provisionIdentities(); err != nil {
		return err
	}
	if err = a.GuardAdmin(caddy.DefaultAdminListen); err != nil {
		return fmt.Errorf("CADDY_ADMIN: %w", err)
	}
	if a.headers, err = exchange.NewHeaders(a.HeaderPrefixes); err != nil {
		return err
	}
	if a.paths, err = credentials.ParsePaths(a.PassthroughPaths); err != nil {
		return fmt.Errorf("passthrough_paths: %w", err)
	}
	a.providers = make(map[string]*credentials.Provider, len(a.Providers))
	for slug, p := range a.Providers {
		if a.providers[slug], err = p.resolve(slug, a.ProviderIdentity); err != nil {
			return fmt.Errorf("provider %s: %w", slug, err)
		}
	}
	if err := a.checkAliases(); err != nil {
		return err
	}
	a.warnOfAliases()
	if a.parse.Limits, err = routing.LimitsFrom(os.Getenv); err != nil {
		return err
	}
	a.parse.Saved, a.parse.HeaderPrefixes, a.parse.Semantic = true, a.HeaderPrefixes, a.SemanticCache != nil
	a.parse.CheckHost = func(host string) error {
		_, err := a.guard.Check(host)
		return err
	}
	if raw := os.Getenv("BLOCK_INLINE_CONFIG"); raw != "" {
		if a.blockInline, err = strconv.ParseBool(raw); err != nil {
			return fmt.Errorf("BLOCK_INLINE_CONFIG: expected true or false, got %q", raw)
		}
	}
	a.keyPrefix = credentials.DefaultKeyPrefix
	if p := os.Getenv("API_KEY_PREFIX"); p != "" {
		if a.keyPrefix = p; !validPrefix.MatchString(p) {
			return fmt.Errorf("API_KEY_PREFIX: expected up to 32 letters, digits, _ and -, got %q", p)
		}
	}
	if raw := os.Getenv("REQUEST_TIMEOUT"); raw != "" {
		ms, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || ms < 1 {
			return errors.New("REQUEST_TIMEOUT: expected a number of milliseconds")
		}
		a.timeout = time.Duration(ms) * time.Millisecond
	}
	if err := a.registerMetrics(ctx); err != nil {
		return err
	}
	if err := a.loadPrices(); err != nil {
		return err
	}
	if err := a.loadEvents(ctx); err != nil {
		return err
	}
	a.transport = new(inference.Transport)
	a.transport.Guarded(a.guard)
	return a.transport.Provision(ctx)
}

// secret resolves a credential in the configuration.
func secret(name, value string, least int) (credentials.Secret, error) {
	if value == "" {
		return credentials.Secret{}, nil
	}
	resolved, err := resolve(value)
	switch {
	case err != nil:
		return credentials.Secret{}, fmt.Errorf("%s: %w", name, err)
	case strings.ContainsFunc(resolved, func(r rune) bool { return r <= ' ' || r > '~' }):
		return credentials.Secret{}, fmt.Errorf("%s: expected printable ASCII without spaces", name)
	case len(resolved) < least:
		return credentials.Secret{}, fmt.Errorf("%s: expected at least %d characters, got %d", name, least, len(resolved))
	}
	return credentials.NewSecret(resolved), nil
}

var validPrefix = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)
