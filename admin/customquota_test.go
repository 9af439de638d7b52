package admin_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/reqlog"
)

// Each key has a quota for the number and size of custom records, which it shares with
// the keys that it created.
func TestOwnRecordsHaveAQuotaByKey(t *testing.T) {
	const one = `{"request":{"url":"https://x","body":{}},"response":{"body":{}}}`
	many := "[" + strings.Repeat(one+",", 999) + one + "]"
	large := `{"request":{"url":"https://x","body":{"x":"` + strings.Repeat("x", 1000<<10) + `"}},"response":{"body":{}}}`
	for name, c := range map[string]struct {
		body   string
		posts  int // number of requests that the quota allows at once
		period time.Duration
	}{
		"records": {many, 6, time.Minute / 6},
		"bytes":   {large, 32, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			// The quota allows more at once than the log can queue. This test is not
			// about the writer's speed.
			a.s.Records.(reqlog.Store).Configure(reqlog.Settings{Retention: reqlog.DefaultRetention, Size: reqlog.DefaultSize, Queue: 1 << 30})
			out := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.write","workspace_service_api_keys.create"]}`)
			key := out.get("key").Str
			twin := a.as(key, "POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.write"]}`).get("key").Str
			other, _ := a.key("workspace/service", `"logs.write"`)
			for range c.posts {
				if out := a.as(key, "POST", "/v1/logs", c.body); out.status != 200 {
					t.Fatalf("%d %s", out.status, out.body)
				}
			}
			for _, k := range []string{key, twin} {
				out := a.as(k, "POST", "/v1/logs", c.body)
				if wait, err := strconv.Atoi(out.header.Get("Retry-After")); out.status != 429 || out.code() != "AB06" ||
					err != nil || wait < 1 || time.Duration(wait)*time.Second > c.period {
					t.Errorf("%d %s, Retry-After %q", out.status, out.body, out.header.Get("Retry-After"))
				}
			}
			if out := a.as(other, "POST", "/v1/logs", c.body); out.status != 200 {
				t.Errorf("another key: %d %s", out.status, out.body)
			}
			a.now.Add(int64(c.period))
			if out := a.as(key, "POST", "/v1/logs", c.body); out.status != 200 {
				t.Errorf("later: %d %s", out.status, out.body)
			}
		})
	}
}
