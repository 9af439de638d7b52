package admin_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func TestBodiesThatCannotBeReadAreExplained(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct {
		contentType, body string
		status            int
		message           string
	}{
		{"application/json", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, 413, "The body is too large, expected at most 1048576 bytes"},
		{"application/x-www-form-urlencoded", "name=a", 415, "content-type: expected application/json"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/virtual-keys", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("X-Gw-Api-Key", ownerKey)
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, r)
		if message := gjson.Get(w.Body.String(), "data.message").Str; w.Code != c.status || message != c.message {
			t.Errorf("%s: %d %s", c.contentType, w.Code, w.Body)
		}
	}
}

func TestRefusalsWithoutEndAreThrottled(t *testing.T) {
	a := newAPI(t)
	key, _ := a.key("workspace/service", `"logs.view"`)
	statuses := map[int]int{}
	for range 200 {
		out := a.as(key, "GET", "/v1/virtual-keys/x", "")
		statuses[out.status]++
		if out.status == 429 && (out.code() != "AB06" || out.header.Get("Retry-After") == "") {
			t.Fatalf("%s", out.body)
		}
	}
	if statuses[403] != 120 || statuses[429] != 80 || len(a.trail()) != 121 {
		t.Errorf("%v, %d records", statuses, len(a.trail()))
	}
	a.now.Add(int64(time.Minute))
	if out := a.as(key, "GET", "/v1/virtual-keys/x", ""); out.status != 403 {
		t.Errorf("a minute later: %d", out.status)
	}
	a.ok("GET", "/v1/virtual-keys", "")
}

// Who looks for what does not exist, or errs, is not locked out; and yet does not fill
// the audit trail.
func TestLookupsOfMissingObjectsLockNobodyOut(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"missing": {"GET", "/v1/virtual-keys/x", "", 404},
		"invalid": {"POST", "/v1/policies/rate-limits", `{}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			key, _ := a.key("workspace/service", `"virtual_keys.read","virtual_keys.list","policies.create"`)
			before := len(a.trail())
			for range 300 {
				if out := a.as(key, c.method, c.path, c.body); out.status != c.status {
					t.Fatalf("%d %s", out.status, out.body)
				}
			}
			if out := a.as(key, "GET", "/v1/virtual-keys", ""); out.status != 200 {
				t.Errorf("locked out: %d %s", out.status, out.body)
			}
			if rows := len(a.trail()) - before; rows != 120 {
				t.Errorf("%d records of 300 refusals", rows)
			}
			if out := a.as(key, "GET", "/v1/logs/x", ""); out.status != 403 {
				t.Errorf("forbidden: %d %s", out.status, out.body)
			}
			if rows := len(a.trail()) - before; rows != 120+1 {
				t.Errorf("%d records: what is forbidden is recorded nevertheless", rows)
			}
			a.now.Add(int64(time.Minute))
			a.as(key, c.method, c.path, c.body)
			if rows := len(a.trail()) - before; rows != 120+2 {
				t.Errorf("%d records after a minute", rows)
			}
		})
	}
}
