package admin_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/policies"
)

// A workspace's key tells which file has the output of a batch of its own, until that is settled.
func TestWhichFileHasTheOutputOfABatch(t *testing.T) {
	a := newAPI(t)
	red, blue := a.workspace("red"), a.workspace("blue")
	park := func(workspace, id string) policies.BatchName {
		b := &policies.Batch{BatchName: policies.BatchName{WorkspaceID: workspace, Account: "account local", ID: id}, Provider: "local"}
		if parked, err := a.s.Limits.Park(t.Context(), nil, b); !parked || err != nil {
			t.Fatal(parked, err)
		}
		return b.BatchName
	}
	name := park(red, "batch_1")
	park(blue, "batch_2")
	park(blue, "batch_1")
	key := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["completions.write"]}`).get("key").Str
	other := a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"red","scopes":["policies.update"]}`).get("key").Str
	for _, c := range []struct {
		name, key, path, body string
		status                int
	}{
		{"its own", key, "/v2/batches/batch_1", `{"internal_output_file_id":"file-1"}`, 200},
		{"again", key, "/v2/batches/batch_1", `{"internal_output_file_id":"file-2"}`, 200},
		{"of another workspace", key, "/v2/batches/batch_2", `{"internal_output_file_id":"file-1"}`, 404},
		{"unknown", key, "/v2/batches/batch_3", `{"internal_output_file_id":"file-1"}`, 404},
		{"no file", key, "/v2/batches/batch_1", `{}`, 400},
		{"an empty id", key, "/v2/batches/batch_1", `{"internal_output_file_id":""}`, 400},
		{"another field", key, "/v2/batches/batch_1", `{"internal_output_file_id":"f","status":"completed"}`, 400},
		{"another scope", other, "/v2/batches/batch_1", `{"internal_output_file_id":"file-1"}`, 403},
		{"below v1", key, "/v1/batches/batch_1", `{"internal_output_file_id":"file-1"}`, 404},
	} {
		if out := a.as(c.key, "PUT", c.path, c.body); out.status != c.status {
			t.Errorf("%s: %d %s", c.name, out.status, out.body)
		}
	}
	if b := a.s.Batches.OfOutput(red, name.Account, "file-2"); b == nil || b.ID != "batch_1" || b.WorkspaceID != red {
		t.Errorf("the file is of %+v", b)
	}
	if b := a.s.Batches.OfOutput(blue, name.Account, "file-2"); b != nil {
		t.Errorf("the file is of %+v, too", b)
	}
	if settled, err := a.s.Limits.SettleBatch(t.Context(), &name, policies.Used{}); !settled || err != nil {
		t.Fatal(settled, err)
	}
	if out := a.as(key, "PUT", "/v2/batches/batch_1", `{"internal_output_file_id":"file-3"}`); out.status != 409 {
		t.Errorf("%d %s", out.status, out.body)
	}
}
