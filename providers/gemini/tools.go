package gemini

import (
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// own maps the names that callers use to the tools that the API runs itself.
var own = map[string]string{
	"google_search": "googleSearch", "googleSearch": "googleSearch", "web_search": "googleSearch", "web_search_preview": "googleSearch",
	"google_search_retrieval": "googleSearchRetrieval", "googleSearchRetrieval": "googleSearchRetrieval",
	"enterprise_web_search": "enterpriseWebSearch", "enterpriseWebSearch": "enterpriseWebSearch",
	"google_maps": "googleMaps", "googleMaps": "googleMaps",
	"code_execution": "codeExecution", "codeExecution": "codeExecution", "code_interpreter": "codeExecution",
	"url_context": "urlContext", "urlContext": "urlContext",
	"computer_use": "computerUse", "computerUse": "computerUse",
}

// ownTool returns the API's name of a tool. Anthropic's names end with a date.
func ownTool(name string) string {
	if t := own[name]; t != "" {
		return t
	}
	if i := strings.LastIndexByte(name, '_'); i > 0 && len(name)-i == len("_20250305") && strings.Trim(name[i+1:], "0123456789") == "" {
		return own[name[:i]]
	}
	return ""
}

// byName reports whether a function stands for one of the API's tools. Clients that only
// know functions can request it by a function with its name and nothing else.
func byName(t *chat.Tool) bool {
	name := t.Name.Text()
	return t.Other == nil && t.Parameters == nil && t.Description == nil && own[name] != "" && ownSpelling(name)
}

func (w *writer) tools() error {
	r := w.r
	if len(r.Tools) > 0 {
		w.Key("tools").Open('[')
		w.declarations()
		for i := range r.Tools {
			switch t := &r.Tools[i]; {
			case byName(t):
				w.Open('{')
				w.Key(own[t.Name.Text()]).Raw([]byte("{}"))
				w.Close('}')
			case t.Other != nil:
				if !w.other(t.Other) {
					return &chat.Unsupported{
						Param:   "tools[" + strconv.Itoa(i) + "]",
						Message: "The provider has no such tool; send functions, or its own, such as google_search, code_execution or url_context",
					}
				}
			}
		}
		w.Close(']')
		w.dropEmpty(`"tools":[]`)
	}
	w.toolConfig()
	return nil
}

// declared reports whether a tool is a function of the caller's.
func declared(t chat.Tool) bool { return t.Other == nil && !byName(&t) }

func (w *writer) declarations() {
	begun := false
	for i := range w.r.Tools {
		t := &w.r.Tools[i]
		if !declared(*t) {
			continue
		}
		if !begun {
			w.Open('{')
			w.Key("functionDeclarations").Open('[')
			begun = true
		}
		w.Open('{')
		w.Member("name", t.Name)
		w.Member("description", t.Description)
		if t.Parameters != nil {
			w.schema(parameters, parametersFull, t.Schema())
		}
		w.Close('}')
	}
	if begun {
		w.Close(']')
		w.Close('}')
	}
}

// other writes a tool that is not a function: unchanged if it has the API's form, and
// otherwise as the tool that its type names. It reports whether there is one.
func (w *writer) other(tool chat.Raw) bool {
	r := jsonscan.NewReader(tool)
	var kind chat.Literal
	var settings []jsonscan.Key
	var values []chat.Raw
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") {
			kind = r.String()
			return
		}
		settings = append(settings, key)
		values = append(values, r.Raw())
	})
	if kind == nil {
		w.Raw(tool)
		return true
	}
	name := kind.Text()
	to := ownTool(name)
	if to == "" {
		return false
	}
	w.Open('{')
	w.Key(to).Open('{')
	if own[name] != "" && ownSpelling(name) { // settings in other providers' forms are dropped
		for i, key := range settings {
			if string(values[i]) != "null" {
				w.Raw(jsonscan.AppendQuoted(nil, key.Bytes()))
				w.Builder = append(append(w.Builder, ':'), values[i]...)
			}
		}
	}
	w.Close('}')
	w.Close('}')
	return true
}

// ownSpelling reports whether a name is the API's own.
func ownSpelling(name string) bool {
	switch name {
	case "web_search", "web_search_preview", "code_interpreter", "code_execution":
		return false
	}
	return true
}

func (w *writer) toolConfig() {
	c := &w.r.ToolChoice
	if c.Mode == chat.Unset || len(w.r.Tools) == 0 {
		w.Member("toolConfig", w.extra("tool_config", "toolConfig"))
		return
	}
	w.Key("toolConfig").Open('{')
	w.Key("functionCallingConfig").Open('{')
	w.Key("mode").Text([...]string{chat.Auto: "AUTO", chat.None: "NONE", chat.Required: "ANY", chat.Named: "ANY"}[c.Mode])
	if c.Mode == chat.Named {
		w.Key("allowedFunctionNames").Open('[')
		w.Raw(c.Name)
		w.Close(']')
	}
	w.Close('}')
	w.Close('}')
}
