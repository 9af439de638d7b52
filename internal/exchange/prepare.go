package exchange

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/jsonscan"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/validation"
)

// Limits bounds the bodies of calls, in bytes.
type Limits struct {
	Body   int64 // of one that is read whole
	Upload int64 // of one that passes through
	Replay int   // what is kept of one that passes through, for another attempt

	// Patience is how long a body may take to go on; 0: for ever.
	Patience time.Duration
}

// Prepare authenticates the caller, reads and scans the body, or makes ready to pass
// it through, and resolves the route. It does so once; later calls return the same
// answer, but a limit that is lower than the first is still enforced.
func (x *Exchange) Prepare(limits Limits) *Error {
	if !x.prepared {
		x.prepared = true
		if x.err = x.prepare(limits); x.err == nil {
			x.startSpan()
		}
	}
	if x.err == nil && x.buffer != nil && int64(len(x.buffer.b)) > limits.Body {
		return tooLarge(limits.Body)
	}
	return x.err
}

func (x *Exchange) prepare(limits Limits) *Error {
	r := x.request
	if err := x.refuseLoop(); err != nil {
		return err
	}
	if name := x.Gateway.Headers.KeyInQuery(r.URL.RawQuery, x.Gateway.Authenticator.Knows); name != "" {
		return badRequest(name, "key_in_query", name+": the query holds a service key, which URLs give away; send it as the header x-gw-api-key, and replace the key")
	}
	token, selection, refusal := x.Gateway.read(r.Header)
	if refusal != nil {
		return Refused(refusal)
	}
	if x.Caller, refusal = x.Gateway.Authenticator.AuthenticateCall(token, credentials.ScopeCompletions); refusal != nil {
		return Refused(refusal)
	}
	if bearer := selection.Bearer; !bearer.Empty() && x.Gateway.Authenticator.Knows(bearer.Reveal()) {
		return Refused(&credentials.Refusal{
			Reason: credentials.AmbiguousHeader, Field: "authorization",
			Message: "authorization has a second service key, which goes to no provider: send one service key, and as the bearer the provider's credential",
		})
	}
	x.lease.Open(x.Gateway.InFlight, x.Caller.WorkspaceID, x.Caller.CountedAs)
	if err := x.readMetadata(r.Header); err != nil {
		return err
	}
	if err := x.takeBody(limits); err != nil {
		return err
	}
	if x.Endpoint.Query != nil && x.fault == nil {
		x.fault = validation.CheckQuery(x.Endpoint.Query, r.URL.Query())
	}
	if err := x.locate(); err != nil {
		return err
	}
	selection.Model = x.Model
	if refusal := x.Gateway.recall(x, &selection); refusal != nil {
		return Refused(refusal)
	}
	if x.Held != nil {
		if err := x.holdTurns([]stored.Turn{*x.Held}); err != nil {
			return Overloaded(err)
		}
		return nil
	}
	x.selection = selection
	if refusal := x.Gateway.Router.Inline(x.Caller.WorkspaceID, selection); refusal != nil {
		return Refused(refusal)
	}
	version, _ := x.Gateway.Headers.Get(r.Header, HeaderConfigVersion)
	var err *Error
	if x.Config, err = x.config(selection.Config, version); err != nil {
		return err
	}
	if x.fault != nil && !x.passthrough() {
		return badRequest(x.fault.Param, x.fault.Code, x.fault.Message)
	}
	if err := x.readOptions(r.Header); err != nil {
		return err
	}
	if x.Config != nil {
		if x.Endpoint.Single && !x.Config.Root.Leaf() {
			return badRequest("x-gw-config", "invalid_config", "Invalid config provided. Maximum one target is allowed for batch/file/fine_tuning requests")
		}
		x.Catalogue = x.Endpoint.Name == Models && x.Config.FetchIntegratedModels
		return nil
	}
	if x.Endpoint.Name == Models && x.catalogue(r.Header, selection) {
		x.Catalogue = true
		return nil
	}
	route, refusal := x.Gateway.Router.Route(x.Caller, selection)
	if refusal != nil {
		if id := x.responseID(); id != "" && selection.Slug() == "" && refusal.Reason == credentials.NoProvider {
			return unknownResponse(id)
		}
		if _, unseen := x.Unseen(); unseen && refusal.Reason == credentials.NoProvider {
			return x.UnseenModel("nothing else says where the call goes")
		}
		return Refused(refusal)
	}
	if err := x.admitStored(route); err != nil {
		return err
	}
	if route.Model != "" {
		x.Model = route.Model
	}
	x.choose("config", route, nil)
	return x.missingModel()
}

