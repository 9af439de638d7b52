package admin_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/inflight"
)

// Bodies are held in the budget of all calls, of which the caller's workspace has its share.
func TestBodiesNeedRoomInTheBudget(t *testing.T) {
	a := newAPI(t)
	a.s.InFlight = inflight.New(1000)
	a.serve()
	const path = "/v1/policies/rate-limits"
	w := a.ok("GET", "/v1/admin/workspaces", "").get("data.0.id").Str
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["policies.create"],"workspace_id":"`+w+`"}`).get("key").Str
	body := `{"type":"requests","unit":"rpm","value":3,"name":"` + strings.Repeat("n", 200) + `"}`
	var held inflight.Lease
	held.Open(a.s.InFlight, w, "another key")
	if err := held.Grow(600); err != nil {
		t.Fatal(err)
	}
	out := a.as(key, "POST", path, body)
	if out.status != 503 || out.header.Get("Retry-After") != "1" || !strings.Contains(out.body, "max_inflight_bytes") {
		t.Errorf("%d %v %s", out.status, out.header, out.body)
	}
	a.ok("POST", path, `{"type":"requests","unit":"rpm","value":3}`) // of the owner's key, which is of no workspace
	held.Close()
	if out := a.as(key, "POST", path, body); out.status != 200 {
		t.Errorf("%d %s", out.status, out.body)
	}
	if n := a.s.InFlight.InUse(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
