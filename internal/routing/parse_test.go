package routing

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/caddy-gw/gateway/guardrails/standard"
)

// saved are the options of a saved config; only "saved" is a saved provider.
var saved = Options{
	Saved:          true,
	SavedProvider:  func(_, name string) bool { return name == "saved" },
	HeaderPrefixes: []string{"X-Acme-"},
	CheckHost: func(host string) error {
		if strings.Contains(host, "169.254.169.254") {
			return errors.New("custom host refused: metadata")
		}
		return nil
	},
}

func parse(t testing.TB, raw string) *Config {
	t.Helper()
	c, faults := Parse([]byte(raw), saved)
	if len(faults) > 0 {
		t.Fatalf("Parse(%s): %s", raw, faults.Err())
	}
	return c
}

const (
	vk  = `{"virtual_key":"k"}`
	two = `"targets":[{"name":"a","virtual_key":"k"},{"name":"b","virtual_key":"l"}]`
)

func TestParseTakesEveryDocumentedCombination(t *testing.T) {
	for _, raw := range []string{
		`{"provider":"openai","api_key":"sk-1"}`,
		`{"provider":"openai","custom_host":"https://models.example.com/v1"}`,
		`{"provider":"@team-openai"}`,
		`{"provider":"saved"}`,
		`{"virtual_key":"k"}`,
		`{"strategy":{"mode":"single"},"targets":[{"virtual_key":"k"}]}`,
		`{"cache":{"mode":"simple"}}`,
		`{"cache":{"mode":"simple","max_age":60}}`,
		`{"cache":"simple"}`,
		`{"retry":{"attempts":3}}`,
		`{"retry":{"attempts":0,"on_status_codes":[429,503],"use_retry_after_header":true}}`,
		`{"retry":{"attempts":5,"use_retry_after_headers":false}}`,
		`{"forward_headers":["X-Request-Id","x-tenant"]}`,
		`{"request_timeout":1500}`,
		`{"passthrough":true}`,
		`{"passthrough":false,"strategy":{"mode":"single"},"targets":[{"virtual_key":"k"}]}`,
		`{"default_params":{"temperature":0.1}}`,
		`{"override_params":{"model":"@team/gpt-4o"}}`,
		`{"drop_params":["metadata.user","messages[*].name","tools[0]"]}`,
		`{"drop_params":[]}`,
		`{"fetch_integrated_models":true}`,
		`{"virtual_key":"k","strict_open_ai_compliance":false,"name":"n","weight":0}`,
		` {"strategy":{"mode":"fallback","on_status_codes":[429,246]},` + two + "}\n",
		`{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user","params.model","headers.x-tenant"],"ttl":60}},"targets":[{"virtual_key":"k","weight":0.25},{"virtual_key":"l","weight":0}]}`,
		`{"strategy":{"mode":"loadbalance","sticky":{"enabled":false}},` + two + `}`,
		`{"strategy":{"mode":"conditional","conditions":[{"query":{"$or":[{"metadata.plan":{"$eq":"paid"}},{"$and":[{"params.max_tokens":{"$gt":1,"$lte":"500"}},{"url.pathname":{"$regex":"^/v1/chat"}}]}]},"then":"a"}],"default":"b"},` + two + `}`,
		`{"strategy":{"mode":"conditional","conditions":[{"query":{"headers.x-tier":"gold"},"then":"a"}]},` + two + `}`,
		`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":3,"failure_threshold_percentage":50.5,"cooldown_interval":1,"failure_status_codes":[429],"minimum_requests":1}},` + two + `}`,
		`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":3}},"targets":[{"provider":"@a"},{"provider":"saved"},{"override_params":{"model":"@c/d"}}]}`,
		`{"provider":"bedrock","api_key":"x","aws_region":"us-east-1","aws_secret_access_key":"s/+=","vertex_service_account_json":{"private_key":"a\nb"},"azure_foundry_url":"https://x.example.com"}`,
	} {
		if _, faults := Parse([]byte(raw), saved); len(faults) > 0 {
			t.Errorf("Parse(%s): %s", raw, faults.Err())
		}
	}
}

