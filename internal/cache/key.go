// Package cache stores answers of models for calls that repeat a question. It does not
// depend on HTTP and takes its clock as a parameter. Its users decide what identifies a
// call, and which answers may be stored.
package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Key is the canonical hash of a call.
type Key [sha256.Size]byte

// A Call holds everything that must be equal for two calls to share an answer.
type Call struct {
	Organisation string
	Workspace    string // empty: the organisation shares answers
	Endpoint     string
	URL          string // of the upstream, with the query
	Strict       bool
	Namespace    string   // chosen by the caller; if empty, calls with different Metadata do not share answers
	Metadata     []byte   // a JSON object, or nil
	Headers      []string // headers that affect the answer
	Credential   []string // sent by the caller; nil: a stored credential is used
	Body         []byte   // a JSON object
}

// asStream are the members of a body that affect how an answer is sent, but not its
// content.
var asStream = []string{"stream", "stream_options"}

// Key returns the key of the call. It does not depend on white space and the order of
// members, but on everything else. It returns an error if the body is not JSON.
func (c *Call) Key() (Key, error) {
	k := keyers.Get().(*keyer)
	defer k.release()
	h := k.hash(0)
	strict := "loose"
	if c.Strict {
		strict = "strict"
	}
	for _, part := range [...]string{"2", c.Organisation, c.Workspace, c.Endpoint, c.URL, strict, c.Namespace} {
		k.writeString(h, 's', part)
	}
	for _, part := range c.Headers {
		k.writeString(h, 's', part)
	}
	for _, part := range c.Credential {
		k.writeString(h, 'c', part)
	}
	if c.Namespace == "" && c.Metadata != nil {
		sum, err := k.digest(c.Metadata, nil)
		if err != nil {
			return Key{}, err
		}
		k.write(h, 'm', sum[:])
	}
	sum, err := k.digest(c.Body, asStream)
	if err != nil {
		return Key{}, err
	}
	k.write(h, 'b', sum[:])
	return k.sum(h), nil
}

// A keyer has what hashing a call needs more than once. Keyers are pooled.
type keyer struct {
	hashes  []hash.Hash // of the value at each depth, and of the call before them
	members []member    // of the objects that are being read
	names   []byte      // of those members
	text    []byte      // a decoded string
	head    [9]byte     // before what is hashed
	key     Key
}

var keyers = sync.Pool{New: func() any { return new(keyer) }}

// Bounds of what a pooled keyer keeps.
const (
	maxKept        = 64 << 10 // bytes of each buffer
	maxKeptMembers = 1 << 10
)

func (k *keyer) release() {
	if max(cap(k.text), cap(k.names)) > maxKept || cap(k.members) > maxKeptMembers {
		*k = keyer{hashes: k.hashes}
	}
	k.members, k.names = k.members[:0], k.names[:0]
	keyers.Put(k)
}

// replacement is U+FFFD, which a lone surrogate becomes.
var replacement = []byte("\uFFFD")

type member struct {
	name, end int  // in names
	kind      byte // of the name: decoded, or as it is because decoding loses information
	sum       Key
}

// hash returns an empty hash for a depth.
func (k *keyer) hash(depth int) hash.Hash {
	for depth >= len(k.hashes) {
		k.hashes = append(k.hashes, sha256.New())
	}
	k.hashes[depth].Reset()
	return k.hashes[depth]
}

func (k *keyer) sum(h hash.Hash) Key {
	h.Sum(k.key[:0])
	return k.key
}

// write writes bytes to the hash in an unambiguous form.
func (k *keyer) write(h hash.Hash, kind byte, b []byte) {
	k.head[0] = kind
	binary.BigEndian.PutUint64(k.head[1:], uint64(len(b)))
	h.Write(k.head[:])
	h.Write(b)
}

func (k *keyer) writeString(h hash.Hash, kind byte, s string) {
	k.text = append(k.text[:0], s...)
	k.write(h, kind, k.text)
}

// digest hashes a JSON value, without the members of that object whose names are in without.
func digest(body []byte, without []string) (Key, error) {
	k := keyers.Get().(*keyer)
	defer k.release()
	return k.digest(body, without)
}

func (k *keyer) digest(body []byte, without []string) (Key, error) {
	r := jsonscan.NewReader(body)
	sum := k.value(r, 1, without)
	return sum, r.Err()
}

// value hashes the next value, ignoring the members in without.
func (k *keyer) value(r *jsonscan.Reader, depth int, without []string) Key {
	h := k.hash(depth)
	switch r.Kind() {
	case jsonscan.Object:
		first, names := len(k.members), len(k.names)
		r.Object(func(key jsonscan.Key) {
			name, kind := key.Bytes(), byte('k')
			if slices.ContainsFunc(without, func(s string) bool { return s == string(name) }) {
				return
			}
			if bytes.Contains(name, replacement) {
				name, kind = key.Raw(), 'K'
			}
			start := len(k.names)
			k.names = append(k.names, name...)
			end := len(k.names)
			k.members = append(k.members, member{start, end, kind, k.value(r, depth+1, nil)})
		})
		// The order of duplicate names matters, because readers differ in which one
		// they use.
		members := k.members[first:]
		slices.SortStableFunc(members, func(a, b member) int {
			return cmp.Or(bytes.Compare(k.names[a.name:a.end], k.names[b.name:b.end]), cmp.Compare(a.kind, b.kind))
		})
		k.write(h, '{', nil)
		for i := range members {
			k.write(h, members[i].kind, k.names[members[i].name:members[i].end])
			h.Write(members[i].sum[:])
		}
		k.members, k.names = k.members[:first], k.names[:names]
	case jsonscan.Array:
		k.write(h, '[', nil)
		r.Array(func() {
			sum := k.value(r, depth+1, nil)
			h.Write(sum[:])
		})
	case jsonscan.String:
		raw := r.Raw()
		if len(raw) < 2 {
			break
		}
		// Escapes do not matter, unless decoding loses information.
		if k.text = jsonscan.AppendUnquoted(k.text[:0], raw); !bytes.Contains(k.text, replacement) {
			k.write(h, '"', k.text)
		} else {
			k.write(h, '\\', raw)
		}
	default:
		k.write(h, '0', r.Raw())
	}
	return k.sum(h)
}
