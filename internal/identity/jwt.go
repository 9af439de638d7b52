package identity

import (
	"cmp"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/jws"
)

const (
	maxToken = 16 << 10 // bytes
	maxUser  = 255      // bytes of what a token calls its user

	// skew is how much the clocks of issuers may differ from this one.
	skew = 30 * time.Second

	// maxVerified and maxVerifiedSize, in bytes, bound the tokens that are remembered as verified.
	maxVerified     = 10_000
	maxVerifiedSize = 32 << 20
)

// An Issuer is somebody whose JSON Web Tokens are accepted instead of API keys.
type Issuer struct {
	Name     string       // the claim iss
	Audience []string     // the claim aud has to have one of them
	URLs     []string     // of key sets
	Client   *http.Client // by which they are fetched
	Keys     *KeySet      // further keys; may be nil
}

// Options are the options of a [Verifier].
type Options struct {
	Directory *directory.Directory // nil: there is no organisation whose settings could count
	// Issuers are those of the operator. Those of the organisation's settings come after them, and
	// their keys are fetched by Client.
	Issuers []Issuer
	Client  *http.Client
	// Config returns the id of a config of a workspace, by its id or slug. It may be nil.
	Config func(workspaceID, idOrSlug string) (id string, ok bool)
	// Limits reads the limits that a token has itself, for [credentials.Caller.TokenLimits]. The error says what is
	// wrong with them. If it is nil, tokens with limits are refused.
	Limits func(LimitedToken) (any, error)
	Now    func() time.Time
	Logger *zap.Logger
}

// A LimitedToken is a verified token that has limits of its own.
type LimitedToken struct {
	ID             string // a digest of what the issuer has signed
	OrganisationID string
	Issued         time.Time // zero: it does not say
	Expires        time.Time // the last time that it may be used

	UsageLimits, RateLimits []byte // the claims, in JSON; empty: it has none
}

// A Verifier identifies callers by JSON Web Tokens. It is safe for concurrent use.
type Verifier struct {
	Options
	issuers []*issuer

	organisation atomic.Pointer[ownIssuers]

	mu       sync.RWMutex
	verified map[credentials.Digest]*verified // by the digest of the whole token
	size     int                              // bytes of memory of verified, about
}

type issuer struct {
	Issuer
	remote []*remoteKeys
	gone   atomic.Bool // the organisation has it no more
}

// verified is a token whose signature and claims are right while by uses keys.
type verified struct {
	*claims
	by   *issuer
	from int // index of the remote keys; -1: the issuer's own
	keys *KeySet
}

// NewVerifier returns a verifier, which begins to fetch the keys of its issuers.
func NewVerifier(o Options) *Verifier {
	v := &Verifier{Options: o, verified: make(map[credentials.Digest]*verified)}
	for _, i := range o.Issuers {
		v.issuers = append(v.issuers, v.begin(i))
	}
	v.own()
	return v
}

// begin begins to fetch the keys of an issuer.
func (v *Verifier) begin(i Issuer) *issuer {
	of := &issuer{Issuer: i}
	for _, url := range i.URLs {
		keys := &remoteKeys{url: url, client: i.Client, now: v.Now, logger: v.Logger}
		keys.current()
		of.remote = append(of.remote, keys)
	}
	return of
}

// Authenticate implements [credentials.Tokens].
func (v *Verifier) Authenticate(token string, digest *credentials.Digest) (c *credentials.Caller, refusal *credentials.Error, ours bool) {
	if !looksLikeJWT(token) {
		return nil, nil, false
	}
	v.own() // what it does not have any more holds no token
	v.mu.RLock()
	known := v.verified[*digest]
	v.mu.RUnlock()
	if known == nil || !known.holds() {
		by := v.issuerOf(token)
		if by == nil {
			return nil, nil, false
		}
		if known, refusal = by.verify(token); refusal == nil {
			refusal = v.limit(token, known.claims)
		}
		if refusal != nil {
			return nil, refusal, true
		}
		if refusal = v.inTime(known); refusal == nil {
			v.remember(*digest, known)
		}
	} else {
		refusal = v.inTime(known)
	}
	if refusal == nil {
		c, refusal = v.caller(known.claims)
	}
	return c, refusal, true
}

// Recognizes implements [credentials.Tokens].
func (v *Verifier) Recognizes(token string) bool {
	return looksLikeJWT(token) && v.issuerOf(token) != nil
}

// looksLikeJWT reports whether a text has three parts, of which the first begins like an object.
func looksLikeJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}

// issuerOf returns whom a token says that it is from, which is not verified; nil: from nobody who
// is known.
func (v *Verifier) issuerOf(token string) *issuer {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	if len(token) > maxToken {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil
	}
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if jsonv2.Unmarshal(raw, &unverified) != nil || unverified.Issuer == "" {
		return nil
	}
	for _, list := range [][]*issuer{v.issuers, v.own()} {
		for _, i := range list {
			if i.Name == unverified.Issuer {
				return i
			}
		}
	}
	return nil
}

