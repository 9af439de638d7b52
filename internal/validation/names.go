package validation

import (
	"strings"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// names is the set of the rare members that a body has, at any depth. The pass that checks the
// body notes them, so that whoever looks for one of them needs no other pass.
type names uint8

// OtherModels stands for the members of a body, besides models, in which some providers and proxies
// take other models, of which one may answer; see [NamesModels].
const OtherModels = "fallbacks"

// otherModels is their bit.
const otherModels names = 1 << 4

// anthropics is the bit of members of Anthropic's API that OpenAI's does not have.
const anthropics names = 1 << 5

// limited is the bit of members to which providers have limits, of what is passed on to them.
const limited names = 1 << 6

// namesModels are those members, in lower case.
var namesModels = [...]string{
	"engine", "preset", "fallback", "fallbacks", "draft_model", "deployment_id", "fallback_model", "fallback_models", "model_fallbacks",
	"compound_custom", "context_window_fallbacks", "content_policy_fallbacks", "context_window_fallback_dict",
}

// modelInitials are the bits of the first letters of namesModels, by their lengths: also by those that they have
// with letters beyond ASCII that are another case of k and s.
var modelInitials = func() (initials [maxName]uint32) {
	const longK, longS = len("\u212a") - 1, len("\u017f") - 1
	for _, name := range namesModels {
		for k := range strings.Count(name, "k") + 1 {
			for s := range strings.Count(name, "s") + 1 {
				initials[len(name)+k*longK+s*longS] |= 1 << (name[0] & 0x1f)
			}
		}
	}
	return initials
}()

// NamesModels reports whether a member of a body, besides model and models, names models for some
// providers and proxies. Letter case is ignored, as some servers do.
func NamesModels[T string | []byte](member T) bool {
	if n := len(member); n == 0 || n >= maxName || modelInitials[n]&(1<<(member[0]&0x1f)) == 0 {
		return false
	}
	for _, name := range namesModels {
		if strings.EqualFold(string(member), name) {
			return true
		}
	}
	return false
}

// rare returns the bit of a member that is looked for in bodies that often do not have it, or 0.
func rare[T string | []byte](name T) names {
	switch string(name) {
	case "store":
		return 1
	case "content_blocks":
		return 1 << 1
	case "reasoning_content":
		return 1 << 2
	case "extra_content":
		return 1 << 3
	case "output_config", "mcp_servers", "context_management", "cache_control", "inference_geo",
		"defer_loading", "allowed_callers", "input_examples", "eager_input_streaming":
		return anthropics
	case "tools", "functions", "tool_choice", "function_call", "tool_calls", "parallel_tool_calls", "arguments",
		"user", "image_url", "file", "file_data", "encrypted_content":
		return limited
	}
	if NamesModels(name) {
		return otherModels
	}
	return 0
}

// skip reads the value at i, whose rules nobody has written, and notes its keys.
func (c *checker) skip(i, depth int) (end int, err error) {
	switch c.scan.Kind(i) {
	case jsonscan.Object:
		return c.scan.Object(i, depth, func(key jsonscan.Key, at int) (int, error) {
			c.names |= rare(key.Bytes())
			return c.skip(at, depth+1)
		})
	case jsonscan.Array:
		return c.scan.Array(i, depth, func(_, at int) (int, error) { return c.skip(at, depth+1) })
	}
	return c.scan.Value(i, depth)
}

// MayHave reports false if it was noted that no object of the body, at any depth, has a member of
// this name. Only the absence of rare members is noted.
func (r *Report) MayHave(name string) bool {
	bit := rare(name)
	return bit == 0 || r.names&bit != 0
}
