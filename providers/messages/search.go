package messages

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// searchVersion is the version of the web search that every model with one has.
const searchVersion = "web_search_20250305"

// withoutSearch lists the beginnings of the names of models that cannot search the web.
var withoutSearch = []string{"claude-instant", "claude-2", "claude-3-opus", "claude-3-sonnet", "claude-3-haiku", "claude-3-5-sonnet-20240620"}

// Tool returns the API's form of a tool that runs at OpenAI, or nil if the model has none. A
// web search keeps its domains and its location; the size of the context has no equivalent.
func Tool(model string, tool chat.Raw) chat.Raw {
	var kind chat.Literal
	var location, allowed, blocked chat.Raw
	r := jsonscan.NewReader(tool)
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			kind = r.String()
		case key.Is("user_location"):
			location = r.Value()
		case key.Is("filters"):
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("allowed_domains"):
					allowed = r.Value()
				case key.Is("blocked_domains"):
					blocked = r.Value()
				}
			})
		}
	})
	if !strings.HasPrefix(kind.Text(), "web_search") {
		return nil
	}
	for _, name := range withoutSearch {
		if strings.HasPrefix(model, name) {
			return nil
		}
	}
	if string(allowed) != "" && string(allowed) != "[]" {
		blocked = nil // the API takes one of them
	}
	var b jsonscan.Builder
	b.Open('{')
	b.Key("type").Text(searchVersion)
	b.Key("name").Text("web_search")
	domains(&b, "allowed_domains", allowed)
	domains(&b, "blocked_domains", blocked)
	if members := place(location); len(members) > 0 {
		b.Key("user_location").Open('{')
		b.Key("type").Text("approximate")
		for _, m := range members {
			b.Key(m.Name).Raw(m.Value)
		}
		b.Close('}')
	}
	b.Close('}')
	return chat.Raw(b)
}

// domains writes a list of domains, unless it is empty.
func domains(b *jsonscan.Builder, name string, list chat.Raw) {
	r := jsonscan.NewReader(list)
	if all := chat.Texts(r); len(all) > 0 {
		chat.AppendTexts(b.Key(name), all)
	}
}

// place returns the members of a location that say where it is.
func place(location chat.Raw) (members []chat.Member) {
	r := jsonscan.NewReader(location)
	r.Object(func(key jsonscan.Key) {
		switch name := key.String(); name {
		case "city", "region", "country", "timezone":
			if v := chat.Literal(r.String()); !v.Empty() {
				members = append(members, chat.Member{Name: name, Value: chat.Raw(v)})
			}
		}
	})
	return members
}