func TestParseListsEveryFault(t *testing.T) {
	const none = "expected at least one of: virtual_key; provider with api_key, with custom_host or as the @slug of a saved provider; " +
		"strategy with targets; prompt_id; cache; retry; forward_headers; request_timeout; passthrough; override_params; default_params; drop_params; hooks, guardrails or mutators"
	mode := func(strategy string) string { return `{"strategy":` + strategy + `,` + two + `}` }
	query := func(q string) string {
		return mode(`{"mode":"conditional","default":"a","conditions":[{"query":` + q + `,"then":"b"}]}`)
	}
	const q = "strategy.conditions[0].query"
	for _, c := range []struct {
		raw  string
		want []string
	}{
		{``, []string{"config: expected a JSON object: it stops being one at byte 0"}},
		{`{"virtual_key":"k"`, []string{"config: expected a JSON object: it stops being one at byte 18"}},
		{`{"virtual_key":"k"}}`, []string{"config: expected a JSON object: it stops being one at byte 20"}},
		{`[]`, []string{"config: expected a JSON object"}},
		{`"pc-1"`, []string{"config: expected a JSON object"}},
		{"{\"virtual_key\":\"\xff\"}", []string{"config: expected UTF-8"}},
		{`{"virtual_key":"` + strings.Repeat("k", maxConfig) + `"}`, []string{"config: expected at most 256 KiB"}},
		{`{"default_params":{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}`, []string{"default_params.a" + strings.Repeat("[0]", 62) + ": nested more than 64 deep"}},
		{`{}`, []string{"config: " + none}},
		{`{"name":"n","weight":1}`, []string{"config: " + none}},
		{`{"api_key":"k"}`, []string{"config: " + none}},
		{`{"provider":"openai"}`, []string{"config: " + none}},
		{`{"strategy":{"mode":"single"},"targets":[{}]}`, []string{"targets[0]: " + none}},
		{
			`{"strategy":{"mode":"fallback"},"targets":[{"virtual_key":"k"},{"virtual_key":7,"retry":{"attempts":6,"on_status_codes":[99]}}],"wat":1}`,
			[]string{
				"wat: unknown key",
				"targets[1].virtual_key: expected a string",
				"targets[1].retry.attempts: expected an integer from 0 to 5",
				"targets[1].retry.on_status_codes[0]: expected an integer from 100 to 599",
			},
		},

		// Keys.
		{`{"virtual_key":"k","virtual_key":"l"}`, []string{"virtual_key: given more than once"}},
		{`{"virtual_key":"k","virtual\u005fkey":"l"}`, []string{"virtual_key: given more than once"}},
		{`{"override_params":{"a":{"b":1,"b":2}}}`, []string{"override_params.a.b: given more than once"}},
		{`{"strategy":{"mode":"single"},"targets":[{"virtual_key":"k"},{"virtual_key":"k","weight":1,"weight":1}]}`, []string{"targets[1].weight: given more than once"}},
		{`{"virtualKey":"k","virtual_key":"k"}`, []string{"virtualKey: unknown key: write virtual_key"}},
		{`{"retry":{"onStatusCodes":[500]}}`, []string{"retry.onStatusCodes: unknown key: write on_status_codes"}},
		{`{"virtual_key":"k","awsRegion":"x"}`, []string{"awsRegion: unknown key: write aws_region"}},
		{`{"virtual_key":"k","a b":1}`, []string{`["a b"]: unknown key`}},
		{`{"virtual_key":"k","` + strings.Repeat("x", 80) + `":1}`, []string{`["` + strings.Repeat("x", 64) + `…"]: unknown key`}},
		{`{"options":[{"provider":"openai"}]}`, []string{"options: no longer accepted: use targets"}},
		{`{"virtual_key":"k","start_hooks":[{"default.allowedRequestTypes":{},"async":true}]}`, []string{"start_hooks[0]: expected a guardrail that is not async: start hooks decide, and change nothing"}},
		{
			`{"virtual_key":"k","before_request_hooks":[{"checks":[{"id":"default.nope"}]}],"strategy":{"mode":"single"},"targets":[{"virtual_key":"k","input_guardrails":[{"regexMatch":{"rule":"(","nott":true},"deny":true}]}],"output_guardrails":[{"contains":{"wrods":["x"],"words":["x"]}}]}`,
			[]string{
				"before_request_hooks[0].checks[0].id: there is no check default.nope", "output_guardrails[0].contains.wrods: unknown parameter of default.contains",
				"targets[0].input_guardrails[0].regexMatch.nott: unknown parameter of default.regexMatch", "targets[0].input_guardrails[0].regexMatch.rule: invalid regular expression: error parsing regexp: missing closing ) in `(`",
			},
		},
		{`{"strategy":{"mode":"single"},"targets":[{"virtual_key":"k","start_hooks":[]}]}`, []string{"targets[0].start_hooks: only allowed at the top of a config"}},
		{
			`{"virtual_key":"k","before_request_hooks":["g"],"after_request_hooks":{},"input_guardrails":[7],"output_guardrails":[{"deny":1}],"input_mutators":[{"x":1}],"output_mutators":[""],"start_hooks":[1]}`,
			[]string{
				"before_request_hooks[0]: expected an object", "after_request_hooks: expected an array", "input_guardrails[0]: expected an object or the slug of a guardrail",
				"output_guardrails[0].deny: expected true or false", "input_mutators[0].x: expected an object of parameters", "output_mutators[0]: expected a slug of 1 to 256 bytes",
				"start_hooks[0]: expected an object or the slug of a guardrail",
			},
		},

		// Types and ranges.
		{`{"virtual_key":null}`, []string{"virtual_key: expected a string"}},
		{`{"virtual_key":""}`, []string{"virtual_key: expected a string of 1 to 256 bytes"}},
		{`{"virtual_key":"a\nb"}`, []string{"virtual_key: expected a string without control characters"}},
		{`{"virtual_key":"k","weight":-1}`, []string{"weight: expected a number from 0 to 1000000000"}},
		{`{"virtual_key":"k","weight":"1"}`, []string{"weight: expected a number from 0 to 1000000000"}},
		{`{"virtual_key":"k","weight":1e400}`, []string{"weight: expected a number from 0 to 1000000000"}},
		{`{"request_timeout":0}`, []string{"request_timeout: expected an integer from 1 to 86400000"}},
		{`{"request_timeout":1.5}`, []string{"request_timeout: expected an integer from 1 to 86400000"}},
		{`{"request_timeout":"1"}`, []string{"request_timeout: expected an integer from 1 to 86400000"}},
		{`{"virtual_key":"k","strict_open_ai_compliance":"false"}`, []string{"strict_open_ai_compliance: expected true or false"}},
		{`{"retry":null}`, []string{"retry: expected an object"}},
		{`{"retry":{"attempts":-1}}`, []string{"retry.attempts: expected an integer from 0 to 5"}},
		{`{"retry":{"on_status_codes":[]}}`, []string{"retry.on_status_codes: expected 1 to 500 elements"}},
		{`{"retry":{"on_status_codes":500}}`, []string{"retry.on_status_codes: expected an array"}},
		{`{"retry":{"use_retry_after_header":true,"use_retry_after_headers":true}}`, []string{"retry.use_retry_after_headers: the same as use_retry_after_header, which is given too"}},
		{`{"cache":{"mode":"semantic"}}`, []string{"cache.mode: semantic needs a model of embeddings, which the operator has not set up (semantic_cache)"}},
		{`{"cache":"semantic"}`, []string{"cache: semantic needs a model of embeddings, which the operator has not set up (semantic_cache)"}},
		{`{"cache":{"mode":"x"}}`, []string{"cache.mode: expected simple or semantic"}},
		{`{"cache":{"max_age":60}}`, []string{"cache.mode: required: simple or semantic"}},
		{`{"cache":{"mode":"simple","max_age":59}}`, []string{"cache.max_age: expected an integer from 60 to 7776000"}},
		{`{"cache":true}`, []string{"cache: expected an object"}},
		{`{"override_params":[]}`, []string{"override_params: expected an object"}},
		{`{"override_params":{"model":7}}`, []string{"override_params.model: expected a string of 1 to 510 bytes"}},
		{`{"override_params":{"stream":"yes"}}`, []string{"override_params.stream: expected true or false"}},
		{`{"override_params":{"":1}}`, []string{`override_params[""]: expected a path such as metadata.user, tools[0] or messages[*].name of 1 to 512 bytes`}},
		{`{"drop_params":["a..b","[0].a","a[x]","a[01]","a[99999]","a]b",7]}`, []string{
			"drop_params[0]: expected a path such as metadata.user, tools[0] or messages[*].name",
			"drop_params[1]: expected a path such as metadata.user, tools[0] or messages[*].name",
			"drop_params[2]: expected a path such as metadata.user, tools[0] or messages[*].name, with positions from 0 to 9999",
			"drop_params[3]: expected a path such as metadata.user, tools[0] or messages[*].name, with positions from 0 to 9999",
			"drop_params[4]: expected a path such as metadata.user, tools[0] or messages[*].name, with positions from 0 to 9999",
			"drop_params[5]: expected a path such as metadata.user, tools[0] or messages[*].name",
			"drop_params[6]: expected a string",
		}},
		{`{"default_params":{` + many(101, `"p%d":1`) + `}}`, []string{"default_params: expected at most 100 members"}},
		{`{"drop_params":[` + many(101, `"p%d"`) + `]}`, []string{"drop_params: expected 0 to 100 elements"}},
		{`{"provider":"openai","custom_host":"http://169.254.169.254/"}`, []string{"custom_host: custom host refused: metadata"}},
		{`{"virtual_key":"k","huggingface_base_url":"http://169.254.169.254/"}`, []string{"huggingface_base_url: custom host refused: metadata"}},
		{`{"virtual_key":"k","azure_resource_name":"evil.example.com/#"}`, []string{"azure_resource_name: expected letters, digits, hyphens, underscores and single dots only"}},
		{`{"virtual_key":"k","azure_deployment_id":".."}`, []string{"azure_deployment_id: expected letters, digits, hyphens, underscores and single dots only"}},
		{`{"virtual_key":"k","vertex_service_account_json":7}`, []string{"vertex_service_account_json: expected a string"}},

		// Headers to forward.
		{`{"forward_headers":["Authorization","COOKIE","x-api-key","Connection","host","Metadata-Flavor","X-Gw-Forward-Headers","x-acme-config","a b","","x-other-api-key"]}`, []string{
			"forward_headers[0]: a credential cannot be forwarded",
			"forward_headers[1]: a credential cannot be forwarded",
			"forward_headers[2]: a credential cannot be forwarded",
			"forward_headers[3]: a hop-by-hop header cannot be forwarded",
			"forward_headers[4]: part of the framing cannot be forwarded",
			"forward_headers[5]: a cloud-metadata header cannot be forwarded",
			"forward_headers[6]: a header of the gateway cannot be forwarded",
			"forward_headers[7]: a header of the gateway cannot be forwarded",
			"forward_headers[8]: expected the name of a header",
			"forward_headers[9]: expected a string of 1 to 256 bytes",
			"forward_headers[10]: a credential cannot be forwarded",
		}},
		{`{"forward_headers":["X-HTTP-Method-Override","x-http-method","X-Method-Override","x_original_url","X-Rewrite-URL","X-Original-Method","X-Forwarded-Host","x-forwarded-anything","Forwarded","Openai-Organization","OpenAI-Project"]}`, []string{
			"forward_headers[0]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[1]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[2]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[3]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[4]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[5]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[6]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[7]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[8]: a header that replaces part of the request cannot be forwarded",
			"forward_headers[9]: a header that chooses the account cannot be forwarded",
			"forward_headers[10]: a header that chooses the account cannot be forwarded",
		}},

		// Passthrough.
		{`{"passthrough":true,"override_params":{"a":1},"strategy":{"mode":"single"},"targets":[` + vk + `]}`, []string{
			"targets: not allowed with passthrough", "strategy: not allowed with passthrough", "override_params: not allowed with passthrough",
		}},
		{`{"passthrough":true,"input_guardrails":["g"]}`, []string{"input_guardrails: not allowed with passthrough"}},
		{`{"strategy":{"mode":"single"},"targets":[{"virtual_key":"k","passthrough":true,"fetch_integrated_models":true}]}`, []string{
			"targets[0].passthrough: only allowed at the top of a config", "targets[0].fetch_integrated_models: only allowed at the top of a config",
		}},

		// Strategies and targets.
		{`{"targets":[` + vk + `]}`, []string{"strategy: required with targets"}},
		{`{"strategy":{"mode":"single"}}`, []string{"targets: required with strategy"}},
		{`{"strategy":{"mode":"single"},"targets":[]}`, []string{"targets: expected 1 to 100 elements"}},
		{`{"strategy":{"mode":"single"},"targets":{}}`, []string{"targets: expected an array"}},
		{`{"strategy":{"mode":"single"},"targets":["k"]}`, []string{"targets[0]: expected an object"}},
		{mode(`[]`), []string{"strategy: expected an object"}},
		{mode(`{}`), []string{"strategy.mode: required: single, fallback, loadbalance or conditional"}},
		{mode(`{"mode":"roundrobin"}`), []string{"strategy.mode: expected single, fallback, loadbalance or conditional"}},
		{mode(`{"mode":7}`), []string{"strategy.mode: expected single, fallback, loadbalance or conditional"}},
		{mode(`{"mode":"single","on_status_codes":[500],"conditions":[],"default":"a","sticky":{"enabled":true},"wat":1}`), []string{
			"strategy.on_status_codes: only allowed in a fallback strategy",
			"strategy.conditions: only allowed in a conditional strategy",
			"strategy.default: only allowed in a conditional strategy",
			"strategy.sticky: only allowed in a loadbalance strategy",
			"strategy.wat: unknown key",
		}},
		{mode(`{"mode":"fallback","on_status_codes":["500"]}`), []string{"strategy.on_status_codes[0]: expected an integer from 100 to 599"}},
		{`{"strategy":{"mode":"loadbalance"},"targets":[{"virtual_key":"k","weight":0},{"virtual_key":"l","weight":0.0}]}`, []string{"targets: expected at least one weight above 0"}},
		{`{"strategy":{"mode":"fallback"},"targets":[` + many(101, `{"virtual_key":"k%d"}`) + `]}`, []string{"targets: expected 1 to 100 elements"}},
		{`{"strategy":{"mode":"conditional","default":"n"},"targets":[` + many(1001, `{"name":"n%d","virtual_key":"k"}`) + `]}`, []string{
			"targets: expected 1 to 1000 elements", `strategy.default: no target is named "n"`, "strategy.conditions: required in a conditional strategy",
		}},
		{`{"strategy":{"mode":"single"},"targets":[{"strategy":{"mode":"fallback"},"targets":[` + many(51, `{"virtual_key":"k%d"}`) + `]}]}`, []string{"targets[0].targets: expected 1 to 50 elements"}},
		{nested(11), []string{strings.Repeat("targets[0].", 10) + "targets: expected targets nested at most 10 deep"}},

		// Conditions.
		{mode(`{"mode":"conditional"}`), []string{"strategy.conditions: required in a conditional strategy"}},
		{mode(`{"mode":"conditional","conditions":[]}`), []string{"strategy.conditions: expected 1 to 5000 elements"}},
		{mode(`{"mode":"conditional","conditions":[{},7,{"query":{"params.a":1},"then":"c","x":1}],"default":"d"}`), []string{
			"strategy.conditions[0].query: required", "strategy.conditions[0].then: required: the name of a target",
			"strategy.conditions[1]: expected an object",
			`strategy.conditions[2].then: no target is named "c"`, "strategy.conditions[2].x: unknown key",
			`strategy.default: no target is named "d"`,
		}},
		{`{"strategy":{"mode":"conditional","conditions":[{"query":{"params.a":1},"then":"a"}]},"targets":[{"name":"a","virtual_key":"k"},{"name":"a","virtual_key":"k"}]}`, []string{`strategy.conditions[0].then: more than one target is named "a"`}},
		{query(`[]`), []string{q + ": expected an object"}},
		{query(`{}`), []string{q + ": expected at least one comparison"}},
		{query(`{"":1}`), []string{q + `[""]: expected a field, $and or $or`}},
		{query(`{"user":1,"metadata.":1,"url.query":1,"params.a[*]":1,"headers.a b":1,"headers.authorization":1,"headers.x-gw-api-key":1}`), []string{
			q + ".user: expected metadata.x, params.x, headers.x or url.pathname",
			q + `["metadata."]: expected metadata.x, params.x, headers.x or url.pathname`,
			q + `["url.query"]: expected metadata.x, params.x, headers.x or url.pathname`,
			q + `["params.a[*]"]: expected a path to one value`,
			q + `["headers.a b"]: expected metadata.x, params.x, headers.x or url.pathname`,
			q + `["headers.authorization"]: a credential is not to be read`,
			q + `["headers.x-gw-api-key"]: a credential is not to be read`,
		}},
		{query(`{"$not":{},"params.a":{"$like":1,"$eq":{},"$gt":"x","$in":7,"$nin":[[]],"$regex":"(?=a)"},"params.b":{},"params.c":[1]}`), []string{
			q + ".$not: unknown operator: expected a field, $and or $or",
			q + `["params.a"].$like: unknown operator: expected $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $regex`,
			q + `["params.a"].$eq: expected a string, a number, true, false or null`,
			q + `["params.a"].$gt: expected a number`,
			q + `["params.a"].$in: expected an array`,
			q + `["params.a"].$nin[0]: expected a string, a number, true, false or null`,
			q + `["params.a"].$regex: expected a regular expression of RE2, without lookaround and backreferences`,
			q + `["params.b"]: expected an operator`,
			q + `["params.c"]: expected a string, a number, true, false or null`,
		}},
		{query(`{"$or":{},"$and":[]}`), []string{q + ".$or: expected an array", q + ".$and: expected 1 to 5000 elements"}},
		{query(strings.Repeat(`{"$or":[`, 16) + `{"params.a":1}` + strings.Repeat(`]}`, 16)), []string{q + strings.Repeat(".$or[0]", 16) + ": nested more than 16 deep"}},
		{query(`{"params.a":{"$regex":"` + strings.Repeat("a", 513) + `"}}`), []string{q + `["params.a"].$regex: expected a string of 1 to 512 bytes`}},
		{query(`{"$and":[` + many(30, `{"params.a":{"$regex":"x%dx{900}"}}`) + `]}`), regexFaults(q, 30, 900)},
		{query(`{"$and":[` + many(101, `{"params.a%d":1}`) + `]}`), []string{q + `.$and[100]["params.a100"]: expected at most 100 different fields in a config`}},

		// Stickiness and breakers.
		{mode(`{"mode":"loadbalance","sticky":{"hash_fields":["url.pathname","user"],"ttl":0,"x":1}}`), []string{
			"strategy.sticky.hash_fields[0]: expected metadata.x, params.x or headers.x",
			"strategy.sticky.hash_fields[1]: expected metadata.x, params.x or headers.x",
			"strategy.sticky.ttl: expected an integer from 1 to 31536000",
			"strategy.sticky.x: unknown key",
			"strategy.sticky.enabled: required: true or false",
		}},
		{mode(`{"mode":"fallback","cb_config":{}}`), []string{"strategy.cb_config: expected failure_threshold or failure_threshold_percentage"}},
		{mode(`{"mode":"fallback","cb_config":{"failure_threshold":0,"failure_threshold_percentage":101,"cooldown_interval":"1","failure_status_codes":[1],"minimum_requests":0,"x":1}}`), []string{
			"strategy.cb_config.failure_threshold: expected an integer from 1 to 1000000000",
			"strategy.cb_config.failure_threshold_percentage: expected a number above 0 and up to 100",
			"strategy.cb_config.cooldown_interval: expected an integer from 0 to 86400000",
			"strategy.cb_config.failure_status_codes[0]: expected an integer from 100 to 599",
			"strategy.cb_config.minimum_requests: expected an integer from 1 to 1000000000",
			"strategy.cb_config.x: unknown key",
		}},
		{mode(`{"mode":"conditional","conditions":[{"query":{"params.a":1},"then":"a"}],"cb_config":{"failure_threshold":1}}`), []string{"strategy.cb_config: not allowed in a conditional strategy"}},
		{`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":1}},"targets":[` + vk + `,{"provider":"openai","api_key":"k"},{"strategy":{"mode":"single"},"targets":[{"provider":"openai","api_key":"k"}]}]}`, []string{
			"strategy.cb_config: config.targets[1] is not a virtual key or a saved provider, which is all that a breaker watches",
			"strategy.cb_config: config.targets[2].targets[0] is not a virtual key or a saved provider, which is all that a breaker watches",
		}},
	} {
		config, faults := Parse([]byte(c.raw), saved)
		if got := faults.Strings(); !slices.Equal(got, c.want) {
			t.Errorf("Parse(%.300s):\n got %s\nwant %s", c.raw, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
		if config != nil {
			t.Errorf("Parse(%.300s) returned a config with faults", c.raw)
		}
	}
}

func many(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = format
		if strings.Contains(format, "%d") {
			list[i] = fmt.Sprintf(format, i)
		}
	}
	return strings.Join(list, ",")
}

func nested(depth int) string {
	return strings.Repeat(`{"strategy":{"mode":"single"},"targets":[`, depth) + vk + strings.Repeat(`]}`, depth)
}

func regexFaults(q string, n, each int) (want []string) {
	for i := maxRegexes / (each + 5); i < n; i++ {
		want = append(want, fmt.Sprintf(`%s.$and[%d]["params.a"].$regex: the regular expressions of this config are too much work together`, q, i))
	}
	return want
}

func TestParseNeedsASavedVersionForState(t *testing.T) {
	for raw, want := range map[string]string{
		`{"strategy":{"mode":"loadbalance","sticky":{"enabled":true}},` + two + `}`:                                            "strategy.sticky: only allowed in a saved config",
		`{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":1}},` + two + `}`:                                     "strategy.cb_config: only allowed in a saved config",
		`{"strategy":{"mode":"single"},"targets":[{"strategy":{"mode":"loadbalance","sticky":{"enabled":true}},` + two + `}]}`: "targets[0].strategy.sticky: only allowed in a saved config",
		`{"provider":"saved"}`: "config: expected at least one of: ",
	} {
		if _, faults := Parse([]byte(raw), Options{}); len(faults) != 1 || !strings.HasPrefix(faults[0].String(), want) {
			t.Errorf("Parse(%s) = %s, want %s", raw, faults.Err(), want)
		}
	}
}

func TestParseKeepsWhatTheConfigSays(t *testing.T) {
	c := parse(t, `{
		"provider": "bedrock", "api_key": "sk-1", "custom_host": "https://h.example.com", "name": "n", "weight": 2.5,
		"aws_region": "eu-west-1", "aws_secret_access_key": "secret-of-aws",
		"retry": {"attempts": 2, "on_status_codes": [418], "use_retry_after_headers": true},
		"cache": {"mode": "simple", "max_age": 120}, "request_timeout": 2500,
		"forward_headers": ["x-tenant", "X-TENANT", "x-b"], "strict_open_ai_compliance": false,
		"override_params": {"seed": 12345678901234567890, "b": 1.10}, "default_params": {"a.b": null}, "drop_params": ["x[1].y"]
	}`)
	r := c.Root
	if r.Path != "config" || r.Provider != "bedrock" || r.APIKey.Reveal() != "sk-1" || r.Name != "n" || r.Weight != 2.5 || *r.Strict ||
		r.RequestTimeout != 2500*time.Millisecond || *r.Cache != (Cache{"simple", 2 * time.Minute}) || !reflect.DeepEqual(r.ForwardHeaders, []string{"X-Tenant", "X-B"}) {
		t.Errorf("root: %+v", r)
	}
	if r.Retry.Attempts != 2 || !r.Retry.UseRetryAfter || !r.Retry.On.Has(418) || r.Retry.On.Has(500) {
		t.Errorf("retry: %+v", r.Retry)
	}
	if len(r.Vendor) != 2 || r.Vendor[0].Name != "aws_region" || r.Vendor[0].Value.Reveal() != "eu-west-1" {
		t.Errorf("vendor: %v", r.Vendor)
	}
	e := r.Edit()
	if string(e.Lookup("seed")) != "12345678901234567890" || string(e.Lookup("b")) != "1.10" || e.Drop[0].String() != "x[1].y" || e.Default[0].Path.String() != "a.b" {
		t.Errorf("edit: %+v", e)
	}
	if printed := fmt.Sprintf("%+v %#v", r, r.Vendor); strings.Contains(printed, "secret-of-aws") || strings.Contains(printed, "sk-1") {
		t.Errorf("a secret is printed: %s", printed)
	}
	s := r.Selection()
	if s.Provider != "bedrock" || s.Bearer.Reveal() != "sk-1" || s.CustomHost != "https://h.example.com" || s.Model != "" {
		t.Errorf("selection: %+v", s)
	}
	if m := parse(t, `{"override_params":{"model":"@a/b\"c"}}`).Root.Selection().Model; m != `@a/b"c` {
		t.Errorf("model of the selection: %s", m)
	}
}

func TestParseBoundsTheFaults(t *testing.T) {
	_, faults := Parse([]byte(`{`+many(3000, `"k%d":1`)+`}`), Options{})
	if len(faults) != maxErrors+1 || faults[maxErrors].Message != "2001 more errors" {
		t.Errorf("%d faults, the last: %s", len(faults), faults[len(faults)-1])
	}
}

func TestParseDoesNotKeepTheCallersBytes(t *testing.T) {
	raw := []byte(`{"override_params":{"a":"before"}}`)
	c, _ := Parse(raw, Options{})
	copy(raw, strings.Repeat("x", len(raw)))
	if got := string(c.Root.Edit().Lookup("a")); got != `"before"` {
		t.Errorf("a = %s", got)
	}
}

func TestLimitsFromTheEnvironment(t *testing.T) {
	env := map[string]string{"MAX_ROOT_CONFIG_TARGETS": "2", "MAX_NESTED_CONFIG_TARGETS": "1"}
	l, err := LimitsFrom(func(name string) string { return env[name] })
	if err != nil || l != (Limits{Root: 2, ConditionalRoot: 1000, Nested: 1}) {
		t.Fatalf("%+v, %v", l, err)
	}
	_, faults := Parse([]byte(`{"strategy":{"mode":"fallback"},"targets":[`+vk+`,`+vk+`,{"strategy":{"mode":"single"},"targets":[`+vk+`,`+vk+`]}]}`), Options{Limits: l})
	if got, want := faults.Strings(), []string{"targets: expected 1 to 2 elements"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	env["MAX_ROOT_CONFIG_TARGETS"] = "many"
	if l, err := LimitsFrom(func(name string) string { return env[name] }); err == nil || l != DefaultLimits {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestInheritance(t *testing.T) {
	c := parse(t, `{
		"retry": {"attempts": 1}, "cache": "simple", "request_timeout": 1000, "custom_host": "https://up.example.com",
		"forward_headers": ["x-up"], "strict_open_ai_compliance": true,
		"override_params": {"model": "up", "seed": 1}, "default_params": {"user": "up", "n": 1}, "drop_params": ["a", "b.c"],
		"strategy": {"mode": "fallback"},
		"targets": [
			{"virtual_key": "k"},
			{"virtual_key": "l", "retry": {"attempts": 0}, "cache": {"mode": "simple", "max_age": 60}, "request_timeout": 2000, "custom_host": "https://own.example.com",
			 "forward_headers": [], "strict_open_ai_compliance": false,
			 "override_params": {"seed": 2, "top_p": 0}, "default_params": {"n": 2}, "drop_params": ["b.c", "d"]},
			{"strategy": {"mode": "single"}, "override_params": {"seed": 3}, "targets": [{"virtual_key": "m", "override_params": {"seed": 4}}]}
		]
	}`)
	spell := func(list []Param) string {
		var parts []string
		for _, p := range list {
			parts = append(parts, p.Key+"="+string(p.Value))
		}
		return strings.Join(parts, " ")
	}
	for _, w := range []struct {
		t                        *Target
		attempts                 int
		age, timeout             time.Duration
		host, headers            string
		strict                   bool
		override, defaults, drop string
	}{
		{c.Root.Targets[0], 1, 0, time.Second, "https://up.example.com", "[X-Up]", true, `model="up" seed=1`, `user="up" n=1`, "[a b.c]"},
		{c.Root.Targets[1], 0, time.Minute, 2 * time.Second, "https://own.example.com", "[]", false, `model="up" seed=2 top_p=0`, `user="up" n=2`, "[a b.c d]"},
		{c.Root.Targets[2].Targets[0], 1, 0, time.Second, "https://up.example.com", "[X-Up]", true, `model="up" seed=4`, `user="up" n=1`, "[a b.c]"},
	} {
		e := w.t.Edit()
		if w.t.Retry.Attempts != w.attempts || w.t.Cache.MaxAge != w.age || w.t.RequestTimeout != w.timeout || w.t.CustomHost != w.host ||
			fmt.Sprint(w.t.ForwardHeaders) != w.headers || *w.t.Strict != w.strict ||
			spell(e.Override) != w.override || spell(e.Default) != w.defaults || fmt.Sprint(e.Drop) != w.drop {
			t.Errorf("%s: %+v %+v", w.t.Path, w.t, e)
		}
	}
}

func TestBreakersAreInherited(t *testing.T) {
	c := parse(t, `{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":1}},"targets":[
		{"virtual_key":"k"},
		{"strategy":{"mode":"single"},"targets":[{"virtual_key":"l"}]},
		{"strategy":{"mode":"single","cb_config":{"failure_threshold":2,"cooldown_interval":90000}},"targets":[{"virtual_key":"m"}]},
		{"strategy":{"mode":"conditional","conditions":[{"query":{"params.a":1},"then":"n"}]},"targets":[{"name":"n","virtual_key":"n"}]}]}`)
	for i, want := range []struct {
		failures int
		cooldown time.Duration
	}{{1, 30 * time.Second}, {1, 30 * time.Second}, {2, 90 * time.Second}, {1, 30 * time.Second}} {
		leaf := c.Root.Targets[i]
		for !leaf.Leaf() {
			leaf = leaf.Targets[0]
		}
		if leaf.Breaker == nil || leaf.Breaker.Failures != want.failures || leaf.Breaker.Cooldown != want.cooldown || leaf.Breaker.MinimumRequests != 5 {
			t.Errorf("%s: %+v", leaf.Path, leaf.Breaker)
		}
	}
}
