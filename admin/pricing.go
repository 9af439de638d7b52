package admin

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

// ModelPricing says what a model costs.
type ModelPricing struct {
	PayAsYouGo PayAsYouGo       `json:"pay_as_you_go"`
	Finetune   *FinetunePricing `json:"finetune_config,omitempty" doc:"Of fine-tuning jobs, if there is a price."`
	Calculate  pricingCalculate `json:"calculate"`
	Currency   string           `json:"currency" enum:"USD"`
}

// FinetunePricing is what training a model costs.
type FinetunePricing struct {
	PayPerToken TokenPrice `json:"pay_per_token" doc:"Of each token that is trained on, in each epoch."`
}

// PayAsYouGo has the prices of a model by unit: a [TokenPrice] for each, and those of
// additional_units.
type PayAsYouGo map[string]any

// TokenPrice is the price of one token, or of another unit.
type TokenPrice struct {
	Price float64       `json:"price" doc:"US cents."`
	Tiers []pricingTier `json:"tiers,omitempty" doc:"Of calls with a long prompt."`
}

type pricingTier struct {
	Above int64   `json:"above" doc:"Tokens of the prompt."`
	Price float64 `json:"price" doc:"US cents."`
}

// Schema describes the prices, whose names are those of package prices.
func (PayAsYouGo) Schema(r huma.Registry) *huma.Schema {
	price := r.Schema(reflect.TypeFor[TokenPrice](), true, "TokenPrice")
	object := func(names []string) *huma.Schema {
		s := &huma.Schema{Type: huma.TypeObject, Properties: make(map[string]*huma.Schema, len(names)), AdditionalProperties: false}
		for _, name := range names {
			s.Properties[name] = price
		}
		return s
	}
	s := object(prices.ConfigNames(prices.PayAsYouGo))
	s.Properties[string(prices.AdditionalUnits)] = object(prices.ConfigNames(prices.AdditionalUnits))
	s.PrecomputeMessages()
	return s
}

// pricingCalculate says how a call's cost is made of the prices: an expression each for the
// request and the answer.
type pricingCalculate struct {
	Request  *pricingSum `json:"request,omitempty"`
	Response *pricingSum `json:"response,omitempty"`
}

type pricingSum struct {
	Operation string           `json:"operation" enum:"sum"`
	Operands  []pricingProduct `json:"operands"`
}

type pricingProduct struct {
	Operation string         `json:"operation" enum:"multiply"`
	Operands  []pricingValue `json:"operands"`
}

type pricingValue struct {
	Value string `json:"value" doc:"A count, such as input_tokens, or a price, such as rates.request_token. What has a price of its own is not part of another count."`
}

func showPricing(p *prices.Price) ModelPricing {
	out := ModelPricing{PayAsYouGo: make(PayAsYouGo), Currency: "USD"}
	additional := make(map[string]TokenPrice)
	for _, r := range p.Rates() {
		price := TokenPrice{Price: r.Cents}
		for _, t := range r.Tiers {
			price.Tiers = append(price.Tiers, pricingTier{t.Above, t.Cents})
		}
		rate := "rates." + r.Name
		switch r.In {
		case prices.PayAsYouGo:
			out.PayAsYouGo[r.Name] = price
		case prices.AdditionalUnits:
			additional[r.Name], rate = price, "rates.additional_units."+r.Name
		case prices.FinetuneConfig: // not a part of what a call costs
			out.Finetune = &FinetunePricing{price}
			continue
		}
		sum := &out.Calculate.Request
		if r.Answer {
			sum = &out.Calculate.Response
		}
		if *sum == nil {
			*sum = &pricingSum{Operation: "sum"}
		}
		(*sum).Operands = append((*sum).Operands, pricingProduct{"multiply", []pricingValue{{r.Counted}, {rate}}})
	}
	if len(additional) > 0 {
		out.PayAsYouGo[string(prices.AdditionalUnits)] = additional
	}
	return out
}

// A bareError is an error in the shape of a few routes: {"error": "…"}.
type bareError struct {
	Message string `json:"error"`
	status  int
}

func (e *bareError) Error() string { return e.Message }

// GetStatus returns the HTTP status.
func (e *bareError) GetStatus() int { return e.status }

type pricingInput struct {
	Provider    string `path:"provider" maxLength:"255" doc:"The name of a built-in provider, or the slug of a saved one, with or without @."`
	Model       string `path:"model" maxLength:"510" doc:"As the provider calls it."`
	WorkspaceID string `query:"workspace_id" maxLength:"255" doc:"Id or slug of the workspace that the slug is of; default: the caller's, or the default one. Without an API key there is none, and only built-in providers have prices."`
}

func (a *API) pricing() {
	const path = "/model-configs/pricing/{provider}/"
	notFound := huma.Response{Description: "No price is known", Content: map[string]*huma.MediaType{
		"application/json": {Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[bareError](), true, "BareError")},
	}}
	register(a, route{
		method: http.MethodGet, path: path + "{model}", alias: "/v1" + path + "{model...}", // an id may have slashes
		kind: audit.Prices, scopes: []string{"providers.read", "models.list", credentials.ScopeCompletions},
		public:  true,
		summary: "Get what a model costs", responses: map[string]*huma.Response{"404": &notFound},
	}, func(c *call, in *pricingInput) (*output[ModelPricing], error) {
		p, err := c.priceOf(in)
		if err != nil {
			return nil, err
		}
		if p == nil {
			return nil, &bareError{"No price is known of model " + credentials.Clip(in.Model) + " of provider " + credentials.Clip(in.Provider), http.StatusNotFound}
		}
		return &output[ModelPricing]{showPricing(p)}, nil
	})
}

// priceOf returns the price that a request is about, or nil if none is known. Strangers are told nothing of workspaces and of what those
// have saved.
func (c *call) priceOf(in *pricingInput) (*prices.Price, error) {
	workspace := ""
	switch _, builtIn := providers.Lookup(in.Provider); {
	case c.stranger == "":
		w, err := c.workspace(in.WorkspaceID)
		if err != nil {
			return nil, err
		}
		workspace = w.ID
	case in.WorkspaceID != "":
		return nil, invalid("workspace_id", "expected with an API key only, which says whose workspaces are meant")
	case !builtIn:
		return nil, nil //nolint:nilnil // no price is known
	}
	if c.api.Price == nil {
		return nil, nil //nolint:nilnil // likewise
	}
	return c.api.Price(workspace, in.Provider, in.Model), nil
}

// Interface guards
var (
	_ huma.StatusError    = (*bareError)(nil)
	_ huma.SchemaProvider = PayAsYouGo{}
)