// holds reports whether the keys by which a token was verified are still those of its issuer.
func (k *verified) holds() bool {
	return !k.by.gone.Load() && (k.from < 0 || k.by.remote[k.from].current() == k.keys)
}

// remember remembers a verified token. Where there are too many, or too large ones, any others make room.
func (v *Verifier) remember(digest credentials.Digest, k *verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(digest)
	size := k.size()
	for other := range v.verified {
		if len(v.verified) < maxVerified && v.size+size <= maxVerifiedSize {
			break
		}
		v.forget(other)
	}
	v.verified[digest] = k
	v.size += size
}

// forget forgets a verified token, if it is remembered.
func (v *Verifier) forget(digest credentials.Digest) {
	if k := v.verified[digest]; k != nil {
		delete(v.verified, digest)
		v.size -= k.size()
	}
}

// limit reads the limits of a verified token. It is counted by what is signed, which can be written in one way only
// ([jws.Parse]); whoever has a token may be able to make other signatures that are right, too.
func (v *Verifier) limit(token string, c *claims) *credentials.Error {
	t := LimitedToken{UsageLimits: present(c.UsageLimits), RateLimits: present(c.RateLimits)}
	switch {
	case len(t.UsageLimits) == 0 && len(t.RateLimits) == 0:
		return nil
	case v.Limits == nil:
		return invalid("usage_limits and rate_limits are not supported here")
	}
	signed := sha256.Sum256([]byte(token[:strings.LastIndexByte(token, '.')]))
	t.ID, t.Expires = hex.EncodeToString(signed[:]), c.Expires.time().Add(skew)
	if v.Directory != nil {
		t.OrganisationID = v.Directory.Organisation().ID
	}
	if c.IssuedAt != nil {
		t.Issued = c.IssuedAt.time()
	}
	var err error
	if c.limits, err = v.Limits(t); err != nil {
		return invalid(err.Error())
	}
	c.UsageLimits, c.RateLimits = nil, nil
	return nil
}

// inTime returns an error if a token has expired, or is not valid yet.
func (v *Verifier) inTime(k *verified) *credentials.Error {
	now := v.Now()
	switch {
	case !now.Before(k.Expires.time().Add(skew)):
		return &credentials.Error{Reason: credentials.ExpiredKey, Field: field, Message: "The JWT has expired. Error Code: 01"}
	case k.NotBefore != nil && now.Before(k.NotBefore.time().Add(-skew)), k.IssuedAt != nil && now.Before(k.IssuedAt.time().Add(-skew)):
		return invalid("it is not valid yet: nbf or iat is in the future")
	}
	return nil
}

// field is the header at fault.
const field = "x-gw-api-key"

func invalid(why string) *credentials.Error {
	return &credentials.Error{Reason: credentials.InvalidKey, Field: field, Message: "Invalid JWT. Error Code: 03. The JWT in x-gw-api-key, Authorization or x-api-key was refused: " + why}
}

// verify verifies the signature of a token, and the claims that stay as they are.
func (i *issuer) verify(token string) (*verified, *credentials.Error) {
	// Only the algorithms that are allowed here can be those of the header.
	signed, err := jws.Parse(token, allowed)
	if errors.Is(err, jws.ErrSpelling) {
		return nil, invalid(err.Error())
	}
	if err != nil {
		return nil, invalid("expected a signed JWT with one of the algorithms " + algorithmNames())
	}
	header := signed.Signatures[0].Protected
	if refusal := checkHeader(&header); refusal != nil {
		return nil, refusal
	}
	payload, keys, from, refusal := i.open(signed, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if refusal != nil {
		return nil, refusal
	}
	c, err := parseClaims(payload)
	switch {
	case err != nil:
		return nil, invalid(err.Error())
	case c.Issuer != i.Name:
		return nil, invalid("iss is another one than expected")
	case !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(i.Audience, a) }):
		return nil, invalid("aud is for others, not for this gateway")
	case c.Expires == nil:
		return nil, invalid("it has no exp")
	case len(c.user()) > maxUser || !utf8.ValidString(c.user()) || strings.ContainsFunc(c.user(), unicode.IsControl):
		return nil, invalid("email_id, sub or uid is not the name of a user")
	}
	c.Audience = nil // it is checked, and may be long
	return &verified{c, i, from, keys}, nil
}

