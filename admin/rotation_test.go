package admin_test

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

const workspaceKeys = "/v1/api-keys/workspace/service"

func TestAKeyIsRotated(t *testing.T) {
	a := newAPI(t)
	old, id := a.key("workspace/service", `"workspace_service_api_keys.read","virtual_keys.list"`)
	for _, c := range []struct{ body, message string }{
		{`{"key_transition_period_ms":1799999}`, "key_transition_period_ms"},
		{`{"key_transition_period_ms":31536000001}`, "key_transition_period_ms: expected from 1800000 to 31536000000"},
		{`{"transition":1}`, "transition"},
	} {
		if out := a.do("POST", "/v1/api-keys/"+id+"/rotate", c.body); out.status != 400 || !strings.Contains(out.message(), c.message) {
			t.Errorf("%s: %d %s", c.body, out.status, out.body)
		}
	}
	rotated := a.ok("POST", "/v2/api-keys/"+id+"/rotate", `{"key_transition_period_ms":3600000}`)
	next := rotated.get("key").Str
	if rotated.get("id").Str != id || next == "" || next == old || rotated.get("key_transition_expires_at").Str != "2026-11-27T13:00:00.000Z" {
		t.Errorf("%s", rotated.body)
	}
	works := func(key string, want int) {
		t.Helper()
		if out := a.as(key, "GET", "/v1/api-keys/"+id, ""); out.status != want {
			t.Errorf("%d %s", out.status, out.body)
		}
	}
	works(old, 200)
	works(next, 200)
	if shown := a.ok("GET", "/v1/api-keys/"+id, ""); shown.get("key_transition_expires_at").Str != "2026-11-27T13:00:00.000Z" || shown.get("last_used_at").Str != iso || strings.Contains(shown.body, next) {
		t.Errorf("%s", shown.body)
	}
	if out := a.do("POST", "/v1/api-keys/"+id+"/rotate", ""); out.status != 409 || !strings.Contains(out.message(), "2026-11-27T13:00:00.000Z") {
		t.Errorf("in the transition: %d %s", out.status, out.body)
	}
	a.now.Add(int64(time.Hour) - 1)
	works(old, 200)
	a.now.Add(1)
	works(old, 401)
	works(next, 200)
	if out := a.as(old, "GET", "/v1/api-keys/"+id, ""); !strings.Contains(out.message(), "rotated") {
		t.Errorf("%s", out.body)
	}
	if shown := a.ok("GET", "/v1/api-keys/"+id, ""); shown.get("key_transition_expires_at").Type.String() != "Null" {
		t.Errorf("%s", shown.body)
	}
	again := a.ok("POST", "/v1/api-keys/"+id+"/rotate", "")
	if ends := again.get("key_transition_expires_at").Str; ends != "2026-11-27T13:30:00.000Z" {
		t.Errorf("by default, the transition ends at %s", ends)
	}
	works(next, 200)
	works(old, 401)
	for _, r := range a.trail() {
		if strings.Contains(r.Path, "rotate") && r.Status == 200 && (r.Scope != "workspace_service_api_keys.rotate" || r.ResourceID != id) {
			t.Errorf("%+v", r)
		}
	}
}

func TestRotatingNeedsTheScopeAndWhatTheKeyMayDo(t *testing.T) {
	a := newAPI(t)
	_, id := a.key("workspace/service", `"virtual_keys.list"`)
	without, _ := a.key("workspace/service", `"workspace_service_api_keys.update","virtual_keys.list"`)
	less, _ := a.key("workspace/service", `"workspace_service_api_keys.rotate"`)
	may, mine := a.key("workspace/service", `"workspace_service_api_keys.rotate","virtual_keys.list"`)
	for key, want := range map[string]int{without: 403, less: 403, may: 200} {
		if out := a.as(key, "POST", "/v1/api-keys/"+id+"/rotate", ""); out.status != want {
			t.Errorf("%d %s, want %d", out.status, out.body, want)
		}
	}
	if out := a.as(may, "POST", "/v1/api-keys/"+mine+"/rotate", ""); out.status != 200 {
		t.Errorf("itself: %d %s", out.status, out.body)
	}
}

