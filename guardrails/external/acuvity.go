package external

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

var acuvity = vendor("acuvity", baseURL, key("apiKey"))

// acuvityDetectors are what Acuvity scores, each with the parameter that turns it on.
var acuvityDetectors = []struct{ parameter, group, name string }{
	{"prompt_injection", "exploits", "prompt_injection"},
	{"jail_break", "exploits", "jailbreak"},
	{"malicious_url", "exploits", "malicious_url"},
	{"toxic", "malcontents", "toxic"},
	{"biased", "malcontents", "biased"},
	{"harmful", "malcontents", "harmful"},
}

// acuvityEntities are what Acuvity finds places of, each with the first part of its parameters.
var acuvityEntities = []struct {
	parameter, kind string
	groups          []string
}{
	{"pii", "PII", []string{"PIIs", "piIs"}},
	{"secrets", "Secret", []string{"secrets"}},
}

var acuvityScan = row{
	id: "acuvity.scan", aliases: []string{"acuvity.Acuvity"}, doc: "none of Acuvity's detectors that are on finds anything; only pii and secrets, with pii_redact or secrets_redact, are replaced",
	vendor: acuvity, address: baseURL, locate: acuvityAddress, path: "/_acuvity/scan", header: bearer, oneByOne: true,
	parameters: acuvityParameters(), replaces: acuvityReplaces, valid: acuvityValid,
	body:   object{"anonymization": "FixedSize", "messages": list{"$text"}, "redactions": "$redactions", "type": "$event"},
	values: acuvityValues, read: readAcuvity,
}

func acuvityParameters() (all []guardrails.Parameter) {
	for _, d := range acuvityDetectors {
		all = append(
			all,
			guardrails.Parameter{Name: d.parameter, Type: guardrails.Boolean, Default: "true", Doc: "whether it is looked for"},
			guardrails.Parameter{Name: d.parameter + "_threshold", Type: guardrails.Number, Default: "0.5", Max: 1, Doc: "the least score that counts"},
		)
	}
	all = append(
		all,
		guardrails.Parameter{Name: "language", Type: guardrails.Boolean, Default: "true", Doc: "whether language_values count"},
		guardrails.Parameter{Name: "language_values", Doc: "a language that texts may not be in, such as eng_Latn"},
	)
	for _, e := range acuvityEntities {
		all = append(
			all,
			guardrails.Parameter{Name: e.parameter, Type: guardrails.Boolean, Doc: "whether they are looked for"},
			guardrails.Parameter{Name: e.parameter + "_categories", Type: guardrails.Texts, Doc: "only these count, as Acuvity names them"},
			guardrails.Parameter{Name: e.parameter + "_redact", Type: guardrails.Boolean, Doc: "what is found of the categories is replaced, and is no reason for a false verdict"},
		)
	}
	return all
}

// acuvityReplaces reports whether texts are replaced.
func acuvityReplaces(p *guardrails.Parameters) bool {
	return slices.ContainsFunc([]string{"pii", "secrets"}, func(name string) bool { return acuvityRedacts(p, name) })
}

func acuvityRedacts(p *guardrails.Parameters, name string) bool {
	return p.Boolean(name) && p.Boolean(name+"_redact")
}

// acuvityValid wants categories for what is replaced, since the service replaces only those that it
// is told.
func acuvityValid(p *guardrails.Parameters) error {
	for _, e := range acuvityEntities {
		if acuvityRedacts(p, e.parameter) && len(p.Texts(e.parameter+"_categories")) == 0 {
			return &guardrails.ParameterError{Name: e.parameter + "_categories", Message: "required with " + e.parameter + "_redact: a list of strings"}
		}
	}
	return nil
}

// acuvityAddress is where the service is, as the token itself says.
func acuvityAddress(settings map[string]string) (string, error) {
	_, rest, _ := strings.Cut(settings["apiKey"], ".")
	payload, _, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(payload, "="))
	at := gjson.GetBytes(claims, "opaque.apex-url").Str
	if err != nil || !gjson.ValidBytes(claims) || at == "" {
		return "", credentialError("apiKey", "expected a token of Acuvity, which says where the service is, or a "+baseURL+" with it")
	}
	return at, nil
}

// acuvityValues has what is to be replaced, and the phase.
func acuvityValues(c *check, s *guardrails.Subject, _, name string) (any, bool) {
	switch name {
	case "redactions":
		all := []string{}
		for _, e := range acuvityEntities {
			if acuvityRedacts(c.p, e.parameter) {
				all = append(all, c.p.Texts(e.parameter+"_categories")...)
			}
		}
		return all, true
	case "event":
		return map[bool]string{false: "Input", true: "Output"}[s.Phase == guardrails.Output], true
	}
	return nil, false
}

// readAcuvity reads the scores of a text, and what was found and replaced in it.
func readAcuvity(a *answer) (f finding, err error) {
	extraction := a.Get("extractions.0")
	if !extraction.IsObject() {
		return f, a.unexpected("extractions")
	}
	f.fixable = true
	found := func(kind string, fixable bool) {
		f.found, f.fixable = true, f.fixable && fixable
		f.kinds = append(f.kinds, kind)
	}
	for _, d := range acuvityDetectors {
		if score := extraction.Get(d.group + "." + d.name); a.p.Boolean(d.parameter) && score.Type == gjson.Number && score.Num >= a.p.Number(d.parameter+"_threshold") {
			found(d.name, false)
		}
	}
	if language := a.p.Text("language_values"); a.p.Boolean("language") && language != "" && member(extraction.Get("languages"), language).Num >= 0.5 {
		found(language, false)
	}
	for _, e := range acuvityEntities {
		if !a.p.Boolean(e.parameter) {
			continue
		}
		wanted := a.p.Texts(e.parameter + "_categories")
		seen := func(name string) {
			if len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, name) }) {
				found(name, acuvityRedacts(a.p, e.parameter))
			}
		}
		for _, group := range e.groups {
			extraction.Get(group).ForEach(func(name, _ gjson.Result) bool { seen(name.Str); return true })
		}
		for _, d := range extraction.Get("detections").Array() {
			if d.Get("type").Str == e.kind {
				seen(d.Get("name").Str)
			}
		}
	}
	data := extraction.Get("data")
	if f.found && f.fixable && data.Type != gjson.String {
		return f, a.unexpected("extractions[].data")
	}
	f.fixed = data.Str
	return f, nil
}

// member is a member of an object, whose name may have any characters.
func member(of gjson.Result, name string) (v gjson.Result) {
	of.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			v = value
		}
		return key.Str != name
	})
	return v
}
