package exchange

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// Demand is that of a call without a target, of which nothing is known.
func (c *Call) Demand(*estimate.Estimator) estimate.Demand {
	m := c.metering()
	return estimate.Demand{Most: -1, Free: m.how == free, Unmetered: unmeteredBecause(&m), Unpriced: m.charge}
}

func unmeteredBecause(m *metering) string {
	if m.how == unmetered {
		return m.why
	}
	return ""
}

// Demand returns what the call may use at the target, as far as its body says.
func (a *Attempt) Demand(learned *estimate.Estimator) estimate.Demand {
	m := a.call.metering()
	d := a.demandOf(&m, a.call.Endpoint.Name, a.Model)
	switch {
	case d.Free || d.Unmetered != "":
		return d
	case m.lines:
		a.addLines(&d, learned)
		return d
	}
	body, reason := a.Payload().untranslated()
	switch {
	case reason != "":
		d.Unmetered = reason
	case body == nil:
		addUpload(&d, &m, a.call.Body.size())
	default:
		a.addJSON(&d, &m, body)
	}
	return d
}

// demandOf is the demand of a call of an endpoint to a model at the target, whose body is not looked at yet.
func (a *Attempt) demandOf(m *metering, endpoint, model string) estimate.Demand {
	d := estimate.Demand{
		Model: estimate.Model{Workspace: a.call.Caller.WorkspaceID, Provider: saved(a.Route), Name: model, Endpoint: endpoint},
		Most:  m.answer, Free: m.how == free, Unmetered: unmeteredBecause(m), Unreported: m.how == unreported,
		Media: m.images || m.audio || m.how == unreported || endpoint == realtime, Price: a.price(model), Unpriced: m.charge,
	}
	if base := a.Route.BaseURL; base != nil && !a.Route.Stored {
		d.Model.Host = base.Host
	}
	return d
}

// addJSON adds what a JSON body asks for.
func (a *Attempt) addJSON(d *estimate.Demand, m *metering, body []byte) {
	q, in := parametersOf(body, m), contentOf(body)
	d.Bytes, d.Tokens, d.Images, d.HasUnseen = in.text, in.tokens+q.tokens, in.images, in.unseen
	q.charges.model(d.Model.Name)
	q.charges.addTo(d)
	d.Searches = d.Searches && a.Route.Dialect != "anthropic" // which says it
	if in.webSearch {                                         // somewhere in the body
		d.WebSearches = maxSearches
	}
	if in.fileSearch {
		d.FileSearches = maxSearches
	}
	d.Media = d.Media || in.media
	d.Unmetered = q.fault
	if q.background && m.background {
		d.Unmetered = inBackground
	}
	if len(m.bounds) > 0 {
		d.Most = q.most
	}
	if d.Most != 0 { // otherwise there is no answer
		d.Named, d.Choices = q.named, estimate.Times(q.choices, q.prompts)
	}
	switch {
	case m.how == unreported: // speech
		d.Most = estimate.Times(speechOf(body, d.Bytes), max(q.slower, 1))
		d.Named, d.Choices = 0, 1
	case m.pages:
		if d.Pages = q.pages; d.Pages <= 0 {
			d.Pages = maxPages
		}
	}
}

const (
	maxPages           = 1000 // of a document for OCR
	maxSearches        = 20   // of a call, of each kind, that are reserved
	minAudioByteRate   = 750  // of a second of audio
	usualAudioByteRate = 4000
	audioBytesPerToken = 16 // of audio, that make a token at least
	milliPerSecond     = 1000
)

// speechOf returns how many tokens of audio the speech of a body has at most, of whose bytes so many are text.
func speechOf(body []byte, text int64) (tokens int64) {
	tokens = estimate.Times(text, tokensOfSpeech)
	for _, c := range body {
		if c >= '0' && c <= '9' {
			tokens += tokensOfDigit - tokensOfSpeech
		}
	}
	return tokens
}

