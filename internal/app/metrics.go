package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/telemetry"
)

// maxMetricModels bounds metric_models.
const maxMetricModels = 1000

// registerMetrics adds the gateway's metrics to Caddy's registry, which is new for each
// configuration. Gauges show the state of this configuration; counters continue across
// reloads.
func (a *App) registerMetrics(ctx caddy.Context) (err error) {
	if len(a.MetricModels) > maxMetricModels {
		return fmt.Errorf("metric_models: more than %d", maxMetricModels)
	}
	registry := ctx.GetMetricsRegistry()
	a.metrics, err = telemetry.NewMetrics(registry, a.MetricModels)
	return errors.Join(
		err,
		telemetry.Register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "inflight_bytes",
			Help: "What the calls under way hold in memory, in bytes, of max_inflight_bytes.",
		}, a.inFlight)),
		telemetry.Register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "inflight_calls",
			Help: "How many calls are under way, of max_inflight_calls.",
		}, a.calls)),
		telemetry.Register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "open_breakers",
			Help: "Targets of saved configs whose circuit breaker is open or half open.",
		}, func() float64 { return float64(len(a.notClosed())) })),
		telemetry.Register(registry, breakerStates{a}),
		telemetry.Register(registry, policyUsages{a}),
		telemetry.Register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "rate_limit_groups",
			Help: "Groups of rate limits by values that callers make up that have a counter of their own.",
		}, a.groups)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "rate_limit_overflow_total",
			Help: "Calls that were counted in a counter that groups share, because there were too many of them.",
		}, a.overflows)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "records_lost_total",
			Help: "Records of calls that were lost, because the queue was full, the store could not be written, or a workspace had too many of refused calls.",
		}, a.lostRecords)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "record_bodies_lost_total",
			Help: "Records of calls that lost their bodies, for the same reasons.",
		}, a.lostBodies)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "unknown_callers_total",
			Help: "Requests to the control plane without a valid API key, which leave no row in the audit trail.",
		}, a.unknownCallers)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "uncounted_calls_total",
			Help: "Calls that passed their limits uncounted while the store could not be written, as on_store_failure allows.",
		}, a.uncounted)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "uncounted_texts_total",
			Help: "Texts of streams that broke off whose tokens were estimated and not counted, because too many texts waited.",
		}, a.uncountedTexts)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "alerts_total",
			Help: "Alerts of budgets: that their alert threshold was reached, or that they are exhausted.",
		}, a.alerted)),
		telemetry.Register(registry, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "alerts_undelivered_total",
			Help: "Alerts that the webhook did not take, in all attempts, or for which there was no room to wait.",
		}, a.undelivered)),
		telemetry.Register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "caddy", Subsystem: "gw", Name: "stale_secrets",
			Help: "Secrets whose last value is used, because their secret manager does not answer.",
		}, a.staleSecrets)),
	)
}

func (a *App) started() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

func (a *App) notClosed() []routing.OpenBreaker {
	if !a.started() {
		return nil
	}
	return a.services.Breakers.Snapshot()
}

func (a *App) inFlight() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.runtime.Gateway.InFlight.InUse())
}

func (a *App) calls() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.runtime.Gateway.Calls.InUse())
}

func (a *App) groups() float64 {
	if !a.started() {
		return 0
	}
	own, _ := a.runtime.Limits.Groups()
	return float64(own)
}

func (a *App) overflows() float64 {
	if !a.started() {
		return 0
	}
	_, n := a.runtime.Limits.Groups()
	return float64(n)
}

func (a *App) lostBodies() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.runtime.Records.LostBodies())
}

func (a *App) lostRecords() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.runtime.Records.Lost())
}

func (a *App) uncounted() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.services.Limits.UncountedCalls())
}

func (a *App) uncountedTexts() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.services.Texts.UncountedTexts())
}

func (a *App) alerted() float64 {
	if !a.started() {
		return 0
	}
	sent, _ := a.services.Alerts.Counts()
	return float64(sent)
}

func (a *App) undelivered() float64 {
	if !a.started() {
		return 0
	}
	_, lost := a.services.Alerts.Counts()
	return float64(lost)
}

func (a *App) unknownCallers() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.services.Trail.Unknowns())
}

var breakerState = prometheus.NewDesc("caddy_gw_breaker_state",
	"1 for each circuit breaker of a saved config's target that is not closed: its state is open or half_open.", []string{"config", "target", "state"}, nil)

// breakerStates collects the breakers that are not closed.
type breakerStates struct{ app *App }

func (breakerStates) Describe(descs chan<- *prometheus.Desc) { descs <- breakerState }

// maxBreakerStates bounds the number of series. More open breakers than that probably have
// one cause, and open_breakers has their number.
const maxBreakerStates = 500

func (s breakerStates) Collect(metrics chan<- prometheus.Metric) {
	type key struct{ config, target string }
	seen := make(map[key]bool)
	for _, b := range s.app.notClosed() {
		k := key{b.Config, b.Path}
		if seen[k] || len(seen) == maxBreakerStates { // the same target may have had another provider before
			continue
		}
		seen[k] = true
		state := "open"
		if b.HalfOpen {
			state = "half_open"
		}
		metrics <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue, 1, b.Config, b.Path, state)
	}
}

var (
	policyLabels = []string{"policy", "kind", "type"}
	policyUsed   = prometheus.NewDesc("caddy_gw_policy_used",
		"What a policy has counted in its window or period, of all groups together: requests, tokens or US dollars.", policyLabels, nil)
	policyLeft = prometheus.NewDesc("caddy_gw_policy_left",
		"What a policy has left, of the group that has the least: requests, tokens or US dollars.", policyLabels, nil)
)

// policyUsages collects what was used of policies, and what is left.
type policyUsages struct{ app *App }

func (policyUsages) Describe(descs chan<- *prometheus.Desc) {
	descs <- policyUsed
	descs <- policyLeft
}

// usageTimeout bounds how long a scrape waits for the store.
const usageTimeout = 5 * time.Second

func (p policyUsages) Collect(metrics chan<- prometheus.Metric) {
	if !p.app.started() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	all, err := p.app.services.Limits.Usages(ctx)
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(policyUsed, err)
		return
	}
	for _, u := range all {
		kind := "rate_limit"
		if u.Budget {
			kind = "usage_limit"
		}
		metrics <- prometheus.MustNewConstMetric(policyUsed, prometheus.GaugeValue, u.Used, u.ID, kind, u.Type)
		metrics <- prometheus.MustNewConstMetric(policyLeft, prometheus.GaugeValue, u.Left, u.ID, kind, u.Type)
	}
}

// Interface guards
var (
	_ prometheus.Collector = breakerStates{}
	_ prometheus.Collector = policyUsages{}
)

// saysUnpriced logs that calls have no price, once a minute, with one of them.
func saysUnpriced(logger *zap.Logger, now func() time.Time) func(provider, model string) {
	var logged atomic.Int64 // Unix time in nanoseconds; 0: not yet
	return func(provider, model string) {
		at, last := now().UnixNano(), logged.Load()
		if last != 0 && at-last < int64(time.Minute) || !logged.CompareAndSwap(last, at) {
			return
		}
		logger.Info("calls have no price, so that their cost is not known and budgets of costs refuse them; set it with price",
			zap.String("provider", provider), zap.String("model", credentials.Clip(model)))
	}
}
