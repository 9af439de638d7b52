package inference

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/routing"
)

// cacheCall is what has to be the same for two calls to share an answer, with what other hooks say
// that it varies by.
func (f *Forwarder) cacheCall(rt *roundTrip, t *routing.Target, vary []string) (*cache.Call, error) {
	x := rt.x
	strict, _ := strict(x.Call, t) // checked in shape
	body, _, err := rt.target.Payload().JSON(false)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	call := &cache.Call{
		Organisation: x.Caller.OrganisationID, Endpoint: x.Endpoint.Name, URL: rt.plainURL(), Strict: strict,
		Namespace: x.Options.Caching.Namespace, Metadata: x.Metadata.Header(), Body: bytes.Clone(body.Bytes()),
	}
	if !f.SharedCache {
		call.Workspace = x.Caller.WorkspaceID
	}
	if rt.target.Route.Inline {
		call.Credential = rt.credential(t)
	}
	for _, name := range slices.Concat([]string{"Openai-Beta", "Anthropic-Beta", "Anthropic-Version"}, t.ForwardHeaders, x.Options.ForwardHeaders,
		slices.Sorted(maps.Keys(rt.target.Route.Header)), slices.Sorted(maps.Keys(rt.target.HookHeader()))) {
		call.Headers = append(call.Headers, name+": "+strings.Join(rt.header.Values(name), "\n"))
	}
	call.Headers = append(call.Headers, vary...)
	return call, nil
}

// credential returns what the caller authenticates to the provider with. Callers with different
// credentials do not share answers.
func (rt *roundTrip) credential(t *routing.Target) []string {
	parts := []string{rt.target.Route.Key.Reveal()}
	for _, name := range routing.VendorNames {
		if v := setting(rt.call, rt.target.Route, t, name); v != "" {
			parts = append(parts, name, v)
		}
	}
	return parts
}

// plainURL is the URL of the request if it were not for a stream: some providers have another
// path for streams.
func (rt *roundTrip) plainURL() string {
	if rt.answer == nil {
		return rt.url.String()
	}
	u := *rt.url
	u.Path, u.RawPath = asWhole.Replace(u.Path), asWhole.Replace(u.RawPath)
	query := u.Query()
	if query.Get("alt") == "sse" {
		query.Del("alt")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// asWhole replaces the paths of streams by those of the same answers in one piece: Gemini's,
// those of Claude on Vertex AI, and Bedrock's.
var asWhole = strings.NewReplacer(
	":streamGenerateContent", ":generateContent", ":streamRawPredict", ":rawPredict",
	"/converse-stream", "/converse", "/invoke-with-response-stream", "/invoke",
)
