package admin

import (
	"encoding/json"
	"strconv"
	"strings"

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
		if s.MaxSessionTTL = ttl.Value; ttl.Set && !ttl.Null && ttl.Value == 0 {
			s.MaxSessionTTL = -1 // which it may not be either
		}
		if err := identity.CheckSession(s, refuseAuth); err != nil {
			return err
		}
	}
	if !in.Domains.Set {
		return nil
	}
	s.Domains = nil
	for _, d := range in.Domains.Value {
		s.Domains = append(s.Domains, directory.EmailDomain{Domain: strings.ToLower(d.Domain), Subdomains: d.Subdomains})
	}
	return identity.CheckDomains(s.Domains, refuseAuth)
}

// refuseAuth makes the errors of rules of signing in, by the names that they have in rows.
func refuseAuth(field, format string, args ...any) error {
	names := strings.NewReplacer("max_session_ttl", "session_settings.max_session_ttl", "subdomains", "allow_subdomains", "domains[", "email_domains[", "issuers[", "jwt[")
	return invalid("auth_settings."+names.Replace(field), format, args...)
}

// applyIssuers makes the issuers of JSON Web Tokens those of a request.
func (c *call) applyIssuers(s *directory.SignIn, in []tokenIssuer) error {
	if r := c.caller.Rights; !c.caller.Owner && (r == nil || r.Organisation != roles.Owner) {
		return forbidden("auth_settings.jwt: only owners change the issuers of JWTs")
	}
	before := s.Issuers
	s.Issuers = nil
	for n, i := range in {
		stored := directory.TokenIssuer{Issuer: i.Issuer, Audience: i.Audience}
		for m, address := range i.JWKSURL {
			address, ok := identity.UnmaskKeySet(address, i.Issuer, before)
			if !ok {
				return refuseAuth("issuers["+strconv.Itoa(n)+"].jwks_url["+strconv.Itoa(m)+"]", "the values of its query have to be sent in clear, because they stand for none that is stored for this issuer and URL, or for several")
			}
			stored.URLs = append(stored.URLs, address)
		}
		if i.JWKS != nil {
			raw, err := json.Marshal(i.JWKS)
			if err != nil {
				return err
			}
			stored.Keys = raw
		}
		s.Issuers = append(s.Issuers, stored)
	}
	return identity.CheckIssuers(s.Issuers, c.api.Guard, refuseAuth)
}
