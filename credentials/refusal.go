package credentials

import "fmt"

// A Reason is why a caller or the route it asked for was refused. The data plane
// and the control plane each turn it into their envelope in one place.
type Reason uint8

// The reasons.
const (
	InvalidKey            Reason = iota + 1 // missing, unknown or revoked
	ExpiredKey                              // the service key's time is over
	MissingScope                            // the key may not do this
	NoProvider                              // nothing in the request names a provider
	UnknownProvider                         // a name that is neither built in nor saved
	UnknownVirtualKey                       // no such virtual key in the caller's workspace
	ExpiredVirtualKey                       // the virtual key's time is over
	UnknownConfig                           // no such saved config
	BadCustomHost                           // refused by the host guard, or of no use
	StoredSecretElsewhere                   // a custom host beside a stored credential
	InlineConfigBlocked                     // block_inline_config
	InlineProviderBlocked                   // block_inline_config
	InlineHostBlocked                       // block_inline_config
	InlineURLBlocked                        // block_inline_config
	InlineHeadersBlocked                    // block_inline_config
	AmbiguousHeader                         // one header, two values
	SecretUnavailable                       // a stored credential cannot be opened
)

// A Refusal says what was refused and what to do instead. It never holds a secret.
type Refusal struct {
	Reason  Reason
	Field   string // the header or body field at fault, in lower case; may be empty
	Message string
	Err     error // the cause, for the log; may be nil
}

func refuse(reason Reason, field, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Message }

func (r *Refusal) Unwrap() error { return r.Err }

// Interface guards
var _ error = (*Refusal)(nil)
