package exchange

import (
	"bytes"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// charges are what a call asks of its provider that costs more than its tokens: tools that the provider runs itself, and
// tiers of its service.
type charges struct {
	web, files bool   // searches, of which the provider says how many it made
	searches   bool   // it makes one at least, also if it does not say so
	other      string // what no list has a price of; "": nothing
}

// Types of tools, in lower case. Those that the caller runs itself, and those of the provider that cost their tokens alone, are
// free; of those that are in neither list, it is not known what they cost.
var (
	freeTools = setOf("", "function", "custom", "namespace", "mcp", "mcp_toolset", "local_shell", "shell", "apply_patch", "tool_search", "url_context", "urlcontext")

	freeToolBeginnings = []string{"computer", "text_editor", "bash", "memory_", "tool_search_tool", "web_fetch"}

	// Tools that are named by their member, as Gemini has them.
	toolMembers = setOf("google_search", "googlesearch", "google_search_retrieval", "googlesearchretrieval", "enterprise_web_search", "enterprisewebsearch",
		"google_maps", "googlemaps", "code_execution", "codeexecution", "web_search", "retrieval")

	// Plugins of OpenRouter that cost nothing.
	freePlugins = setOf("response-healing", "context-compression", "moderation")

	// Tiers of service that cost no more than the standard one.
	standardTiers = setOf("", "auto", "default", "standard", "standard_only", "flex", "on_demand", "batch", "global")
)

// note notes something that no list has a price of. The first one is told.
func (c *charges) note(what string) {
	if c.other == "" {
		c.other = what
	}
}

// member reads a member of a body, of which name is folded, and reports whether it is one that may cost something.
func (c *charges) member(name []byte, r *jsonscan.Reader) bool {
	switch string(name) {
	case "tools":
		r.Array(func() { c.tool(r) })
	case "plugins":
		r.Array(func() { c.plugin(r) })
	case "websearchoptions":
		if r.Kind() != jsonscan.Null {
			c.web, c.searches = true, true
		}
	case "searchparameters":
		if r.Kind() != jsonscan.Null {
			c.note("the searches of search_parameters")
		}
	case "documentannotationformat", "bboxannotationformat":
		if r.Kind() != jsonscan.Null {
			c.note("annotated pages")
		}
	case "servicetier", "speed", "inferencegeo", "performanceconfig":
		c.tier(r)
	default:
		return false
	}
	return true
}

// tool reads a tool.
func (c *charges) tool(r *jsonscan.Reader) {
	var room [maxFolded]byte
	r.Object(func(key jsonscan.Key) {
		switch name := key.Bytes(); {
		case len(name) > maxFolded:
		case bytes.EqualFold(name, []byte("type")):
			if kind := r.String(); kind != nil && string(kind) != `"function"` { // as most are
				c.toolType(strings.ToLower(strings.TrimSpace(jsonscan.Unquote(kind))))
			}
		case bytes.EqualFold(name, []byte("environment")): // of a shell
			if bytes.Contains(bytes.ToLower(r.Raw()), []byte("container")) {
				c.note("containers of the provider")
			}
		case r.Kind() == jsonscan.Object && toolMembers[string(appendLower(room[:0], name))]:
			c.note("the tool " + string(name))
		}
	})
}

// toolType notes what a tool of a type costs.
func (c *charges) toolType(kind string) {
	begins := func(with string) bool { return strings.HasPrefix(kind, with) }
	switch {
	case freeTools[kind], slices.ContainsFunc(freeToolBeginnings, begins):
	case begins("web_search"), kind == "openrouter:web_search":
		c.web = true
	case kind == "file_search":
		c.files = true
	default:
		c.note("the tool " + kind[:min(len(kind), maxFolded)])
	}
}

// plugin reads a plugin of OpenRouter.
func (c *charges) plugin(r *jsonscan.Reader) {
	id := ""
	r.Object(func(key jsonscan.Key) {
		if key.Is("id") && r.Kind() == jsonscan.String {
			id = strings.ToLower(jsonscan.Unquote(r.String()))
		}
	})
	switch {
	case freePlugins[id]:
	case id == "web":
		c.web, c.searches = true, true
	default:
		c.note("the plugin " + id[:min(len(id), maxFolded)])
	}
}

// tier reads a tier of service, or a member like it, which is dearer unless it is known not to be. A number is something else.
func (c *charges) tier(r *jsonscan.Reader) {
	switch r.Kind() {
	case jsonscan.String:
		if value := strings.ToLower(jsonscan.Unquote(r.String())); !standardTiers[value] {
			c.note("the tier " + value[:min(len(value), maxFolded)])
		}
	case jsonscan.Object: // Bedrock's
		r.Object(func(jsonscan.Key) { c.tier(r) })
	}
}

// model notes what a model costs besides its tokens, by its name.
func (c *charges) model(name string) {
	name = strings.ToLower(name)
	if strings.Contains(name, "sonar-deep-research") {
		c.note("the citations of " + name[:min(len(name), maxFolded)])
	}
	switch {
	case strings.HasSuffix(name, ":online"), strings.Contains(name, "search-preview"), strings.Contains(name, "deep-research"):
		c.web, c.searches = true, true
	case strings.HasPrefix(name, "groq/compound"), strings.HasPrefix(name, "compound-beta"):
		c.note("the tools of " + name[:min(len(name), maxFolded)])
	}
}

// addTo adds the charges to what a call may use.
func (c *charges) addTo(d *estimate.Demand) {
	if c.web {
		d.WebSearches = maxSearches
	}
	if c.files {
		d.FileSearches = maxSearches
	}
	d.Searches = c.searches
	if d.Price != nil {
		web, files := d.Price.Searches()
		switch {
		case c.web && !web:
			c.note("searches of the web")
		case c.files && !files:
			c.note("searches of files")
		}
	}
	d.Unpriced = c.other
}
