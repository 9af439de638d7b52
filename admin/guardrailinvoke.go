package admin

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

type invokeGuardrail struct {
	Text     *string  `json:"text,omitempty" doc:"What is judged: the message of a user, or with the phase output the answer of a model."`
	Messages *objects `json:"messages,omitempty" doc:"Or the messages of a chat; not with the phase output."`
	Phase    string   `json:"phase,omitempty" enum:"input,output" doc:"Default: input."`
	Model    string   `json:"model,omitempty" maxLength:"512" doc:"That the call asks for, for checks that look at it."`
	Metadata *object  `json:"metadata,omitempty" doc:"Of the call."`
}

// GuardrailVerdict is what a guardrail says of what it was tried on.
type GuardrailVerdict struct {
	Verdict  bool     `json:"verdict"`
	Status   int      `json:"status" enum:"200,246,446" doc:"That a call would have."`
	Text     *string  `json:"text,omitempty" doc:"What the guardrail made of the text."`
	Messages *objects `json:"messages,omitempty" doc:"What it made of the messages."`
	Results  anyJSON  `json:"hook_results"`
	Object   string   `json:"object" enum:"guardrail.invocation"`
}

// invokeGuardrail runs the current version of a guardrail, of which nothing is stored. One that runs
// after answers runs at once.
func (c *call) invokeGuardrail(g *hooks.Guardrail, in *invokeGuardrail) (*GuardrailVerdict, error) {
	saved, err := c.api.Guardrails.Hook(g.WorkspaceID, g.ID, "")
	if err != nil {
		return nil, err
	}
	hook := *saved
	hook.Async = false
	s := guardrails.Subject{Type: "chatComplete", Model: in.Model, Workspace: c.caller.WorkspaceID, Header: http.Header{}, Status: http.StatusOK}
	if c.api.CheckServices != nil {
		s.Services = c.api.CheckServices(c.caller.WorkspaceID)
	}
	if in.Metadata != nil {
		s.Metadata = []byte(*in.Metadata)
	}
	output := in.Phase == "output"
	var b jsonscan.Builder
	b.Open('{')
	switch {
	case (in.Text == nil) == (in.Messages == nil):
		return nil, invalid("text", "expected either text or messages")
	case output && in.Messages != nil:
		return nil, invalid("messages", "an answer has one text: expected text with the phase output")
	case output:
		s.Phase = guardrails.Output
		b.Key("choices").Open('[')
		b.Open('{')
		b.Key("message").Open('{')
		b.Key("role").Text("assistant")
		b.Key("content").Text(*in.Text)
		b.Close('}')
		b.Close('}')
		b.Close(']')
	case in.Text != nil:
		b.Key("messages").Open('[')
		b.Open('{')
		b.Key("role").Text("user")
		b.Key("content").Text(*in.Text)
		b.Close('}')
		b.Close(']')
	default:
		b.Key("messages").Raw(*in.Messages)
	}
	b.Close('}')
	if s.Request = []byte(b); output {
		s.Request, s.Response = []byte("{}"), []byte(b)
	}
	out := hooks.Run(c, []*hooks.Hook{&hook}, s, false, c.api.Now)
	if out.Unread != "" {
		return nil, invalid("text", "the guardrail cannot check it: %s", out.Unread)
	}
	v := &GuardrailVerdict{Verdict: true, Status: http.StatusOK, Object: "guardrail.invocation"}
	for i := range out.Results {
		v.Verdict = v.Verdict && out.Results[i].Verdict
	}
	switch {
	case out.Denied != nil:
		v.Status = exchange.StatusHooksDenied
	case out.Failed:
		v.Status = exchange.StatusHooksFailed
	}
	whole := gjson.ParseBytes(b)
	if out.Body != nil {
		whole = gjson.ParseBytes(out.Body)
	}
	switch {
	case output:
		text := whole.Get("choices.0.message.content").Str
		v.Text, v.Results = &text, anyJSON(hooks.JSON(nil, out.Results))
	case in.Text != nil:
		text := whole.Get("messages.0.content").Str
		v.Text, v.Results = &text, anyJSON(hooks.JSON(out.Results, nil))
	default:
		messages := objects(whole.Get("messages").Raw)
		v.Messages, v.Results = &messages, anyJSON(hooks.JSON(out.Results, nil))
	}
	return v, nil
}
