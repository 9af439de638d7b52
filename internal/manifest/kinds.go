package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/versions"
	"github.com/caddy-gw/gateway/storage"
)

// kinds are the kinds of objects, each after those that its objects refer to in most cases. A new
// collection of the control plane needs a row.
var kinds = []kind{
	&table[directory.Organisation]{
		list: "organisation", kind: audit.Organisations, collection: "organisation", single: true,
		id: func(o *directory.Organisation) string { return o.ID }, called: func(o *directory.Organisation) string { return o.Name },
		hidden: []string{"created_at"}, composite: true,
		refs: func(o *directory.Organisation) []ref { return guardrailRefs(&o.Guardrails) },
		forget: func(o *directory.Organisation, gone func(kind, id string) bool) {
			forgetGuardrails(&o.Guardrails, gone)
		},
		check: checkOrganisation, write: writeIssuers, read: readIssuers,
	},
	&table[directory.Workspace]{
		list: "workspaces", kind: audit.Workspaces, collection: "workspace", foreign: true, fixed: []string{"default"},
		id: func(w *directory.Workspace) string { return w.ID }, called: func(w *directory.Workspace) string { return w.Slug },
		unique: func(w *directory.Workspace) []string { return []string{"slug " + w.Slug} },
		refs: func(w *directory.Workspace) []ref {
			return append(guardrailRefs(&w.Guardrails), ref{"user_key_config", "configs", w.UserKeyConfig})
		},
		forget: func(w *directory.Workspace, gone func(kind, id string) bool) {
			forgetGuardrails(&w.Guardrails, gone)
			forgetConfig(&w.UserKeyConfig, gone)
		},
		check: checkWorkspace, whole: (*whole).checkWorkspaceConfig,
		write: func(_ *session, w *directory.Workspace, f *form) error {
			if w.Default { // each store has its own
				f.drop("created_at")
			}
			return nil
		},
	},
	&table[directory.User]{
		list: "users", kind: audit.Users, collection: "user",
		id: func(u *directory.User) string { return u.ID }, called: func(u *directory.User) string { return u.Email },
		unique: func(u *directory.User) []string { return []string{"email " + u.Email} },
		check:  checkUser,
	},
	&table[directory.Member]{
		list: "members", composite: true, kind: audit.Members, collection: "member",
		id: func(m *directory.Member) string {
			if m.WorkspaceID == "" && m.UserID == "" {
				return ""
			}
			return m.WorkspaceID + "/" + m.UserID
		},
		called: func(m *directory.Member) string { return m.UserID },
		about:  func(m *directory.Member) (audit.Type, string) { return audit.Members, m.UserID },
		refs: func(m *directory.Member) []ref {
			return []ref{{"workspace_id", "workspaces", m.WorkspaceID}, {"user_id", "users", m.UserID}}
		},
		check: func(_ *session, m, _ *directory.Member) error {
			if m.WorkspaceID == "" || m.UserID == "" {
				return wrong("workspace_id", "expected one with user_id")
			}
			if !m.Role.Valid() {
				return wrong("role", "expected admin, manager or member")
			}
			return nil
		},
	},
	&table[credentials.SecretReference]{
		list: "secret_references", kind: audit.SecretReferences, collection: "secret-reference", foreign: true, fixed: []string{"manager", "slug"},
		id: func(r *credentials.SecretReference) string { return r.ID }, called: func(r *credentials.SecretReference) string { return r.Slug },
		unique: func(r *credentials.SecretReference) []string { return []string{"slug " + r.Slug} },
		refs: func(r *credentials.SecretReference) (all []ref) {
			for _, w := range r.Workspaces {
				all = append(all, ref{"workspaces", "workspaces", w})
			}
			return all
		},
		forget: func(r *credentials.SecretReference, gone func(kind, id string) bool) {
			r.Workspaces = slices.DeleteFunc(r.Workspaces, func(w string) bool { return gone("workspaces", w) })
		},
		check: checkSecretReference,
		write: writeSecretReference, read: readSecretReference,
	},
	&table[credentials.Integration]{
		list: "integrations", kind: audit.Integrations, collection: "integration", foreign: true, hidden: credentialFields, fixed: []string{"provider", "workspace_id", "slug"},
		id: func(i *credentials.Integration) string { return i.ID }, called: func(i *credentials.Integration) string { return i.Slug },
		unique: func(i *credentials.Integration) []string { return []string{"slug " + i.WorkspaceID + "/" + i.Slug} },
		refs: func(i *credentials.Integration) []ref {
			all := append(mapped(&i.Credential), ref{"workspace_id", "workspaces", i.WorkspaceID})
			for w := range i.Access {
				all = append(all, ref{"access", "workspaces", w})
			}
			return all
		},
		forget: func(i *credentials.Integration, gone func(kind, id string) bool) {
			forgetMapped(&i.Credential, gone)
			maps.DeleteFunc(i.Access, func(w string, _ bool) bool { return gone("workspaces", w) })
		},
		check: func(_ *session, i, _ *credentials.Integration) error {
			if err := credentials.CheckTags(i.Tags); err != nil {
				return wrong("tags", "%v", err)
			}
			if i.Adjustments != nil {
				if _, err := prices.ParseAdjustment(i.Adjustments); err != nil {
					return wrong("adjustments", "%v", err)
				}
			}
			return checkSlug(i.Slug)
		},
		whole: (*whole).checkIntegration,
		write: writeIntegration, read: readIntegration, decode: decodeIntegration,
	},
	&table[credentials.VirtualKey]{
		list: "virtual_keys", kind: audit.VirtualKeys, collection: "virtual-key", hidden: credentialFields, fixed: []string{"provider", "workspace_id", "integration_id", "slug"},
		id: func(v *credentials.VirtualKey) string { return v.ID }, called: func(v *credentials.VirtualKey) string { return v.Slug },
		unique: func(v *credentials.VirtualKey) []string { return []string{"slug " + v.WorkspaceID + "/" + v.Slug} },
		refs: func(v *credentials.VirtualKey) []ref {
			return append(mapped(&v.Credential), ref{"workspace_id", "workspaces", v.WorkspaceID}, ref{"integration_id", "integrations", v.IntegrationID})
		},
		forget: func(v *credentials.VirtualKey, gone func(kind, id string) bool) { forgetMapped(&v.Credential, gone) },
		check: func(_ *session, v, _ *credentials.VirtualKey) error {
			if v.WorkspaceID == "" {
				return wrong("workspace_id", "required")
			}
			return checkSlug(v.Slug)
		},
		about: func(v *credentials.VirtualKey) (audit.Type, string) {
			if v.IntegrationID != "" {
				return audit.Providers, v.ID
			}
			return audit.VirtualKeys, v.ID
		},
		whole: (*whole).checkVirtualKey,
		write: writeVirtualKey, read: readVirtualKey, decode: decodeVirtualKey,
	},
	&table[prompts.Collection]{
		list: "collections", kind: audit.Collections, collection: "prompt-collection", fixed: []string{"workspace_id", "slug"},
		id: func(c *prompts.Collection) string { return c.ID }, called: func(c *prompts.Collection) string { return c.Slug },
		unique: func(c *prompts.Collection) []string { return []string{"slug " + c.Slug} },
		refs: func(c *prompts.Collection) []ref {
			all := []ref{{"workspace_id", "workspaces", c.WorkspaceID}}
			if c.ParentID != defaultCollection(c.WorkspaceID) {
				all = append(all, ref{"parent_id", "collections", c.ParentID})
			}
			return all
		},
		check: func(_ *session, c, _ *prompts.Collection) error { return checkSlugIn(c.Slug, c.WorkspaceID) },
		whole: (*whole).checkCollection,
	},
	&table[prompts.Label]{
		list: "labels", kind: audit.Labels, collection: "prompt-label", foreign: true, fixed: []string{"workspace_id"},
		id: func(l *prompts.Label) string { return l.ID }, called: func(l *prompts.Label) string { return l.Name },
		unique: func(l *prompts.Label) []string { return []string{"name " + l.WorkspaceID + "/" + l.Name} },
		refs:   func(l *prompts.Label) []ref { return []ref{{"workspace_id", "workspaces", l.WorkspaceID}} },
		whole:  (*whole).checkLabel,
		check: func(x *session, l, _ *prompts.Label) error {
			x.labels[l.ID] = l
			switch {
			case l.WorkspaceID == "":
				return wrong("workspace_id", "required")
			case !prompts.ValidLabel(l.Name):
				return wrong("name", "%s", prompts.LabelNames)
			case slices.ContainsFunc(prompts.UniversalLabels(), func(u *prompts.Label) bool { return u.Name == l.Name }):
				return wrong("name", "%q is a label of every workspace", l.Name)
			}
			return nil
		},
	},
	&table[prompts.Prompt]{
		list: "prompts", kind: audit.Prompts, collection: "prompt", foreign: true, hidden: []string{"model"}, fixed: []string{"workspace_id", "partial", "slug"},
		id: func(p *prompts.Prompt) string { return p.ID }, called: func(p *prompts.Prompt) string { return p.Slug },
		unique: func(p *prompts.Prompt) []string { return []string{"slug " + p.Slug} },
		refs: func(p *prompts.Prompt) []ref {
			all := []ref{{"workspace_id", "workspaces", p.WorkspaceID}}
			if p.CollectionID != defaultCollection(p.WorkspaceID) {
				all = append(all, ref{"collection_id", "collections", p.CollectionID})
			}
			if p.Share != nil {
				for n, w := range p.Share.Workspaces {
					all = append(all, ref{fmt.Sprintf("share.workspaces[%d]", n), "workspaces", w})
				}
			}
			return all
		},
		loose: labelsOf, forget: forgetPrompt,
		check: func(_ *session, p, _ *prompts.Prompt) error { return checkSlugIn(p.Slug, p.WorkspaceID) },
		about: func(p *prompts.Prompt) (audit.Type, string) {
			if p.Partial {
				return audit.Partials, p.ID
			}
			return audit.Prompts, p.ID
		},
		whole: (*whole).checkPrompt, write: writePrompt, read: readPrompt, put: putPrompt,
	},
	&table[hooks.Guardrail]{
		list: "guardrails", kind: audit.Guardrails, collection: "guardrail", foreign: true, hidden: []string{"updated_by"}, fixed: []string{"workspace_id", "slug"},
		id: func(g *hooks.Guardrail) string { return g.ID }, called: func(g *hooks.Guardrail) string { return g.Slug },
		unique: func(g *hooks.Guardrail) []string { return []string{"slug " + g.Slug} },
		refs:   func(g *hooks.Guardrail) []ref { return []ref{{"workspace_id", "workspaces", g.WorkspaceID}} },
		check:  func(_ *session, g, _ *hooks.Guardrail) error { return checkSlug(g.Slug) },
		write: func(x *session, g *hooks.Guardrail, f *form) error {
			return guardrailTexts.write(x, "guardrails/"+g.ID, g.Versions, f)
		},
		read: func(x *session, f *form, old *hooks.Guardrail, at string) (func(*hooks.Guardrail) error, error) {
			var had []versions.Version
			if old != nil {
				had = old.Versions
			}
			list, err := guardrailTexts.read(x, "guardrails/"+f.get("id").Str, f.get("workspace_id").Str, f, had, at)
			return func(g *hooks.Guardrail) error { g.Versions = list; return nil }, err
		},
	},
	&table[plugins.Plugin]{
		list: "plugins", kind: audit.Plugins, collection: "plugin", foreign: true, fixed: []string{"for"},
		id: func(p *plugins.Plugin) string { return p.ID }, called: func(p *plugins.Plugin) string { return p.For },
		unique: func(p *plugins.Plugin) []string { return []string{"for " + p.For} },
		check: func(_ *session, p, _ *plugins.Plugin) error {
			if _, name, ok := plugins.Name(p.For); !ok || name != p.For {
				return wrong("for", "expected one of %s, or the id of a check of one", strings.Join(guardrails.VendorIDs(), ", "))
			}
			return nil
		},
		write: writePlugin, read: readPlugin,
	},
	&table[routing.Saved]{
		list: "configs", kind: audit.Configs, collection: "config", foreign: true, hidden: []string{"updated_by"}, fixed: []string{"workspace_id", "slug"},
		id: func(c *routing.Saved) string { return c.ID }, called: func(c *routing.Saved) string { return c.Slug },
		unique: func(c *routing.Saved) []string {
			all := []string{"slug " + c.Slug}
			if c.Default && !c.Archived {
				all = append(all, "default of "+c.WorkspaceID)
			}
			return all
		},
		refs:  func(c *routing.Saved) []ref { return []ref{{"workspace_id", "workspaces", c.WorkspaceID}} },
		check: func(_ *session, c, _ *routing.Saved) error { return checkSlugIn(c.Slug, c.WorkspaceID) },
		whole: (*whole).checkConfig,
		write: func(x *session, c *routing.Saved, f *form) error {
			return configTexts.write(x, "configs/"+c.ID, c.Versions, f)
		},
		read: func(x *session, f *form, old *routing.Saved, at string) (func(*routing.Saved) error, error) {
			var had []versions.Version
			if old != nil {
				had = old.Versions
			}
			list, err := configTexts.read(x, "configs/"+f.get("id").Str, f.get("workspace_id").Str, f, had, at)
			return func(c *routing.Saved) error { c.Versions = list; return nil }, err
		},
	},
	&table[routing.Alias]{
		list: "model_aliases", kind: audit.ModelAliases, collection: "model-alias", foreign: true, fixed: []string{"workspace_id"},
		id: func(a *routing.Alias) string { return a.ID }, called: func(a *routing.Alias) string { return a.Name },
		unique: func(a *routing.Alias) []string { return []string{"name " + a.WorkspaceID + "/" + a.Name} },
		refs: func(a *routing.Alias) []ref {
			return []ref{{"workspace_id", "workspaces", a.WorkspaceID}, {"config_id", "configs", a.ConfigID}}
		},
		check: func(_ *session, a, _ *routing.Alias) error {
			switch {
			case a.Name == "" || a.WorkspaceID == "":
				return wrong("name", "expected one, and a workspace_id")
			case (a.Model == "") == (a.ConfigID == ""):
				return wrong("model", "expected either model or config_id")
			}
			return nil
		},
		whole: (*whole).checkAlias,
	},
	&table[policies.RateLimit]{
		list: "rate_limits", unnamed: true, kind: audit.RateLimits, collection: "rate-limit", foreign: true, fixed: []string{"workspace_id", "type", "unit"},
		id: func(p *policies.RateLimit) string { return p.ID }, called: func(p *policies.RateLimit) string { return p.Name },
		refs:  func(p *policies.RateLimit) []ref { return []ref{{"workspace_id", "workspaces", p.WorkspaceID}} },
		check: func(_ *session, p, _ *policies.RateLimit) error { return checkPolicy(&p.Policy, p.Validate()) },
		whole: func(w *whole, p, old *policies.RateLimit) error {
			if old == nil {
				return w.checkConditions(&p.Policy, nil)
			}
			return w.checkConditions(&p.Policy, old.Conditions)
		},
		put: func(x *session, tx *storage.Txn, p *policies.RateLimit) error {
			return x.Limits.Rates.In(tx).Put(tx, p)
		},
	},
	&table[policies.UsageLimit]{
		list: "usage_limits", unnamed: true, kind: audit.UsageLimits, collection: "usage-limit", foreign: true, hidden: []string{"last_reset_at", "resets"}, fixed: []string{"workspace_id", "type"},
		id: func(p *policies.UsageLimit) string { return p.ID }, called: func(p *policies.UsageLimit) string { return p.Name },
		keep: func(x *session, p, old *policies.UsageLimit) {
			if old == nil {
				keepSchedule(x, &p.Schedule, nil)
				return
			}
			keepSchedule(x, &p.Schedule, &old.Schedule)
		},
		refs:  func(p *policies.UsageLimit) []ref { return []ref{{"workspace_id", "workspaces", p.WorkspaceID}} },
		check: func(_ *session, p, _ *policies.UsageLimit) error { return checkPolicy(&p.Policy, p.Validate()) },
		whole: func(w *whole, p, old *policies.UsageLimit) error {
			if old == nil {
				return w.checkConditions(&p.Policy, nil)
			}
			return w.checkConditions(&p.Policy, old.Conditions)
		},
		write: func(_ *session, _ *policies.UsageLimit, f *form) error {
			writeCosts("", f)
			return nil
		},
		read: func(_ *session, f *form, _ *policies.UsageLimit, at string) (func(*policies.UsageLimit) error, error) {
			return func(*policies.UsageLimit) error { return nil }, readCosts("", f, at)
		},
		put: func(x *session, tx *storage.Txn, p *policies.UsageLimit) error {
			return x.Limits.Budgets.In(tx).Put(tx, p)
		},
	},
	&table[policies.Carried]{
		list: "limits", composite: true, collection: "carried-limit", foreign: true, hidden: []string{"budget.last_reset_at", "budget.resets"}, fixed: []string{"workspace_id", "carrier"},
		id: func(c *policies.Carried) string { return c.ID }, called: func(c *policies.Carried) string { return c.Carrier },
		keep: func(x *session, c, old *policies.Carried) {
			switch {
			case c.Budget == nil:
			case old == nil || old.Budget == nil:
				keepSchedule(x, &c.Budget.Schedule, nil)
			default:
				keepSchedule(x, &c.Budget.Schedule, &old.Budget.Schedule)
			}
		},
		about: func(c *policies.Carried) (audit.Type, string) { return carriers[c.Carrier].kind, carrierID(c) },
		refs: func(c *policies.Carried) []ref {
			return []ref{{"workspace_id", "workspaces", c.WorkspaceID}, {"id", carriers[c.Carrier].list, carrierID(c)}}
		},
		check: func(_ *session, c, _ *policies.Carried) error {
			switch {
			case carriers[c.Carrier].list == "":
				return wrong("carrier", "expected one of %s, %s, %s and %s", policies.KeyAPIKey, policies.KeyWorkspace, policies.KeyVirtualKey, policies.KeyIntegration)
			case c.Empty():
				return wrong("rates", "expected limits")
			}
			err := documented(c.Validate())
			if field := (*Error)(nil); errors.As(err, &field) && field.Field == "budget.limit" && c.Budget.Type == policies.Cost {
				field.Message += " USD"
			}
			return err
		},
		write: func(_ *session, _ *policies.Carried, f *form) error {
			writeCosts("budget.", f)
			return nil
		},
		read: func(_ *session, f *form, _ *policies.Carried, at string) (func(*policies.Carried) error, error) {
			return func(*policies.Carried) error { return nil }, readCosts("budget.", f, at)
		},
		done: func(ctx context.Context, x *session, c, old *policies.Carried) {
			if old != nil {
				_ = x.Limits.ForgetCarried(ctx, old, c) // counters that remain count nothing any more
			}
		},
	},
	&table[directory.Invite]{
		list: "invites", kind: audit.Invites, collection: "invite", secret: true,
		include: func(i *directory.Invite) bool { return i.AcceptedAt == nil && !i.Cancelled && !i.Replaced },
		id:      func(i *directory.Invite) string { return i.ID }, called: func(i *directory.Invite) string { return i.Email },
		unique: func(i *directory.Invite) []string { return []string{"email " + i.Email} },
		refs: func(i *directory.Invite) (all []ref) {
			for _, w := range i.Workspaces {
				all = append(all, ref{"workspaces", "workspaces", w.WorkspaceID})
			}
			if i.Keys != nil {
				all = append(all, ref{"keys.config_id", "configs", i.Keys.ConfigID})
			}
			return all
		},
		forget: func(i *directory.Invite, gone func(kind, id string) bool) {
			i.Workspaces = slices.DeleteFunc(i.Workspaces, func(w directory.Invitation) bool { return gone("workspaces", w.WorkspaceID) })
			if i.Keys != nil {
				forgetConfig(&i.Keys.ConfigID, gone)
			}
		},
		check: func(_ *session, i, _ *directory.Invite) error {
			return checkUser(nil, &directory.User{Email: i.Email, Role: i.Role}, nil)
		},
		write: func(x *session, i *directory.Invite, f *form) error {
			x.writeDigest("invites/"+i.ID, "digest", &i.Digest, f)
			return nil
		},
		read: func(x *session, f *form, old *directory.Invite, at string) (func(*directory.Invite) error, error) {
			digest, err := x.readDigest("invites/"+f.get("id").Str, "digest", f, at)
			return func(i *directory.Invite) error {
				switch {
				case old != nil: // it may have been accepted or cancelled since
					*i = *old
				case digest == nil:
					return wrong(at+".digest", "required for an invite that the store does not have")
				default:
					i.Digest = *digest
				}
				return nil
			}, err
		},
	},
	&table[credentials.APIKey]{
		list: "api_keys", kind: audit.APIKeys, collection: "api-key", foreign: true, secret: true, fixed: []string{"kind", "workspace_id", "user_id", "owner"},
		hidden: []string{"unclaimed", "told_expiring", "told_rotating", "told_expired"},
		id:     func(k *credentials.APIKey) string { return k.ID }, called: func(k *credentials.APIKey) string { return k.Name },
		unique: uniqueOfKey,
		refs: func(k *credentials.APIKey) []ref {
			return []ref{{"workspace_id", "workspaces", k.WorkspaceID}, {"user_id", "users", k.UserID}, {"config_id", "configs", k.ConfigID}}
		},
		forget: func(k *credentials.APIKey, gone func(kind, id string) bool) { forgetConfig(&k.ConfigID, gone) },
		check:  checkAPIKey, whole: (*whole).checkKey, write: writeAPIKey, read: readAPIKey,
	},
}

