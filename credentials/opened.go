package credentials

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync/atomic"
)

// virtualKey returns the route of a virtual key, with the credential of its integration if it is
// the provider of one.
func (r *Router) virtualKey(c *Caller, slug, field string) (*Route, *Error) {
	v, ok := r.Keyring.VirtualKey(c.WorkspaceID, slug)
	if !ok {
		return nil, r.unknownKey(c, slug, field)
	}
	if v.Expired(r.Keyring.now()) {
		return nil, newError(ExpiredVirtualKey, field, "Virtual key %q has expired", v.Slug)
	}
	cred := &v.Credential
	var i *Integration
	if v.IntegrationID != "" {
		if i, ok = r.Keyring.Integration(v.IntegrationID); !ok || !i.EnabledIn(c.WorkspaceID) {
			return nil, newError(IntegrationDisabled, field, "The integration of provider %q is not enabled for its workspace", v.Slug)
		}
		cred = &i.Credential
	}
	o, refusal := r.open(cred, i, v.Slug, field)
	if refusal != nil {
		return nil, refusal
	}
	route := &Route{
		Provider: v.Provider, VirtualKey: v.Slug, KeyID: v.ID, Dialect: v.Provider, BaseURL: o.base, Key: o.key, Settings: o.settings, Header: o.header, rules: o.rules,
		Integration: v.IntegrationID, CustomHost: cred.CustomHost != "", Passthrough: r.Passthrough, Stored: true,
		Machine: cred.Machine != "",
	}
	route.Account, route.Alone = o.account, o.alone
	if len(o.mappings) > 0 {
		route.mapped = o
		r.accountOfSecret(route, o.mappings)
	}
	if route.Machine { // all that are the machine are one account, whatever else they are
		route.Account, route.Alone = "machine:"+cred.Machine, false
	}
	return route, nil
}

// accountOfSecret sets the account of a route whose credential is a secret reference: other
// virtual keys and integrations may refer to it, too.
func (r *Router) accountOfSecret(route *Route, mappings []SecretMapping) {
	of := &mappings[0]
	for i := range mappings {
		if mappings[i].Field == MappedKey {
			of = &mappings[i]
		}
	}
	ref, ok := r.Keyring.SecretReference(of.Reference)
	if !ok || !ref.AllWorkspaces && len(ref.Workspaces) < 2 && route.Account == "" {
		return // without the reference, Fetch refuses the call
	}
	route.Account, route.Alone = "secret:"+ref.ID, !ref.AllWorkspaces && len(ref.Workspaces) < 2
}

// open opens the credential of a slug, with the rules of its integration about models. The
// result is kept until the row or the configuration changes.
func (r *Router) open(c *Credential, of *Integration, slug, field string) (*opened, *Error) {
	if c.opened != nil {
		if o := c.opened.Load(); o != nil && o.by == r.Guard && o.of == c {
			return o, nil
		}
	}
	base, refusal := r.base(c.Provider, c.CustomHost)
	if refusal != nil {
		return nil, refusal
	}
	key, err := r.Keyring.OpenKey(c)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	settings, err := r.Keyring.OpenSettings(c)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	header, err := headerOf(settings)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	rules, err := r.rulesOf(of)
	if err != nil {
		return nil, openError(slug, field, err)
	}
	o := &opened{header: header, rules: rules, by: r.Guard, of: c, base: base, key: key, settings: settings, mappings: c.Mappings}
	if of != nil {
		o.account, o.alone = of.account(), of.alone()
	}
	if c.opened != nil {
		c.opened.Store(o)
	}
	return o, nil
}

// CustomHeaders is the setting that has headers of every request: an object of texts.
const CustomHeaders = "custom_headers"

// headerOf takes the custom headers out of the settings of a credential.
func headerOf(settings map[string]Secret) (h http.Header, err error) {
	s, ok := settings[CustomHeaders]
	if !ok {
		return h, nil
	}
	delete(settings, CustomHeaders)
	var texts map[string]string
	if err := json.Unmarshal([]byte(s.Reveal()), &texts); err != nil {
		return nil, err
	}
	h = make(http.Header, len(texts))
	for name, v := range texts {
		h.Set(name, v)
	}
	return h, nil
}

func openError(slug, field string, err error) *Error {
	return &Error{Reason: SecretUnavailable, Field: field, Message: "The credential of virtual key " + slug + " cannot be opened", Err: err}
}

// An opened credential is in the clear, with its address parsed. It is read-only.
type opened struct {
	header   http.Header // added to every request
	rules    *modelRules // of the integration
	by       *HostGuard  // the guard that has checked its address
	of       *Credential // a changed copy has to be opened again
	base     *url.URL
	key      Secret
	settings map[string]Secret

	account string // see [Route.Account]
	alone   bool

	mappings []SecretMapping // what else was fetched
	fetched  atomic.Pointer[fetched]
}
