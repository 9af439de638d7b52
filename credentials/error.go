package credentials

import (
	"fmt"
	"strings"
)

// A Reason says why a caller or its request for a route was refused. The data plane and the
// control plane each have one table that turns it into an answer.
type Reason uint8

// The reasons.
const (
	InvalidKey            Reason = iota + 1 // missing, unknown or revoked
	ExpiredKey                              // the service key has expired
	MissingScope                            // the key lacks a scope
	NoProvider                              // the request does not name a provider
	UnknownProvider                         // neither built in nor saved
	UnknownVirtualKey                       // no such virtual key in the caller's workspace
	ExpiredVirtualKey                       // the virtual key has expired
	IntegrationDisabled                     // the workspace may not use the integration of the provider
	UnknownConfig                           // no such saved config
	BadCustomHost                           // refused by the host guard, or unusable
	StoredSecretElsewhere                   // a custom host with a stored credential
	InlineConfigBlocked                     // block_inline_config
	InlineProviderBlocked                   // block_inline_config
	InlineHostBlocked                       // block_inline_config
	InlineURLBlocked                        // block_inline_config
	InlineHeadersBlocked                    // block_inline_config
	AmbiguousHeader                         // a header has two different values
	SecretUnavailable                       // a stored credential cannot be opened
	SecretUnfetched                         // the value of a secret reference cannot be fetched
	SecretNotAllowed                        // the workspace may not use the secret reference
	KeysUnavailable                         // a JWT cannot be verified, because there are no keys
)

// An Error says what was refused and what to do about it. It never contains a secret.
type Error struct {
	Reason  Reason
	Field   string // the header or body field that is wrong, in lower case; may be empty
	Message string
	Err     error // the cause, to be logged; may be nil
}

func newError(reason Reason, field, format string, args ...any) *Error {
	return &Error{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)}
}

func (r *Error) Error() string { return r.Message }

func (r *Error) Unwrap() error { return r.Err }

// Clip shortens what an error or a record repeats of a caller's input to 64 bytes.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// Interface guards
var _ error = (*Error)(nil)
