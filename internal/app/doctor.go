package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/secretcache"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/secrets"
)

// A Finding is something that a [Diagnosis] looked at.
type Finding struct {
	Check   string `json:"check"`  // store, keys, clock, provider, credentials, secret
	Status  string `json:"status"` // ok, warning, error
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do about it
}

// The values of [Finding.Status].
const (
	FindingOK      = "ok"
	FindingWarning = "warning"
	FindingError   = "error"
)

// A Diagnosis says what is right and wrong with a gateway.
type Diagnosis struct {
	Findings []Finding `json:"findings"`
}

const (
	expiringWithin = 14 * 24 * time.Hour
	maxClockSkew   = 30 * time.Second
	maxReached     = 200 // hosts
	reachedAtOnce  = 8
	maxNamedOf     = 50 // findings of one kind
)

func (d *Diagnosis) add(check, status, advice, format string, args ...any) {
	d.Findings = append(d.Findings, Finding{check, status, fmt.Sprintf(format, args...), advice})
}

// A checker is what a diagnosis needs.
type checker struct {
	*Services
	providers map[string]*credentials.Provider
	issuers   []string // URLs of key sets
	ownerKey  bool     // admin_key is configured
	reach     func(ctx context.Context, url string, public bool) (time.Time, error)
	now       func() time.Time
}

func (a *App) checker(s *Services) *checker {
	p := &checker{
		Services: s, providers: a.providers, ownerKey: !a.adminKey.Empty(), now: time.Now,
		reach: upstream.NewClient(a.transport.Pools(), a.own()).Reach,
	}
	for _, j := range a.JWT {
		p.issuers = append(p.issuers, j.JWKSURLs...)
	}
	return p
}

// diagnose looks at the store, the keys, the providers and the clock.
func (p *checker) diagnose(ctx context.Context) *Diagnosis {
	d := &Diagnosis{Findings: []Finding{}}
	if err := p.DB.Writable(); err != nil {
		d.add("store", FindingError, "Make room on the disk of the store, or see its log; reads go on.", "the store cannot be written: %v", err)
	} else {
		d.add("store", FindingOK, "", "the store can be read and written")
	}
	p.keys(d)
	p.credentials(d)
	p.secrets(ctx, d)
	p.hosts(ctx, d)
	return d
}

// keys looks at the API keys.
func (p *checker) keys(d *Diagnosis) {
	if !p.ownerKey && !p.Keyring.HasOwner() {
		d.add("keys", FindingWarning, "Set admin_key in the gw block, or use caddy gw.", "there is no owner's key: the organisation can only be managed by Caddy's admin endpoint")
	}
	var few limited
	for _, k := range p.Keyring.APIKeys() {
		if k.ExpiresAt != nil {
			few.expires(d, p.now(), "keys", "API key "+k.Name+" ("+k.ID+")", *k.ExpiresAt, "Set another expires_at, or revoke the key.")
		}
	}
	few.rest(d, "keys")
	if few.n == 0 {
		d.add("keys", FindingOK, "", "no API key of %d expires within %d days", len(p.Keyring.APIKeys()), int(expiringWithin.Hours()/24))
	}
}

// limited counts findings of one kind, and shows so many.
type limited struct{ n int }

func (l *limited) expires(d *Diagnosis, now time.Time, check, what string, at time.Time, advice string) {
	if at.After(now.Add(expiringWithin)) {
		return
	}
	if l.n++; l.n > maxNamedOf {
		return
	}
	verb := "expires"
	if !now.Before(at) {
		verb = "has expired:"
	}
	d.add(check, FindingWarning, advice, "%s %s %s", what, verb, at.UTC().Format(time.RFC3339))
}

func (l *limited) rest(d *Diagnosis, check string) {
	if more := l.n - maxNamedOf; more > 0 {
		d.add(check, FindingWarning, "", "and %d more", more)
	}
}