func algorithmNames() string {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

// checkHeader checks the header of a token besides its algorithm.
func checkHeader(h *jose.Header) *credentials.Error {
	for _, name := range []jose.HeaderKey{"crit", "b64"} {
		if _, ok := h.ExtraHeaders[name]; ok {
			return invalid("its header has " + string(name) + ", which is not supported")
		}
	}
	typ, named := h.ExtraHeaders["typ"]
	if is, _ := typ.(string); named && !slices.Contains([]string{"jwt", "at+jwt"}, strings.TrimPrefix(strings.ToLower(is), "application/")) {
		return invalid("its header has another typ than JWT")
	}
	if h.KeyID == "" {
		return invalid("its header has no kid")
	}
	return nil
}

// open returns the payload of a token whose signature is right, and the key set by which that was
// found out. If no key has the id, the remote keys are fetched again.
func (i *issuer) open(signed *jose.JSONWebSignature, id string, algorithm jose.SignatureAlgorithm) (payload []byte, set *KeySet, from int, _ *credentials.Error) {
	for again := false; ; again = true {
		var fit []any
		has, missing := false, false
		look := func(s *KeySet, at int) {
			keys, named := s.find(id, algorithm)
			if has = has || named; len(keys) > 0 {
				set, from = s, at
			}
			for _, k := range keys {
				same := func(other any) bool { return k.(interface{ Equal(crypto.PublicKey) bool }).Equal(other) }
				if !slices.ContainsFunc(fit, same) {
					fit = append(fit, k)
				}
			}
		}
		look(i.Keys, -1)
		for n, r := range i.remote {
			s := r.current()
			missing = missing || s == nil
			look(s, n)
		}
		switch {
		case len(fit) == 1:
			payload, err := signed.Verify(fit[0])
			if err != nil {
				return nil, nil, 0, invalid("its signature is wrong")
			}
			return payload, set, from, nil
		case len(fit) > 1:
			return nil, nil, 0, invalid("more than one key of the issuer has its kid")
		case has:
			return nil, nil, 0, invalid("the key with its kid is for another algorithm")
		case !again && i.refresh():
			continue
		case missing:
			return nil, nil, 0, &credentials.Error{
				Reason: credentials.KeysUnavailable, Field: field, Message: "The JWT cannot be verified now, because the keys of its issuer cannot be fetched; try again",
				Err: errors.New("no keys of the issuer " + credentials.Clip(i.Name)),
			}
		}
		return nil, nil, 0, invalid("no key of the issuer has its kid")
	}
}

// refresh fetches the remote keys again, and reports whether any were.
func (i *issuer) refresh() bool {
	var wait sync.WaitGroup
	fetched := make([]bool, len(i.remote))
	for n, r := range i.remote {
		wait.Go(func() { fetched[n] = r.refresh() })
	}
	wait.Wait()
	return slices.Contains(fetched, true)
}

// caller returns the caller that verified claims stand for, as the directory is now.
func (v *Verifier) caller(c *claims) (*credentials.Caller, *credentials.Error) {
	d := v.Directory
	forbidden := func(why string) (*credentials.Caller, *credentials.Error) {
		return nil, &credentials.Error{Reason: credentials.MissingScope, Field: field, Message: "Forbidden! The JWT " + why}
	}
	if id := c.organisation(); id != "" && !strings.EqualFold(id, d.Organisation().ID) {
		return forbidden("is for another organisation")
	}
	var w *directory.Workspace
	const notMember = "names a workspace that does not exist, or that its user is not a member of"
	if name := c.workspace(); name != "" {
		var ok bool
		if w, ok = d.Workspace(name); !ok {
			return forbidden(notMember)
		}
	}
	u, known := v.userOf(c)
	scopes, named := c.scopes()
	var caller *credentials.Caller
	switch {
	case known:
		why := notMember
		if w == nil && !u.Role.Administers() {
			w, why = d.DefaultWorkspace(), "names no workspace (gw_workspace), and its user is not a member of the default one"
		}
		if caller = UserCaller(d, u, w); caller == nil {
			return forbidden(why)
		}
		if named {
			caller.Rights.Only = append([]string{}, scopes...)
		}
	case c.Email != "":
		return forbidden("names a user, in email_id, whom the organisation does not have")
	case d.IsFormer(c.user()):
		return forbidden("names a user who was removed from the organisation")
	default:
		if w == nil {
			w = d.DefaultWorkspace()
		}
		name := cmp.Or(c.user(), c.Issuer)
		caller = credentials.TokenCaller("jwt/"+name, scopes)
		caller.KeyName, caller.OrganisationID, caller.WorkspaceID, caller.UserID = name, d.Organisation().ID, w.ID, c.user()
	}
	expires := c.Expires.time()
	caller.TokenExpires, caller.TokenLimits, caller.Metadata = &expires, c.limits, c.metadata()
	if config := c.config(); config != "" && w != nil && v.Config != nil {
		if id, ok := v.Config(w.ID, config); ok {
			caller.ConfigID = id
		}
	}
	return caller, nil
}

// userOf returns the user of the organisation whom a token names.
func (v *Verifier) userOf(c *claims) (*directory.User, bool) {
	if c.Email != "" {
		return v.Directory.UserByEmail(c.Email)
	}
	name := c.user()
	if name == "" {
		return nil, false
	}
	if u, ok := v.Directory.User(name); ok {
		return u, true
	}
	return v.Directory.UserByEmail(name)
}

// Interface guards
var _ credentials.Tokens = (*Verifier)(nil)
