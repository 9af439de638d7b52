// Package secrets reads secrets from where they are managed, such as HashiCorp Vault. A
// secret reference names a secret; its value is never stored.
//
// A secret manager is a Caddy guest module in the namespace gw.secrets, which implements
// [Manager]. A reference names it by the last part of the module's id.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// MaxValue bounds the size of a secret, in bytes, as managers send it.
const MaxValue = 128 << 10

// A Manager reads secrets. It is safe for concurrent use, and stores no value.
type Manager interface {
	// Login describes the auth_config of its references.
	Login() Login
	// Check returns an error if a reference cannot be one of this manager's: a [FieldError],
	// or a [credentials.HostError] of guard, which decides about hosts that the operator did
	// not choose. What Login requires was checked before.
	Check(r *Reference, guard Guard) error
	// Fetch returns the current value of a secret: a text, or a JSON object of several. It
	// does not retry. An error is an [Error] if the manager answered; none repeats the
	// answer, which could contain a secret.
	Fetch(ctx context.Context, r *Reference, c *Clients) (credentials.Secret, error)
}

// A Guard checks the URL of a host that the operator did not choose.
type Guard interface {
	Check(host string) (*url.URL, error)
}

// Clients are the HTTP clients of a fetch. They follow no redirects, and bound the size and the
// time of answers.
type Clients struct {
	Public   *http.Client // for hosts that the operator did not choose: none is private
	Operator *http.Client // for hosts in the operator's configuration
	// Metadata reaches the services at link-local addresses that give a machine or a container its
	// own credentials, and nothing else. Only what the operator's configuration says may use them;
	// the other clients never reach them.
	Metadata *http.Client
	Now      func() time.Time // the time of signatures and tokens
}

// A Reference identifies a secret.
type Reference struct {
	Path string // of the secret, as its manager names it
	Auth Auth   // the auth_config
}

// Auth is an auth_config in the clear. It is masked when it is printed.
type Auth map[string]string

// Format masks the values for every verb of fmt.
func (Auth) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(credentials.Masked)) }

// A Login describes an auth_config: objects with a field that names the way to log in, and
// further fields for each way.
type Login struct {
	Mode        string             // the field, such as vault_auth_type; "": there is one way
	Ways        map[string][]Field // by the value of Mode
	Unavailable map[string]string  // known values of Mode that do not work here, and why
}

// A Field is a field of an auth_config. All are texts.
type Field struct {
	Name     string
	Required bool
	Secret   bool // a credential, which is sealed and never shown
	// Place means that it determines where the credentials are sent, so that those have to
	// be sent again if it changes.
	Place bool
}

// PublicFields returns the fields of a manager's auth_config that are not credentials. Of nil, a
// manager that is not there any more, none is known.
func PublicFields(m Manager) map[string]bool {
	public := make(map[string]bool)
	if m == nil {
		return public
	}
	login := m.Login()
	public[login.Mode] = true
	for _, fields := range login.Ways {
		for _, f := range fields {
			public[f.Name] = !f.Secret
		}
	}
	return public
}

// A FieldError says what is wrong with a field of a reference.
type FieldError struct{ Field, Message string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Fields of references in errors.
const (
	FieldPath = "secret_path"
	fieldAuth = "auth_config."
)

// AuthField returns the name of a field of auth_config in errors.
func AuthField(name string) string { return fieldAuth + name }

// An Error is an answer of a manager that has no secret.
type Error struct {
	What   string // was asked for: login, secret
	Status int    // of the answer
	Code   string // the manager's own code, or ""
}

func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("the %s was answered with %d %s", e.What, e.Status, e.Code)
	}
	return fmt.Sprintf("the %s was answered with %d", e.What, e.Status)
}

// Refused reports whether the manager refused the credentials of the request.
func (e *Error) Refused() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest && slices.Contains(awsExpired, e.Code)
}

// Refusal reports whether an error says that there is no such secret, or that the gateway may not
// read it, unlike an outage: the manager or its login has decided, and would again.
func Refusal(err error) bool {
	var answered *Error
	var field *FieldError
	switch {
	case errors.As(err, &answered):
	case errors.As(err, &field), errors.Is(err, fs.ErrNotExist): // the operator no longer lists it, or it was removed
		return true
	default:
		return false
	}
	switch answered.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusBadRequest: // how logins are refused, and everything by AWS
		return answered.What == "login" && !slices.Contains(awsBusy, answered.Code) || slices.Contains(awsRefusals, answered.Code)
	}
	return false
}

// awsRefusals are the error codes of AWS for secrets that are gone, are being deleted, or may not be
// read.
var awsRefusals = []string{"AccessDeniedException", "InvalidRequestException", "ResourceNotFoundException", "UnrecognizedClientException"}

// awsExpired are those for credentials that have ended, which a new login replaces.
var awsExpired = []string{"ExpiredTokenException", "UnrecognizedClientException"}

// awsBusy are those of logins that are refused for now.
var awsBusy = []string{"Throttling", "ThrottlingException", "IDPCommunicationError"}

// Code returns s if it looks like an error code, and "" if it could be anything else.
func Code(s string) string {
	if i := strings.LastIndexByte(s, '#'); i >= 0 {
		s = s[i+1:] // com.amazonaws…#ResourceNotFoundException
	}
	s, _, _ = strings.Cut(s, ":")
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return ""
	}
	return s
}

// Interface guards
var (
	_ error         = (*Error)(nil)
	_ error         = (*FieldError)(nil)
	_ fmt.Formatter = Auth{}
)
