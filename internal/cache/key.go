// Package cache stores answers of models for calls that repeat a question. It does not
// depend on HTTP and takes its clock as a parameter. Its users decide what identifies a
// call, and which answers may be stored.
package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

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

// write writes bytes to the hash in an unambiguous form.
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

// value hashes the next value, ignoring the members in without.
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
		// The order of duplicate names matters, because readers differ in which one
		// they use.
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
		// Escapes do not matter, unless decoding loses information.
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
