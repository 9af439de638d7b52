package handlers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// canary is a new one. Many have the same mask.
func (s *scene) canary(t *rapid.T) string {
	return s.next(byte(rapid.IntRange('a', 'c').Draw(t, "end")))
}

func (s *scene) host(t *rapid.T) string {
	return "http://" + rapid.SampledFrom(s.hosts).Draw(t, "host") + "/v1"
}

func chance(t *rapid.T, percent int) bool { return rapid.IntRange(0, 99).Draw(t, "chance") < percent }

// value is what a setting may be.
func (s *scene) value(t *rapid.T, name string) any {
	switch worldRows[name] {
	case rowSecret:
		return s.canary(t)
	case rowAccount:
		account := maps.Clone(s.account)
		account["client_email"] = s.canary(t)
		if chance(t, 70) {
			account["token_uri"] = "http://" + rapid.SampledFrom(s.hosts).Draw(t, "token server") + "/token"
		}
		return textOf(account)
	case rowPlace:
		return fmt.Sprintf("plc%d%cz", slices.Index(rowNames, name), rapid.IntRange('a', 'c').Draw(t, "place"))
	case rowHost:
		return s.host(t)
	}
	if name == "azure_auth_mode" {
		return rapid.SampledFrom([]string{"", "entra"}).Draw(t, "mode")
	}
	return "opt"
}

// settings are some settings of a provider, and those that it needs.
func (s *scene) settings(t *rapid.T, name string, to map[string]any) {
	for _, needed := range worldProviders[name].settings {
		to[needed] = s.value(t, needed)
	}
	vendor := map[string]string{"azure-openai": "azure_", "azure-ai": "azure_", "bedrock": "aws_", "vertex-ai": "vertex_", "huggingface": "huggingface_"}[name]
	own := slices.DeleteFunc(slices.Clone(rowNames), func(row string) bool { return vendor == "" || !strings.HasPrefix(row, vendor) })
	switch {
	case vendor == "azure_" && chance(t, 30):
		to["azure_auth_mode"] = "entra"
		for _, row := range []string{"azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret"} {
			to[row] = s.value(t, row)
		}
	case vendor == "aws_":
		own = slices.DeleteFunc(own, func(row string) bool { return row == "aws_role_arn" }) // which is the ARN of a role
		for _, row := range []string{"aws_access_key_id", "aws_secret_access_key"} {
			to[row] = s.value(t, row)
		}
	case vendor == "vertex_":
		to["vertex_project_id"] = s.value(t, "vertex_project_id")
		if chance(t, 50) {
			to["vertex_service_account_json"] = s.value(t, "vertex_service_account_json")
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "settings") {
		from := rowNames
		if len(own) > 0 && chance(t, 80) {
			from = own
		}
		row := rapid.SampledFrom(from).Draw(t, "setting")
		to[row] = s.value(t, row)
	}
}

var worldNames = slices.Sorted(maps.Keys(worldProviders))

// edit changes a member of an object as somebody who does not know what is masked could,
// or with new secrets.
func (s *scene) edit(t *rapid.T, object map[string]any) {
	members := slices.Sorted(maps.Keys(object))
	row := rapid.SampledFrom(rowNames).Draw(t, "setting")
	if len(members) > 0 && chance(t, 50) {
		if own := rapid.SampledFrom(members).Draw(t, "member"); worldRows[own] != "" {
			row = own
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0:
		delete(object, row)
	case 1: // the mask of another
		if len(members) > 0 {
			if v := says(object, rapid.SampledFrom(members).Draw(t, "mask")); strings.Contains(v, "*****") {
				object[row] = v
			}
		}
	default:
		object[row] = s.value(t, row)
	}
}

// node is a config, or a target of one.
func (s *scene) node(t *rapid.T, depth int) map[string]any {
	n := map[string]any{"request_timeout": 30000}
	if chance(t, 35) {
		n["custom_host"] = rapid.SampledFrom([]string{s.host(t), s.host(t), ""}).Draw(t, "custom host")
	}
	if chance(t, 20) {
		n["override_params"] = map[string]any{"upstream_token": s.canary(t)}
	}
	if depth < 3 && chance(t, 60-20*depth) {
		n["strategy"] = map[string]any{"mode": rapid.SampledFrom([]string{"single", "fallback", "loadbalance"}).Draw(t, "mode")}
		targets := make([]any, rapid.IntRange(1, 2).Draw(t, "targets"))
		for i := range targets {
			targets[i] = s.node(t, depth+1)
		}
		n["targets"] = targets
		return n
	}
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind == 0 && len(s.virtual) > 0:
		n["virtual_key"] = rapid.SampledFrom(s.virtual).Draw(t, "slug")
		delete(n, "custom_host")
	case kind == 1:
		s.settings(t, rapid.SampledFrom(worldNames).Draw(t, "vendor"), n) // and no provider
	default:
		name := rapid.SampledFrom(worldNames).Draw(t, "provider")
		n["provider"] = name
		s.settings(t, name, n)
	}
	if chance(t, 70) {
		n["api_key"] = s.canary(t)
	}
	return n
}

func clone(object map[string]any) (out map[string]any) {
	if err := json.Unmarshal([]byte(textOf(object)), &out); err != nil {
		panic(err)
	}
	return out
}

// slug is one of a saved provider.
func (s *scene) slug(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{"file"}, s.virtual...)).Draw(t, "slug")
}

func chatOf(model string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],"input":"hi","max_tokens":5}`, model)
}

// inline is a config of a call itself.
func (s *scene) inline(t *rapid.T) map[string]any {
	var leaf map[string]any
	if chance(t, 70) {
		leaf = map[string]any{"virtual_key": s.slug(t)}
		if chance(t, 50) {
			leaf = map[string]any{"provider": "@" + s.slug(t)}
		}
	} else {
		leaf = s.node(t, 3)
		s.release(leaf)
	}
	for range rapid.IntRange(0, 1).Draw(t, "own settings") {
		row := rapid.SampledFrom(rowNames).Draw(t, "setting")
		leaf[row] = s.value(t, row)
		s.release(leaf[row])
	}
	if chance(t, 30) {
		leaf["custom_host"] = s.host(t)
	}
	if chance(t, 20) {
		leaf["override_params"] = map[string]any{"model": "@" + s.slug(t) + "/m"}
	}
	if chance(t, 50) {
		outer := map[string]any{"strategy": map[string]any{"mode": "fallback"}, "targets": []any{leaf}}
		if chance(t, 50) {
			outer["custom_host"] = s.host(t)
		}
		return outer
	}
	return leaf
}
