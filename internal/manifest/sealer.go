package manifest

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/caddy-gw/gateway/credentials"
)

// KeySize is the size of the key of a [Sealer], in bytes.
const KeySize = 32

const (
	// Omitted stands for a secret that a document does not have. Where the store has the object,
	// it keeps the secret, if that goes where it went.
	Omitted = "(omitted)"

	sealedPrefix = "sealed:"
)

// ErrWrongKey means that a secret of a document was sealed with another key, or for another
// object, or was altered.
var ErrWrongKey = errors.New("sealed with another passphrase, or for another object, or altered")

// A Sealer seals secrets for a document with XChaCha20-Poly1305. The same secret of the same object
// is always sealed to the same text, so that a document only changes where the control plane does:
// the nonce is an HMAC of both, under a key of its own.
type Sealer struct {
	aead   cipher.AEAD
	nonces []byte
}

// NewSealer returns the sealer of a key.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, errors.New("the key of a document has another length than expected")
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "gw document", 2*KeySize)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(derived[:KeySize])
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead, nonces: derived[KeySize:]}, nil
}

// Seal returns a secret of the object named by of, sealed.
func (s *Sealer) Seal(of, secret string) string {
	mac := hmac.New(sha256.New, s.nonces)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(of))))
	mac.Write([]byte(of + secret))
	nonce := mac.Sum(nil)[:chacha20poly1305.NonceSizeX]
	return sealedPrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, []byte(secret), []byte(of)))
}

// Open returns what Seal sealed, or [ErrWrongKey].
func (s *Sealer) Open(of, sealed string) (string, error) {
	text, ok := strings.CutPrefix(sealed, sealedPrefix)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(raw) < chacha20poly1305.NonceSizeX {
		return "", ErrWrongKey
	}
	plain, err := s.aead.Open(nil, raw[:chacha20poly1305.NonceSizeX], raw[chacha20poly1305.NonceSizeX:], []byte(of))
	if err != nil {
		return "", ErrWrongKey
	}
	return string(plain), nil
}

// seal returns what stands for a secret in the document.
func (x *session) seal(of, secret string) string {
	if x.sealer == nil {
		return Omitted
	}
	return x.sealer.Seal(of, secret)
}

// open returns the secret that a text of the document stands for: a sealed one, or in clear. kept
// returns the one of the store for [Omitted]; it may be nil.
func (x *session) open(of, field, text string, kept func() (string, bool)) (string, error) {
	switch {
	case text == Omitted:
		if kept != nil {
			if secret, ok := kept(); ok {
				return secret, nil
			}
		}
		return "", wrong(field, "the document does not have the secret, and neither has the store; put it there, or export with a passphrase")
	case strings.Contains(text, credentials.Masked):
		return "", wrong(field, "a masked value; send the secret itself, or %s for the one that the store has", Omitted)
	case !strings.HasPrefix(text, sealedPrefix):
		return text, nil
	case x.sealer == nil:
		return "", wrong(field, "sealed, and no passphrase was given")
	}
	secret, err := x.sealer.Open(of, text)
	if err != nil {
		return "", wrong(field, "%v", err)
	}
	return secret, nil
}
