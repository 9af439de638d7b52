// Package standard has the checks that are built in: one file each, with its table of parameters.
package standard

import (
	"context"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
)

func init() {
	guardrails.Register(
		addPrefix, allLowerCase, allUpperCase, allowedRequestTypes, characterCount, contains, containsCode, endsWith, gibberish, jsonKeys,
		jsonSchema, language, modelRules, modelWhitelist, notNull, pii, promptInjection, regexMatch, regexReplace, requestParameters, requiredMetadataKeyPairs,
		requiredMetadataKeys, secrets, sentenceCount, wordCount, wordList,
	)
}

// data is what a check says besides its verdict.
type data map[string]any

// not is the parameter that many checks have.
var not = guardrails.Parameter{Name: "not", Type: guardrails.Boolean, Doc: "inverts the verdict"}

// operator is how a list of names is to be met.
func operator(initial string) guardrails.Parameter {
	return guardrails.Parameter{Name: "operator", OneOf: []string{"any", "all", "none"}, Default: `"` + initial + `"`, Doc: "how many of the list"}
}

// meets applies an operator to how many of a list were found.
func meets(operator string, found, of int) bool {
	switch operator {
	case "any":
		return found > 0
	case "all":
		return found == of
	}
	return found == 0
}

// howMany says how many of a list were found, by the operator that was or was not met.
func howMany(operator string, met bool) string {
	switch {
	case operator == "all" && met:
		return "has all"
	case operator == "all":
		return "does not have all"
	case met == (operator == "any"):
		return "has at least one"
	}
	return "has none"
}

// judged returns the result of a check that may be inverted. found is whether what was looked for is
// there; yes and no are the sentences that say so, whatever the verdict.
func judged(found, inverted bool, yes, no string, d data) guardrails.Result {
	d["explanation"] = no
	if found {
		d["explanation"] = yes
	}
	d["not"] = inverted
	return guardrails.Result{Verdict: found != inverted, Data: d}
}

// A pacer has a check look at its context each few KiB, so that the check ends soon after the time
// of its hook.
type pacer struct {
	ctx   context.Context
	spent int // since the context was looked at
}

// pace is called with the bytes that were looked at. The error is that of the context.
func (p *pacer) pace(n int) error {
	const most = 16 << 10
	if p.spent += n; p.spent < most {
		return nil
	}
	p.spent = 0
	return p.ctx.Err()
}

// split splits a text with commas into its parts.
func split(list string) []string {
	var parts []string
	for _, part := range strings.Split(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