// catalogue reports whether a call for models is for the unified list: it names no
// provider, or says so.
func (x *Exchange) catalogue(h http.Header, s credentials.Selection) bool {
	for _, name := range []Header{HeaderFetchIntegrated, HeaderModelsEndpoint} {
		if v, _ := x.Gateway.Headers.Get(h, name); v != "" && v != "false" {
			return true
		}
	}
	return s.Provider == "" && s.VirtualKey == "" && s.Model == ""
}

// Listed returns those of the saved providers that a call for the unified list of models
// refers to: all, where it names none.
func (x *Exchange) Listed(saved []string) []string {
	named := make(map[string]bool)
	if slug := x.selection.Slug(); slug != "" {
		named[slug] = true
	}
	if x.Config != nil {
		for _, t := range x.Config.Leaves() {
			if s := t.Selection(); s.Slug() != "" {
				named[s.Slug()] = true
			}
		}
	}
	if len(named) == 0 {
		return saved
	}
	return slices.DeleteFunc(saved, func(slug string) bool { return !named[slug] })
}

// Choose makes a target of the call's config the one that the next attempts are for. What
// the target leaves open, the call itself says. Where that leads nowhere, what was chosen
// before stays.
func (x *Exchange) Choose(t *routing.Target) *Error {
	route, err := x.target(t)
	if err == nil {
		x.Admitted = false
		x.choose(t.Path, route, t.Edit())
	}
	return err
}

func (x *Exchange) target(t *routing.Target) (*credentials.Route, *Error) {
	s := t.Selection()
	if s.VirtualKey == "" && s.Provider == "" && !strings.HasPrefix(s.Model, "@") {
		own := x.selection
		if secret := x.Stored(t); secret != "" && secret != "api_key" {
			field := "x-gw-provider"
			if own.CustomHost != "" {
				field = "x-gw-custom-host"
			}
			return nil, Refused(&credentials.Refusal{
				Reason: credentials.StoredSecretElsewhere, Field: field,
				Message: "The saved config's " + secret + " goes only where the config says, and not where " + field + " does: name the provider in the config, or send your own credential",
			})
		}
		own.Config = ""
		if s.CustomHost != "" {
			own.CustomHost = s.CustomHost
		}
		if s.Model != "" {
			own.Model = s.Model
		}
		s = own
	}
	if s.Model == "" && (s.VirtualKey != "" || strings.HasPrefix(s.Provider, "@")) {
		s.Model = x.Model // so that @slug/ goes, where it is the same slug
	}
	route, refusal := x.Gateway.Router.Route(x.Caller, s)
	if refusal != nil {
		return nil, Refused(refusal)
	}
	route.Stored = route.Stored || x.Stored(t) != ""
	if err := x.admitStored(route); err != nil {
		return nil, err
	}
	return route, nil
}

// Stored is the name of a credential that a target of a saved config holds, "" where it
// holds none, or where the config is the call's own.
func (x *Exchange) Stored(t *routing.Target) string {
	if x.Config == nil || x.InlineConfig {
		return ""
	}
	for _, s := range t.Vendor {
		if routing.IsSecret(s.Name) {
			return s.Name
		}
	}
	switch {
	case len(t.Edit().Secrets()) > 0:
		return "override_params"
	case !t.APIKey.Empty():
		return "api_key"
	}
	return ""
}

// read takes the credentials headers apart. The service key is x-gw-api-key, or
// the bearer where there is none; a bearer that repeats it is no provider
// credential, and neither is ever forwarded.
func (g *Gateway) read(h http.Header) (token string, s credentials.Selection, refusal *credentials.Refusal) {
	for _, f := range []struct {
		header Header
		to     *string
	}{
		{HeaderAPIKey, &token},
		{HeaderVirtualKey, &s.VirtualKey},
		{HeaderProvider, &s.Provider},
		{HeaderConfig, &s.Config},
		{HeaderCustomHost, &s.CustomHost},
	} {
		var ok bool
		if *f.to, ok = g.Headers.Get(h, f.header); !ok {
			field := f.header.String()
			return "", s, &credentials.Refusal{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice with different values"}
		}
	}
	if g.Router.HostSetting != nil && s.CustomHost == "" {
		if setting := g.Router.HostSetting(s.Provider); setting != "" {
			s.CustomHost, _ = g.Headers.Named(h, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(setting, "_", "-")))
		}
	}
	if values := h["Authorization"]; len(values) > 1 {
		return "", s, &credentials.Refusal{Reason: credentials.AmbiguousHeader, Field: "authorization", Message: "authorization is given twice"}
	}
	bearer := Bearer(h)
	if token == "" {
		token, bearer = bearer, ""
	}
	if token == "" {
		token = protocolKey(h)
	}
	if bearer != token {
		s.Bearer = credentials.NewSecret(bearer)
	}
	return token, s, nil
}

