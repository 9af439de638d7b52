// Package telemetry is what operators watch the gateway by: Prometheus metrics in
// Caddy's registry, and OpenTelemetry spans where Caddy's tracing is on. It knows
// numbers and names only: no key, no metadata and no prompt comes here.
package telemetry

import (
	"errors"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	namespace = "caddy"
	subsystem = "gw"
)

// Bounds of the histograms, in seconds. Answers of models take from a tenth of a second
// to ten minutes; embeddings and refusals take less.
var (
	durationBuckets   = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
	firstTokenBuckets = []float64{.05, .1, .25, .5, .75, 1, 1.5, 2.5, 5, 10, 20, 30, 60}
)

// Labels of the metrics. Each has few values: the endpoints are a table, the providers
// those of the Caddyfile and the built-in ones, the models those that somebody
// configured, and the statuses classes.
var (
	targetLabels = []string{"endpoint", "provider", "model"}
	statusLabels = append(targetLabels, "status")
)

// vectors are made once a process, so that they go on counting through reloads.
type vectors struct {
	requests, tokens, cost, attempts, retries, fallbacks, cache *prometheus.CounterVec
	duration, firstToken                                        *prometheus.HistogramVec
}

var theVectors = sync.OnceValue(func() *vectors {
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &vectors{
		requests:   counter("requests_total", "Inference calls, refused ones included.", statusLabels),
		duration:   histogram("request_duration_seconds", "Time from the start of an inference call to the end of its answer.", durationBuckets, statusLabels),
		firstToken: histogram("time_to_first_token_seconds", "Time from the start of a streamed call to the first of its answer.", firstTokenBuckets, targetLabels),
		tokens:     counter("tokens_total", "Tokens that providers said were used, by the gateway's own calls too.", append(targetLabels, "type")),
		cost:       counter("cost_usd_total", "What calls cost in US dollars, the gateway's own too, at list prices, where they are known.", targetLabels),
		cache:      counter("cache_total", "Calls that asked for the cache of answers, by what it did.", append(targetLabels, "result")),
		attempts:   counter("attempts_total", "Requests to providers, the gateway's own too; the status is theirs, or error where they gave no answer, or canceled where the client left.", statusLabels),
		retries:    counter("retries_total", "Attempts that repeat one at the same target.", targetLabels),
		fallbacks:  counter("fallbacks_total", "Targets that failed and were followed by another.", targetLabels),
	}
})

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{v.requests, v.duration, v.firstToken, v.tokens, v.cost, v.attempts, v.retries, v.fallbacks, v.cache}
}

// Metrics counts calls. A nil one counts nothing.
type Metrics struct {
	vectors *vectors
	models  map[string]bool // that operators listed
}

// NewMetrics registers the metrics with the registry of a configuration, which may have
// them already. models are the models that are told apart beside those of saved configs.
func NewMetrics(r prometheus.Registerer, models []string) (*Metrics, error) {
	m := &Metrics{vectors: theVectors(), models: make(map[string]bool, len(models))}
	for _, name := range models {
		m.models[name] = true
	}
	for _, c := range m.vectors.all() {
		if err := Register(r, c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Register is r.Register, but that c is registered already is no error.
func Register(r prometheus.Registerer, c prometheus.Collector) error {
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(c); err != nil && !errors.As(err, &already) {
		return err
	}
	return nil
}

// A Target is where a call, or one attempt, went.
type Target struct {
	Endpoint string
	Provider string // empty: it went nowhere
	Model    string
	// SavedModel: a saved config says which model it is.
	SavedModel bool
}

// A Call is an inference call that is over.
type Call struct {
	Target
	Status     int // 0: it was not answered
	Duration   time.Duration
	FirstToken time.Duration // 0: it was no stream
	Cache      string        // x-gw-cache-status

	prices.Usage
	Cost prices.Amount // 0: nothing, or it is not known
}

// Call counts a call.
func (m *Metrics) Call(c *Call) {
	if m == nil {
		return
	}
	model, status := m.model(&c.Target), class(c.Status)
	m.vectors.requests.WithLabelValues(c.Endpoint, c.Provider, model, status).Inc()
	m.vectors.duration.WithLabelValues(c.Endpoint, c.Provider, model, status).Observe(c.Duration.Seconds())
	if c.FirstToken > 0 {
		m.vectors.firstToken.WithLabelValues(c.Endpoint, c.Provider, model).Observe(c.FirstToken.Seconds())
	}
	if result := cacheResults[c.Cache]; result != "" {
		m.vectors.cache.WithLabelValues(c.Endpoint, c.Provider, model, result).Inc()
	}
	m.used(&c.Target, model, &c.Usage, c.Cost)
}

// Used counts what a call of the gateway's own used, of which no [Metrics.Call] tells. Its
// endpoint is what it was for.
func (m *Metrics) Used(t *Target, u *prices.Usage, cost prices.Amount) {
	if m == nil {
		return
	}
	m.used(t, m.model(t), u, cost)
}

func (m *Metrics) used(t *Target, model string, u *prices.Usage, cost prices.Amount) {
	if cost > 0 {
		m.vectors.cost.WithLabelValues(t.Endpoint, t.Provider, model).Add(cost.Dollars())
	}
	for _, of := range [...]struct {
		kind string
		n    int64
	}{
		{"prompt", u.Prompt}, {"completion", u.Completion}, {"cache_read", u.CacheRead}, {"cache_write", u.CacheWrite}, {"reasoning", u.Reasoning},
	} {
		if of.n > 0 {
			m.vectors.tokens.WithLabelValues(t.Endpoint, t.Provider, model, of.kind).Add(float64(of.n))
		}
	}
}

// Attempt counts an attempt; again: it repeats one at the same target. Status 0 says that
// there was no answer, canceled that the client left before there was one.
func (m *Metrics) Attempt(t *Target, status int, canceled, again bool) {
	if m == nil {
		return
	}
	model, outcome := m.model(t), class(status)
	switch {
	case status > 0:
	case canceled:
		outcome = "canceled"
	default:
		outcome = "error"
	}
	m.vectors.attempts.WithLabelValues(t.Endpoint, t.Provider, model, outcome).Inc()
	if again {
		m.vectors.retries.WithLabelValues(t.Endpoint, t.Provider, model).Inc()
	}
}

// Fallback counts a target that failed and is followed by another.
func (m *Metrics) Fallback(t *Target) {
	if m == nil {
		return
	}
	m.vectors.fallbacks.WithLabelValues(t.Endpoint, t.Provider, m.model(t)).Inc()
}

// cacheResults are the values of x-gw-cache-status as labels. A call that asked for no
// cache has none.
var cacheResults = map[string]string{
	"HIT": "hit", "SEMANTIC HIT": "semantic_hit", "MISS": "miss", "SEMANTIC MISS": "semantic_miss", "REFRESH": "refresh",
}

var classes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// class is a status to its first digit.
func class(status int) string {
	if c := status / 100; c > 0 && c < len(classes) {
		return classes[c]
	}
	return classes[0]
}