// carriers are the kinds of objects that have limits of their own.
var carriers = map[string]struct {
	list string
	kind audit.Type
}{
	policies.KeyAPIKey: {"api_keys", audit.APIKeys}, policies.KeyWorkspace: {"workspaces", audit.Workspaces},
	policies.KeyVirtualKey: {"virtual_keys", audit.VirtualKeys}, policies.KeyIntegration: {"integrations", audit.Integrations},
}

// carrierID returns the id of the object that has limits.
func carrierID(c *policies.Carried) string {
	if c.Carrier == policies.KeyIntegration {
		return strings.TrimSuffix(c.ID, "-"+c.WorkspaceID)
	}
	return c.ID
}

// keepSchedule makes a schedule go on as that of the store, unless it is another one.
func keepSchedule(x *session, s, old *policies.Schedule) {
	if old != nil && s.PeriodicReset == old.PeriodicReset && s.PeriodicResetDays == old.PeriodicResetDays {
		*s = *old
		return
	}
	if old != nil {
		s.Resets, s.LastResetAt = old.Resets, old.LastResetAt
	}
	if s.NextResetAt == nil {
		s.Begin(x.Now())
		return
	}
	resets, last := s.Resets, s.LastResetAt
	*s = s.At(x.Now())
	s.Resets, s.LastResetAt = resets, last
}

// mapped are the secret references of a credential.
func mapped(c *credentials.Credential) (all []ref) {
	for _, m := range c.Mappings {
		all = append(all, ref{"mappings", "secret_references", m.Reference})
	}
	return all
}