func TestRotationPolicies(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct{ policy, message string }{
		{`{"rotation_period":"weekly","rotation_period_days":7}`, "rotation_policy: expected rotation_period or rotation_period_days, not both"}, // condition 8
		{`{"rotation_period":"yearly"}`, "rotation_period"},
		{`{"rotation_period_days":0}`, "rotation_period_days"},
		{`{"rotation_period_days":366}`, "rotation_period_days"},
		{`{}`, "rotation_policy.rotation_period"},
		{`{"rotation_period":"weekly","key_transition_period_ms":1}`, "key_transition_period_ms"},
		{`{"rotation_period":"weekly","key_transition_period_ms":604800000}`, "rotation_policy.key_transition_period_ms: expected at least 1800000, and less than the period of 604800000"},
		{`{"rotation_period_days":2,"key_transition_period_ms":9000000000000000000}`, "rotation_policy.key_transition_period_ms"},
		{`{"next_rotation_at":"2026-11-27T23:00:00Z"}`, "rotation_policy.next_rotation_at"},
		{`{"rotation_period":"weekly","nope":1}`, "nope"},
	} {
		if out := a.do("POST", workspaceKeys, `{"name":"k","scopes":["logs.view"],"rotation_policy":`+c.policy+`}`); out.status != 400 || out.code() != "AB01" || !strings.Contains(out.message(), c.message) {
			t.Errorf("%s: %d %s", c.policy, out.status, out.body)
		}
	}
	// Nor does the secret before work for longer, whoever asks for it.
	daily := a.ok("POST", workspaceKeys, `{"name":"d","scopes":["logs.view"],"rotation_policy":{"rotation_period_days":1}}`).get("id").Str
	a.refuses(ownerKey, "POST", "/v1/api-keys/"+daily+"/rotate", `{"key_transition_period_ms":31536000000}`, 400, "key_transition_period_ms: expected at least 1800000, and less than the period of 86400000")
	id := a.ok("POST", workspaceKeys, `{"name":"k","scopes":["logs.view"],"rotation_policy":{"rotation_period":"monthly","rotation_period_days":null}}`).get("id").Str
	path := "/v1/api-keys/" + id
	shows := func(want string) {
		t.Helper()
		if got := a.ok("GET", path, "").get("rotation_policy").Raw; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	shows(`{"rotation_period":"monthly","next_rotation_at":"2026-12-01T00:00:00.000Z","key_transition_period_ms":1800000,"status":"ACTIVE"}`)
	a.ok("PUT", path, `{"name":"renamed"}`)
	shows(`{"rotation_period":"monthly","next_rotation_at":"2026-12-01T00:00:00.000Z","key_transition_period_ms":1800000,"status":"ACTIVE"}`)
	a.ok("PUT", path, `{"rotation_policy":{"rotation_period_days":10,"next_rotation_at":"2026-11-29T17:00:00+02:00","key_transition_period_ms":7200000}}`)
	shows(`{"rotation_period_days":10,"next_rotation_at":"2026-11-29T00:00:00.000Z","key_transition_period_ms":7200000,"status":"ACTIVE"}`)
	// A rotation by hand counts, and has the transition of the policy.
	if ends := a.ok("POST", path+"/rotate", "").get("key_transition_expires_at").Str; ends != "2026-11-27T14:00:00.000Z" {
		t.Errorf("%s", ends)
	}
	shows(`{"rotation_period_days":10,"next_rotation_at":"2026-12-07T00:00:00.000Z","key_transition_period_ms":7200000,"status":"ACTIVE"}`)
	a.ok("PUT", path, `{"rotation_policy":null}`)
	shows("null")
	own, mine := a.key("workspace/service", `"workspace_service_api_keys.update"`)
	if out := a.as(own, "PUT", "/v1/api-keys/"+mine, `{"rotation_policy":null}`); out.status != 403 {
		t.Errorf("its own policy: %d %s", out.status, out.body)
	}
}

// While a key rotates ten times, 64 clients call with the secret that each got last: none is
// refused within the transition, and none is admitted after it.
func TestClientsCallWhileTheirKeyRotates(t *testing.T) {
	a := newAPI(t)
	first, id := a.key("workspace/service", `"completions.write"`)
	secrets := []string{first}
	var current atomic.Int64 // which of the secrets the clients are given
	var known sync.RWMutex   // guards secrets
	auth := &credentials.Authenticator{Keyring: a.s.Keyring, OrganisationID: a.s.Directory.Organisation().ID}
	admitted := func(secret string) bool {
		_, refusal := auth.AuthenticateCall(secret, credentials.ScopeCompletions)
		return refusal == nil
	}
	type client struct{ has, calls atomic.Int64 }
	var clients [64]client
	var running sync.WaitGroup
	defer running.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for i := range clients {
		running.Go(func() {
			c := &clients[i]
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := current.Load()
				known.RLock()
				secret := secrets[n]
				known.RUnlock()
				c.has.Store(n) // it never calls with an older one from here on
				for range 3 {
					if !admitted(secret) {
						t.Errorf("a call with secret %d is refused", n)
						return
					}
					c.calls.Add(1)
					runtime.Gosched() // for the other clients
				}
			}
		})
	}
	each := func(what string, done func(c *client) bool) {
		t.Helper()
		for i := range clients {
			eventually(t, what, func() bool { return done(&clients[i]) })
		}
	}
	called := func() {
		t.Helper()
		var before [len(clients)]int64
		for i := range clients {
			before[i] = clients[i].calls.Load()
		}
		for i := range clients {
			eventually(t, "each client calls", func() bool { return clients[i].calls.Load() > before[i]+3 })
		}
	}
	for n := range int64(10) {
		called()
		next := a.ok("POST", "/v1/api-keys/"+id+"/rotate", "").get("key").Str // while they call
		called()                                                              // with the secret before
		known.Lock()
		secrets = append(secrets, next)
		known.Unlock()
		current.Store(n + 1)
		each("each client has the new secret", func(c *client) bool { return c.has.Load() == n+1 })
		if !admitted(secrets[n]) {
			t.Errorf("secret %d is refused within its transition", n)
		}
		a.now.Add(int64(30 * time.Minute))
		for old := range n + 1 {
			if admitted(secrets[old]) {
				t.Errorf("secret %d is admitted after its transition", old)
			}
		}
	}
	called()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestKeysAreListedByTheirIDs(t *testing.T) {
	a := newAPI(t)
	_, one := a.key("workspace/service", `"logs.view"`)
	_, two := a.key("workspace/service", `"logs.view"`)
	a.key("workspace/service", `"logs.view"`)
	list := a.ok("GET", "/v2/api-keys?ids="+one+","+two+",0191e7a3-0000-7000-8000-000000000000", "")
	if list.get("total").Int() != 2 || list.get("data.0.id").Str != one || list.get("data.1.id").Str != two {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?ids=0191e7a3-0000-7000-8000-000000000000", ""); list.get("total").Int() != 0 {
		t.Errorf("%s", list.body)
	}
	if list := a.ok("GET", "/v1/api-keys?ids="+strings.ToUpper(one), ""); list.get("total").Int() != 1 {
		t.Errorf("%s", list.body)
	}
}

func TestAnExpiredKeyIsRefused(t *testing.T) {
	a := newAPI(t)
	out := a.ok("POST", workspaceKeys, `{"name":"k","scopes":["virtual_keys.list"],"expires_at":"2026-11-27T12:30:00Z"}`)
	key, id := out.get("key").Str, out.get("id").Str
	call := func(want int) {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/virtual-keys", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		a.handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
	a.now.Add(int64(30*time.Minute) - 1)
	call(200)
	a.now.Add(1)
	call(401)
	if shown := a.ok("GET", "/v1/api-keys/"+id, ""); shown.get("status").Str != "expired" {
		t.Errorf("%s", shown.body)
	}
	a.ok("PUT", "/v1/api-keys/"+id, `{"expires_at":null}`)
	call(200)
}
