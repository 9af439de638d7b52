package exchange

import (
	"bytes"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers"
)

// naming is how a member of a body names an object.
type naming uint8

const (
	byID     naming = iota + 1 // a string, an array of them, or an object with an id
	byObject                   // an object with an id: in JSON, a string is something else
	byMember                   // an object with an id: a string is something else
	bySkill                    // a string, which may be one of the provider's own skills
)

// namings are the members, and the fields of forms and queries, that name objects, in lower case:
// some servers ignore letter case.
var namings = map[string]naming{
	"file_id": byID, "file_ids": byID, "input_file_id": byID, "output_file_id": byID, "input_files": byID,
	"training_file": byID, "training_files": byID, "validation_file": byID, "validation_files": byID,
	"assistant_id": byID, "thread_id": byID, "vector_store_id": byID, "vector_store_ids": byID,
	"previous_response_id": byID, "response_id": byID, "conversation": byID, "conversation_id": byID,
	"container": byID, "container_id": byID, "upload_id": byID, "batch_id": byID, "eval_id": byID,
	"audio": byMember, "video": byObject, "video_id": byID, "characters": byObject, "character_id": byID, "skill_id": bySkill,
}

// referring are the types of objects whose id is that of another object.
var referring = map[string]bool{"item_reference": true, "file_id": true}

// inert are members with the caller's own data, which name no objects.
var inert = map[string]bool{"metadata": true, "properties": true, "item": true}

const (
	maxNaming = 32   // bytes of the longest name
	maxNamed  = 4096 // objects of one body
)

// hints are texts of which one is in every body that names an object; an escape may hide them.
var hints = [][]byte{[]byte("_id"), []byte("_file"), []byte("container"), []byte("conversation"), []byte("item_reference"), []byte("video"), []byte(`"audio"`), []byte("characters"), []byte("stored_completions"), []byte(`\u`)}

// names are the objects that a JSON body names, at any depth.
type names struct {
	r        *jsonscan.Reader
	messages bool // a call of Anthropic's API: the input of its tools is inert
	evals    bool
	items    bool // the input has items; an item with only an id is a reference
	adapted  bool // responses and their items are the gateway's own
	ids      []string
	params   []string // where each is named
	queries  string   // a query for objects of everybody; "": there is none
	over     bool     // there are too many
}

// namedIn reads the objects that a body names. What is not JSON names none.
func namedIn(body []byte, endpoint *Endpoint, adapted bool) *names {
	n := &names{messages: endpoint.Name == providers.Messages, evals: endpoint.Name == "evals", items: endpoint.Objects.Items, adapted: adapted}
	for _, hint := range hints {
		if bytes.Contains(body, hint) || n.evals || n.items && bytes.Contains(body, []byte(`"id"`)) {
			n.r = jsonscan.NewReader(body)
			n.value("", 0)
			break
		}
	}
	return n
}

func (n *names) add(id, param string) {
	switch {
	case id == "", n.adapted && (param == "previous_response_id" || param == "input"):
	case len(n.ids) == maxNamed:
		n.over = true
	default:
		n.ids, n.params = append(n.ids, id), append(n.params, param)
	}
}

// value reads the value of a member.
func (n *names) value(param string, how naming) {
	switch n.r.Kind() {
	case jsonscan.Object:
		n.object(param, how)
	case jsonscan.Array:
		n.r.Array(func() { n.value(param, how) })
	case jsonscan.String:
		if literal := n.r.String(); how == byID || how == bySkill && bytes.HasPrefix(literal, []byte(`"skill_`)) {
			n.add(jsonscan.Unquote(literal), param)
		}
	default:
		n.r.Raw()
	}
}

func (n *names) object(param string, how naming) {
	var ids []string                // providers differ in which of several they use
	refers, more := how != 0, false // it has other members than an id
	n.r.Object(func(key jsonscan.Key) {
		raw := key.Bytes()
		if len(raw) > maxNaming {
			more = true
			n.value("", 0)
			return
		}
		switch name := strings.ToLower(string(raw)); {
		case inert[name], n.messages && name == "input":
		case name == "id" && n.r.Kind() == jsonscan.String:
			ids = append(ids, jsonscan.Unquote(n.r.String()))
		case name == "type" && n.r.Kind() == jsonscan.String:
			more = true
			kind := jsonscan.Unquote(n.r.String())
			refers = refers || referring[strings.ToLower(kind)]
			if n.evals && (kind == "stored_completions" || kind == "logs" || kind == "responses" && param == "source") {
				n.queries = kind
			}
		case name == "type" && n.r.Kind() == jsonscan.Null:
			n.r.Raw()
		default:
			more = true
			n.value(name, namings[name])
		}
	})
	refers = refers || n.items && !more && (param == "input" || param == "items")
	for _, id := range ids {
		if refers {
			n.add(id, param)
		}
	}
}
