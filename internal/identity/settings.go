package identity

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/roles"
)

// What settings of the organisation and its workspaces may be. Fields that are refused have the names that
// they have in rows.

// Bounds of max_session_ttl, in seconds.
const (
	MinSessionTTL = 900
	MaxSessionTTL = 365 * 24 * 60 * 60
)

// CheckSession checks when users sign in again.
func CheckSession(s *directory.SignIn, refuse credentials.Refuse) error {
	if ttl := s.MaxSessionTTL; ttl != 0 && (ttl < MinSessionTTL || ttl > MaxSessionTTL) {
		return refuse("max_session_ttl", "expected seconds from %d to %d, or null", MinSessionTTL, MaxSessionTTL)
	}
	return nil
}

// Bounds of the rules of signing in.
const (
	maxDomains  = 100
	maxIssuers  = 5
	maxAudience = 16
	maxKeySets  = 4
	maxURL      = 2048
	maxClaim    = 1024
	maxJWKS     = 16 << 10 // bytes of the keys of an issuer
)

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckDomains checks the domains whose e-mail addresses may sign in.
func CheckDomains(domains []directory.EmailDomain, refuse credentials.Refuse) error {
	if len(domains) > maxDomains {
		return refuse("domains", "expected at most %d", maxDomains)
	}
	seen := make(map[string]bool)
	for i, d := range domains {
		field := "domains[" + strconv.Itoa(i) + "]"
		switch {
		case !domainName.MatchString(d.Domain):
			return refuse(field+".domain", "expected a domain such as example.com, got %q", credentials.Clip(d.Domain))
		case seen[d.Domain]:
			return refuse(field+".domain", "the domain is named twice")
		}
		seen[d.Domain] = true
		if root, err := publicsuffix.EffectiveTLDPlusOne(d.Domain); err != nil {
			return refuse(field+".domain", "%s is a public suffix, below which anyone has a domain", d.Domain)
		} else if d.Subdomains && root != d.Domain {
			return refuse(field+".subdomains", "only of a root domain, %s", root)
		}
	}
	return nil
}

// CheckIssuers checks the issuers of JSON Web Tokens. guard decides about hosts of their keys.
func CheckIssuers(issuers []directory.TokenIssuer, guard credentials.Guard, refuse credentials.Refuse) error {
	if len(issuers) > maxIssuers {
		return refuse("issuers", "expected at most %d", maxIssuers)
	}
	named := make(map[string]bool)
	for n, i := range issuers {
		field := "issuers[" + strconv.Itoa(n) + "]"
		switch {
		case i.Issuer == "" || len(i.Issuer) > maxClaim:
			return refuse(field+".issuer", "expected from 1 to %d bytes", maxClaim)
		case named[i.Issuer]:
			return refuse(field+".issuer", "the issuer is named twice")
		case len(i.Audience) == 0 || len(i.Audience) > maxAudience:
			return refuse(field+".audience", "expected from 1 to %d", maxAudience)
		case len(i.URLs) > maxKeySets:
			return refuse(field+".jwks_url", "expected at most %d", maxKeySets)
		}
		named[i.Issuer] = true
		for m, a := range i.Audience {
			if a == "" || len(a) > maxClaim {
				return refuse(field+".audience["+strconv.Itoa(m)+"]", "expected from 1 to %d bytes", maxClaim)
			}
		}
		for m, address := range i.URLs {
			at := field + ".jwks_url[" + strconv.Itoa(m) + "]"
			u, err := url.Parse(address)
			if err != nil || len(address) > maxURL || u.User != nil || u.Fragment != "" {
				return refuse(at, "expected the URL of a JSON Web Key Set")
			}
			if _, err := guard.Check(u.Scheme + "://" + u.Host); err != nil {
				return refuse(at, "%s", credentials.CustomHostError(err).Message)
			}
		}
		if i.Keys != nil {
			if len(i.Keys) > maxJWKS {
				return refuse(field+".jwks", "expected at most %d bytes", maxJWKS)
			}
			if _, err := ParseKeySet(i.Keys, true); err != nil {
				return refuse(field+".jwks", "%v", err)
			}
		}
		if len(i.URLs) == 0 && i.Keys == nil {
			return refuse(field+".jwks_url", "expected jwks_url or jwks")
		}
	}
	return nil
}

