package exchange

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/prices"
)

// AnsweredBy notes the model that an answer names. It is the one that has a price where
// the caller's name for it has none, as deployments of Azure have not.
func (x *Exchange) AnsweredBy(model string) {
	const maxModel = 256
	if len(model) <= maxModel {
		x.answered = model
	}
}

// Hit reports whether the answer came from the cache.
func (x *Exchange) Hit() bool { return x.CacheStatus == CacheHit || x.CacheStatus == CacheSemanticHit }

// Cost is what the call cost at list prices; known: the provider said what was used, and
// there is a price for it. What no provider was asked for costs nothing.
func (x *Exchange) Cost() (cost prices.Amount, known bool) {
	u := &x.Usage
	told := u.Known || u.Pages > 0 || u.Milliseconds > 0
	switch {
	case x.closed:
		return x.cost, x.costKnown
	case x.Attempts == 0, x.Hit():
		return 0, true
	case x.Route == nil:
		return 0, false
	}
	for _, model := range [...]string{x.SentModel(), x.answered} {
		if p := x.Gateway.Prices.Of(model, x.Start, x.Route.Provider, x.Route.Dialect); p != nil {
			if !told && (x.Status != http.StatusOK || !p.OnlyCalls()) {
				return 0, false
			}
			return p.Cost(&u.Usage)
		}
	}
	return 0, false
}
