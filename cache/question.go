package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/jsonscan"
)

// Of is the scope of a meaning: only such of the same length can be compared.
func (q *Question) Of(meaning []float32) Key {
	return sha256.Sum256(binary.BigEndian.AppendUint32(q.Scope[:len(q.Scope):len(q.Scope)], uint32(len(meaning))))
}

// A Question is what of a call is compared by its meaning: the text. All else of the
// call has to be the same, which Scope stands for.
type Question struct {
	Text  string
	Scope Key
}

const (
	maxTurns  = 4    // messages, beside a first one of the system's
	maxTokens = 8191 // that models of embeddings take
	perToken  = 4    // bytes of a token, about
)

// asked are the members of a body that hold the question, by the endpoint.
var asked = map[string]string{"chatComplete": "messages", "complete": "prompt"}

// Question returns the question of a call for a model of embeddings, in whose words alone
// meanings can be compared, and whether it has one: a chat of at most
// four messages, of which a first one of the system's does not count, or the prompt of a
// text completion; of text only, and not too long for a model of embeddings.
func (c *Call) Question(embeddings string) (q Question, ok bool) {
	member, ok := asked[c.Endpoint]
	if !ok {
		return q, false
	}
	sum, err := digest(c.Body, append([]string{member}, asStream...))
	if err != nil {
		return q, false
	}
	rest := *c
	rest.Body = []byte("{}")
	base, err := rest.Key()
	if err != nil {
		return q, false
	}
	q.Scope = sha256.Sum256(slices.Concat(base[:], sum[:], []byte(embeddings)))
	q.Text, ok = c.text(member)
	return q, ok && q.Text != "" && len(q.Text) <= maxTokens*perToken
}

// text is what the member of the body says; ok tells that it is all text.
func (c *Call) text(member string) (text string, ok bool) {
	var b strings.Builder
	turns, first := 0, true
	ok = true
	r := jsonscan.NewReader(c.Body)
	r.Object(func(key jsonscan.Key) {
		switch {
		case !key.Is(member):
		case r.Kind() == jsonscan.String:
			b.WriteString(jsonscan.Unquote(r.Raw()))
		case member != "messages":
			ok = false
		default:
			ok = r.Array(func() {
				role, said, plain := turn(r)
				system := role == "system" || role == "developer"
				if !first || !system {
					turns++
					b.WriteString(role + ": " + said + "\n")
					ok = ok && plain
				}
				first = false
			}) && ok
		}
	})
	return b.String(), ok && r.Err() == nil && turns <= maxTurns
}

// turn reads a message; plain tells that there is nothing but text in it.
func turn(r *jsonscan.Reader) (role, said string, plain bool) {
	plain = true
	r.Object(func(key jsonscan.Key) {
		switch string(key.Bytes()) {
		case "role":
			if s := r.String(); s != nil {
				role = jsonscan.Unquote(s)
			}
		case "content":
			if r.Kind() == jsonscan.String {
				said = jsonscan.Unquote(r.Raw())
				return
			}
			plain = r.Array(func() {
				text := ""
				r.Object(func(key jsonscan.Key) {
					switch {
					case key.Is("text"):
						if s := r.String(); s != nil {
							text = jsonscan.Unquote(s)
						}
					case !key.Is("type"):
						plain = false
					}
				})
				said += text
			}) && plain
		default: // names, calls of tools and their results
			if raw := r.Raw(); string(raw) != "null" {
				plain = false
			}
		}
	})
	return role, said, plain
}
