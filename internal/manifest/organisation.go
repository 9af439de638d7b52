package manifest

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/roles"
)

// ofIssuers is the object that URLs with credentials are sealed for.
const ofIssuers = "organisation"

// writeIssuers seals URLs of key sets that may have credentials. Without a sealer, they are masked as in the control
// plane, so that it can be read where they lead.
func writeIssuers(x *session, o *directory.Organisation, f *form) error {
	for i, issuer := range o.SignIn.Issuers {
		for n, address := range issuer.URLs {
			shown, secret := credentials.MaskQuery(address)
			switch {
			case !secret:
				continue
			case x.sealer != nil:
				shown = x.seal(ofIssuers, address)
			}
			f.set(fmt.Sprintf("sign_in.issuers.%d.jwks_url.%d", i, n), shown)
		}
	}
	return nil
}

// readIssuers opens what writeIssuers writes.
func readIssuers(x *session, f *form, old *directory.Organisation, at string) (func(*directory.Organisation) error, error) {
	var had []directory.TokenIssuer
	if old != nil {
		had = old.SignIn.Issuers
	}
	for i, issuer := range f.get("sign_in.issuers").Array() {
		for n, sent := range issuer.Get("jwks_url").Array() {
			field, path := fmt.Sprintf("%s.sign_in.issuers[%d].jwks_url[%d]", at, i, n), fmt.Sprintf("sign_in.issuers.%d.jwks_url.%d", i, n)
			address, ok := identity.UnmaskKeySet(sent.Str, issuer.Get("issuer").Str, had)
			if !ok {
				return nil, wrong(field, "the values of its query have to be in clear or sealed, because they stand for none that the store has for this issuer and URL, or for several")
			}
			if !strings.Contains(sent.Str, credentials.Masked) {
				var err error
				if address, err = x.open(ofIssuers, field, sent.Str, nil); err != nil {
					return nil, err
				}
			}
			f.set(path, address)
		}
	}
	return func(*directory.Organisation) error { return nil }, nil
}

func checkOrganisation(x *session, o, old *directory.Organisation) error {
	if old == nil {
		old = new(directory.Organisation)
	}
	for _, section := range slices.Sorted(maps.Keys(o.Overrides)) {
		if !slices.ContainsFunc(directory.Sections, func(s directory.Section) bool { return s.Name == section }) {
			return wrong("overrides", "there is no section %q", credentials.Clip(section))
		}
	}
	s, was := &o.SignIn, &old.SignIn
	if err := identity.CheckSession(s, refuse("sign_in.")); err != nil {
		return err
	}
	if !reflect.DeepEqual(s.Domains, was.Domains) {
		if err := identity.CheckDomains(s.Domains, refuse("sign_in.")); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(s.Issuers, was.Issuers) {
		if err := identity.CheckIssuers(s.Issuers, x.Guard, refuse("sign_in.")); err != nil {
			return err
		}
	}
	if err := identity.CheckUserKeys(&o.UserKeys, refuse("user_keys.")); err != nil {
		return err
	}
	if err := identity.CheckExport(&o.Export, refuse("export.")); err != nil {
		return err
	}
	return checkSettings(&o.Settings, &old.Settings, o.IsOn, o.UserKeysBegin, o.ExportBegin, "user_keys_begin.value.", "export_begin.value.")
}

// checkSettings checks settings that the organisation and workspaces have.
func checkSettings(s, old *directory.Settings, isOn func(*roles.Setting) bool, keys *directory.Decided[directory.UserKeys], export *directory.Decided[directory.Export], atKeys, atExport string) error {
	changed := maps.Clone(s.Security)
	maps.DeleteFunc(changed, func(name string, on bool) bool { was, ok := old.Security[name]; return ok && was == on })
	if err := identity.CheckSecurity(changed, isOn, refuse("")); err != nil {
		return err
	}
	if keys != nil {
		if err := identity.CheckUserKeys(&keys.Value, refuse(atKeys)); err != nil {
			return err
		}
	}
	if export != nil {
		return identity.CheckExport(&export.Value, refuse(atExport))
	}
	return nil
}

func checkWorkspace(x *session, w, old *directory.Workspace) error {
	if old == nil {
		old = new(directory.Workspace)
	}
	if w.Default != (w.ID == x.workspace) {
		return wrong("default", "the default workspace is the one with the id %s", DefaultWorkspace)
	}
	if old.Slug != "" && w.Slug != old.Slug && !w.Default { // the default one is another in each store
		return wrong("slug", "it does not change; make another object")
	}
	if len(w.Metadata) > 0 {
		var metadata map[string]string
		if stdjson.Unmarshal(w.Metadata, &metadata) != nil {
			return wrong("metadata", "expected an object of texts")
		}
		if err := identity.CheckTexts(metadata); err != nil {
			return wrong("metadata", "%v", err)
		}
	}
	if len(w.Icon) > directory.MaxIcon {
		return wrong("icon", "expected at most %d bytes", directory.MaxIcon)
	}
	isOn := func(s *roles.Setting) bool { return x.Directory.IsOn(w, s.Name) }
	if err := checkSettings(&w.Settings, &old.Settings, isOn, w.UserKeys, w.Export, "user_keys.value.", "export.value."); err != nil {
		return err
	}
	return checkSlug(w.Slug)
}
