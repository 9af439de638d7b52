// Package cache keeps answers of models for calls that ask for the same again. It knows no HTTP
// and takes its clock as a parameter. Its users decide what a call is, and which answers may be
// kept.
package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A Key is the canonical hash of a call.
type Key [sha256.Size]byte

// A Call is what has to be the same for two calls to share an answer.
type Call struct {
	Organisation string
	Workspace    string // "": the whole organisation shares answers
	Endpoint     string
	URL          string // upstream, with its query
	Strict       bool
	Namespace    string   // of the caller; if it is empty, calls with different Metadata do not share answers
	Metadata     []byte   // a JSON object, or nil
	Headers      []string // that change what is answered
	Credential   []string // the caller's own; nil: a stored one
	Body         []byte   // one JSON object
}

// asStream are the members of a body that say how an answer comes, and not what it is.
var asStream = []string{"stream", "stream_options"}

// Key returns the call's key. The order of members and white space do not matter to it;
// everything else does. An error means that the body is not JSON.
func (c *Call) Key() (Key, error) {
	h := sha256.New()
	strict := "loose"
	if c.Strict {
		strict = "strict"
	}
	for _, part := range append([]string{"2", c.Organisation, c.Workspace, c.Endpoint, c.URL, strict, c.Namespace}, c.Headers...) {
		write(h, 's', []byte(part))
	}
	for _, part := range c.Credential {
		write(h, 'c', []byte(part))
	}
	if c.Namespace == "" && c.Metadata != nil {
		sum, err := digest(c.Metadata, nil)
		if err != nil {
			return Key{}, err
		}
		write(h, 'm', sum[:])
	}
	sum, err := digest(c.Body, asStream)
	if err != nil {
		return Key{}, err
	}
	write(h, 'b', sum[:])
	return Key(h.Sum(nil)), nil
}

// write adds bytes in a form that no other sequence of them has.
func write(h hash.Hash, kind byte, b []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
	h.Write(head[:])
	h.Write(b)
}

func digest(body []byte, without []string) (Key, error) {
	r := jsonscan.NewReader(body)
	sum := value(r, without)
	return sum, r.Err()
}

type member struct {
	name string
	sum  Key
}

// value hashes the value that comes next; without are members of it that do not count.
func value(r *jsonscan.Reader, without []string) Key {
	h := sha256.New()
	switch r.Kind() {
	case jsonscan.Object:
		var members []member
		r.Object(func(key jsonscan.Key) {
			name := key.String()
			if slices.Contains(without, name) {
				return
			}
			members = append(members, member{name, value(r, nil)})
		})
		// Of a key that is given twice, the order counts: which one a reader takes is up to it.
		slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
		write(h, '{', nil)
		for i := range members {
			write(h, 'k', []byte(members[i].name))
			h.Write(members[i].sum[:])
		}
	case jsonscan.Array:
		write(h, '[', nil)
		r.Array(func() {
			sum := value(r, nil)
			h.Write(sum[:])
		})
	case jsonscan.String:
		raw := r.Raw()
		if len(raw) < 2 {
			break
		}
		// However it is escaped, a text is the same; but not where decoding loses something.
		if text := jsonscan.Unquote(raw); !strings.ContainsRune(text, '\uFFFD') {
			write(h, '"', []byte(text))
		} else {
			write(h, '\\', raw)
		}
	default:
		write(h, '0', r.Raw())
	}
	return Key(h.Sum(nil))
}
