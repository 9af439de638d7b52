package handlers_test

import (
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// What a call says of an address counts only with the caller's own credential.
func TestASecretOfASavedConfigGoesToNoAddressOfACall(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	l.on("ok", respond(200, gatewaytest.Completion))
	save := func(config map[string]any) string {
		return l.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": config}).Get("slug").Str
	}
	open := save(map[string]any{"azure_ad_token": "canary-of-the-config", "retry": map[string]any{"attempts": 1}})
	for field, headers := range map[string][]string{
		"x-gw-custom-host": {"x-gw-provider: azure-openai", "x-gw-custom-host: " + l.bad.URL},
		"x-gw-provider":    {"x-gw-provider: azure-openai", "x-gw-azure-resource-name: evil"},
	} {
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, append(headers, cue+"ok", "authorization: Bearer own", "x-gw-config: "+open)...)
		if a.Status != 400 || a.Get("error.param").Str != field {
			t.Errorf("%s: %d %s", field, a.Status, a.Body)
		}
	}
	named := save(map[string]any{"provider": "azure-openai", "api_key": "canary-of-the-config"})
	a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-config: "+named, "x-gw-azure-resource-name: evil")
	if a.Status != 400 || !strings.Contains(a.Body, "x-gw-azure-resource-name") {
		t.Errorf("a resource of the call's: %d %s", a.Status, a.Body)
	}
	a, _ = l.ask("GET", "/v1/batches/b1/output", "", "x-gw-config: "+named, "x-gw-azure-resource-name: evil")
	if a.Status != 400 || !strings.Contains(a.Body, "x-gw-azure-resource-name") {
		t.Errorf("a resource of the call's, for a batch's output: %d %s", a.Status, a.Body)
	}
	for _, c := range l.bad.Calls() {
		if strings.Contains(strings.Join(c.Header.Values("Authorization"), " "), "canary") {
			t.Error("the call's host got the config's credential")
		}
	}
}

// The credential of a saved config is a stored one as any other: it does not go to every
// path, nor to an account that the call names.
func TestASavedConfigsCredentialIsAStoredOne(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	slug := l.Admin("POST", "/v1/configs", map[string]any{"name": "c", "config": map[string]any{
		"provider": "openai", "api_key": "canary-of-the-config", "custom_host": l.bad.URL + "/v1",
	}}).Get("slug").Str
	for _, path := range []string{"DELETE /v1/models/m", "POST /v1/organization/admin_api_keys"} {
		method, path, _ := strings.Cut(path, " ")
		a, _ := l.ask(method, path, "{}", "content-type: application/json", "x-gw-config: "+slug)
		if a.Status != 403 || a.Get("error.code").Str != "path_not_allowed" {
			t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
	}
	l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "x-gw-config: "+slug, "openai-organization: theirs", cue+"ok")
	calls := l.bad.Calls()
	if len(calls) != 1 || calls[0].Header.Get("Authorization") != "Bearer canary-of-the-config" {
		t.Fatalf("the config's host got %d calls", len(calls))
	}
	if v := calls[0].Header.Get("Openai-Organization"); v != "" {
		t.Errorf("with the config's credential went the call's Openai-Organization: %s", v)
	}
}

func TestAServiceKeyIsNoProvidersCredential(t *testing.T) {
	l := newLab(t, "trusted_custom_hosts 127.0.0.1\n", "")
	other, _ := l.Key("other")
	for name, bearer := range map[string]string{"another key": other, "the owner's": gatewaytest.OwnerKey} {
		a, _ := l.ask("POST", "/v1/chat/completions", gatewaytest.Chat, "authorization: Bearer "+bearer, "x-gw-provider: openai", "x-gw-custom-host: "+l.bad.URL)
		if a.Status != 400 || a.Get("error.param").Str != "authorization" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if n := len(l.bad.Calls()); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
}

func TestTwoAuthorizationHeadersAreRefusedEverywhere(t *testing.T) {
	l := newLab(t, "", "")
	for _, path := range []string{"/v1/models", "/v1/files", "/v1/api-keys", "/v2/configs", "/v1/logs"} {
		a := l.Do("GET", path, "", "x-gw-api-key: "+gatewaytest.OwnerKey, "authorization: Bearer a", "authorization: Bearer b")
		if a.Status != 400 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}
