package handlers_test

import (
	"context"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

func init() { caddy.RegisterModule(seenEvents{}) }

// seenEvents is a handler of Caddy's events.
type seenEvents struct{}

var seen = make(chan caddy.Event, 10)

func (seenEvents) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.gw_test_seen", New: func() caddy.Module { return new(seenEvents) }}
}

func (*seenEvents) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*seenEvents) Handle(_ context.Context, e caddy.Event) error {
	seen <- e
	return nil
}

func TestARotationIsAnEventOfCaddy(t *testing.T) {
	g := gatewaytest.Start(t, "}\nevents {\non api_key_rotated gw_test_seen\n")
	key, id := g.Key("k")
	out := g.Do("POST", "/v1/api-keys/"+id+"/rotate", "", "x-gw-api-key: "+gatewaytest.OwnerKey)
	if out.Status != 200 {
		t.Fatalf("%d %s", out.Status, out.Body)
	}
	rotated := gjson.Parse(out.Body)
	e := <-seen
	if e.Name() != "api_key_rotated" || e.Data["id"] != id || e.Data["name"] != "k" || e.Data["key_transition_expires_at"] != rotated.Get("key_transition_expires_at").Time().UTC().Format("2006-01-02T15:04:05Z") {
		t.Errorf("%+v", e)
	}
	for name, value := range e.Data {
		if value == key || value == rotated.Get("key").Str {
			t.Errorf("the event has the secret as %s", name)
		}
	}
}
