package exchange

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers"
)

// mostTokens are the members by which a call bounds its answer, by its endpoint; where several
// are given, the largest counts. Endpoints with none of them are answered without tokens.
var mostTokens = map[string][]string{
	"chatComplete": {"max_completion_tokens", "max_tokens"},
	"complete":     {"max_tokens"}, providers.Messages: {"max_tokens"}, CreateResponse: {"max_output_tokens"},
	"embed": nil, "rerank": nil, "moderate": nil, "messagesCountTokens": nil, "countResponseInputTokens": nil,
}

// Demand is that of a call without a target, of which nothing is known.
func (c *Call) Demand() estimate.Demand { return estimate.Demand{Most: -1} }

// Demand returns what the call may use at the target, as far as its body tells.
func (a *Attempt) Demand() estimate.Demand {
	c := a.call
	d := estimate.Demand{
		Model: estimate.Model{Provider: saved(a.Route), Name: a.Model, Endpoint: c.Endpoint.Name},
		Most:  -1, Price: a.price(a.Model),
	}
	if !c.Endpoint.UsesModel() {
		d.Free = true
		return d
	}
	if members, known := mostTokens[c.Endpoint.Name]; known {
		if len(members) == 0 {
			d.Most = 0
		}
		for _, name := range members {
			d.Most = max(d.Most, number(a.Edit.Result(name, c.member(name))))
		}
		d.Choices = max(number(a.Edit.Result("n", c.member("n"))), number(a.Edit.Result("best_of", c.member("best_of"))))
	}
	d.Bytes, d.Media, d.Audio = prompt(c.JSON())
	if a.Edit != nil { // what a config adds to the body
		for _, p := range a.Edit.Default {
			d.Bytes += int64(len(p.Value))
		}
		for _, p := range a.Edit.Override {
			d.Bytes += int64(len(p.Value))
		}
	}
	return d
}

// UsesModel reports whether calls use a model, and so tokens: lists and reads do not.
func (e *Endpoint) UsesModel() bool {
	switch e.Name {
	case "realtime":
		return true
	case CreateBatch, "cancelBatch", "createFinetune", "cancelFinetune", "cancelModelResponse":
		return false
	}
	return !e.NoModel && e.Method != http.MethodGet && e.Method != http.MethodDelete
}

// number is a JSON number that is not negative; -1: it is none.
func number(value json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Tokens of an image, whatever its size, and bytes of a file in base64 that make a token.
const (
	tokensOfImage = 2048
	bytesOfMedia  = 16
)

// prompt returns the bytes of text in a body, and the tokens that its images and files may be;
// audio: it may have some.
func prompt(body []byte) (text, media int64, audio bool) {
	text = int64(len(body))
	media = tokensOfImage * int64(bytes.Count(body, []byte(`"image`)))
	audio = bytes.Contains(body, []byte(`audio"`))
	const mark = ";base64,"
	for rest := body; ; {
		at := bytes.Index(rest, []byte(mark))
		if at < 0 {
			return text, media, audio
		}
		rest = rest[at+len(mark):]
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			end = len(rest)
		}
		text -= int64(end)
		media += int64(end) / bytesOfMedia
		rest = rest[end:]
	}
}

// price returns what a model costs at the target; nil: it is not known.
func (a *Attempt) price(model string) *prices.Price {
	if p := a.Route.PriceOf(model); p != nil {
		return p
	}
	return a.call.Gateway.Prices.Of(model, a.call.Start, a.Route.Provider, a.Route.Dialect)
}

// Spent returns what an attempt used that asked for d: what its provider said, of which e learns,
// or else what is likely. An attempt of which no answer came, or an error, used nothing that is
// known.
func (a *Attempt) Spent(d *estimate.Demand, e *estimate.Estimator) (tokens int64, cost prices.Amount) {
	if d.Free {
		return 0, 0
	}
	u, answered := &a.Usage, a.Failure == "" || a.Seen > 0 || !a.FirstByte.IsZero() && !a.Errored
	answered = answered && a.ProviderStatus >= 200 && a.ProviderStatus < 300
	switch {
	case u.Known:
		e.Learn(d, u.Prompt, u.Completion)
	case answered && u.Pages == 0 && u.Milliseconds == 0:
		likely := *a
		u = &likely.Usage
		u.Known = true
		u.Prompt, u.Completion = e.Likely(d, a.Seen)
		cost, _ = likely.cost(a.ProviderStatus)
		return u.Prompt + u.Completion, cost
	}
	cost, _ = a.cost(a.ProviderStatus)
	return u.Prompt + u.Completion, cost
}
