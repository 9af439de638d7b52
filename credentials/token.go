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

// HoldsToken reports whether a text contains a service key anywhere.
func HoldsToken(text string) bool {
	token, _ := NextToken(text)
	return token != ""
}

// NextToken returns the first service key in a text, and what follows it; "" if there is none. It
// is recognised by its checksum, and need not exist. Most texts have no run of digits that is
// long enough for one, so that few of their bytes are looked at.
func NextToken(text string) (token, rest string) {
	const size = tokenDigits + checksumSize
	seen := 0 // text[from:seen] are digits
	for from := 0; from+size <= len(text); {
		end := from + size
		other := end - 1
		for other >= seen && values[text[other]] >= 0 {
			other--
		}
		gap := other >= seen
		if seen = end; gap {
			from = other + 1
			continue
		}
		if start := tokenStart(text[:end]); start >= 0 {
			return text[start:end], text[end:]
		}
		from++
	}
	return "", ""
}

// tokenStart returns where the service key starts that a text ends with; -1 if it ends with none.
// It ends with as many digits as a service key does.
func tokenStart(text string) int {
	body := len(text) - checksumSize
	sum := int64(0)
	for _, c := range []byte(text[body:]) {
		sum = sum*int64(len(digits)) + int64(values[c])
	}
	if sum > math.MaxUint32 { // true for most texts
		return -1
	}
	// The checksum is computed backwards, which tries every length of the prefix at once: the
	// service key starts where the register has its initial value.
	const initial = 0xffffffff
	register, found := ^uint32(sum), -1
	for i := body - 1; i >= max(0, body-tokenDigits-maxPrefix); i-- {
		entry := crcEntry[register>>24]
		register = (register^crc32.IEEETable[entry])<<8 | uint32(entry^text[i])
		if register == initial && body-i >= tokenDigits {
			found = i
		}
	}
	return found
}

// crcEntry is the index of the entry of [crc32.IEEETable] with a given first byte.
var crcEntry = func() (index [256]byte) {
	for i, entry := range crc32.IEEETable {
		index[entry>>24] = byte(i)
	}
	return index
}()

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
func DigestOf(token string) Digest {
	var room [128]byte // so that most tokens need no memory
	return sha256.Sum256(append(room[:0], token...))
}

// is compares d with a configured digest, nil where there is none, in constant time.
func (d *Digest) is(configured *Digest) bool {
	return configured != nil && subtle.ConstantTimeCompare(d[:], configured[:]) == 1
}
