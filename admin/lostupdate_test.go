package admin_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

// What the control plane reads within a transaction is of the transaction, for every service that can
// be read there.
func TestAllThatIsSavedIsReadInItsTransaction(t *testing.T) {
	a := newAPI(t)
	err := a.s.DB.Update(t.Context(), func(tx *storage.Txn) error {
		all := a.s.In(tx)
		in, outside, readable := reflect.ValueOf(all), reflect.ValueOf(a.s.Set), 0
		for i := range in.NumField() {
			if _, ok := in.Field(i).Type().MethodByName("In"); !ok {
				continue
			}
			if readable++; in.Field(i).Pointer() == outside.Field(i).Pointer() {
				t.Errorf("%s is read outside of the transaction", in.Type().Field(i).Name)
			}
		}
		if readable < 8 {
			t.Errorf("only %d services can be read in a transaction", readable)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two control planes over one store, of which neither sees in memory what the other wrote:
// a change is made to what is stored, whoever stored it.
func TestAChangeIsMadeToWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		resource            string
		path, body, id      string // create; id: from its response
		first, second, want string // two updates, and the expected result
		deleted             bool   // it can be deleted
	}{
		{
			"API key", "/v1/api-keys/workspace/service", `{"name":"old","scopes":["logs.view"]}`, "id",
			`{"name":"new"}`, `{"description":"d"}`, `"name":"new","description":"d"`, true,
		},
		{
			"virtual key", "/v1/virtual-keys", `{"name":"old","provider":"openai","key":"sk-0123456789"}`, "data.slug",
			`{"name":"new","key":"sk-abcdefghij"}`, `{"note":"n"}`, `"name":"new","masked_api_key":"sk*****hij","note":"n"`, true,
		},
		{
			"config", "/v1/configs", `{"name":"old","config":{"retry":{"attempts":1}}}`, "slug",
			`{"name":"new","config":{"retry":{"attempts":2}}}`, `{"config":{"retry":{"attempts":3}}}`, `"name":"new","version":3`, true,
		},
		{
			"rate-limit policy", "/v1/policies/rate-limits", `{"name":"old","type":"requests","unit":"rpm","value":1}`, "id",
			`{"name":"new"}`, `{"value":2}`, `"name":"new","value":2`, true,
		},
		{
			"prompt", "/v1/prompts", `{"name":"old","string":"s","virtual_key":"@local"}`, "slug",
			`{"name":"new","patch":true,"model":"m"}`, `{"patch":true,"string":"t"}`, `"name":"new"`, true,
		},
		{
			"partial", "/v1/prompts/partials", `{"name":"old","string":"s"}`, "slug",
			`{"name":"new","string":"t"}`, `{"string":"u"}`, `"name":"new","version":1`, true,
		},
		{
			"label", "/v1/labels", `{"name":"old"}`, "id",
			`{"name":"new"}`, `{"description":"d"}`, `"name":"new","description":"d"`, true,
		},
		{
			"workspace", "/v1/admin/workspaces", `{"name":"old"}`, "id",
			`{"name":"new"}`, `{"description":"d"}`, `"name":"new","description":"d"`, false,
		},
		{
			"organisation", "", "", "",
			`{"name":"new"}`, `{"security_settings":{"organisationAdminsViewLogs":false}}`, `"name":"new","security_settings":{"organisationAdminsViewLogs":false`, false,
		},
	} {
		t.Run(c.resource, func(t *testing.T) {
			a := newAPI(t)
			item := "/v1/admin/organisation"
			if c.path != "" {
				collection := c.path
				if strings.HasPrefix(collection, "/v1/api-keys/") {
					collection = "/v1/api-keys"
				}
				item = collection + "/" + a.ok("POST", c.path, c.body).get(c.id).Str
			}
			b := a.second()
			a.ok("PUT", item, c.first)
			b.ok("PUT", item, c.second)
			got := a.second().ok("GET", item, "").body
			for _, member := range strings.SplitAfter(c.want, ",") {
				if !strings.Contains(got, strings.TrimSuffix(member, ",")) {
					t.Errorf("%s is not in %s", member, got)
				}
			}
			if !c.deleted {
				return
			}
			a.ok("DELETE", item, "")
			for _, method := range []string{"PUT", "DELETE"} {
				if out := b.do(method, item, c.first); out.status != 404 {
					t.Errorf("%s after the other deleted it: %d %s", method, out.status, out.body)
				}
			}
			if out := a.second().do("GET", item, ""); out.status != 404 {
				t.Errorf("it is there again: %d %s", out.status, out.body)
			}
		})
	}
}

// Other rows that a change depends on are read from the store, too.
func TestAChangeSeesOtherRowsAsTheyAreStored(t *testing.T) {
	a := newAPI(t)
	b := a.second()
	const config = `{"name":"c","isDefault":true,"config":{"retry":{"attempts":1}}}`
	first := a.ok("POST", "/v1/configs", config).get("slug").Str
	b.ok("POST", "/v1/configs", config)
	if n := strings.Count(a.second().ok("GET", "/v1/configs", "").body, `"is_default":1`); n != 1 {
		t.Errorf("the workspace has %d default configs", n)
	}

	// The key has a config that only exists in the store.
	a.ok("POST", "/v1/api-keys/workspace/service", `{"name":"k","scopes":["logs.view"],"defaults":{"config_id":"`+first+`"}}`)
	if out := b.do("DELETE", "/v1/configs/"+first, ""); out.status != 409 {
		t.Errorf("deleting a config that a key has: %d %s", out.status, out.body)
	}
	other := b.ok("POST", "/v1/configs", `{"name":"d","config":{"retry":{"attempts":1}}}`).get("slug").Str
	key := a.ok("GET", "/v1/api-keys", "").get("data.0.id").Str
	a.ok("PUT", "/v1/api-keys/"+key, `{"defaults":{"config_id":"`+other+`"}}`)
}

// The versions of a config are read, extended and written together. None is lost if two
// control planes add versions at the same time.
func TestConcurrentChangesOfTwoControlPlanesAreAllKept(t *testing.T) {
	a := newAPI(t)
	path := "/v1/configs/" + a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}}}`).get("slug").Str
	const each = 10
	var group sync.WaitGroup
	for n, plane := range []*api{a, a.second()} {
		group.Go(func() {
			for i := range each {
				if out := plane.do("PUT", path, fmt.Sprintf(`{"config":{"override_params":{"user":"%d of %d"}}}`, i, n)); out.status != 200 {
					t.Errorf("%d %s", out.status, out.body)
				}
			}
		})
	}
	group.Wait()
	if got := a.second().ok("GET", path+"/versions", "").get("total").Int(); got != 1+2*each {
		t.Errorf("%d versions, want %d", got, 1+2*each)
	}
	updates := 0
	for _, r := range a.trail() {
		if r.Scope == "configs.update" && r.Status == 200 {
			updates++
		}
	}
	if updates != 2*each {
		t.Errorf("%d audit records, want %d", updates, 2*each)
	}
}
