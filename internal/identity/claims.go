package identity

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-gw/gateway/credentials"
)

// texts are the values of a claim that is a string or an array of them.
type texts []string

// UnmarshalJSON reads either.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		var one string
		err := jsonv2.Unmarshal(raw, &one)
		*t = texts{one}
		return err
	}
	return jsonv2.Unmarshal(raw, (*[]string)(t))
}

// numericDate is a time in seconds since 1970, which may have a fraction (RFC 7519).
type numericDate float64

// latest is the last second that a [numericDate] may be: of the year 9999.
const latest = 253402300799

func (d *numericDate) valid() bool {
	return d == nil || !math.IsNaN(float64(*d)) && *d >= 0 && *d <= latest
}

func (d *numericDate) time() time.Time {
	whole, fraction := math.Modf(float64(*d))
	return time.Unix(int64(whole), int64(fraction*1e9))
}

// claims are the claims of a token that the gateway reads.
type claims struct {
	Issuer    string       `json:"iss"`
	Audience  texts        `json:"aud"`
	Expires   *numericDate `json:"exp"`
	NotBefore *numericDate `json:"nbf"`
	IssuedAt  *numericDate `json:"iat"`

	Organisation      string `json:"gw_oid"`
	OrganisationAlias string `json:"organisation_id"`
	Workspace         string `json:"gw_workspace"`
	WorkspaceAlias    string `json:"workspace_slug"`
	Scope             texts  `json:"scope"`
	Scopes            texts  `json:"scopes"`
	Email             string `json:"email_id"`
	Subject           string `json:"sub"`
	UID               string `json:"uid"`
	Defaults          *struct {
		ConfigID string         `json:"config_id"`
		Metadata jsontext.Value `json:"metadata"`
	} `json:"defaults"`
	UsageLimits jsontext.Value `json:"usage_limits"`
	RateLimits  jsontext.Value `json:"rate_limits"`

	limits any // what these two come to; nil: nothing
}

// present returns a claim, or nothing if it is null or an empty list.
func present(claim jsontext.Value) []byte {
	if claim.Kind() == 'n' || string(claim) == "[]" {
		return nil
	}
	return claim
}

// parseClaims reads the claims of a token whose signature is right. Names count as they are
// written, and once.
func parseClaims(raw []byte) (*claims, error) {
	c := new(claims)
	if err := jsonv2.Unmarshal(raw, c); err != nil {
		return nil, errors.New("its claims are not those of a JWT")
	}
	if !c.Expires.valid() || !c.NotBefore.valid() || !c.IssuedAt.valid() {
		return nil, errors.New("exp, nbf or iat is no time")
	}
	if d := c.Defaults; d != nil && d.Metadata != nil && d.Metadata.Kind() != '{' {
		return nil, errors.New("defaults.metadata is no object")
	}
	return c, nil
}

func (c *claims) organisation() string { return cmp.Or(c.Organisation, c.OrganisationAlias) }

func (c *claims) workspace() string { return cmp.Or(c.Workspace, c.WorkspaceAlias) }

// user is who the token names.
func (c *claims) user() string { return cmp.Or(c.Email, c.Subject, c.UID) }

// scopePrefix may be before a scope, so that it is distinguished from those of others.
const scopePrefix = "gw."

// scopes are those of the gateway that the token names, which keys of a workspace may have. named
// reports whether it names any, known or not. Other scopes, such as openid, are none of the
// gateway's business.
func (c *claims) scopes() (scopes []string, named bool) {
	for _, claim := range append(slices.Clone(c.Scope), c.Scopes...) {
		for s := range strings.FieldsSeq(claim) {
			bare, ours := strings.CutPrefix(s, scopePrefix)
			known := credentials.IsScope(bare)
			named = named || ours || known
			if known {
				scopes = append(scopes, bare)
			}
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), named
}

// What claims take in memory besides their texts, in bytes, about.
const (
	claimsSize = 1 << 10 // with the entry of the map that they are in
	limitsSize = 4 << 10 // a rate limit of each type, and a budget
	textSize   = 16      // a string in an array
)

// size is how many bytes of memory claims take, about.
func (c *claims) size() int {
	n := claimsSize + len(c.UsageLimits) + len(c.RateLimits)
	for _, t := range [...]string{c.Issuer, c.Organisation, c.OrganisationAlias, c.Workspace, c.WorkspaceAlias, c.Email, c.Subject, c.UID, c.config()} {
		n += len(t)
	}
	for _, list := range [...]texts{c.Audience, c.Scope, c.Scopes} {
		n += textSize * cap(list)
		for _, t := range list {
			n += len(t)
		}
	}
	if c.Defaults != nil {
		n += cap(c.Defaults.Metadata)
	}
	if c.limits != nil {
		n += limitsSize
	}
	return n
}

// metadata is the metadata of the token's calls, or nil.
func (c *claims) metadata() json.RawMessage {
	if c.Defaults == nil || len(c.Defaults.Metadata) == 0 {
		return nil
	}
	return json.RawMessage(c.Defaults.Metadata)
}

// config names the config of calls that name none; "": none.
func (c *claims) config() string {
	if c.Defaults == nil {
		return ""
	}
	return c.Defaults.ConfigID
}
