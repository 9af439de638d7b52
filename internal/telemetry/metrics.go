// Package telemetry implements metrics and spans: Prometheus metrics in Caddy's registry,
// and OpenTelemetry spans if Caddy's tracing is on. It only gets numbers and names, and no
// keys, metadata or prompts.
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

// Bounds of the histograms, in seconds. Answers of models take from a tenth of a second to
// ten minutes; embeddings and refused calls take less.
var (
	durationBuckets   = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
	firstTokenBuckets = []float64{.05, .1, .25, .5, .75, 1, 1.5, 2.5, 5, 10, 20, 30, 60}
)

// Labels of the metrics. Each has few values: endpoints are from a table, providers are
// those of the configuration and the built-in ones, models are configured, and statuses are
// classes.
var (
	targetLabels = []string{"endpoint", "provider", "model"}
	statusLabels = append(targetLabels, "status")
)

// vectors are created once per process, so that they continue across reloads.
type vectors struct {
	requests, tokens, cost, unpriced, attempts, retries, fallbacks, cache, hooks *prometheus.CounterVec
	duration, firstToken                                                         *prometheus.HistogramVec
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
		unpriced:   counter("unpriced_calls_total", "Calls whose tokens are known, and not what they cost, because their model has no price.", targetLabels),
		cache:      counter("cache_total", "Calls that asked for the cache of answers, by what it did.", append(targetLabels, "result")),
		hooks:      counter("guardrails_total", "Guardrails and mutators that ran, by what they came to.", []string{"endpoint", "phase", "state"}),
		attempts:   counter("attempts_total", "Requests to providers, the gateway's own too; the status is theirs, or error where they gave no answer, or canceled where the client left.", statusLabels),
		retries:    counter("retries_total", "Attempts that repeat one at the same target.", targetLabels),
		fallbacks:  counter("fallbacks_total", "Targets that failed and were followed by another.", targetLabels),
	}
})

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{v.requests, v.duration, v.firstToken, v.tokens, v.cost, v.unpriced, v.attempts, v.retries, v.fallbacks, v.cache, v.hooks}
}

// Metrics counts calls. A nil one counts nothing.
type Metrics struct {
	vectors *vectors
	models  map[string]bool // that operators listed
}

// NewMetrics registers the metrics with the registry of a configuration, which may already
// have them. models are reported by name, in addition to those of saved configs.
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

// Register is like r.Register, except that it is not an error if c is registered already.
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
	Provider string // empty: there was none
	Model    string
	// SavedModel is set if the model is named by a saved config, of the workspace with the id
	// Workspace, which is not a label.
	SavedModel bool
	Workspace  string
}

// A Call is a finished inference call.
type Call struct {
	Target
	Status     int // 0: it was not answered
	Duration   time.Duration
	FirstToken time.Duration // 0: it was not a stream
	Cache      string        // x-gw-cache-status

	prices.Usage
	Cost     prices.Amount // 0: none, or unknown
	Unpriced bool          // it is unknown, though the usage is known
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
	if c.Unpriced {
		m.vectors.unpriced.WithLabelValues(c.Endpoint, c.Provider, model).Inc()
	}
	m.used(&c.Target, model, &c.Usage, c.Cost)
}

// Used counts what a call by the gateway itself used, which [Metrics.Call] is not called
// for. The endpoint is its purpose.
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

// Attempt counts an attempt. again means that it is a retry at the same target, status 0
// that there was no answer, and canceled that the client left before there was one.
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

// Fallback counts a target that failed and was followed by another.
func (m *Metrics) Fallback(t *Target) {
	if m == nil {
		return
	}
	m.vectors.fallbacks.WithLabelValues(t.Endpoint, t.Provider, m.model(t)).Inc()
}

// Hook counts a guardrail or mutator that ran in a phase.
func (m *Metrics) Hook(endpoint, phase, state string) {
	if m != nil {
		m.vectors.hooks.WithLabelValues(endpoint, phase, state).Inc()
	}
}

// cacheResults maps x-gw-cache-status to labels. Calls without a cache have none.
var cacheResults = map[string]string{
	"HIT": "hit", "SEMANTIC HIT": "semantic_hit", "MISS": "miss", "SEMANTIC MISS": "semantic_miss", "REFRESH": "refresh",
}

var classes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// class returns the class of a status, such as 5xx.
func class(status int) string {
	if c := status / 100; c > 0 && c < len(classes) {
		return classes[c]
	}
	return classes[0]
}
