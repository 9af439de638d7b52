package exchange

import (
	"github.com/caddy-gw/gateway/prices"
)

// AnsweredBy notes the model that an answer names. It is the one that has a price where
// the caller's name for it has none, as deployments of Azure have not.
func (x *Exchange) AnsweredBy(model string) {
	const maxModel = 256
	if len(model) <= maxModel {
		x.answered = model
	}
}

// Cost is what the call cost at list prices; known: the provider said what was used, and
// there is a price for it. What no provider was asked for costs nothing.
func (x *Exchange) Cost() (cost prices.Amount, known bool) {
	u := &x.Usage
	switch {
	case x.closed:
		return x.cost, x.costKnown
	case x.Attempts == 0:
		return 0, true
	case x.Route == nil, !u.Known && u.Pages == 0 && u.Milliseconds == 0:
		return 0, false
	}
	for _, model := range [...]string{x.SentModel(), x.answered} {
		if p := x.Gateway.Prices.Of(model, x.Start, x.Route.Provider, x.Route.Dialect); p != nil {
			return p.Cost(&u.Usage)
		}
	}
	return 0, false
}
