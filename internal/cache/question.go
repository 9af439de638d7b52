package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Question is the part of a call that is compared by meaning: the text of the last
// message, or the prompt. Everything else must be equal, and is identified by the
// scope: the system message, the tools, and all previous turns.
type Question struct {
	Text  string
	Scope Key
}

// Of returns the scope of an embedding. Only embeddings of the same length can be
// compared.
func (q *Question) Of(meaning []float32) Key {
	return sha256.Sum256(binary.BigEndian.AppendUint32(q.Scope[:len(q.Scope):len(q.Scope)], uint32(len(meaning))))
}

const (
	maxTurns  = 4    // not counting a system message at the beginning
	maxTokens = 8191 // limit of embedding models
	perToken  = 4    // bytes of a token, approximately
)

// asked are the members of a body with the question, by endpoint.
var asked = map[string]string{"chatComplete": "messages", "complete": "prompt"}

// Question returns the part of a call that is compared by meaning, using an embedding
// model, and whether the call has one. It is the last message of a chat, if it is from
// the user and there are at most four messages apart from a system message at the
// beginning, or the prompt of a text completion. It must be text, and not too long for
// an embedding model.
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

// text returns the question and a hash of everything before it. ok is false if there is
// no question.
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

// last reads messages. The question is the last one, if it is from the user and
// contains only text.
func last(r *jsonscan.Reader) (text string, before Key, ok bool) {
	h := sha256.New()
	turns, first := 0, true
	var end []byte
	if !r.Array(func() {
		if !first {
			sum, _ := digest(end, nil) // cannot fail: r checks the whole body
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

// turn reads a message. plain reports whether it contains only text that every reader
// interprets in the same way.
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
		default: // names, tool calls and tool results
			if raw := r.Raw(); string(raw) != "null" {
				plain = false
			}
		}
	}) {
		return "", "", false
	}
	return role, text, plain && roles == 1 && contents == 1
}

// part reads a content part, and reports whether it is text.
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
