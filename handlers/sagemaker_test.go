package handlers_test

import (
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// The model of a call to SageMaker is the endpoint in its path.
func TestAnIntegrationAllowsEndpointsOfSageMaker(t *testing.T) {
	up := gatewaytest.NewUpstream(t, nil)
	g := gatewaytest.Start(t, trustLoopback)
	key, _ := g.Key("k")
	workspace := g.Admin("GET", "/v1/admin/workspaces", nil).Get("data.0.id").Str
	type object = map[string]any
	for _, change := range []struct {
		method, path string
		body         object
	}{
		{"POST", "/v1/integrations", object{
			"name": "n", "slug": "sm", "ai_provider_id": "sagemaker", "workspace_id": workspace,
			"configurations": object{
				"custom_host": up.URL + "/v1", "aws_auth_type": "accessKey", "aws_region": "eu-west-1", "aws_access_key_id": "AKIA0123456789", "aws_secret_access_key": "0123456789abcdef",
			},
		}},
		{"PUT", "/v1/integrations/sm/models", object{"allow_all_models": false, "models": []any{object{"slug": "ep1", "enabled": true}}}},
	} {
		if a := g.Admin(change.method, change.path, change.body); a.Status != 200 {
			t.Fatalf("%s %s: %d %s", change.method, change.path, a.Status, a.Body)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/endpoints/ep1/invocations", `{"inputs":"hi"}`, 200},
		{"/v1/endpoints/ep1/invocations", `{"inputs":"hi","model":"ep1"}`, 200},
		{"/v1/endpoints/ep1/invocations", `{"inputs":"hi","model":"ep2"}`, 400},
		{"/v1/endpoints/ep2/invocations", `{"inputs":"hi"}`, 412},
		{"/v1/endpoints/ep2/invocations", `{"inputs":"hi","model":"ep1"}`, 400},
		{"/v1/endpoints/ep2/invocations?model=ep1", `{"inputs":"hi"}`, 400},
		{"/v1/endpoints/ep2/async-invocations", `{"inputs":"hi","model":"ep1"}`, 400},
		{"/v1/%65ndpoints/ep2/invocations", `{"inputs":"hi","model":"ep1"}`, 404},
		{"/v1/endpoints/ep1/../ep2/invocations", `{"inputs":"hi","model":"ep1"}`, 404},
	} {
		before := len(up.Calls())
		a := g.Do("POST", c.path, c.body, "x-gw-api-key: "+key, "x-gw-provider: @sm")
		if a.Status != c.status || (len(up.Calls()) > before) != (c.status == 200) {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.Status, a.Body)
		}
	}
}

// A list of models judges calls whose model is known, and refuses the others.
func TestAListOfModelsJudgesTheOnlyModel(t *testing.T) {
	up := gatewaytest.NewUpstream(t, respond(200, gatewaytest.Completion))
	g := gatewaytest.Start(t, "block_inline_config off\n"+up.Provider("p"))
	key, _ := g.Key("k")
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, hook := range []string{`"default.modelWhitelist":{"models":["x"]},"deny":true`, `"default.modelRules":{"rules":{"defaults":["x"],"metadata":{}}},"deny":true`} {
		for _, c := range []struct {
			query, body string
			passes      bool
		}{
			{"", `{"model":"x",` + messages + `}`, true},
			{"", `{"model":"secret",` + messages + `}`, false},
			{"?model=secret", `{"model":"x",` + messages + `}`, false},
			{"?model=secret&model=x", `{"model":"x",` + messages + `}`, false},
			{"", `{"model":"x","models":["secret"],` + messages + `}`, false},
			{"", `{"model":"x","fallbacks":["secret"],` + messages + `}`, false},
		} {
			before := len(up.Calls())
			config := `x-gw-config: {"provider":"@p","input_guardrails":[{` + hook + `}]}`
			a := g.Do("POST", "/v1/chat/completions"+c.query, c.body, "x-gw-api-key: "+key, config)
			if (a.Status == 200) != c.passes || (len(up.Calls()) > before) != c.passes {
				t.Errorf("%s: %s %s: %d %s", config, c.query, c.body, a.Status, a.Body)
			}
		}
	}
}
