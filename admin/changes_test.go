package admin_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/reqlog"
)

// changeBodies are bodies that change something, for the routes that operationBodies leaves out, or
// changes nothing by.
var changeBodies = map[string]string{
	"PUT /v1/integrations/{slug}":                                   `{"name":"m"}`,
	"PUT /v1/integrations/{slug}/workspaces":                        `{"workspaces":[{"id":"$workspace","enabled":false}]}`,
	"PUT /v1/prompts/{prompt_id}/makeDefault":                       `{"version":2}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}/makeDefault":      `{"version":2}`,
	"PUT /v1/prompts/{prompt_id}":                                   `{"string":"another"}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}":                  `{"string":"another"}`,
	"POST /v1/admin/users/invites":                                  `{"email":"new@example.com","role":"member","workspaces":[]}`,
	"POST /v1/admin/users/invites/accept":                           `{"token":"$token","first_name":"Ada"}`,
	"PUT /v1/admin/users/{user_id}":                                 `{"role":"admin"}`,
	"POST /v1/admin/workspaces":                                     `{"name":"n"}`,
	"PUT /v1/admin/workspaces/{workspace_id}":                       `{"name":"m"}`,
	"DELETE /v1/admin/workspaces/{workspace_id}":                    `{"name":"red"}`,
	"POST /v1/admin/workspaces/{workspace_id}/users":                `{"users":[{"id":"$other","role":"member"}]}`,
	"PUT /v1/admin/workspaces/{workspace_id}/users/{user_id}":       `{"role":"manager"}`,
	"PUT /v1/admin/organisation":                                    `{"name":"m"}`,
	"PUT /v1/admin/organisation/defaults":                           `{"input_guardrails":["$guardrail"]}`,
	"PUT /v1/workspace-exclusions/input-guardrails":                 `{"workspaces":[{"workspace_id":"red","excluded":true}]}`,
	"PUT /v1/workspace-exclusions/output-guardrails":                `{"workspaces":[{"workspace_id":"red","excluded":true}]}`,
	"POST /v1/api-keys/organisation/service":                        `{"name":"n","scopes":["logs.view"]}`,
	"POST /v1/api-keys/workspace/service":                           `{"name":"n","scopes":["logs.view"]}`,
	"POST /v1/api-keys/workspace/user":                              `{"name":"n","scopes":["logs.view"]}`,
	"PUT /v1/api-keys/{id}":                                         `{"name":"m"}`,
	"POST /v1/guardrails":                                           `{"name":"n","checks":[{"id":"default.notNull"}]}`,
	"PUT /v1/guardrails/{guardrailId}":                              `{"checks":[{"id":"default.wordCount","parameters":{"maxWords":3}}]}`,
	"POST /v1/policies/rate-limits":                                 `{"name":"n","type":"requests","unit":"rpm","value":3}`,
	"PUT /v1/policies/rate-limits/{id}":                             `{"value":4}`,
	"POST /v1/policies/usage-limits":                                `{"name":"n","type":"requests","credit_limit":3}`,
	"PUT /v1/policies/usage-limits/{id}":                            `{"credit_limit":4}`,
	"PUT /v1/plugins/{plugin_id}":                                   `{"credentials":null}`,
	"PUT /v1/prompts/{prompt_id}/share":                             `{}`,
	"POST /v1/prompts/{prompt_id}/share":                            `{}`,
	"PUT /v1/prompts/partials/{prompt_partial_id}/share":            `{}`,
	"POST /v1/prompts/partials/{prompt_partial_id}/share":           `{}`,
	"DELETE /v1/integrations/{slug}/models":                         ``,
	"PUT /v1/policies/usage-limits/{id}/entities/{entity_id}/reset": ``,
}

// notStored are the writing routes that change nothing of what the control plane stores.
var notStored = map[string]string{
	"POST /v1/guardrails/{guardrailId}/invoke": "judges a text",
	"POST /v1/logs": "adds data of callers, which are no part of the audit trail",
	"POST /v1/organisation/{organisation_id}/resync": "fetches anew what is cached",
}

