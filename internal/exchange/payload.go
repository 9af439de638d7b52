package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Payload is what an attempt sends of its call: path, query and body, with the edit and the model of
// its target, before they are translated.
type Payload struct {
	call      *Call
	route     *credentials.Route
	edit      *routing.Edit
	model     string
	rewritten *Buffer // the body, if a hook has changed it
}

// Payload returns what the attempt sends.
func (a *Attempt) Payload() Payload { return Payload{a.call, a.Route, a.Edit, a.Model, a.rewritten} }

// JSON returns the body to forward, with a reference for the caller to release: the client's
// bytes with the target's edit and model. It is nil if there is none, or if it passes through.
// unasked reports that it is for a stream whose usage the client does not ask for; with usage,
// the body asks for it. An *Error says which field is missing.
func (p Payload) JSON(usage bool) (body *Buffer, unasked bool, err error) {
	c, edit, model := p.call, p.edit, p.route.Model
	if err := p.unchangeable(); err != nil {
		return nil, false, err
	}
	switch {
	case c.Body.buffer == nil:
		return nil, false, nil
	case c.Body.opaque:
		c.Body.buffer.refs.Add(1)
		return c.Body.buffer, false, nil
	}
	if fault := p.missing(); fault != nil {
		return nil, false, badRequest(fault.Param, fault.Code, fault.Message)
	}
	unasked = p.WithoutUsage()
	usage = usage && unasked
	if p.rewritten != nil {
		body, err = p.replacement(usage)
		return body, unasked, err
	}
	edit = p.completed(edit, usage)
	b := c.Body.buffer.b
	appends := usage && p.onlyAppends(edit)
	switch {
	case edit.Empty() && !appends && (model == "" || c.Body.model.End == 0):
		c.Body.buffer.refs.Add(1)
		return c.Body.buffer, unasked, nil
	case edit.Empty():
		// The scan has found the model already. sjson, which would look for it, takes two to five
		// times as long in place, and fifteen times if a longer model needs another buffer.
		out, err := newBuffer(len(b)+len(model)+2+len(usageOption), &c.Memory.lease)
		if err != nil {
			return nil, false, Overloaded(err)
		}
		if model == "" || c.Body.model.End == 0 {
			out.b = append(out.b, b...)
		} else {
			out.b = append(out.b, b[:c.Body.model.Start]...)
			out.b = jsonscan.AppendQuoted(out.b, model)
			out.b = append(out.b, b[c.Body.model.End:]...)
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
	out, err := newBuffer(len(b)+1024, &c.Memory.lease)
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

// Thinks reports whether the attempt asks for thinking.
func (p Payload) Thinks() bool {
	if p.call.Body.buffer == nil {
		return false
	}
	v := p.edit.Result("thinking", p.call.Body.member("thinking"))
	return given(v) && gjson.GetBytes(v, "type").Str != "disabled"
}

// WithoutUsage reports whether the attempt asks for a stream and not for its usage.
func (p Payload) WithoutUsage() bool {
	c := p.call
	return c.Endpoint.Done && !c.passthrough() && p.Streams() && !asksUsage(p.edit.Result("stream_options", c.Body.member("stream_options")))
}

// Streams reports whether the attempt's body asks for a stream.
func (p Payload) Streams() bool {
	switch {
	case p.call.Body.buffer == nil:
		return false
	case p.edit.Empty():
		return p.call.Stream
	}
	return string(p.edit.Result("stream", p.call.Body.member("stream"))) == "true"
}

// MayHave reports false if the attempt's body has no member of this name, at any depth. It may
// report true if it has none. Without an edit, what the gateway itself adds has names of its own.
func (p Payload) MayHave(name string) bool {
	c := p.call
	return c.Body.buffer == nil || c.Body.opaque || p.rewritten != nil || !p.edit.Empty() || c.Body.report.MayHave(name)
}

// replacement is the body that hooks have made.
func (p Payload) replacement(usage bool) (*Buffer, error) {
	if !usage {
		p.rewritten.refs.Add(1)
		return p.rewritten, nil
	}
	body, err := routing.Apply(p.rewritten.b, withUsageOption(nil))
	if err != nil {
		return nil, badRequest("", "invalid_config", "The option for usage cannot be put into the body: "+err.Error())
	}
	b, err := p.call.Memory.NewBuffer(body)
	if err != nil {
		return nil, Overloaded(err)
	}
	return b, nil
}

// Query is the query with the model of the target.
func (p Payload) Query() string {
	c := p.call
	if len(c.located.spans) == 0 {
		return c.Query
	}
	model := p.model
	if model == c.located.model || model == "" {
		return c.Query
	}
	var out []byte
	from := 0
	for _, s := range c.located.spans {
		out = append(append(append(out, c.Query[from:s.Start]...), "model="...), url.QueryEscape(model)...)
		from = s.End
	}
	return string(append(out, c.Query[from:]...))
}

// Path is the path of the call for the target: that of a model has the provider's own id.
func (p Payload) Path() string {
	if !p.namesModel() {
		return p.call.Path
	}
	segments := strings.Split(p.model, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "/models/" + strings.Join(segments, "/")
}

// namesModel reports whether the call asks about a model by its id, in which @slug/ stands for the
// provider.
func (p Payload) namesModel() bool {
	return p.call.Endpoint.Name == RetrieveModel && p.route.Model != "" && p.model == p.route.Model && p.edit.Empty()
}

// Upload returns the body that passes through, with the model of the target, and its length; -1
// if that is unknown.
func (p Payload) Upload() (io.ReadCloser, int64) {
	c := p.call
	f, length := c.Body.form, c.Body.length()
	if f == nil {
		return c.Body.spool.Reader(), length
	}
	model := p.model
	if model == f.model || !f.found && model == c.located.model {
		return c.Body.spool.Reader(), length
	}
	if !f.found {
		model = f.part(model)
	}
	if length >= 0 {
		length += int64(len(model) - (f.end - f.start))
	}
	before, after := c.Body.spool.reader(0), c.Body.spool.reader(int64(f.end))
	return &spliced{
		Reader: io.MultiReader(io.LimitReader(before, int64(f.start)), bytes.NewReader([]byte(model)), after),
		before: before, after: after,
	}, length
}

// unchangeable refuses a call in which the target's edit or model cannot be set.
func (p Payload) unchangeable() *Error {
	c, model, edit := p.call, p.model, p.edit
	if c.unread == unreadFile && edit.Touches([]string{"model"}) != "" {
		return cannot("model", "the models of a batch stand in its input file")
	}
	if c.unread == nested && (model != c.Model || edit.Touches([]string{"model"}) != "") {
		return cannot("model", "models stand inside of "+c.modelsIn())
	}
	if c.located.inPath && model != c.Model && !p.namesModel() || len(c.located.spans) > 0 && model == "" {
		return cannot("model", "its URL names the model")
	}
	if c.Body.upload {
		if key := edit.Touches(c.Endpoint.Fields); key != "" {
			return cannot(key, "its body is an upload")
		}
		return nil
	}
	if c.Body.form != nil {
		return p.unchangeableForm()
	}
	why := c.closedBody()
	switch key := edit.OtherThan("model"); {
	case why == "":
		return nil
	case key != "":
		return cannot(key, why)
	case (c.located.model == "" || c.unread == contradictory) && (model != c.Model || !edit.Empty()):
		return cannot("model", why)
	}
	return nil
}

func (p Payload) unchangeableForm() *Error {
	c, model, edit := p.call, p.model, p.edit
	f := c.Body.form
	switch {
	case model == f.model, f.found && model != "", f.over && c.Endpoint.Body == Stream, !f.found && model == c.located.model:
	case f.found:
		return badRequest("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	default:
		return badRequest("model", "model_not_found", "The model cannot be set: the form has no field model in its first "+strconv.Itoa(c.Body.spool.limit)+" bytes; send it before the file")
	}
	if key := edit.OtherThan("model"); key != "" {
		return cannot(key, "of a form only the model can be changed")
	}
	return nil
}

// modelsSet returns the parameter with which the attempt's edit sets other models than the one of the
// attempt; "" if there is none.
func (p Payload) modelsSet() string {
	if p.edit == nil {
		return ""
	}
	for _, list := range [][]routing.Param{p.edit.Default, p.edit.Override} {
		for i := range list {
			param := &list[i]
			first := param.Path[0].Name
			switch {
			case string(param.Value) == "null":
			case strings.EqualFold(first, "models"), validation.NamesModels(first):
				return param.Key
			case strings.EqualFold(first, "model") && (len(param.Path) != 1 || first != "model"):
				return param.Key // which is not the one that was read
			case !slices.ContainsFunc(p.call.Endpoint.Models, func(one string) bool { return strings.EqualFold(one, first) }):
			case len(param.Path) > 1 && strings.Contains(strings.ToLower(param.Key), "model"), len(param.Path) > 1 && mayNameModel(string(param.Value)),
				len(param.Path) == 1 && hasModel(strings.ToLower(first), gjson.ParseBytes(param.Value)):
				return param.Key
			}
		}
	}
	return ""
}

// untranslated is the body of the attempt before it is translated; nil: it is not JSON. The reason is why it
// cannot be made; "": it can.
func (p Payload) untranslated() (body []byte, reason string) {
	c := p.call
	switch {
	case p.rewritten != nil:
		return p.rewritten.b, ""
	case c.Body.buffer == nil, c.Body.opaque:
		return nil, ""
	case p.edit.Empty():
		return c.Body.buffer.b, ""
	}
	body, err := routing.Apply(c.Body.buffer.b, p.edit)
	if err != nil {
		return nil, "the config's parameters cannot be put into the body: " + err.Error()
	}
	return body, ""
}

// onlyAppends reports whether the body needs no change but an appended usageOption.
func (p Payload) onlyAppends(edit *routing.Edit) bool {
	return edit.Empty() && p.call.Body.report.Span("stream_options").End == 0
}

// completed returns a config's edit with the gateway's own changes: a text completion's default
// prompt and, if there is an edit anyway, the option for usage.
func (p Payload) completed(edit *routing.Edit, usage bool) *routing.Edit {
	if p.call.Endpoint.Table == validation.Completion && !p.call.passthrough() && !p.call.Body.report.Has("prompt") && !given(edit.Result("prompt", nil)) {
		edit = edit.With("prompt", jsonscan.AppendQuoted(nil, validation.DefaultPrompt))
	}
	if usage && !p.onlyAppends(edit) {
		edit = withUsageOption(edit)
	}
	return edit
}

// missing returns the first required field that the body lacks after a config's edit.
func (p Payload) missing() *validation.Error {
	if p.call.Endpoint.Table == nil || p.call.passthrough() {
		return nil
	}
	return p.call.Endpoint.Table.Missing(func(name string) bool { return given(p.edit.Result(name, p.call.Body.member(name))) })
}

// usageOption asks for the usage of a stream. It is appended to the members of a body that has no
// such option and no other edit, which takes no search; see [withUsageOption] for the others.
const usageOption = `,"stream_options":{"include_usage":true}`

// withUsageOption returns an edit with the option that asks for the usage of a stream.
func withUsageOption(edit *routing.Edit) *routing.Edit {
	return edit.With("stream_options.include_usage", json.RawMessage("true"))
}

func asksUsage(options json.RawMessage) bool {
	return gjson.GetBytes(options, "include_usage").Type == gjson.True
}

// given reports whether a field has a value. Null is absent.
func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }
