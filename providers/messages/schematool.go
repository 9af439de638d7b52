package messages

import (
	"slices"

	"github.com/caddy-gw/gateway/providers/chat"
)

// SchemaTool is the tool whose input is the answer, for models that accept no schema of their
// answers.
const SchemaTool = "gateway_structured_answer"

// AnswersByTool returns a request in which the schema of the answer is that of a tool that the model
// has to call, or the same request if the model accepts schemas, or none is asked for. thinking is
// the model's, or nil. Decoders make a text of that call.
func AnswersByTool(r *chat.Request, m Model, thinking chat.Raw) *chat.Request {
	if r.Format.Kind != chat.FormatSchema || r.Format.Schema == nil || m.Schemas() || r.Lookup("output_config") != nil {
		return r
	}
	own := *r
	own.Format = chat.Format{}
	tool := chat.Tool{Name: chat.Quote(SchemaTool), Description: r.Format.Description, Parameters: r.Format.Schema}
	if tool.Description == nil {
		tool.Description = chat.Quote("Gives the answer, in the form that its input has to have. Call it instead of writing a text.")
	}
	others := r.Tools
	switch r.ToolChoice.Mode {
	case chat.None: // the others are not to be called
		others = nil
	case chat.Named: // an answer is not what is asked for
		return &own
	}
	own.Tools = append(slices.Clip(others), tool)
	own.Parallel = chat.Raw("false")
	switch {
	case m.alwaysThinks, thinks(thinking): // which the API refuses with a tool that must be called
		own.ToolChoice = chat.ToolChoice{Mode: chat.Auto}
	case len(others) == 0:
		own.ToolChoice = chat.ToolChoice{Mode: chat.Named, Name: tool.Name}
	default:
		own.ToolChoice = chat.ToolChoice{Mode: chat.Required}
	}
	return &own
}
