package inference

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
)

const (
	catalogueTime = 10 * time.Second // for all providers together
	modelsTime    = 3 * time.Second  // for each of them, from its turn on
	atOnce        = 8                // providers
)

// A model is a row of the unified list.
type model struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Created  int64  `json:"created"`
	OwnedBy  string `json:"owned_by"`
	Provider string `json:"provider"`

	// What the list of prices says about it.
	ContextWindow int64       `json:"context_window,omitempty"` // tokens
	Modalities    *modalities `json:"modalities,omitempty"`
	Features      []string    `json:"features,omitempty"`
	Deprecated    bool        `json:"deprecated,omitempty"`

	name string // to show; "": the id
}

type modalities struct {
	Input  []string `json:"input"`
	Output []string `json:"output"`
}

// describe adds what the list of prices says about a model.
func (m *model) describe(about *prices.Model) {
	m.ContextWindow, m.Features, m.Deprecated, m.name = about.ContextWindow, about.Features, about.Deprecated, cmp.Or(m.name, about.Name)
	if about.Input != nil || about.Output != nil {
		m.Modalities = &modalities{slices.Concat([]string{}, about.Input), slices.Concat([]string{}, about.Output)}
	}
}

// ServeModels answers with the models of every saved provider that the caller may
// use, and the call does not exclude, each under the name by which a call reaches it: @slug/model. A provider that
// does not list its models, or not in time, is left out.
func (f *Forwarder) ServeModels(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	if refusal := unlistable(r.URL.Query(), asksAnthropic(x.Call)); refusal != nil {
		x.Fail(w, refusal)
		return
	}
	if !counted(w, r, x) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), catalogueTime)
	defer cancel()
	slugs := x.Catalogue.Listed(x.Gateway.Router.Saved(x.Caller))
	lists := make([][]model, len(slugs))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, slug := range slugs {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			lists[i] = f.models(ctx, x, slug)
		})
	}
	wg.Wait()
	all := make([]model, 0, 64)
	if x.Catalogue.NamesNone() {
		all = append(all, aliases(x)...)
	}
	for _, list := range lists {
		all = append(all, list...)
	}
	var body []byte
	if asksAnthropic(x.Call) {
		body = anthropicPage(all, r.URL.Query())
	} else {
		var err error
		if body, err = json.Marshal(struct {
			Object     string  `json:"object"`
			TotalCount int     `json:"total_count"`
			Data       []model `json:"data"`
		}{"list", len(all), all}); err != nil {
			panic(err) // texts and numbers always encode
		}
	}
	x.Conclude(http.StatusOK, "")
	w.Header().Set("Content-Type", "application/json")
	x.Excerpts.Sent(body)
	_, _ = w.Write(body)
}

func (f *Forwarder) models(ctx context.Context, x *exchange.Exchange, slug string) []model {
	route, refusal := x.Gateway.Router.Route(x.Caller, credentials.Selection{Provider: "@" + slug})
	if refusal != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	if refusal := x.Gateway.Router.Fetch(ctx, x.Caller.WorkspaceID, route); refusal != nil {
		return nil
	}
	op := &upstream.Operation{
		Name: providers.ListModels, Endpoint: providers.ListModels, Method: http.MethodGet, Path: "/models", Workspace: x.Caller.WorkspaceID,
	}
	if route.CustomHost { // which may lead back here
		op.Header = x.Gateway.Through(x.Header())
	}
	list := integrated(route, f.listModels(ctx, x, route, op))
	hides := x.NewAttempt("", route, nil).Ownership().Hides
	list = slices.DeleteFunc(list, func(m model) bool { return hides(m.ID) })
	for i := range list {
		m := &list[i]
		if about, ok := x.Gateway.Prices.About(m.ID, route.Provider, route.Dialect); ok {
			m.describe(&about)
		}
		m.ID, m.Provider = "@"+slug+"/"+m.ID, slug
	}
	return list
}

