package app

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// loadEvents finds Caddy's events app, which hands events to what the operator configured for
// them.
func (a *App) loadEvents(ctx caddy.Context) error {
	module, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	events := module.(*caddyevents.App)
	a.emit = func(name string, data map[string]any) { events.Emit(ctx, name, data) }
	return nil
}
