package app

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// registerMetrics adds the app's metrics to Caddy's registry, which each
// configuration has a new one of.
func registerMetrics(ctx caddy.Context, openBreakers func() float64) error {
	return ctx.GetMetricsRegistry().Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "caddy", Subsystem: "gw", Name: "open_breakers",
		Help: "Targets of saved configs whose circuit breaker is open or half open.",
	}, openBreakers))
}

func (a *App) openBreakers() float64 {
	select {
	case <-a.ready:
		return float64(len(a.breakers.Snapshot()))
	default:
		return 0 // not started yet
	}
}
