package exchange

import (
	"bytes"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// naming is how a member of a body names an object.
type naming uint8

const (
	byID     naming = iota + 1 // a string, an array of them, or an object with an id
	byObject                   // an object with an id: in JSON, a string is something else
	byMember                   // an object with an id: a string is something else
	bySkill                    // a string, which may be one of the provider's own skills
	byModel                    // a string, which may be a model that is not the workspace's
)

// namings are the members, and the fields of forms and queries, that name objects, in lower case:
// some servers ignore letter case.
var namings = map[string]naming{
	"file_id": byID, "file_ids": byID, "input_file_id": byID, "output_file_id": byID, "input_files": byID,
	"training_file": byID, "training_files": byID, "validation_file": byID, "validation_files": byID,
	"assistant_id": byID, "thread_id": byID, "vector_store_id": byID, "vector_store_ids": byID,
	"previous_response_id": byID, "response_id": byID, "conversation": byID, "conversation_id": byID,
	"container": byID, "container_id": byID, "upload_id": byID, "part_id": byID, "part_ids": byID, "batch_id": byID, "eval_id": byID,
	"audio": byMember, "voice": byMember, "video": byObject, "video_id": byID, "characters": byObject, "character_id": byID, "skill_id": bySkill,
	"prompt": byMember, "workflow": byMember, approval: byID,
	"model": byModel, "models": byModel,
}

// approval names the item that is approved, which is in the same body where nothing is stored.
const approval = "approval_request_id"

// contents are the types of items, and the members of which each has one with what it is. An item
// without it, or of another type, stands for the one with its id that the provider keeps.
var contents = map[string]string{
	"message": "content", "reasoning": "encrypted_content", "compaction": "encrypted_content",
	"function_call": "arguments", "function_call_output": "output", "custom_tool_call": "input", "custom_tool_call_output": "output",
	"computer_call": "action actions", "computer_call_output": "output", "local_shell_call": "action", "local_shell_call_output": "output",
	"shell_call": "action", "shell_call_output": "output", "apply_patch_call": "operation", "apply_patch_call_output": "status",
	"web_search_call": "action", "file_search_call": "results", "code_interpreter_call": "code", "image_generation_call": "result",
	"mcp_list_tools": "tools", "mcp_call": "arguments", "mcp_approval_request": "arguments", "mcp_approval_response": "approval_request_id",
	"tool_search_call": "arguments", "tool_search_output": "tools",
}

// isContent are the members of contents.
var isContent = func() map[string]bool {
	is := make(map[string]bool)
	for _, members := range contents {
		for member := range strings.FieldsSeq(members) {
			is[member] = true
		}
	}
	return is
}()

// referring are the types of objects whose id is that of another object.
var referring = map[string]bool{"item_reference": true, "file_id": true}

// inert are members with the caller's own data, which name no objects; inertIn is one more by the
// names of endpoints.
var (
	inert   = map[string]bool{"metadata": true, "properties": true}
	inertIn = map[string]string{providers.Messages: "input", evals: "item", vectorStores: "attributes"}
)

const (
	evals        = "evals"
	vectorStores = "vectorStores"
)

// evalData are the members of an eval, and of a run of one, that say what it reads, and the types
// of what is its own or a file. Others read what all workspaces stored.
var evalData = map[string][]string{
	"data_source_config": {"custom"},
	"data_source":        {"jsonl", "completions", "responses"},
	evalSource:           {"file_content", "file_id"},
}

// evalSource is the member source of data_source.
const evalSource = "data_source.source"

const (
	maxNaming = 32   // bytes of the longest name
	maxNamed  = 4096 // objects of one body
)

// names are the objects that a JSON body names, at any depth.
type names struct {
	r       *jsonscan.Reader
	plain   string // the member that is inert at the endpoint
	evals   bool   // a call for evals
	sent    bool   // an eval sends its items, which are then not inert
	tunes   bool   // a call for a fine-tuning job
	items   bool   // the input has items
	adapted bool   // responses and their items are the gateway's own
	session bool   // items and the conversation are those of a WebSocket
	ids     []string
	params  []string // where each is named
	shared  string   // the member that is about what workspaces share apart from objects; "": there is none
	kind    string   // its type
	over    bool     // there are too many

	hides     func(model string) bool // whether a model is not the workspace's; nil: it is asked later
	given     map[string]bool         // ids of items that are in the body
	approvals []string                // ids of items that are to be in the body, or are objects
}

// namedIn reads the objects that a body names. What is not JSON names none.
func namedIn(body []byte, endpoint *Endpoint, adapted bool, hides func(model string) bool) *names {
	n := &names{
		hides: hides, plain: inertIn[endpoint.Name], evals: endpoint.Name == evals, tunes: endpoint.Name == CreateFinetune, items: endpoint.Objects.HasItems,
		adapted: adapted, session: endpoint.Name == realtime,
	}
	if n.evals || n.tunes || n.may(body) {
		n.r = jsonscan.NewReader(body)
		n.value("", 0)
	}
	if n.sent && n.plain != "" { // the items may have come before what says that they are sent
		n.plain, n.ids, n.params = "", nil, nil
		n.r = jsonscan.NewReader(body)
		n.value("", 0)
	}
	for _, id := range n.approvals {
		if !n.given[id] {
			n.note(id, approval)
		}
	}
	return n
}

// may reports whether a body may name objects. It looks at the names before colons, which takes a
// fraction of the time that reading the body would: most bodies name none.
func (n *names) may(body []byte) bool {
	const window = 2 * maxNaming // around a colon
	var buffer [window]byte
	for at := 0; ; at++ {
		next := bytes.IndexByte(body[at:], ':')
		if next < 0 {
			return false
		}
		at += next
		before := body[max(0, at-window):at]
		key, quoted := bytes.CutSuffix(bytes.TrimRight(before, blanks), []byte{'"'})
		begin := bytes.LastIndexByte(key, '"')
		switch {
		case len(key) == 0 && at >= window:
			return true // blanks all over
		case !quoted:
			continue // in a text
		case begin < 0 && (len(key)+1 < len(before) || bytes.IndexByte(key, '\\') >= 0):
			return true // blanks or escapes hide where the name begins
		case begin < 0:
			continue // it is longer than all names
		}
		name := appendLower(buffer[:0], key[begin+1:])
		switch {
		case bytes.HasSuffix(name, []byte{'\\'}): // the quote is one in a text
		case bytes.IndexByte(name, '\\') >= 0, namings[string(name)] != 0 && namings[string(name)] != byModel, n.items && string(name) == "id":
			return true
		case string(name) == "type" && may(body[at+1:min(len(body), at+1+window)], refers),
			namings[string(name)] == byModel && may(body[at+1:min(len(body), at+1+maxModel)], n.hides):
			return true
		}
	}
}

const blanks = " \t\r\n"

// may reports whether a value, which is the beginning of what follows, may hold a text of which is
// true; nil is true of all.
func may(following []byte, is func(string) bool) bool {
	value := bytes.TrimLeft(following, blanks)
	switch {
	case len(value) == 0:
		return true
	case value[0] != '"':
		return value[0] == '[' || value[0] == '{'
	}
	end := bytes.IndexByte(value[1:], '"')
	return end < 0 || bytes.IndexByte(value[:1+end], '\\') >= 0 || is == nil || is(string(value[1:1+end]))
}

func refers(kind string) bool { return referring[strings.ToLower(kind)] }

// appendLower appends ASCII text in lower case.
func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func (n *names) add(id, param string) {
	switch {
	case id == "", n.session && (param == "conversation" || param == approval), n.adapted && (param == "previous_response_id" || param == "input" || param == approval):
	case param == approval && len(n.approvals) < maxNamed:
		n.approvals = append(n.approvals, id)
	default:
		n.note(id, param)
	}
}

// model notes a model that is not the workspace's.
func (n *names) model(model string) {
	if n.hides == nil || n.hides(model) {
		n.note(model, "model")
	}
}

func (n *names) note(id, param string) {
	if len(n.ids) == maxNamed {
		n.over = true
		return
	}
	n.ids, n.params = append(n.ids, id), append(n.params, param)
}

// value reads the value of a member.
func (n *names) value(param string, how naming) {
	switch n.r.Kind() {
	case jsonscan.Object:
		n.object(param, how)
	case jsonscan.Array:
		n.r.Array(func() { n.value(param, how) })
	case jsonscan.String:
		switch literal := n.r.String(); {
		case how == byID, how == bySkill && bytes.HasPrefix(literal, []byte(`"skill_`)):
			n.add(jsonscan.Unquote(literal), param)
		case how == byModel:
			n.model(jsonscan.Unquote(literal))
		}
	default:
		n.r.Raw()
	}
}

func (n *names) object(param string, how naming) {
	item := n.items && (param == "input" || param == "items")
	var ids, kinds []string // providers differ in which of several they use
	var has map[string]bool // members with contents, and whether each is more than empty
	refers, more := how != 0, false
	n.r.Object(func(key jsonscan.Key) {
		raw := key.Bytes()
		if len(raw) > maxNaming {
			more = true
			n.value("", 0)
			return
		}
		switch name := strings.ToLower(key.String()); {
		case inert[name], n.plain != "" && name == n.plain:
		case n.tunes && param == "" && name == "integrations":
			if more = true; filled(n.r.Raw()) {
				n.shared = name
			}
		case name == "id" && n.r.Kind() == jsonscan.String:
			ids = append(ids, jsonscan.Unquote(n.r.String()))
		case name == "type" && n.r.Kind() == jsonscan.String:
			more = true
			kind := jsonscan.Unquote(n.r.String())
			kinds = append(kinds, strings.ToLower(kind))
			refers = refers || referring[strings.ToLower(kind)] && (!n.session || !strings.EqualFold(kind, "item_reference"))
			n.sent = n.sent || n.evals && strings.EqualFold(kind, "item_reference")
		case name == "type" && n.r.Kind() == jsonscan.Null:
			n.r.Raw()
		default:
			more = true
			from, of := n.r.Peek(), name
			if n.evals && param == "data_source" && name == "source" {
				of = evalSource
			}
			n.sent = n.sent || n.evals && name == "item_reference"
			n.value(of, namings[name])
			if item && isContent[name] {
				if has == nil {
					has = make(map[string]bool)
				}
				before, twice := has[name]
				has[name] = filled(n.r.Since(from)) && (before || !twice)
			}
		}
	})
	if own := evalData[param]; n.evals && own != nil && (len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind string) bool { return !slices.Contains(own, kind) })) {
		n.shared, n.kind = param, strings.Join(kinds, ", ")
	}
	if item && !refers {
		refers = !more || !whole(kinds, has)
	}
	for _, id := range ids {
		switch {
		case how == byModel:
			n.model(id)
		case refers:
			n.add(id, param)
		case item:
			if n.given == nil {
				n.given = make(map[string]bool)
			}
			n.given[id] = true
		}
	}
}

// whole reports whether an item of one of these types has its contents.
func whole(kinds []string, has map[string]bool) bool {
	if len(kinds) == 0 {
		return has["content"]
	}
	for _, kind := range kinds {
		full := false
		for member := range strings.FieldsSeq(contents[kind]) {
			full = full || has[member]
		}
		if !full {
			return false
		}
	}
	return true
}

// filled reports whether a value is more than null or empty.
func filled(value []byte) bool {
	switch string(value) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}