// credentials looks at the stored credentials of providers.
func (p *checker) credentials(d *Diagnosis) {
	var few limited
	closed := 0
	opens := func(c *credentials.Credential, what string) {
		if c.Sealed == nil {
			return
		}
		_, err := p.Keyring.OpenKey(c)
		if err == nil {
			_, err = p.Keyring.OpenSettings(c)
		}
		if err != nil {
			if closed++; closed <= maxNamedOf {
				d.add("credentials", FindingError, "Save the credential again, or restore the encryption key.", "the credential of %s cannot be opened: %v", what, err)
			}
		}
	}
	for _, v := range p.Keyring.VirtualKeys() {
		opens(&v.Credential, "virtual key "+v.Slug)
		if v.ExpiresAt != nil {
			few.expires(d, p.now(), "credentials", "virtual key "+v.Slug, *v.ExpiresAt, "Set another expires_at, or delete the virtual key.")
		}
	}
	for _, i := range p.Keyring.Integrations() {
		opens(&i.Credential, "integration "+i.Slug)
	}
	few.rest(d, "credentials")
	if n := p.Secrets.Stale(); n > 0 {
		d.add("credentials", FindingWarning, "See that the secret manager answers, and may be read: the log says why it does not.", "%d secrets of secret managers have their last value only", n)
	}
	if few.n == 0 && closed == 0 {
		d.add("credentials", FindingOK, "", "all stored credentials can be opened, and none expires within %d days", int(expiringWithin.Hours()/24))
	}
}

// secrets asks the managers of secret references for their values, of which nothing is kept or shown.
func (p *checker) secrets(ctx context.Context, d *Diagnosis) {
	used := make(map[string][]*credentials.SecretMapping) // by the ids of references
	by := func(c *credentials.Credential) {
		for i := range c.Mappings {
			used[c.Mappings[i].Reference] = append(used[c.Mappings[i].Reference], &c.Mappings[i])
		}
	}
	for _, v := range p.Keyring.VirtualKeys() {
		by(&v.Credential)
	}
	for _, i := range p.Keyring.Integrations() {
		by(&i.Credential)
	}
	all := p.Keyring.SecretReferences()
	if more := len(all) - maxReached; more > 0 {
		d.add("secret", FindingWarning, "", "%d of %d secret references are not asked for", more, len(all))
		all = all[:maxReached]
	}
	findings := make([]Finding, len(all))
	each(len(all), func(i int) { findings[i] = p.secret(ctx, all[i], used[all[i].ID]) })
	d.Findings = append(d.Findings, findings...)
}

// secret asks for the value of a secret reference, and looks for the parts of it that are used.
func (p *checker) secret(ctx context.Context, r *credentials.SecretReference, used []*credentials.SecretMapping) Finding {
	value, err := p.Secrets.Now(ctx, r)
	var failed *secretcache.FetchError
	if errors.As(err, &failed) && failed.Err != nil {
		if err = failed.Err; !strings.Contains(err.Error(), failed.Why) {
			err = fmt.Errorf("%s: %w", failed.Why, err)
		}
	}
	switch {
	case err != nil && secrets.Refusal(err):
		return Finding{"secret", FindingError, fmt.Sprintf("the secret reference %s: %s has no secret at %s for it: %v", r.Slug, r.Manager, r.Path, err), "Check secret_path, and that the login in auth_config is valid and may read it."}
	case err != nil:
		return Finding{"secret", FindingError, fmt.Sprintf("the secret reference %s: %s does not answer: %v", r.Slug, r.Manager, err), "Check the address in auth_config, DNS, the firewall and HTTPS_PROXY, and that the manager runs and is configured here."}
	}
	if len(used) == 0 {
		used = []*credentials.SecretMapping{{}}
	}
	for _, m := range used {
		if _, err := m.Part(r, value); err != nil {
			key := cmp.Or(m.Key, r.Key)
			if key != "" {
				key = " at its key " + key
			}
			return Finding{"secret", FindingError, fmt.Sprintf("the secret reference %s: %s answers, but the value%s cannot be used: %v", r.Slug, r.Manager, key, err), "Save the secret again in its manager, or correct secret_key of the reference or of the secret_mappings that name it."}
		}
	}
	return Finding{Check: "secret", Status: FindingOK, Message: fmt.Sprintf("the secret reference %s: %s answers, and the value is there", r.Slug, r.Manager)}
}

// each calls do for 0 to n-1, some at once.
func each(n int, do func(i int)) {
	room := make(chan struct{}, reachedAtOnce)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			do(i)
		})
	}
	wait.Wait()
}

// A host is something that the gateway sends requests to.
type host struct {
	url, name string
	public    bool
}