// Bearer returns the bearer token of a request, or "".
func Bearer(h http.Header) string {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// ServiceKey returns the service key of a request to the control plane, or "".
func (h *Headers) ServiceKey(header http.Header) string {
	if token, ok := h.Get(header, HeaderAPIKey); token != "" || !ok {
		if !ok {
			return ""
		}
		return token
	}
	return Bearer(header)
}

// takeBody takes the body as the endpoint has it.
func (x *Exchange) takeBody(limits Limits) *Error {
	x.patience = limits.Patience
	contentType, encoded := x.request.Header.Get("Content-Type"), encoded(x.request.Header)
	isJSON := jsonContent(contentType, x.Endpoint.Body == JSON) && !encoded
	switch {
	case x.Endpoint.Body == JSON && isJSON:
		return x.readBody(limits.Body)
	case x.Endpoint.Body == JSON && encoded:
		return badRequest("content-encoding", "invalid_content_encoding", "Invalid content encoding passed: expected a body that is not compressed")
	case x.Endpoint.Body == JSON:
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json, in UTF-8")
	case x.Endpoint.Body != Stream && isJSON && x.request.ContentLength != 0:
		return x.readBody(limits.Body)
	}
	media, params, err := mime.ParseMediaType(contentType)
	badForm := err != nil && strings.Contains(strings.ToLower(contentType), formData) // a provider might read it all the same
	if err != nil {
		media = ""
	}
	if x.Endpoint.Body == Stream && media != formData && !strings.HasPrefix(media, "audio/") || media == formData && params["boundary"] == "" || badForm {
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected multipart/form-data with a boundary")
	}
	if x.request.Body == nil || x.request.ContentLength == 0 {
		return nil
	}
	if x.request.ContentLength > limits.Upload {
		return tooLarge(limits.Upload)
	}
	var src io.Reader = &limited{x.arriving(), limits.Upload}
	if media == formData && !encoded && x.Endpoint.Body == Any && x.Gateway.Several != nil && x.Gateway.Several() {
		x.formNames = newFormNames(src, params["boundary"])
		src = x.formNames
	}
	x.spool = NewSpool(src, limits.Replay, &x.lease)
	switch {
	case x.Endpoint.NoModel && media == formData:
		x.upload = true
	case media == formData && !encoded && utf8Charset(params["charset"]):
		return x.readForm(params["boundary"])
	case x.Query != "" && !encoded && binaryMedia(media):
		return x.peek(func(head []byte) bool {
			var begun bool
			x.binary, begun = binary(head)
			return begun
		})
	}
	return nil
}

// arriving is the request's body, which has to come in time.
func (x *Exchange) arriving() *arrival {
	x.arrival.src, x.arrival.to, x.arrival.patience = x.request.Body, x.writer, x.patience
	return &x.arrival
}

const formData = "multipart/form-data"

func (x *Exchange) readBody(limit int64) *Error {
	if budget := x.Gateway.InFlight; budget != nil {
		// To wait for room that there never is would be of no use.
		limit = min(limit, inflight.Most(budget.Limit()))
	}
	if x.request.ContentLength > limit {
		return tooLarge(limit)
	}
	buffer, err := readBody(x.arriving(), x.request.ContentLength, limit, &x.lease)
	switch {
	case errors.Is(err, errBodySlow):
		return bodyTooSlow(x.patience)
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case inflight.Refused(err):
		return Overloaded(err)
	case err != nil:
		e := badRequest("", "body_unreadable", "The request body could not be read to its end")
		e.Err = err
		return e
	}
	x.buffer = buffer
	table := x.Endpoint.Table
	if table == nil {
		table = validation.Unlisted
	}
	x.report, err = validation.Check(table, buffer.b)
	if errors.As(err, &x.fault) && table != validation.Unlisted {
		x.report, err = validation.Check(validation.Unlisted, buffer.b)
	}
	if err == nil {
		x.Stream = x.report.Stream
		return x.readModel()
	}
	var syntax *jsonscan.SyntaxError
	switch {
	case x.fault != nil:
		return badRequest(x.fault.Param, x.fault.Code, x.fault.Message)
	case errors.As(err, &syntax) && x.Endpoint.Body != JSON:
		x.opaque = len(buffer.b) > 0
		return nil // the provider's own business
	}
	return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
}

const maxModel = 512 // bytes of a model's name, quotes included

func (x *Exchange) readModel() *Error {
	span := x.report.Span("model")
	value := x.buffer.b[span.Start:span.End]
	if len(value) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	if len(value) > 0 && value[0] == '"' {
		x.model = span
		x.Model = jsonscan.Unquote(value)
	}
	return nil
}
