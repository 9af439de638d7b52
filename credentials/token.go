package credentials

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
)

// DefaultKeyPrefix starts every service key unless API_KEY_PREFIX says otherwise.
const DefaultKeyPrefix = "gw-"

const (
	tokenBytes   = 32 // of randomness
	tokenDigits  = 43 // base 62 digits that 32 bytes need
	checksumSize = 6  // base 62 digits that a CRC-32 needs

	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewToken makes a service key: prefix, 256 random bits, and a checksum by which
// secret scanners (and people) tell a whole key from a mistyped one.
func NewToken(random io.Reader, prefix string) (Secret, error) {
	var b [tokenBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return Secret{}, fmt.Errorf("making a key: %w", err)
	}
	body := prefix + base62(new(big.Int).SetBytes(b[:]), tokenDigits)
	sum := crc32.ChecksumIEEE([]byte(body))
	return NewSecret(body + base62(big.NewInt(int64(sum)), checksumSize)), nil
}

func base62(n *big.Int, width int) string {
	text := make([]byte, width)
	base, rem := big.NewInt(int64(len(digits))), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, rem)
		text[i] = digits[rem.Int64()]
	}
	return string(text)
}

// IsToken reports whether a text has the form of a service key, whose checksum tells.
func IsToken(text string) bool {
	body := len(text) - checksumSize
	if body < tokenDigits {
		return false
	}
	sum := crc32.ChecksumIEEE([]byte(text[:body]))
	return text[body:] == base62(big.NewInt(int64(sum)), checksumSize)
}

// A Digest is the SHA-256 of a service key, all that is stored of it. Looking a
// key up by its digest takes no time that depends on any other key.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a service key.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }
