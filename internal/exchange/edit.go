package exchange

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Body returns the body to forward, with a reference for the caller to release: the client's
// bytes with the target's edit and model. It is nil if there is none, or if it passes through.
// unasked reports that it is for a stream whose usage the client does not ask for; with usage,
// the body asks for it. An *Error says which field is missing.
func (a *Attempt) Body(usage bool) (body *Buffer, unasked bool, err error) {
	c, edit, model := a.call, a.Edit, a.Route.Model
	if err := a.unchangeable(); err != nil {
		return nil, false, err
	}
	switch {
	case c.buffer == nil:
		return nil, false, nil
	case c.opaque:
		c.buffer.refs.Add(1)
		return c.buffer, false, nil
	}
	if fault := c.missing(edit); fault != nil {
		return nil, false, badRequest(fault.Param, fault.Code, fault.Message)
	}
	unasked = a.WithoutUsage()
	usage = usage && unasked
	if a.rewritten != nil {
		body, err = a.replacement(usage)
		return body, unasked, err
	}
	edit = c.completed(edit, usage)
	b := c.buffer.b
	appends := usage && c.onlyAppends(edit)
	switch {
	case edit.Empty() && !appends && (model == "" || c.model.End == 0):
		c.buffer.refs.Add(1)
		return c.buffer, unasked, nil
	case edit.Empty():
		// The scan has found the model already. sjson, which would look for it, takes two to five
		// times as long in place, and fifteen times if a longer model needs another buffer.
		out, err := newBuffer(len(b)+len(model)+2+len(usageOption), &c.lease)
		if err != nil {
			return nil, false, Overloaded(err)
		}
		if model == "" || c.model.End == 0 {
			out.b = append(out.b, b...)
		} else {
			out.b = append(out.b, b[:c.model.Start]...)
			out.b = jsonscan.AppendQuoted(out.b, model)
			out.b = append(out.b, b[c.model.End:]...)
		}
		if appends {
			end := bytes.LastIndexByte(out.b, '}')
			out.b = append(append(out.b[:end], usageOption...), '}')
		}
		if out, err = out.charged(); err != nil { // the model may have grown by quoting
			return nil, false, Overloaded(err)
		}
		return out, unasked, nil
	}
	if model != "" {
		edit = edit.With("model", jsonscan.AppendQuoted(nil, model))
	}
	out, err := newBuffer(len(b)+1024, &c.lease)
	if err != nil {
		return nil, false, Overloaded(err)
	}
	if out.b, err = routing.Append(out.b, b, edit); err != nil {
		out.Release()
		return nil, false, badRequest("", "invalid_config", "The config's parameters cannot be put into the body: "+err.Error())
	}
	if out, err = out.charged(); err != nil {
		return nil, false, Overloaded(err)
	}
	return out, unasked, nil
}

// usageOption asks for the usage of a stream. It is appended to the members of a body that has no
// such option and no other edit, which takes no search; see [withUsageOption] for the others.
const usageOption = `,"stream_options":{"include_usage":true}`

// withUsageOption returns an edit with the option that asks for the usage of a stream.
func withUsageOption(edit *routing.Edit) *routing.Edit {
	return edit.With("stream_options.include_usage", json.RawMessage("true"))
}

// onlyAppends reports whether the body needs no change but an appended usageOption.
func (c *Call) onlyAppends(edit *routing.Edit) bool {
	return edit.Empty() && !c.report.Has("stream_options")
}

// completed returns a config's edit with the gateway's own changes: a text completion's default
// prompt and, if there is an edit anyway, the option for usage.
func (c *Call) completed(edit *routing.Edit, usage bool) *routing.Edit {
	if c.Endpoint.Table == validation.Completion && !c.passthrough() && !c.report.Has("prompt") && !given(edit.Result("prompt", nil)) {
		edit = edit.With("prompt", jsonscan.AppendQuoted(nil, validation.DefaultPrompt))
	}
	if usage && !c.onlyAppends(edit) {
		edit = withUsageOption(edit)
	}
	return edit
}

// streams reports whether a stream is asked for after a config's edit.
func (c *Call) streams(edit *routing.Edit) bool {
	if edit.Empty() {
		return c.Stream
	}
	return string(edit.Result("stream", c.member("stream"))) == "true"
}

func asksUsage(options json.RawMessage) bool {
	return gjson.GetBytes(options, "include_usage").Type == gjson.True
}

// Thinks reports whether the attempt asks for thinking.
func (a *Attempt) Thinks() bool {
	if a.call.buffer == nil {
		return false
	}
	v := a.Edit.Result("thinking", a.call.member("thinking"))
	return given(v) && gjson.GetBytes(v, "type").Str != "disabled"
}

// missing returns the first required field that the body lacks after a config's edit.
func (c *Call) missing(edit *routing.Edit) *validation.Error {
	if c.Endpoint.Table == nil || c.passthrough() {
		return nil
	}
	return c.Endpoint.Table.Missing(func(name string) bool { return given(edit.Result(name, c.member(name))) })
}

// member returns the body's value of a field of its table, or nil.
func (c *Call) member(name string) json.RawMessage {
	if c.buffer == nil || !c.report.Has(name) {
		return nil
	}
	span := c.report.Span(name)
	return c.buffer.b[span.Start:span.End]
}

// given reports whether a field has a value. Null is absent.
func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// missingModel refuses a call without a config that lacks a required field.
func (c *Call) missingModel() *Error {
	if c.buffer == nil || c.Config != nil {
		return nil
	}
	if fault := c.missing(nil); fault != nil {
		return badRequest(fault.Param, fault.Code, fault.Message)
	}
	return nil
}

// WithoutUsage reports whether the attempt asks for a stream and not for its usage.
func (a *Attempt) WithoutUsage() bool {
	c, edit := a.call, a.Edit
	return c.buffer != nil && c.Endpoint.Done && !c.passthrough() && c.streams(edit) && !asksUsage(edit.Result("stream_options", c.member("stream_options")))
}

// Streams reports whether the attempt's body asks for a stream.
func (a *Attempt) Streams() bool { return a.call.buffer != nil && a.call.streams(a.Edit) }

// MayHave reports false if the attempt's body has no member of this name, at any depth. It may
// report true if it has none. Without an edit, what the gateway itself adds has names of its own.
func (a *Attempt) MayHave(name string) bool {
	c := a.call
	return c.buffer == nil || c.opaque || a.rewritten != nil || !a.Edit.Empty() || c.report.MayHave(name)
}
