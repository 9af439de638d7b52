package guardrails

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Services are what a check works with that asks others. They are safe for concurrent use.
type Services interface {
	// Send sends a request, whose redirects are not followed. The answer must be released. An
	// error says nothing of credentials, and may be that of ctx.
	Send(ctx context.Context, q *Request) (*Answer, error)
	// Token returns an access token, which is kept as long as it is valid.
	Token(ctx context.Context, vendor string, l *Login) (string, error)
	// AssumeRole returns the keys of a role of AWS, which are kept as long as they are valid.
	AssumeRole(ctx context.Context, vendor string, r *Role) (Keys, error)
	// Settings returns what the organisation has saved for a vendor or a check, see [Vendor]; nil:
	// nothing.
	Settings(name string) (map[string]string, error)
	// Reserved reports whether a header is the gateway's own, which is not sent to others.
	Reserved(header string) bool
	// HoldsKey reports whether a text holds an API key of the gateway, which is not sent to others
	// either, whatever header it is in.
	HoldsKey(text string) bool
	// Reserve counts bytes of memory that a check is about to use, as the call's, until release is called. The error says
	// that there is no room for them.
	Reserve(bytes int) (release func(), err error)
	Now() time.Time
}

// A Request is sent by a check.
type Request struct {
	Vendor string // who is asked, for metrics
	// Public: the host was not chosen by the operator, or is not a fixed one of the vendor. It must
	// then be one that callers may name as a custom host.
	Public bool
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
	// MaxAnswer bounds the answer, in bytes: a longer one is an error. 0: [MaxAnswer].
	MaxAnswer int
}

// MaxAnswer bounds the answer to a [Request] that does not say otherwise, in bytes.
const MaxAnswer = 1 << 20

// An Answer is the answer to a [Request].
type Answer struct {
	Status   int
	Body     []byte
	Location string // of a redirect, as it was sent

	release func()
}

// NewAnswer returns an answer whose memory release gives back; it may be nil.
func NewAnswer(status int, body []byte, release func()) *Answer {
	return &Answer{Status: status, Body: body, release: release}
}

// Release frees the answer, whose body must not be used afterwards.
func (a *Answer) Release() {
	if a.release != nil {
		a.release()
	}
}

// A Login is a grant of client credentials (RFC 6749, section 4.4), or what the machine of the gateway is.
type Login struct {
	TokenURL     string // of a server that the check knows
	ClientID     string
	ClientSecret string
	Scope        string
	// Managed: the token is one of the identity of the gateway on Azure, if the operator gives it to checks.
	// ClientID, which may be empty, chooses one of several; there is no ClientSecret, and of TokenURL only the
	// scheme and the host count, which say in which cloud it is.
	Managed bool
}

// A Role is one of AWS that keys may assume.
type Role struct {
	Region     string // of the service that is asked for the role's keys, one label of a host
	ARN        string
	ExternalID string // what the role's owner expects of who assumes it; "": nothing
	Keys       Keys
}

// Keys are a key pair of AWS, with a session token if they are temporary.
type Keys struct{ AccessKeyID, SecretAccessKey, SessionToken string }
