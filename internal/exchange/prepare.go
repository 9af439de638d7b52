package exchange

import (
	"cmp"
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
	"github.com/caddy-gw/gateway/internal/coding"
	"github.com/caddy-gw/gateway/internal/inflight"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Limits bounds the bodies of calls, in bytes.
type Limits struct {
	Body   int64 // of those that are read whole
	Upload int64 // of those that pass through
	Replay int   // of what is kept of the latter, for another attempt

	// Patience is how long the client may stall while it sends the body; 0: no limit.
	Patience time.Duration
}

// prepare makes all of the call that is known before anything is sent. The route is nil if the
// target is chosen later, or if there is none.
func (c *Call) prepare(limits Limits) (*credentials.Route, *Error) {
	r := c.request
	c.longest = limits.Body
	selection, failure := c.authenticate()
	if failure != nil {
		return nil, failure
	}
	if err := c.Lease(&c.slot, &c.lease); err != nil {
		return nil, err
	}
	if err := c.readMetadata(r.Header); err != nil {
		return nil, err
	}
	if err := c.startDefaults(); err != nil {
		return nil, err
	}
	if err := c.takeBody(limits); err != nil {
		return nil, err
	}
	if err := c.refuseSoftly(); err != nil {
		return nil, err
	}
	if c.Endpoint.Prompt {
		if err := c.renderPrompt(&selection, limits.Body); err != nil || c.Rendered {
			return nil, err
		}
	}
	if c.Endpoint.Query != nil && c.invalid == nil {
		c.invalid = validation.CheckQuery(c.Endpoint.Query, r.URL.Query())
	}
	if err := c.locate(); err != nil {
		return nil, err
	}
	selection.Model = c.Model
	if refusal := c.recall(&selection); refusal != nil {
		return nil, CredentialError(refusal)
	}
	if c.StoredResponse != nil {
		if err := c.reserveTurns([]stored.Response{*c.StoredResponse}); err != nil {
			return nil, Overloaded(err)
		}
		return nil, nil
	}
	c.selection = selection
	if refusal := c.Gateway.Router.Inline(c.Caller.WorkspaceID, selection); refusal != nil {
		return nil, CredentialError(refusal)
	}
	version, _ := c.Gateway.Headers.Get(r.Header, HeaderConfigVersion)
	var err *Error
	if c.Config, err = c.config(cmp.Or(selection.Config, c.aliased(&selection)), version); err != nil {
		return nil, err
	}
	if c.Config != nil {
		if err := c.startHooks(c.Config.Start); err != nil {
			return nil, err
		}
		if err := c.refuseSoftly(); err != nil {
			return nil, err
		}
	}
	if c.Prompt != "" && c.Config != nil && c.Config.Prompts {
		return nil, badRequest("x-gw-config", "prompt_in_config", "The call names a prompt, and its config others (prompt_id): send the variables to /chat/completions or /completions with this config, or use a config without prompt_id")
	}
	c.admitPrompted()
	if c.invalid != nil && !c.passthrough() {
		return nil, badRequest(c.invalid.Param, c.invalid.Code, c.invalid.Message)
	}
	if err := c.readOptions(r.Header); err != nil {
		return nil, err
	}
	if c.Config != nil {
		if c.Endpoint.Single && !c.Config.Root.Leaf() {
			return nil, badRequest("x-gw-config", "invalid_config", "Invalid config provided. Maximum one target is allowed for batch/file/fine_tuning requests")
		}
		c.Catalogue = c.Endpoint.Name == Models && c.Config.FetchIntegratedModels
		return nil, nil
	}
	if c.Endpoint.Name == Models && c.catalogue(r.Header, selection) {
		c.Catalogue = true
		return nil, nil
	}
	route, refusal := c.Gateway.Router.Route(c.Caller, selection)
	if refusal != nil {
		if id := c.responseID(); id != "" && selection.Slug() == "" && refusal.Reason == credentials.NoProvider {
			return nil, unknownResponse(id)
		}
		if c.Endpoint == &passThrough && refusal.Reason == credentials.NoProvider {
			if meant := didYouMean("/v1"+c.Path, c.Gateway.ControlPlane...); meant != "" {
				refusal.Message += meant
				return nil, CredentialError(refusal)
			}
		}
		if _, unseen := c.ModelUnread(); unseen && refusal.Reason == credentials.NoProvider {
			return nil, c.RefuseUnread("nothing else says where the call goes")
		}
		return nil, CredentialError(refusal)
	}
	if err := c.complete(route); err != nil {
		return nil, err
	}
	if route.Model != "" {
		c.Model = route.Model
	}
	return route, c.missingModel()
}

// aliased is the saved config that the call's model is an alias of, "" where it is of none, or
// where the call names a provider.
func (c *Call) aliased(s *credentials.Selection) string {
	if c.Gateway.Router.Alias == nil || s.Model == "" || s.Slug() != "" {
		return ""
	}
	to := c.Gateway.Router.Alias(c.Caller.WorkspaceID, s.Model)
	if strings.HasPrefix(to, "@") {
		return ""
	}
	return to
}

// catalogue reports whether a call for models is for the unified list: it names no provider, or
// it asks for that list.
func (c *Call) catalogue(h http.Header, s credentials.Selection) bool {
	for _, name := range []Header{HeaderFetchIntegrated, HeaderModelsEndpoint} {
		if v, _ := c.Gateway.Headers.Get(h, name); v != "" && v != "false" {
			return true
		}
	}
	return s.Provider == "" && s.VirtualKey == "" && s.Model == ""
}

// NamesNone reports whether a call for the unified list of models names no provider.
func (c *Call) NamesNone() bool { return len(c.listed()) == 0 }

// Listed returns the saved providers whose models a call for the unified list asks for: all of
// them, unless it names some.
func (c *Call) Listed(saved []string) []string {
	named := c.listed()
	if len(named) == 0 {
		return saved
	}
	return slices.DeleteFunc(saved, func(slug string) bool { return !named[slug] })
}

// listed are the slugs that a call for the unified list of models names.
func (c *Call) listed() map[string]bool {
	named := make(map[string]bool)
	if slug := c.selection.Slug(); slug != "" {
		named[slug] = true
	}
	if c.Config != nil {
		for _, t := range c.Config.Leaves() {
			if s := t.Selection(); s.Slug() != "" {
				named[s.Slug()] = true
			}
		}
	}
	return named
}

// target returns the route of a target of the call's config, which selects s.
func (c *Call) target(t *routing.Target, s credentials.Selection) (*credentials.Route, *Error) {
	if s.VirtualKey == "" && s.Provider == "" && !strings.HasPrefix(s.Model, "@") {
		own := c.selection
		if secret := c.Stored(t); secret != "" && secret != "api_key" {
			field := "x-gw-provider"
			if own.CustomHost != "" {
				field = "x-gw-custom-host"
			}
			return nil, CredentialError(&credentials.Error{
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
		s.Model = c.Model // so that @slug/ is removed if it is the same slug
	}
	route, refusal := c.Gateway.Router.Route(c.Caller, s)
	if refusal != nil {
		return nil, CredentialError(refusal)
	}
	route.Stored = route.Stored || c.Stored(t) != ""
	return route, c.complete(route)
}

// complete checks that the call may use the credential of a route, and fetches what of it is
// managed elsewhere.
func (c *Call) complete(route *credentials.Route) *Error {
	if err := c.admitStored(route); err != nil {
		return err
	}
	if refusal := c.Gateway.Router.Fetch(c.request.Context(), c.Caller.WorkspaceID, route); refusal != nil {
		return CredentialError(refusal)
	}
	return nil
}

// Stored returns the name of a credential that a target of a saved config holds; "" if it holds
// none, or if the config is the call's own.
func (c *Call) Stored(t *routing.Target) string {
	if c.Config == nil || c.InlineConfig {
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

// read reads the headers with credentials. The service key is x-gw-api-key, or else the bearer
// token or x-api-key; a bearer that repeats it is not a provider credential. The service key is
// never forwarded.
func (g *Gateway) read(h http.Header) (token string, s credentials.Selection, refusal *credentials.Error) {
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
			return "", s, &credentials.Error{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice with different values"}
		}
	}
	if g.Router.HostSetting != nil && s.CustomHost == "" {
		if setting := g.Router.HostSetting(s.Provider); setting != "" {
			s.CustomHost, _ = g.Headers.Named(h, textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(setting, "_", "-")))
		}
	}
	for _, name := range [...]string{"Authorization", apiKey} {
		if len(h[name]) > 1 {
			field := strings.ToLower(name)
			return "", s, &credentials.Error{Reason: credentials.AmbiguousHeader, Field: field, Message: field + " is given twice"}
		}
	}
	token, bearer := serviceKey(h, token, g.Authenticator)
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

// apiKey is the header by which Anthropic's clients send a key.
const apiKey = "X-Api-Key"

// serviceKey is the service key of a request whose x-gw-api-key is token, and the bearer that
// is left for a provider. Where there is no x-gw-api-key it is the bearer, or else x-api-key:
// also beside a bearer that is not a service key.
func serviceKey(h http.Header, token string, a keyRecognizer) (key, bearer string) {
	bearer = Bearer(h)
	if token != "" {
		return token, bearer
	}
	switch other := h.Get(apiKey); {
	case other == "":
	case bearer == "", !a.Knows(bearer) && a.Knows(other):
		return other, bearer
	}
	return bearer, ""
}

// ServiceKey returns the service key of a request to the control plane, or "".
func (h *Headers) ServiceKey(header http.Header, a keyRecognizer) string {
	token, ok := h.Get(header, HeaderAPIKey)
	if !ok || len(header[apiKey]) > 1 {
		return ""
	}
	token, _ = serviceKey(header, token, a)
	return token
}

// takeBody reads the body, or makes ready to pass it through, depending on the endpoint. Content
// codings are decoded on the way.
func (c *Call) takeBody(limits Limits) *Error {
	c.patience = limits.Patience
	contentType, length := c.request.Header.Get("Content-Type"), c.request.ContentLength
	if length != 0 && c.request.Body != nil {
		c.codings = coding.Of(c.request.Header)
	}
	if unknown := coding.Unknown(c.codings); unknown != "" {
		return unsupportedCoding(unknown)
	}
	isJSON := jsonContent(contentType, c.Endpoint.Body == JSON)
	switch {
	case c.Endpoint.Body == JSON && isJSON:
		return c.readBody(limits.Body)
	case c.Endpoint.Body == JSON:
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected application/json, in UTF-8")
	case c.Endpoint.Body != Stream && isJSON && length != 0:
		return c.readBody(limits.Body)
	}
	media, params, err := mime.ParseMediaType(contentType)
	badForm := err != nil && strings.Contains(strings.ToLower(contentType), formData) // a provider might read it nevertheless
	if err != nil {
		media = ""
	}
	if c.Endpoint.Body == Stream && media != formData && !strings.HasPrefix(media, "audio/") || media == formData && params["boundary"] == "" || badForm {
		return badRequest("content-type", "invalid_content_type", "Invalid content type passed: expected multipart/form-data with a boundary")
	}
	if c.request.Body == nil || length == 0 {
		return nil
	}
	if length > limits.Upload {
		return tooLarge(limits.Upload)
	}
	var src io.Reader = &limited{c.incoming(limits.Upload), limits.Upload}
	if media == formData && c.Gateway.Several != nil && c.Gateway.Several() {
		c.formNames = newFormNames(src, params["boundary"])
		if c.Endpoint.Objects.ScansLines {
			c.formNames.lines = &fileLines{lease: &c.lease}
		}
		src = c.formNames
	}
	c.spool = NewSpool(src, limits.Replay, &c.lease)
	switch {
	case c.Endpoint.NoModel && media == formData:
		c.upload = true
	case media == formData && utf8Charset(params["charset"]):
		return c.readForm(params["boundary"])
	case c.Query != "" && binaryMedia(media):
		return c.peek(func(head []byte) bool {
			var begun bool
			c.binary, begun = binary(head)
			return begun
		})
	}
	return nil
}

// arriving returns the request's body, which has to come in time.
func (c *Call) arriving() *arrival {
	c.arrival.src, c.arrival.to, c.arrival.patience = c.request.Body, c.writer, c.patience
	return &c.arrival
}

// incoming returns the request's body, decoded. As it was sent, it has at most limit bytes.
func (c *Call) incoming(limit int64) io.Reader {
	if c.codings == nil {
		return c.arriving()
	}
	c.decoder = coding.NewReader(&limited{c.arriving(), limit}, c.codings, c)
	return c.decoder
}

// bodyLength is the length of the body that [Call.incoming] returns; -1 if it is unknown.
func (c *Call) bodyLength() int64 {
	if c.codings != nil {
		return -1
	}
	return c.request.ContentLength
}

const formData = "multipart/form-data"

func (c *Call) readBody(limit int64) *Error {
	if budget := c.Gateway.InFlight; budget != nil {
		// There will never be more memory than that, so that it is of no use to wait.
		limit = min(limit, inflight.Most(budget.Limit()))
	}
	if c.request.ContentLength > limit {
		return tooLarge(limit)
	}
	buffer, err := readBody(c.incoming(limit), c.bodyLength(), limit, &c.lease)
	if c.decoder != nil {
		c.decoder.Release()
	}
	refusal := c.undecoded(err)
	switch {
	case refusal != nil:
		return refusal
	case errors.Is(err, errBodySlow):
		return bodyTooSlow(c.patience)
	case errors.Is(err, errBodyTooLarge):
		return tooLarge(limit)
	case inflight.Refused(err):
		return Overloaded(err)
	case err != nil:
		e := badRequest("", "body_unreadable", "The request body could not be read to its end")
		e.Err = err
		return e
	}
	c.buffer = buffer
	return c.checkBody()
}

// checkBody holds the body against the table of its endpoint.
func (c *Call) checkBody() *Error {
	buffer := c.buffer
	table := c.Endpoint.Table
	if table == nil {
		table = validation.Unlisted
	}
	var err error
	c.report, err = validation.Check(table, buffer.b)
	if errors.As(err, &c.invalid) && table != validation.Unlisted {
		c.report, err = validation.Check(validation.Unlisted, buffer.b)
	}
	if err == nil {
		c.Stream = c.report.Stream
		return c.readModel()
	}
	var syntax *jsonscan.SyntaxError
	switch {
	case c.invalid != nil:
		return badRequest(c.invalid.Param, c.invalid.Code, c.invalid.Message)
	case errors.As(err, &syntax) && c.Endpoint.Body != JSON:
		c.opaque = len(buffer.b) > 0
		return nil // the provider judges it
	}
	return badRequest("", "invalid_json", "Invalid request body: "+err.Error())
}

const maxModel = 512 // bytes, including the quotes

func (c *Call) readModel() *Error {
	span := c.report.Span("model")
	value := c.buffer.b[span.Start:span.End]
	if len(value) > maxModel {
		return badRequest("model", validation.StringAboveMax, "Invalid value for 'model': longer than "+strconv.Itoa(maxModel)+" bytes.")
	}
	if len(value) > 0 && value[0] == '"' {
		c.model = span
		c.Model = jsonscan.Unquote(value)
	}
	return nil
}