// addUpload sets what a body that passes through may use, which has size bytes once it is decoded.
func addUpload(d *estimate.Demand, m *metering, size int64) {
	switch {
	case m.audio:
		d.Tokens = size / audioBytesPerToken
		d.Milliseconds, d.UsualMilliseconds = size*milliPerSecond/minAudioByteRate, size*milliPerSecond/usualAudioByteRate
	case m.images:
		d.HasUnseen, d.Choices = true, maxMadeImages
	default:
		d.HasUnseen = size > 0
	}
}

// price returns what a model costs at the target; nil: it is not known.
func (a *Attempt) price(model string) *prices.Price {
	return a.Route.PriceOf(model, func(model string) *prices.Price {
		return a.call.Gateway.Prices.Of(model, a.call.Start, a.Route.Provider, a.Route.Dialect)
	})
}

// A meter is what is needed to book what the attempts at a target used: what they ask for, the most
// that each may use, which was reserved, and what says how much is likely.
type meter struct {
	demand    *estimate.Demand
	most      prices.Usage
	estimates *estimate.Estimator
}

// booked is what an attempt is booked with.
type booked struct {
	tokens int64
	cost   prices.Amount
	priced bool // its price is known, and it used something

	usage     prices.Usage // what the tokens are
	estimated bool         // and not what the provider reported
}

// Metered says that limits of tokens or costs count the attempts at the target, which may use as much
// as most each. It is called before they are made.
func (a *Attempt) Metered(d *estimate.Demand, most prices.Usage, e *estimate.Estimator) {
	a.meter = &meter{d, most, e}
}

// Book decides what the attempts of a call that has ended used, so that its record and what counts it
// say the same.
func (x *Exchange) Book() {
	for _, a := range x.Attempts {
		a.book()
	}
}

// Spent returns what an attempt used that is metered: what its provider reported, from which estimates
// learn, or else what is likely. An attempt without an answer, or with an error, used nothing that is
// known, unless it was given up while the provider worked on it. A session used what its responses say, and
// what those that are not done likely did.
func (a *Attempt) Spent() (tokens int64, cost prices.Amount) {
	b := a.book()
	return b.tokens, b.cost
}

// book is what the attempt used, which is decided once.
func (a *Attempt) book() booked {
	if a.booked == nil {
		a.doubtUsage()
		var b booked
		switch {
		case a.batch != nil:
			b = a.bookBatch()
		case a.meter != nil && !a.meter.demand.Free:
			b = a.used(a.measured(a.meter))
		case a.meter == nil && a.estimated != (prices.Usage{}):
			b.usage, b.estimated = a.Usage.Usage, true
			b.usage.Add(&a.estimated)
		case a.meter == nil && a.hasOutput() && !a.usageComplete(): // its record says it, though nothing counts it
			if a.call.UsesModel() { // the body is gone by now
				d := &estimate.Demand{Bytes: min(a.call.Body.passed(), maxUnmetered), Most: -1}
				b.estimate(a, &meter{d, unlearned.Most(d), unlearned})
			}
		}
		a.booked = &b
	}
	return *a.booked
}

// doubtUsage forgets the usage of servers that do not count, and say so with zeros.
func (a *Attempt) doubtUsage() {
	if a.Usage.Nothing() && a.TextBytes > 0 {
		a.Usage.Known = false
	}
}

// measured returns the meter of an attempt. Where the size of its upload was not known before, the demand is that of
// what was passed on.
func (a *Attempt) measured(m *meter) *meter {
	metering := a.call.metering()
	if !metering.audio || a.call.Body.spool == nil || a.call.Body.length() >= 0 {
		return m
	}
	d := *m.demand
	addUpload(&d, &metering, a.call.Body.passed())
	return &meter{&d, m.estimates.Most(&d), m.estimates}
}

// maxUnmetered bounds the bytes of a body that count as text where nothing meters the call: of larger ones,
// most are images and files.
const maxUnmetered = 64 << 10

