package credentials

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Masked replaces a secret that is not shown.
const Masked = "*****"

// A Secret is a credential in the clear. Whenever it is printed, logged or encoded, it
// appears as [Masked]; only Reveal returns its value.
type Secret struct{ reveal func() string }

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{func() string { return value }} }

// Reveal returns the credential itself. It should only be called to send or seal it.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Empty reports whether there is no credential.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal compares in constant time.
func (s Secret) Equal(t Secret) bool {
	a, b := sha256.Sum256([]byte(s.Reveal())), sha256.Sum256([]byte(t.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Hint returns a credential as the control plane shows it: its first two and last three
// characters around [Masked]. Short values are masked completely.
func (s Secret) Hint() string {
	v := s.Reveal()
	if len(v) < 12 {
		return Masked
	}
	return v[:2] + Masked + v[len(v)-3:]
}

func (s Secret) String() string { return Masked }

// Format masks the value for every verb of fmt, including %#v and %x.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Masked)) }

// MarshalText masks the value in JSON and in anything else that encodes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Masked), nil }

// LogValue masks the value in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Masked) }

// Interface guards
var (
	_ fmt.Formatter  = Secret{}
	_ fmt.Stringer   = Secret{}
	_ slog.LogValuer = Secret{}
)
