package admin

import (
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
)

// authSettings are the rules of signing in, which sign-in has to obey.
type authSettings struct {
	InvitedOnly bool            `json:"disable_auto_provision_user" doc:"Whether only users who were invited sign in, and not everyone of an allowed domain."`
	Session     sessionSettings `json:"session_settings"`
	Domains     []emailDomain   `json:"email_domains" nullable:"false"`
}

type sessionSettings struct {
	MaxTTL *int `json:"max_session_ttl" nullable:"true" doc:"Seconds after which a user signs in again, at least 900; null: no limit."`
}

type emailDomain struct {
	Domain     string `json:"domain" maxLength:"253" doc:"Whose e-mail addresses may sign in, such as example.com."`
	Subdomains bool   `json:"allow_subdomains,omitempty" doc:"Whether those of all domains below it may, too. Only of a domain that is directly below a public suffix."`
}

func showSignIn(s *directory.SignIn) authSettings {
	out := authSettings{InvitedOnly: s.InvitedOnly, Domains: []emailDomain{}}
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
	Session     *struct {
		MaxTTL Optional[int] `json:"max_session_ttl,omitempty" doc:"At least 900; null: no limit."`
	} `json:"session_settings,omitempty"`
	Domains *[]emailDomain `json:"email_domains,omitempty" maxItems:"100" nullable:"false" doc:"All of them."`
}

// minSessionTTL and maxSessionTTL bound max_session_ttl, in seconds.
const (
	minSessionTTL = 900
	maxSessionTTL = 365 * 24 * 60 * 60
)

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (in *updateAuth) apply(s *directory.SignIn) error {
	if in.InvitedOnly != nil {
		s.InvitedOnly = bool(*in.InvitedOnly)
	}
	if in.Session != nil && in.Session.MaxTTL.Set {
		ttl := in.Session.MaxTTL
		if !ttl.Null && (ttl.Value < minSessionTTL || ttl.Value > maxSessionTTL) {
			return invalid("auth_settings.session_settings.max_session_ttl", "expected seconds from %d to %d, or null", minSessionTTL, maxSessionTTL)
		}
		s.MaxSessionTTL = ttl.Value
	}
	if in.Domains == nil {
		return nil
	}
	s.Domains = nil
	seen := make(map[string]bool)
	for i, d := range *in.Domains {
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