// UnmaskKeySet returns the URL of a key set as it is stored, if it is sent as it is shown. What is shown has its
// destination, so that no other URL gets its query. ok is false if it stands for none of the issuer, or for several.
func UnmaskKeySet(address, issuer string, stored []directory.TokenIssuer) (whole string, ok bool) {
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

// Bounds of metadata in characters, which are those of a request's metadata.
const (
	maxMetadataMembers = 64
	maxMetadataText    = 128
)

// CheckTexts checks metadata of texts.
func CheckTexts(m map[string]string) error {
	if len(m) > maxMetadataMembers {
		return fmt.Errorf("expected at most %d members", maxMetadataMembers)
	}
	for key, v := range m {
		if utf8.RuneCountInString(key) > maxMetadataText || utf8.RuneCountInString(v) > maxMetadataText {
			return fmt.Errorf("expected keys and values of at most %d characters", maxMetadataText)
		}
	}
	return nil
}

// maxMetadataDepth is how many objects and arrays of metadata may be within each other.
const maxMetadataDepth = 8

// CheckMetadata checks metadata of calls that is stored: it has the bounds of what calls send.
func CheckMetadata(m map[string]any) error {
	if len(m) > maxMetadataMembers {
		return fmt.Errorf("expected at most %d members", maxMetadataMembers)
	}
	return checkMetadata(m, 1)
}

func checkMetadata(value any, depth int) error {
	long := func(s string) bool { return utf8.RuneCountInString(s) > maxMetadataText }
	if text, ok := value.(string); ok && long(text) {
		return fmt.Errorf("expected texts of at most %d characters", maxMetadataText)
	}
	var inner []any
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if long(key) {
				return fmt.Errorf("expected keys of at most %d characters", maxMetadataText)
			}
			inner = append(inner, one)
		}
	case []any:
		inner = v
	default:
		return nil
	}
	if depth > maxMetadataDepth {
		return fmt.Errorf("expected at most %d objects and arrays within each other", maxMetadataDepth)
	}
	for _, one := range inner {
		if err := checkMetadata(one, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// maxUserKeyTTL is the longest life of user keys, in seconds.
const maxUserKeyTTL = 10 * 365 * 24 * 60 * 60

// CheckUserKeys checks the settings of user keys.
func CheckUserKeys(u *directory.UserKeys, refuse credentials.Refuse) error {
	if u.RotationDays < 0 || u.RotationDays > credentials.MaxRotationDays {
		return refuse("rotation_days", "expected days from 1 to %d, weekly or monthly", credentials.MaxRotationDays)
	}
	if u.TTL < 0 || u.TTL > maxUserKeyTTL {
		return refuse("ttl", "expected seconds from 0 to %d", maxUserKeyTTL)
	}
	if u.MaxTTL < 0 || u.MaxTTL > maxUserKeyTTL {
		return refuse("max_ttl", "expected seconds from 0 to %d", maxUserKeyTTL)
	}
	if u.Count != nil && (*u.Count < 0 || *u.Count > credentials.MaxAPIKeys) {
		return refuse("count", "expected a number from 0 to %d, or -1 for any", credentials.MaxAPIKeys)
	}
	if err := CheckTexts(u.Metadata); err != nil {
		return refuse("metadata", "%v", err)
	}
	if u.MaxTTL > 0 && u.TTL > u.MaxTTL {
		return refuse("ttl", "expected at most user_api_key_max_ttl, %d", u.MaxTTL)
	}
	return nil
}

// deniable are the fields of records that exports may be denied.
var deniable = []string{
	"id", "trace_id", "created_at", "request", "response", "ai_org", "ai_model", "req_units", "res_units", "total_units", "request_url",
	"cost", "cost_currency", "price_version", "response_time", "response_status_code", "config", "prompt_slug", "metadata",
}

// CheckExport checks the settings of exports of the request log.
func CheckExport(e *directory.Export, refuse credentials.Refuse) error {
	for i, name := range e.Denied {
		field := "denied[" + strconv.Itoa(i) + "]"
		switch {
		case !slices.Contains(deniable, name):
			return refuse(field, "expected one of %s, got %q", strings.Join(deniable, ", "), credentials.Clip(name))
		case slices.Contains(e.Denied[:i], name):
			return refuse(field, "the field is named twice")
		}
	}
	return nil
}

// Included are settings that show a part of what another shows: they are on while that is.
var Included = [][2]string{
	{roles.OrganisationViewsMetadata, roles.OrganisationViewsLogs},
	{"membersViewLogMetadata", roles.MembersViewLogs},
	{"managersViewLogMetadata", roles.ManagersViewLogs},
}

// CheckSecurity checks security settings that are set, where isOn says what is on after that: none turns metadata
// off while all of a record is shown.
func CheckSecurity(set map[string]bool, isOn func(*roles.Setting) bool, refuse credentials.Refuse) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := roles.Named(name); !ok {
			return refuse("security."+credentials.Clip(name), "there is no setting of this name")
		}
	}
	for _, pair := range Included {
		whole, ok := roles.Named(pair[1])
		if on, given := set[pair[0]]; given && !on && ok && isOn(whole) {
			return refuse("security."+pair[0], "it cannot be off while %s is on, which shows all of a record", pair[1])
		}
	}
	return nil
}
