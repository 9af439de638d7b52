package admin

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/identity"
	"github.com/caddy-gw/gateway/internal/roles"
)

// authSettings are the rules of signing in, which sign-in has to obey.
type authSettings struct {
	InvitedOnly bool            `json:"disable_auto_provision_user" doc:"Whether only users who were invited sign in, and not everyone of an allowed domain."`
	Session     sessionSettings `json:"session_settings"`
	Domains     []emailDomain   `json:"email_domains" nullable:"false"`
	JWT         []tokenIssuer   `json:"jwt" nullable:"false"`
}

// A tokenIssuer issues JSON Web Tokens that callers send instead of API keys.
type tokenIssuer struct {
	Issuer   string         `json:"issuer" minLength:"1" maxLength:"1024" doc:"The claim iss of its tokens."`
	Audience []string       `json:"audience" minItems:"1" maxItems:"16" nullable:"false" doc:"The claim aud of its tokens that are for this gateway: one of these."`
	JWKSURL  []string       `json:"jwks_url,omitempty" maxItems:"4" nullable:"false" doc:"Where its public keys are. The values of its query, which may be credentials, are masked, and kept if they are sent so. One of this and jwks is required."`
	JWKS     map[string]any `json:"jwks,omitempty" doc:"Its public keys, a JSON Web Key Set without private parameters."`
}

type sessionSettings struct {
	MaxTTL *int `json:"max_session_ttl" nullable:"true" doc:"Seconds after which a user signs in again, at least 900; null: no limit."`
}

type emailDomain struct {
	Domain     string `json:"domain" maxLength:"253" doc:"Whose e-mail addresses may sign in, such as example.com."`
	Subdomains bool   `json:"allow_subdomains,omitempty" doc:"Whether those of all domains below it may, too. Only of a domain that is directly below a public suffix."`
}

func showSignIn(s *directory.SignIn) authSettings {
	out := authSettings{InvitedOnly: s.InvitedOnly, Domains: []emailDomain{}, JWT: []tokenIssuer{}}
	for _, i := range s.Issuers {
		shown := tokenIssuer{Issuer: i.Issuer, Audience: i.Audience}
		for _, address := range i.URLs {
			masked, _ := credentials.MaskQuery(address)
			shown.JWKSURL = append(shown.JWKSURL, masked)
		}
		_ = json.Unmarshal(i.Keys, &shown.JWKS) // was created from such an object, or is none
		out.JWT = append(out.JWT, shown)
	}
	if s.MaxSessionTTL != 0 {
		out.Session.MaxTTL = &s.MaxSessionTTL
	}
	for _, d := range s.Domains {
		out.Domains = append(out.Domains, emailDomain{d.Domain, d.Subdomains})
	}
	return out
}

// updateAuth are rules of signing in of a request. Those that are left out are kept.
type updateAuth struct {
	InvitedOnly *flag `json:"disable_auto_provision_user,omitempty"`
	Session     Optional[struct {
		MaxTTL Optional[int] `json:"max_session_ttl,omitempty" doc:"At least 900; null: no limit."`
	}] `json:"session_settings,omitempty" doc:"null: no limits."`
	Domains Optional[[]emailDomain] `json:"email_domains,omitempty" maxItems:"100" doc:"All of them; null: none."`
	JWT     Optional[[]tokenIssuer] `json:"jwt,omitempty" maxItems:"5" doc:"All of them; null: none. Only owners change these, because an issuer says who somebody is."`
}

