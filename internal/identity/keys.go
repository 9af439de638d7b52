package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those by which a token may be signed, and the keys that each takes: RFC 7518,
// and RFC 8037. None of them is symmetric: with HMAC, whoever has the public keys could sign.
var algorithms = map[jose.SignatureAlgorithm]func(key any) bool{
	jose.RS256: isRSA, jose.RS384: isRSA, jose.RS512: isRSA, jose.PS256: isRSA,
	jose.ES256: onCurve("P-256"), jose.ES384: onCurve("P-384"),
	jose.EdDSA: func(key any) bool { _, ok := key.(ed25519.PublicKey); return ok },
}

// allowed are the names of algorithms.
var allowed = func() (names []jose.SignatureAlgorithm) {
	for name := range algorithms {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// Bounds of RSA keys, in bits. A longer one would make verification expensive.
const (
	minRSA = 2048
	maxRSA = 8192
)

func isRSA(key any) bool {
	k, ok := key.(*rsa.PublicKey)
	return ok && k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA
}

func onCurve(name string) func(key any) bool {
	return func(key any) bool {
		k, ok := key.(*ecdsa.PublicKey)
		return ok && k.Curve.Params().Name == name
	}
}

// Bounds of a JSON Web Key Set.
const (
	MaxKeySet = 256 << 10 // bytes
	maxKeys   = 100
	maxKeyID  = 256 // bytes
)

// A KeySet is a JSON Web Key Set (RFC 7517), of which only the public keys for signatures are
// kept that one of the algorithms takes.
type KeySet struct{ keys map[string][]publicKey }

type publicKey struct {
	key       any
	algorithm string // the only one that it is for; "": any that takes it
}

// ParseKeySet reads a JSON Web Key Set. Keys that are of no use here are left out, whatever they
// are. strict also refuses a set with a private or a symmetric key, and one without any key
// that is of use.
func ParseKeySet(raw []byte, strict bool) (*KeySet, error) {
	if len(raw) > MaxKeySet {
		return nil, fmt.Errorf("a key set of more than %d bytes", MaxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil || set.Keys == nil {
		return nil, errors.New(`expected a JSON Web Key Set: {"keys": […]}`)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("a key set of more than %d keys", maxKeys)
	}
	s := &KeySet{make(map[string][]publicKey)}
	for i, raw := range set.Keys {
		var secret struct{ D, K json.RawMessage }
		if err := json.Unmarshal(raw, &secret); err == nil && (secret.D != nil || secret.K != nil) {
			if strict {
				return nil, fmt.Errorf("keys[%d]: expected the public parameters only", i)
			}
			continue
		}
		s.add(raw)
	}
	if strict && len(s.keys) == 0 {
		return nil, errors.New("expected a public key with a kid: RSA of at least 2048 bits, EC on P-256 or P-384, or Ed25519")
	}
	return s, nil
}

// add adds a key if it is of use.
func (s *KeySet) add(raw json.RawMessage) {
	var key jose.JSONWebKey
	var hints struct {
		Operations []string `json:"key_ops"`
	}
	if key.UnmarshalJSON(raw) != nil || json.Unmarshal(raw, &hints) != nil {
		return
	}
	switch {
	case key.KeyID == "" || len(key.KeyID) > maxKeyID || !key.IsPublic() || !key.Valid():
	case key.Use != "" && key.Use != "sig", hints.Operations != nil && !slices.Contains(hints.Operations, "verify"):
	case !slices.ContainsFunc(allowed, func(a jose.SignatureAlgorithm) bool { return algorithms[a](key.Key) }):
	default:
		s.keys[key.KeyID] = append(s.keys[key.KeyID], publicKey{key.Key, key.Algorithm})
	}
}

// find returns the keys with an id that an algorithm takes. has reports whether there are keys
// with that id at all.
func (s *KeySet) find(id string, algorithm jose.SignatureAlgorithm) (keys []any, has bool) {
	if s == nil {
		return nil, false
	}
	for _, k := range s.keys[id] {
		if (k.algorithm == "" || k.algorithm == string(algorithm)) && algorithms[algorithm](k.key) {
			keys = append(keys, k.key)
		}
	}
	return keys, s.keys[id] != nil
}
