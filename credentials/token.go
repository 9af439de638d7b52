package credentials

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/big"
	"strings"
)

// DefaultKeyPrefix is the prefix of service keys unless API_KEY_PREFIX sets another.
const DefaultKeyPrefix = "gw-"

const (
	tokenBytes   = 32 // of randomness
	tokenDigits  = 43 // base 62 digits that 32 bytes need
	checksumSize = 6  // base 62 digits that a CRC-32 needs
	maxPrefix    = 32 // characters of a prefix

	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewToken creates a service key: a prefix, 256 random bits, and a checksum by which secret
// scanners (and people) can detect mistyped keys.
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

// HoldsToken reports whether a text contains a service key anywhere. It is recognised by
// its checksum.
func HoldsToken(text string) bool {
	b := []byte(text)
	run := 0 // number of digits up to here
	for end := 1; end <= len(b); end++ {
		if values[b[end-1]] < 0 {
			run = 0
			continue
		}
		if run++; run < tokenDigits+checksumSize {
			continue
		}
		body := end - checksumSize
		sum := int64(0)
		for _, c := range b[body:end] {
			sum = sum*int64(len(digits)) + int64(values[c])
		}
		if sum > math.MaxUint32 { // true for most texts
			continue
		}
		for start := body - tokenDigits; start >= max(0, body-tokenDigits-maxPrefix); start-- {
			if crc32.ChecksumIEEE(b[start:body]) == uint32(sum) {
				return true
			}
		}
	}
	return false
}

// values has the value of each digit, and -1 for other bytes.
var values = func() (v [256]int8) {
	for i := range v {
		v[i] = int8(strings.IndexByte(digits, byte(i)))
	}
	return v
}()

// A Digest is the SHA-256 of a service key, which is all that is stored of it. The time of
// a lookup by digest does not depend on other keys.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a service key.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// is compares d with a configured digest, nil where there is none, in constant time.
func (d *Digest) is(configured *Digest) bool {
	return configured != nil && subtle.ConstantTimeCompare(d[:], configured[:]) == 1
}