// minSessionTTL and maxSessionTTL bound max_session_ttl, in seconds.
const (
	minSessionTTL = 900
	maxSessionTTL = 365 * 24 * 60 * 60
)

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (in *updateAuth) apply(c *call, s *directory.SignIn) error {
	if in.JWT.Set {
		if err := c.applyIssuers(s, in.JWT.Value); err != nil {
			return err
		}
	}
	if in.InvitedOnly != nil {
		s.InvitedOnly = bool(*in.InvitedOnly)
	}
	if ttl := in.Session.Value.MaxTTL; in.Session.Null || ttl.Set {
		if ttl.Set && !ttl.Null && (ttl.Value < minSessionTTL || ttl.Value > maxSessionTTL) {
			return invalid("auth_settings.session_settings.max_session_ttl", "expected seconds from %d to %d, or null", minSessionTTL, maxSessionTTL)
		}
		s.MaxSessionTTL = ttl.Value
	}
	if !in.Domains.Set {
		return nil
	}
	s.Domains = nil
	seen := make(map[string]bool)
	for i, d := range in.Domains.Value {
		field := "auth_settings.email_domains[" + strconv.Itoa(i) + "]"
		name := strings.ToLower(d.Domain)
		switch {
		case !domainName.MatchString(name):
			return invalid(field+".domain", "expected a domain such as example.com, got %q", credentials.Clip(d.Domain))
		case seen[name]:
			return invalid(field+".domain", "the domain is named twice")
		}
		seen[name] = true
		if root, err := publicsuffix.EffectiveTLDPlusOne(name); err != nil {
			return invalid(field+".domain", "%s is a public suffix, below which anyone has a domain", name)
		} else if d.Subdomains && root != name {
			return invalid(field+".allow_subdomains", "only of a root domain, %s", root)
		}
		s.Domains = append(s.Domains, directory.EmailDomain{Domain: name, Subdomains: d.Subdomains})
	}
	return nil
}

// maxJWKS bounds the keys of an issuer, in bytes.
const maxJWKS = 16 << 10

// applyIssuers makes the issuers of JSON Web Tokens those of a request.
func (c *call) applyIssuers(s *directory.SignIn, in []tokenIssuer) error {
	if r := c.caller.Rights; !c.caller.Owner && (r == nil || r.Organisation != roles.Owner) {
		return forbidden("auth_settings.jwt: only owners change the issuers of JWTs")
	}
	before := s.Issuers
	s.Issuers = nil
	named := make(map[string]bool)
	for n, i := range in {
		field := "auth_settings.jwt[" + strconv.Itoa(n) + "]"
		if named[i.Issuer] {
			return invalid(field+".issuer", "the issuer is named twice")
		}
		named[i.Issuer] = true
		for m, a := range i.Audience {
			if a == "" || len(a) > 1024 {
				return invalid(field+".audience["+strconv.Itoa(m)+"]", "expected from 1 to 1024 bytes")
			}
		}
		stored := directory.TokenIssuer{Issuer: i.Issuer, Audience: i.Audience}
		for m, address := range i.JWKSURL {
			at := field + ".jwks_url[" + strconv.Itoa(m) + "]"
			address, ok := unmaskKeySet(address, i.Issuer, before)
			if !ok {
				return invalid(at, "the values of its query have to be sent in clear, because they stand for none that is stored for this issuer and URL, or for several")
			}
			stored.URLs = append(stored.URLs, address)
			u, err := url.Parse(address)
			if err != nil || len(address) > 2048 || u.User != nil || u.Fragment != "" {
				return invalid(at, "expected the URL of a JSON Web Key Set")
			}
			if _, err := c.api.Guard.Check(u.Scheme + "://" + u.Host); err != nil {
				return invalid(at, "%s", credentials.CustomHostError(err).Message)
			}
		}
		if i.JWKS != nil {
			raw, err := json.Marshal(i.JWKS)
			if err == nil && len(raw) > maxJWKS {
				return invalid(field+".jwks", "expected at most %d bytes", maxJWKS)
			}
			if err == nil {
				_, err = identity.ParseKeySet(raw, true)
			}
			if err != nil {
				return invalid(field+".jwks", "%v", err)
			}
			stored.Keys = raw
		}
		if len(stored.URLs) == 0 && stored.Keys == nil {
			return invalid(field+".jwks_url", "expected jwks_url or jwks")
		}
		s.Issuers = append(s.Issuers, stored)
	}
	return nil
}

// unmaskKeySet returns the URL of a key set as it is stored, if it is sent as it is shown. What is shown has its
// destination, so that no other URL gets its query. ok is false if it stands for none of the issuer, or for several.
func unmaskKeySet(address, issuer string, stored []directory.TokenIssuer) (whole string, ok bool) {
	if !strings.Contains(address, credentials.Masked) {
		return address, true
	}
	for _, i := range stored {
		if i.Issuer != issuer {
			continue
		}
		for _, old := range i.URLs {
			if shown, masked := credentials.MaskQuery(old); masked && shown == address {
				if ok && old != whole {
					return "", false
				}
				whole, ok = old, true
			}
		}
	}
	return whole, ok
}
