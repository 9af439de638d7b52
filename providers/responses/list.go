package responses

import (
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Items lists the items of a response's input or output in the API's form: each with an id,
// which is derived from the response's if it has none, and with content as parts.
func Items(items []byte, responseID string) []chat.Member {
	var list []chat.Member
	_, suffix, _ := strings.Cut(responseID, "_")
	r := jsonscan.NewReader(items)
	if r.Kind() == jsonscan.String {
		b := jsonscan.Builder(nil)
		id := "msg_" + suffix + "i00"
		b.Open('{')
		b.Key("id").Text(id)
		b.Key("type").Text("message")
		b.Key("status").Text("completed")
		b.Key("role").Text("user")
		b.Key("content").Open('[')
		inText(&b, "input_text", r.String())
		b.Close(']')
		b.Close('}')
		return []chat.Member{{Name: id, Value: chat.Raw(b)}}
	}
	r.Array(func() {
		n := strconv.FormatInt(int64(len(list)), 16)
		if len(n) < 2 {
			n = "0" + n
		}
		list = append(list, listed(r.Raw(), suffix+"i"+n))
	})
	return list
}

func inText(b *jsonscan.Builder, kind string, text chat.Literal) {
	b.Open('{')
	b.Key("type").Text(kind)
	b.Key("text").Raw(text)
	if kind == "output_text" {
		b.Key("annotations").Open('[')
		b.Close(']')
	}
	b.Close('}')
}

var idPrefixes = map[string]string{"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_"}

// listed returns one item of the list, and its id.
func listed(raw chat.Raw, suffix string) chat.Member {
	var kind, role, id chat.Literal
	r := jsonscan.NewReader(raw)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("role"):
			role = r.String()
		case key.Is("id"):
			id = r.String()
		}
	})
	if kind == nil {
		kind = chat.Literal(`"message"`)
	}
	if id.Empty() {
		id = chat.Quote(idPrefixes[kind.Text()] + suffix)
	}
	b := jsonscan.Builder(nil)
	b.Open('{')
	b.Key("id").Raw(id)
	b.Key("type").Raw(kind)
	hasStatus := false
	r = jsonscan.NewReader(raw)
	r.Object(func(key jsonscan.Key) {
		name := key.String()
		switch {
		case name == "id", name == "type":
			return
		case name == "content" && r.Kind() == jsonscan.String:
			part := "input_text"
			if role.Is("assistant") {
				part = "output_text"
			}
			b.Key("content").Open('[')
			inText(&b, part, r.String())
			b.Close(']')
			return
		case name == "status":
			hasStatus = true
		}
		b.Raw(chat.Quote(name))
		b = append(append(b, ':'), r.Raw()...)
	})
	if !hasStatus && !kind.Is("reasoning") {
		b.Key("status").Text("completed")
	}
	b.Close('}')
	return chat.Member{Name: id.Text(), Value: chat.Raw(b)}
}