// changeWorld makes objects for all routes, and returns where those in paths and bodies are.
func changeWorld(a *api) map[string]string {
	world := operationWorld(a)
	red := a.workspace("red")
	member, _ := a.member("member@example.com", "red", "member")
	invited, token := a.invite(`{"email":"invited@example.com","role":"member","workspaces":[]}`)
	_, key := a.key("workspace/service", `"logs.view"`)
	guardrail := a.ok("POST", "/v1/guardrails", `{"name":"g","checks":[{"id":"default.notNull"}]}`).get("slug").Str
	organisations := a.ok("POST", "/v1/guardrails", `{"name":"o","organisation_id":"`+a.s.Directory.Organisation().ID+`","checks":[{"id":"default.notNull"}]}`).get("slug").Str
	budget := a.ok("POST", "/v1/policies/usage-limits", `{"name":"b","type":"requests","credit_limit":3,"group_by":[{"key":"api_key"}]}`).get("id").Str
	for _, at := range []string{"/v1/prompts/" + world["/v1/prompts/{prompt_id}"], "/v1/prompts/partials/" + world["/v1/prompts/partials/{prompt_partial_id}"]} {
		a.ok("PUT", at, `{"string":"second"}`)
	}
	for at, id := range map[string]string{
		"$token": token, "$other": a.user("other@example.com", "member"), "$guardrail": organisations,
		"/v1/admin/users/{user_id}": member, "/v1/admin/users/invites/{invite_id}": invited, "/v1/admin/workspaces/{workspace_id}": red,
		"/v1/api-keys/{id}": key, "/v1/guardrails/{guardrailId}": guardrail, "/v1/policies/usage-limits/{id}": budget,
		"/v1/policies/rate-limits/{id}": a.ok("POST", "/v1/policies/rate-limits", `{"name":"r","type":"requests","unit":"rpm","value":3}`).get("id").Str,
	} {
		world[at] = id
	}
	a.spend(key)
	world["{log_id}"] = a.recorded("trace-of-the-tests")
	world["{entity_id}"] = a.ok("GET", "/v1/policies/usage-limits/"+budget+"/entities", "").get("data.0.id").Str
	world["{user_id}"] = member
	return world
}

// recorded adds the record of a call in the default workspace, waits until it can be read, and returns
// its trace id.
func (a *api) recorded(trace string) string {
	a.t.Helper()
	a.s.Records.Add(&reqlog.Record{TraceID: trace, At: a.s.Now(), WorkspaceID: a.s.Directory.DefaultWorkspace().ID, Status: 200})
	deadline := time.Now().Add(20 * time.Second)
	for a.ok("GET", "/v1/logs", "").get("total").Int() == 0 {
		if time.Now().After(deadline) {
			a.t.Fatal("no record is written")
		}
		runtime.Gosched()
	}
	return trace
}

// prepare makes objects for a route, and returns a path and a body with which it succeeds.
func (a *api) prepare(method, path string) (target, body string) {
	a.t.Helper()
	return a.prepareIn(changeWorld(a), method, path)
}

