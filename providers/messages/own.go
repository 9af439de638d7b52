package messages

import (
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// own lists the API's members that other dialects do not have, and that are forwarded by
// name.
var own = []string{"mcp_servers", "context_management", "cache_control", "container", "inference_geo", "speed"}

// ownOfTools lists those of tools.
var ownOfTools = []string{"defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"}

// ownTier is the API's own value of service_tier. Others are OpenAI's, or the default.
const ownTier = "standard_only"

// own writes the API's own members that a caller of another dialect set.
func (w *writer) own(r *chat.Request, m Model) {
	for _, name := range own {
		w.Member(name, r.Lookup(name))
	}
	if tier := chat.Literal(r.Lookup("service_tier")); tier.Is(ownTier) {
		w.Key("service_tier").Raw(tier)
	}
	w.outputConfig(r, m)
}

// outputConfig writes the format of the answer and the effort. The API's own members take
// precedence over their equivalents in other dialects.
func (w *writer) outputConfig(r *chat.Request, m Model) {
	var members []chat.Member
	given := make(map[string]bool)
	o := jsonscan.NewReader(r.Lookup("output_config"))
	o.Object(func(key jsonscan.Key) {
		name := key.String()
		if v := o.Value(); v != nil {
			members, given[name] = append(members, chat.Member{Name: name, Value: v}), true
		}
	})
	if effort := m.Effort(r); effort != "" && !given["effort"] {
		members = append(members, chat.Member{Name: "effort", Value: chat.Raw(chat.Quote(effort))})
	}
	if r.Format.Kind == chat.FormatSchema && r.Format.Schema != nil && !given["format"] {
		var b jsonscan.Builder
		b.Open('{')
		b.Key("type").Text("json_schema")
		b.Key("schema").Raw(ClosedSchema(r.Format.Schema))
		b.Close('}')
		members = append(members, chat.Member{Name: "format", Value: chat.Raw(b)})
	}
	if members == nil {
		return
	}
	w.Key("output_config").Open('{')
	for _, m := range members {
		w.Key(m.Name).Raw(m.Value)
	}
	w.Close('}')
}