// listModels returns the models that a provider lists. If it has no list, these are the models
// that are known; if it does not answer, there are none.
func (f *Forwarder) listModels(ctx context.Context, x *exchange.Exchange, route *credentials.Route, op *upstream.Operation) []model {
	answer, _, err := f.client.Do(ctx, route, op, nil)
	var unsupported *providers.RequestError
	if errors.As(err, &unsupported) {
		return known(x, route)
	}
	if err != nil {
		return nil
	}
	defer answer.Release()
	switch {
	case answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed:
		return known(x, route)
	case answer.Status != http.StatusOK || errors.Is(ctx.Err(), context.Canceled):
		return nil
	}
	return rowsOf(gjson.ParseBytes(answer.Body))
}

// known returns the models that the list of prices has of a provider. A host of somebody's own
// may serve others.
func known(x *exchange.Exchange, route *credentials.Route) []model {
	base, _, _ := providers.BaseURL(route.Dialect)
	if base == nil || route.BaseURL == nil || *base != *route.BaseURL {
		return nil
	}
	var all []model
	for _, about := range x.Gateway.Prices.Models(route.Dialect) {
		all = append(all, model{ID: about.ID, Object: "model", OwnedBy: route.Dialect})
	}
	return all
}

// integrated returns the models of a provider that its integration allows, and those that it
// has besides them.
func integrated(route *credentials.Route, list []model) []model {
	list = slices.DeleteFunc(list, func(m model) bool { return !route.Allows(m.ID) })
	for _, slug := range route.Listed() {
		if !slices.ContainsFunc(list, func(m model) bool { return m.ID == slug }) {
			list = append(list, model{ID: slug, Object: "model", OwnedBy: route.Provider})
		}
	}
	return list
}

// aliases are the model aliases that the caller may use.
func aliases(x *exchange.Exchange) (all []model) {
	if x.Gateway.Aliases == nil {
		return nil
	}
	for _, name := range x.Gateway.Aliases(x.Caller.WorkspaceID) {
		slug, _, _ := credentials.ParseModel(x.Gateway.Router.Alias(x.Caller.WorkspaceID, name)) // "" of a config
		all = append(all, model{ID: name, Object: "model", OwnedBy: "gateway", Provider: slug})
	}
	return all
}

// anthropicPaging are the parameters of a list of models in Anthropic's shape.
var anthropicPaging = []string{"after_id", "before_id", "limit"}

// ofClients are parameters that clients add to all of their requests.
var ofClients = []string{"api-version", "beta"}

// unlistable refuses parameters that the unified list does not have: one that is not filtered looks like one that is.
func unlistable(query url.Values, anthropic bool) *exchange.Error {
	known, has := ofClients, "This list has no parameters."
	if anthropic {
		known, has = slices.Concat(known, anthropicPaging), "Parameters of this list: "+strings.Join(anthropicPaging, ", ")+"."
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return &exchange.Error{
				Status: http.StatusBadRequest, Type: "invalid_request_error", Param: credentials.Clip(name), Code: "unknown_parameter",
				Message: "Unknown parameter: '" + credentials.Clip(name) + "'. " + has,
			}
		}
	}
	return nil
}

// asksAnthropic reports whether a client lists models as Anthropic's do.
func asksAnthropic(c *exchange.Call) bool { return c.Header().Get("Anthropic-Version") != "" }

