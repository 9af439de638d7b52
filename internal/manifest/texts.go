package manifest

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/routing"
)

// configTexts and guardrailTexts are how versions of configs and guardrails are in documents.
var (
	configTexts = &texts{
		members: []string{"config"},
		show: func(text string, secret func(string) (string, error)) (map[string]string, error) {
			config, err := routing.ReplaceSecrets(text, func(_, value string) (string, error) { return secret(value) })
			return map[string]string{"config": config}, err
		},
		parse: func(v gjson.Result, secret func(string) (string, error)) (string, error) {
			config := v.Get("config")
			if !config.IsObject() {
				return "", wrong("config", "expected an object")
			}
			return routing.ReplaceSecrets(config.Raw, func(_, value string) (string, error) { return secret(value) })
		},
		check: func(x *session, workspace, text string) error {
			o := x.ParseOptions
			o.Workspace = workspace
			if _, faults := routing.Parse([]byte(text), o); len(faults) > 0 {
				return wrong("config", "%s", strings.TrimPrefix(strings.Join(faults.Strings(), "; "), "config: "))
			}
			return nil
		},
	}

	guardrailTexts = &texts{
		members: []string{"checks", "actions"},
		show: func(text string, secret func(string) (string, error)) (map[string]string, error) {
			all := gjson.Parse(text)
			checks, err := replaceParameters(all.Get("checks").Raw, secret)
			return map[string]string{"checks": checks, "actions": all.Get("actions").Raw}, err
		},
		parse: func(v gjson.Result, secret func(string) (string, error)) (string, error) {
			checks, actions := v.Get("checks"), v.Get("actions")
			if !checks.IsArray() {
				return "", wrong("checks", "expected an array")
			}
			if !actions.Exists() {
				actions.Raw = "{}"
			}
			replaced, err := replaceParameters(checks.Raw, secret)
			return `{"checks":` + replaced + `,"actions":` + actions.Raw + `}`, err
		},
		check: func(x *session, _, text string) error {
			var faults []string
			all := gjson.Parse(text)
			hooks.Saved([]byte(all.Get("checks").Raw), []byte(all.Get("actions").Raw), hooks.Options{CheckHost: x.ParseOptions.CheckHost}, func(path, message string) {
				faults = append(faults, path+": "+message)
			})
			if len(faults) > 0 {
				return fmt.Errorf("%s", strings.Join(faults, "; "))
			}
			return nil
		},
	}
)

// replaceParameters replaces the credentials among the parameters of checks.
func replaceParameters(checks string, secret func(string) (string, error)) (replaced string, err error) {
	replaced = checks
	hooks.SecretParameters([]byte(checks), func(_ gjson.Result, s *hooks.SecretParameter) {
		var other string
		if err == nil {
			other, err = secret(s.Value)
		}
		if err == nil {
			replaced, err = sjson.Set(replaced, s.Path, other)
		}
	})
	return replaced, err
}