// hosts asks whether what the gateway sends requests to can be reached, and what the time is there.
func (p *checker) hosts(ctx context.Context, d *Diagnosis) {
	var all []host
	seen := make(map[string]bool)
	add := func(url, name string, public bool) {
		if !seen[url] {
			seen[url] = true
			all = append(all, host{url, name, public})
		}
	}
	unknown := 0
	of := func(provider, name string, settings map[string]credentials.Secret) {
		u, err := address(provider, settings)
		switch {
		case err != nil:
			if unknown++; unknown <= maxNamedOf {
				d.add("provider", FindingWarning, "", "%s is not asked, as its address is not known: %v", name, err)
			}
		case u != "":
			add(u, name, false)
		}
	}
	for slug, provider := range p.providers {
		if provider.BaseURL != nil {
			add(provider.BaseURL.String(), "provider "+slug, false)
		} else {
			of(provider.Dialect, "provider "+slug, provider.Settings)
		}
	}
	stored := func(c *credentials.Credential, name string) {
		if c.CustomHost != "" {
			add(c.CustomHost, name, true)
			return
		}
		settings, err := p.Keyring.OpenSettings(c)
		if err != nil {
			return // which the finding about its credential says
		}
		of(c.Provider, name, settings)
	}
	for _, v := range p.Keyring.VirtualKeys() {
		if v.IntegrationID == "" {
			stored(&v.Credential, "virtual key "+v.Slug)
		}
	}
	for _, i := range p.Keyring.Integrations() {
		stored(&i.Credential, "integration "+i.Slug)
	}
	if more := unknown - maxNamedOf; more > 0 {
		d.add("provider", FindingWarning, "", "and %d more", more)
	}
	for _, url := range p.issuers {
		add(url, "the issuer of JWTs", false)
	}
	slices.SortFunc(all, func(a, b host) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.url, b.url)) })
	if more := len(all) - maxReached; more > 0 {
		d.add("provider", FindingWarning, "", "%d of %d hosts are not asked", more, len(all))
		all = all[:maxReached]
	}
	type answer struct {
		err  error
		skew time.Duration
		says bool
	}
	answers := make([]answer, len(all))
	each(len(all), func(i int) {
		date, err := p.reach(ctx, all[i].url, all[i].public)
		answers[i] = answer{err, p.now().Sub(date), !date.IsZero()}
	})
	answered, wrong := 0, 0
	for i, h := range all {
		a := answers[i]
		if a.err != nil {
			d.add("provider", FindingError, "Check the address, DNS, the firewall and HTTPS_PROXY.", "%s at %s cannot be reached: %v", h.name, h.url, a.err)
			continue
		}
		d.add("provider", FindingOK, "", "%s at %s answers", h.name, h.url)
		if a.says {
			answered++
			if a.skew.Abs() > maxClockSkew {
				wrong++
			}
		}
	}
	switch {
	case answered == 0:
		d.add("clock", FindingWarning, "See that the machine synchronises its clock, such as with chrony.", "no host told the time, so that the clock could not be compared")
	case 2*wrong > answered:
		d.add("clock", FindingError, "Synchronise the clock, such as with chrony: expiries, rotations and limits depend on it.", "the clock differs from that of %d of %d hosts by more than %s", wrong, answered, maxClockSkew)
	default:
		d.add("clock", FindingOK, "", "the clock is right")
	}
}

// address returns where requests to a provider go, of which settings such as aws_region may be a part;
// "": the provider has no address of its own. A setting that is a secret of a secret manager is not known here.
func address(name string, settings map[string]credentials.Secret) (string, error) {
	provider, ok := providers.Lookup(name)
	if !ok || provider.BaseURL == "" {
		return "", nil
	}
	call := &providers.Call{Provider: provider, Setting: func(name string) string { return settings[name].Reveal() }, Header: func(string) string { return "" }}
	var err error
	if call.Base, err = provider.Base(call.Setting); err != nil {
		return "", err
	}
	if provider.Address == nil {
		return call.Base.String(), nil
	}
	u, err := provider.Address(call, "/models") // regions of one provider may have hosts of their own form
	if err != nil {
		return "", err
	}
	u.Path, u.RawPath, u.RawQuery = "/", "", ""
	return u.String(), nil
}

// serveDoctor answers with a diagnosis.
func (rt *Runtime) serveDoctor(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(rt.checker.diagnose(r.Context())) // fails only if the client has disconnected
}
