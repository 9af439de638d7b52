package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/caddy-gw/gateway/internal/jsonscan"
)

// A Question is what of a call is compared by its meaning: the text of its last message,
// or its prompt. All else of the call has to be the same, which Scope stands for: what
// the system says, the tools, and every turn before.
type Question struct {
	Text  string
	Scope Key
}

// Of is the scope of a meaning: only such of the same length can be compared.
func (q *Question) Of(meaning []float32) Key {
	return sha256.Sum256(binary.BigEndian.AppendUint32(q.Scope[:len(q.Scope):len(q.Scope)], uint32(len(meaning))))
}

const (
	maxTurns  = 4    // messages, apart from a system message at the beginning
	maxTokens = 8191 // that models of embeddings take
	perToken  = 4    // bytes of a token, about
)

// asked are the members of a body that hold the question, by the endpoint.
var asked = map[string]string{"chatComplete": "messages", "complete": "prompt"}

// Question returns the part of a call that is compared by its meaning, for a model of embeddings,
// and whether the call has one. It is the last message of a chat, if that is a user's and there
// are at most four besides a system message at the beginning; or the prompt of a text completion.
// It is text only, and not too long for a model of embeddings.
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
	var before Key
	q.Text, before, ok = c.text(member)
	q.Scope = sha256.Sum256(slices.Concat(base[:], sum[:], before[:], []byte(embeddings)))
	return q, ok && q.Text != "" && len(q.Text) <= maxTokens*perToken
}

// text is the question, and a hash of what is said before it; ok tells that there is one.
func (c *Call) text(member string) (text string, before Key, ok bool) {
	members := 0
	r := jsonscan.NewReader(c.Body)
	r.Object(func(key jsonscan.Key) {
		if !key.Is(member) {
			return
		}
		members++
		switch {
		case member == "messages":
			text, before, ok = last(r)
		case r.Kind() == jsonscan.String:
			text, ok = jsonscan.Unquote(r.Raw()), true
		default:
			ok = false
		}
	})
	return text, before, ok && members == 1 && r.Err() == nil
}

// last reads messages. The question is the last one, if it is a user's and nothing but text.
func last(r *jsonscan.Reader) (text string, before Key, ok bool) {
	h := sha256.New()
	turns, first := 0, true
	var end []byte
	if !r.Array(func() {
		if !first {
			sum, _ := digest(end, nil) // it is part of a body that r checks
			h.Write(sum[:])
		}
		end = r.Raw()
		if role := roleOf(end); !first || role != "system" && role != "developer" {
			turns++
		}
		first = false
	}) || turns > maxTurns || first {
		return "", before, false
	}
	role, text, plain := turn(jsonscan.NewReader(end))
	return text, Key(h.Sum(nil)), plain && role == "user"
}

func roleOf(message []byte) string {
	role, _, _ := turn(jsonscan.NewReader(message))
	return role
}

// turn reads a message; plain reports that it contains only text, which every reader reads the
// same way.
func turn(r *jsonscan.Reader) (role, text string, plain bool) {
	plain = true
	roles, contents := 0, 0
	if !r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("role"):
			roles++
			if s := r.String(); s != nil {
				role = jsonscan.Unquote(s)
			}
		case key.Is("content"):
			contents++
			if r.Kind() == jsonscan.String {
				text = jsonscan.Unquote(r.Raw())
				return
			}
			plain = r.Array(func() {
				more, ok := part(r)
				text += more
				plain = plain && ok
			}) && plain
		default: // names, calls of tools and their results
			if raw := r.Raw(); string(raw) != "null" {
				plain = false
			}
		}
	}) {
		return "", "", false
	}
	return role, text, plain && roles == 1 && contents == 1
}

// part reads a part of a content, and reports whether it is a text.
func part(r *jsonscan.Reader) (text string, ok bool) {
	texts := 0
	ok = true
	object := r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("text"):
			texts++
			if s := r.String(); s != nil {
				text = jsonscan.Unquote(s)
			}
		case key.Is("type"):
			s := r.String()
			ok = ok && s != nil && jsonscan.Unquote(s) == "text"
		default:
			ok = false
		}
	})
	return text, ok && object && texts == 1
}
