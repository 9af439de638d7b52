package admin

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/routing"
)

// Health is the state of the targets that the gateway forwards to.
type Health struct {
	Status       string        `json:"status" enum:"healthy,degraded" doc:"degraded while a circuit breaker is open."`
	OpenBreakers []openBreaker `json:"open_breakers"`
}

type openBreaker struct {
	Config   string `json:"config" doc:"Slug of the saved config."`
	Target   string `json:"target" doc:"The target's path in it."`
	Provider string `json:"provider"`
	Reason   string `json:"reason"`
	Since    string `json:"since" format:"date-time"`
	Until    string `json:"until" format:"date-time" doc:"When the target is tried again."`
}

type alive struct {
	Status string `json:"status" enum:"success"`
}

func (a *API) health() {
	register(a, route{
		method: http.MethodGet, path: "/admin/health", kind: audit.Organisations, scopes: []string{"organisation_settings.read"}, open: true, summary: "Whether the control plane answers",
	}, func(*call, *struct{}) (*output[alive], error) { return &output[alive]{alive{"success"}}, nil })
	register(a, route{
		method: http.MethodGet, path: "/gateway/health", kind: audit.Organisations, scopes: []string{"organisation_settings.read"}, summary: "Open circuit breakers, and why",
	}, func(c *call, _ *struct{}) (*struct{ Body Health }, error) {
		out := Health{Status: "healthy", OpenBreakers: []openBreaker{}}
		for _, b := range c.api.Breakers.Snapshot() {
			out.Status = "degraded"
			out.OpenBreakers = append(out.OpenBreakers, showBreaker(b))
		}
		return &struct{ Body Health }{out}, nil
	})
}

func showBreaker(b routing.OpenBreaker) openBreaker {
	return openBreaker{
		Config: b.Config, Target: b.Path, Provider: b.Slug, Reason: b.Reason,
		Since: formatTime(b.Since), Until: formatTime(b.Until),
	}
}