// prepareIn is prepare with objects that are there.
func (a *api) prepareIn(world map[string]string, method, path string) (target, body string) {
	a.t.Helper()
	name := method + " " + path
	target, body = path, operationBodies[name]
	if own, ok := changeBodies[name]; ok {
		body = own
	}
	at := "" // the longest path of an object that begins this one
	for known := range world {
		if strings.HasPrefix(known, "/") && len(known) > len(at) && (path == known || strings.HasPrefix(path, known+"/")) {
			at = known
		}
	}
	if at != "" {
		target = at[:strings.IndexByte(at, '{')] + world[at] + path[len(at):]
	}
	for _, name := range []string{"{entity_id}", "{user_id}", "{log_id}"} {
		target = strings.ReplaceAll(target, name, world[name])
	}
	target = strings.NewReplacer("{version_id}", "1", "{model}", "gpt-4o").Replace(target)
	for name, id := range world {
		body = strings.ReplaceAll(body, name, id)
	}
	switch {
	case strings.Contains(target, "{"):
		a.t.Fatalf("no object is known for %s", target)
	case strings.HasSuffix(path, "/models") && method == "DELETE":
		target += "?slugs=gpt-4o"
	case strings.HasSuffix(path, "/unshare") || strings.HasSuffix(path, "/share") && method == "DELETE":
		a.ok("PUT", target[:strings.LastIndexByte(target, '/')]+"/share", `{}`)
	case strings.HasSuffix(path, "/fork") && method == "DELETE":
		target = at[:strings.IndexByte(at, '{')] + a.ok("POST", target, `{}`).get("slug").Str + "/fork"
	case strings.HasPrefix(path, "/v1/model-configs") && method == "DELETE":
		a.ok("PUT", target, operationBodies["PUT "+path])
	}
	if method != "GET" && method != "DELETE" && body == "" {
		body = `{}`
	}
	return target, body
}

// spend has a key make a call that the policies count.
func (a *api) spend(key string) {
	a.t.Helper()
	verdict, err := a.s.Limits.Admit(a.t.Context(), a.s.Directory.DefaultWorkspace().ID, spent{key: key}, policies.ScopeAll, time.Second)
	if err == nil {
		err = a.s.Limits.Settle(a.t.Context(), verdict, policies.Used{})
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// spent is a call of an API key.
type spent struct{ key string }

func (s spent) Attribute(key string) (value, alias string, ok bool) {
	return s.key, "", key == policies.KeyAPIKey
}

func (spent) ModelUnread() (alias string, unread bool) { return "", false }

func (spent) PromptByTarget() bool               { return false }
func (spent) Reads() bool                        { return false }
func (spent) TokenLimits() *policies.TokenLimits { return nil }

func (spent) Demand(*estimate.Estimator) estimate.Demand { return estimate.Demand{} }

// Each route that changes something that is stored records in the audit trail what it was before and is
// after. The routes are those of the OpenAPI document, so that one without a body here fails.
func TestEveryWriteRecordsWhatItChanged(t *testing.T) {
	everyRoute(t, 70, func(r *routeCase) bool {
		_, not := notStored[r.name]
		return !not && r.method != "GET"
	}, func(t *testing.T, r *routeCase) {
		r.now.Add(int64(time.Minute))
		core, logged := observer.New(zap.WarnLevel)
		r.s.Logger = zap.New(core)
		r.serve()
		r.ok(r.method, r.target, r.sent)
		if all := logged.All(); len(all) > 0 {
			t.Errorf("it logs %s %v", all[0].Message, all[0].ContextMap())
		}
		row := r.trail()[0]
		if row.Method != r.method || row.Status != 200 || len(row.Changes) == 0 {
			t.Errorf("the row has no change: %+v", row)
		}
	})
}

// Of a long value, the trail has the beginning; that it changed behind that is recorded all the same.
func TestAChangeBehindWhatIsKeptIsTold(t *testing.T) {
	a := newAPI(t)
	long := strings.Repeat("a", 2000)
	id := a.ok("POST", "/v1/prompts/partials", `{"name":"n","string":"`+long+`"}`).get("slug").Str
	a.ok("PUT", "/v1/prompts/partials/"+id, `{"string":"`+long+`b"}`)
	a.ok("PUT", "/v1/prompts/partials/"+id+"/makeDefault", `{"version":2}`)
	recorded := false
	for _, c := range a.trail()[0].Changes {
		recorded = recorded || c.Field == "string"
		if len(c.From) > 1024 || len(c.To) > 1024 {
			t.Errorf("%s: %d and %d bytes", c.Field, len(c.From), len(c.To))
		}
	}
	if !recorded {
		t.Errorf("%+v", a.trail()[0].Changes)
	}
}