// An anthropicModel is a row of a list of models in Anthropic's shape.
type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// anthropicPage is a list of models in Anthropic's shape, or the page of it that the query is
// for: all, where that has no limit.
func anthropicPage(all []model, query url.Values) []byte {
	rows := all
	at := func(id string) int { return slices.IndexFunc(rows, func(m model) bool { return m.ID == id }) }
	after, before := query.Get("after_id"), query.Get("before_id")
	if i := at(after); i >= 0 {
		rows = rows[i+1:]
	}
	if i := at(before); i >= 0 {
		rows = rows[:i]
	}
	more := false
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 && n < len(rows) {
		more = true
		if before != "" {
			rows = rows[len(rows)-n:]
		} else {
			rows = rows[:n]
		}
	}
	page := struct {
		Data    []anthropicModel `json:"data"`
		HasMore bool             `json:"has_more"`
		FirstID *string          `json:"first_id"`
		LastID  *string          `json:"last_id"`
	}{make([]anthropicModel, len(rows)), more, nil, nil}
	for i, m := range rows {
		page.Data[i] = anthropicModel{"model", m.ID, cmp.Or(m.name, m.ID), time.Unix(m.Created, 0).UTC().Format(time.RFC3339)}
	}
	if n := len(rows); n > 0 {
		page.FirstID, page.LastID = &rows[0].ID, &rows[n-1].ID
	}
	body, err := json.Marshal(page)
	if err != nil {
		panic(err) // texts always encode
	}
	return body
}

// inAnthropic has a provider's list of models answered in Anthropic's shape; answer, which may
// be nil, makes it one in OpenAI's.
func inAnthropic(answer *providers.Answer) *providers.Answer {
	out := new(providers.Answer)
	if answer != nil {
		*out = *answer
	}
	whole := out.Body
	out.Body = func(dst, body []byte, h http.Header) ([]byte, error) {
		if whole != nil {
			var err error
			if body, err = whole(nil, body, h); err != nil {
				return dst, err
			}
		}
		list := gjson.ParseBytes(body)
		if list.Get("has_more").Exists() && list.Get("data.0.type").Str == "model" || !list.Get("data").IsArray() {
			return append(dst, body...), nil // it is in that shape, or in none that is known
		}
		return append(dst, anthropicPage(rowsOf(list), nil)...), nil
	}
	return out
}

// ofProvider is a list of models, in OpenAI's shape, with the name of the provider that it came from.
func ofProvider(list []byte, provider string) []byte {
	if v := gjson.ParseBytes(list); !v.IsObject() || !v.Get("data").IsArray() {
		return list // it is in no shape that is known
	}
	named, err := sjson.SetBytes(list, "provider", provider)
	if err != nil {
		return list // likewise
	}
	return named
}

// listsModels reports whether the answer is a provider's list of models, in OpenAI's shape.
func (rt *roundTrip) listsModels() bool {
	return rt.x.Endpoint.Name == exchange.Models && rt.x.Catalogue == nil && !asksAnthropic(rt.x.Call)
}

// withoutModels is a provider's list of models without those that are hidden.
func withoutModels(list []byte, hides func(model string) bool) []byte {
	shown := func(all gjson.Result) []byte {
		var kept []byte
		hidden := false
		for _, m := range all.Array() {
			if hides(m.Get("id").Str) || hides(m.Get("name").Str) || hides(m.Str) {
				hidden = true
				continue
			}
			if kept != nil {
				kept = append(kept, ',')
			}
			kept = append(kept, m.Raw...)
		}
		if !hidden {
			return nil
		}
		return slices.Concat([]byte{'['}, kept, []byte{']'})
	}
	if whole := gjson.ParseBytes(list); whole.IsArray() {
		if kept := shown(whole); kept != nil {
			return kept
		}
		return slices.Clone(list)
	}
	list = slices.Clone(list)
	for _, member := range []string{"data", "models"} {
		if kept := shown(gjson.GetBytes(list, member)); kept != nil {
			out, err := sjson.SetRawBytes(list, member, kept)
			if err != nil {
				return kept
			}
			list = out
		}
	}
	return list
}

// rowsOf are the models of a list in OpenAI's shape.
func rowsOf(list gjson.Result) (all []model) {
	list.Get("data").ForEach(func(_, m gjson.Result) bool {
		if id := m.Get("id").Str; id != "" {
			all = append(all, model{ID: id, Object: "model", Created: m.Get("created").Int(), OwnedBy: m.Get("owned_by").Str, name: m.Get("display_name").Str})
		}
		return true
	})
	return all
}
