package messages

import (
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/providers/chat"
)

// own lists the API's members that other dialects do not have, and that are forwarded by
// name.
var own = []string{"mcp_servers", "context_management", "cache_control", "container", "inference_geo", "speed"}

// ownOfTools lists those of tools.
var ownOfTools = []string{"defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"}

// ownTier is the API's own value of service_tier. Others are OpenAI's, or the default.
const ownTier = "standard_only"

// own writes the API's own members that a caller of another dialect set.
func (w *writer) own(r *chat.Request) {
	for _, name := range own {
		w.Member(name, r.Lookup(name))
	}
	if tier := chat.Literal(r.Lookup("service_tier")); tier.Is(ownTier) {
		w.Key("service_tier").Raw(tier)
	}
	w.outputConfig(r)
}

// outputConfig writes the format of the answer and the effort. The API's own members take
// precedence over their equivalents in other dialects.
func (w *writer) outputConfig(r *chat.Request) {
	var members []chat.Member
	said := make(map[string]bool)
	o := jsonscan.NewReader(r.Lookup("output_config"))
	o.Object(func(key jsonscan.Key) {
		name := key.String()
		if v := o.Value(); v != nil {
			members, said[name] = append(members, chat.Member{Name: name, Value: v}), true
		}
	})
	if effort := Effort(r); effort != "" && !said["effort"] {
		members = append(members, chat.Member{Name: "effort", Value: chat.Raw(chat.Quote(effort))})
	}
	if r.Format.Kind == chat.FormatSchema && r.Format.Schema != nil && !said["format"] {
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

// efforts maps OpenAI's efforts to the API's.
var efforts = map[string]string{"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "max"}

// effortSince has the first version of each model family that accepts an effort. Earlier
// ones refuse it.
var effortSince = map[string]float64{"opus": 4.5, "sonnet": 4.6, "haiku": 5}

// Effort returns the effort in the API's terms, or "" if none is set or the model does not
// accept it.
func Effort(r *chat.Request) string {
	if r.Effort == nil {
		return ""
	}
	model := r.Model.Text()
	for family, since := range effortSince {
		if v := version(model, family); v >= since {
			effort := efforts[r.Effort.Text()]
			if effort == "max" && v < 4.6 {
				effort = "high"
			}
			return effort
		}
	}
	return ""
}

// version returns the version of a model of a family, such as 4.5 for
// claude-opus-4-5-20251101, or 0 if its name has none after the family.
func version(model, family string) float64 {
	_, rest, _ := strings.Cut(model, family+"-")
	numbers := strings.FieldsFunc(rest, func(c rune) bool { return c == '-' || c == '.' || c == '@' || c == ':' })
	if len(numbers) == 0 {
		return 0
	}
	major, err := strconv.Atoi(numbers[0])
	if err != nil {
		return 0
	}
	v := float64(major)
	if len(numbers) > 1 {
		if minor, err := strconv.Atoi(numbers[1]); err == nil && minor < 10 { // larger numbers are dates
			v += float64(minor) / 10
		}
	}
	return v
}
