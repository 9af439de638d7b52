package admin_test

import "testing"

// Some clients make all members of a body snake case, also those whose names are not.
func TestMembersInCamelCaseMayBeInSnakeCase(t *testing.T) {
	a := newAPI(t)
	slug := a.ok("POST", "/v1/virtual-keys", `{"name":"k","provider":"azure-openai","key":"k","resource_name":"acme","deployment_config":[{"deploymentName":"d","apiVersion":"v","is_default":true}]}`).get("data.slug").Str
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"api_version":"2024-10-21"}`)
	shown := a.ok("GET", "/v1/virtual-keys/"+slug, "")
	for path, want := range map[string]string{"azure_resource_name": "acme", "azure_api_version": "2024-10-21", "azure_deployment_config.0.deploymentName": "d"} {
		if got := shown.get("model_config." + path).Str; got != want {
			t.Errorf("%s: %q, want %q in %s", path, got, want, shown.body)
		}
	}
	if out := a.do("PUT", "/v1/virtual-keys/"+slug, `{"api_version":"a","apiVersion":"b"}`); out.status != 400 {
		t.Errorf("both: %d %s", out.status, out.body)
	}
	a.ok("PUT", "/v1/virtual-keys/"+slug, `{"api_version":null,"resource_name":"b","key":"k"}`)
	if shown := a.ok("GET", "/v1/virtual-keys/"+slug, "").get("model_config"); shown.Get("azure_api_version").Exists() || shown.Get("azure_resource_name").Str != "b" {
		t.Error(shown.Raw)
	}
	config := a.ok("POST", "/v1/configs", `{"name":"c","config":{"retry":{"attempts":1}},"is_default":1}`).get("data.slug").Str
	if out := a.do("PUT", "/v1/configs/"+config, `{"is_default":0,"isDefault":1}`); out.status != 400 {
		t.Errorf("both: %d %s", out.status, out.body)
	}
	for _, change := range []string{"", `{"is_default":0}`, `{"isDefault":1}`} {
		if change != "" {
			a.ok("PUT", "/v1/configs/"+config, change)
		}
		want := int64(1)
		if change == `{"is_default":0}` {
			want = 0
		}
		if got := a.ok("GET", "/v1/configs/"+config, "").get("is_default"); got.Int() != want {
			t.Errorf("after %s: %s", change, got.Raw)
		}
	}
}