// unlearned estimates what is not metered.
var unlearned = estimate.New()

// usageComplete reports whether the provider reported the usage of all of the answer.
func (a *Attempt) usageComplete() bool { return a.Usage.Known && a.Failure == "" && !a.Usage.Partial }

// writtenBytes is how long the text is that the completion's tokens are; 0: there is more in these, which did not come as text.
func (a *Attempt) writtenBytes() int64 {
	if a.Usage.Reasoning > 0 || a.Usage.AudioOut > 0 || a.Usage.ImageOut > 0 {
		return 0
	}
	return a.TextBytes
}

// hasOutput reports whether any of the answer's content came.
func (a *Attempt) hasOutput() bool { return a.TextBytes > 0 || a.BodyBytes > 0 }

// estimate is what an attempt is likely to have used whose answer broke off, or has no usage.
func (b *booked) estimate(a *Attempt, m *meter) {
	b.usage, b.estimated = m.estimates.Likely(m.demand, &m.most, a.TextBytes), true
	if a.TextBytes == 0 { // no text was found in it
		b.usage.Completion = min((a.BodyBytes+3)/4, m.most.Completion)
	} else if n, known := a.written(); known {
		if b.usage.Completion = n; m.demand.Most >= 0 {
			b.usage.Completion = min(n, m.most.Completion)
		}
	}
	if a.Usage.Known { // until the answer broke off
		completion := max(a.Usage.Completion, b.usage.Completion)
		b.usage = a.Usage.Usage
		b.usage.Completion = completion
	}
}

// Used returns what the attempt used for its record, once that is decided; known: the provider reported it;
// estimated: it did not, or not all, but text of its answer came.
func (a *Attempt) Used() (u prices.Usage, known, estimated bool) {
	if b := a.booked; b != nil && b.estimated {
		return b.usage, a.Usage.Known, true
	}
	return a.Usage.Usage, a.Usage.Known, false
}

func (a *Attempt) used(m *meter) (b booked) {
	d, e := m.demand, m.estimates
	u := a.Usage.Usage
	answered := a.Failure == "" || a.hasOutput() || !a.FirstByte.IsZero() && !a.Errored
	answered = answered && a.ProviderStatus >= 200 && a.ProviderStatus < 300
	switch {
	case a.ProviderStatus == http.StatusSwitchingProtocols:
		if u.Add(&a.estimated); a.estimated != (prices.Usage{}) {
			b.usage, b.estimated = u, true
		} else if a.Usage.Known {
			e.Learn(d, u.Prompt, u.Completion, 0)
		}
	case a.usageComplete():
		e.Learn(d, u.Prompt, u.Completion, a.writtenBytes())
	case a.Usage.Known: // until the answer broke off
		b.estimate(a, m)
		u = b.usage
	case u.Pages > 0, u.Milliseconds > 0 && a.Failure == "" && (d.Price == nil || d.Price.Hears()):
	case answered && d.Unreported:
		u = m.most
	case answered:
		heard := u.Milliseconds
		if b.estimate(a, m); heard > 0 {
			b.usage.Milliseconds = heard
		}
		u = b.usage
	case a.Abandoned:
		u = e.Likely(d, &m.most, 0)
		b.usage, b.estimated = u, true
	default: // unless each call costs something
		b.cost, b.priced = a.cost(a.ProviderStatus)
		return b
	}
	if d.Searches && u.WebSearches == 0 { // its answer does not say it
		u.WebSearches = 1
	}
	likely := *a
	likely.Usage = Usage{Known: true, Usage: u}
	b.cost, b.priced = likely.cost(a.ProviderStatus)
	if !b.priced && d.Price != nil {
		b.cost, b.priced = d.Price.Bound(&u, d.Media)
	}
	b.tokens = estimate.Sum(u.Prompt, u.Completion)
	return b
}
