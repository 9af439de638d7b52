package external

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// What the rows of some vendors need besides a template and a path.

var openaiCategories = []string{
	"hate", "hate/threatening", "harassment", "harassment/threatening", "self-harm", "self-harm/intent", "self-harm/instructions",
	"sexual", "sexual/minors", "violence", "violence/graphic",
}

var openaiCategoryList = strings.Join(openaiCategories, ", ") + ", illicit, illicit/violent"

var mistralCategories = []string{
	"sexual", "hate_and_discrimination", "violence_and_threats", "dangerous_and_criminal_content", "selfharm", "health", "financial", "law", "pii",
}

// judgingModel is the parameter model, which is not the model of the call.
func judgingModel(c *check, _ *guardrails.Subject, _, name string) (any, bool) {
	return c.p.Text("model"), name == "judge"
}

// moderated reads the answer of a moderation endpoint. Without chosen categories, what it flags
// counts.
func moderated(a *answer) (f finding, err error) {
	results := a.Get("results")
	if !results.IsArray() || len(results.Array()) == 0 {
		return f, a.unexpected("results")
	}
	chosen := a.p.Texts("categories")
	for _, result := range results.Array() {
		categories := result.Get("categories")
		if !categories.IsObject() {
			return f, a.unexpected("results[].categories")
		}
		found := trueMembers(categories)
		if len(chosen) > 0 {
			found = slices.DeleteFunc(found, func(name string) bool { return !slices.Contains(chosen, name) })
		}
		f.kinds = append(f.kinds, found...)
		f.found = f.found || len(found) > 0 || len(chosen) == 0 && result.Get("flagged").Bool()
	}
	return f, nil
}

// readLakera reads the verdict of Lakera Guard. What only detectors of personal data have found can
// be replaced, where they say that it is.
func readLakera(a *answer) (finding, error) {
	f, err := flag("flagged", "")(a)
	if err != nil || !f.found {
		return f, err
	}
	f.fixable = true
	for _, d := range a.Get("breakdown").Array() {
		if kind := d.Get("detector_type").Str; d.Get("detected").Bool() {
			f.kinds = append(f.kinds, kind)
			f.fixable = f.fixable && strings.HasPrefix(kind, "pii/")
		}
	}
	// The text is the last message.
	last := int64(len(messages(a.s, a.text)) - 1)
	var places []stretch
	for _, p := range a.Get("payload").Array() {
		if p.Get("message_id").Int() == last {
			_, kind, _ := strings.Cut(p.Get("detector_type").Str, "/")
			places = append(places, stretch{int(p.Get("start").Int()), int(p.Get("end").Int()), "[" + strings.ToUpper(kind) + "]"})
		}
	}
	if f.fixable = f.fixable && len(f.kinds) > 0 && len(places) > 0; f.fixable && a.redact {
		f.fixed, err = replaceStretches(a.text, places)
	}
	return f, err
}

// readPangeaGuard reads what the detectors of AI Guard have found.
func readPangeaGuard(a *answer) (f finding, err error) {
	detectors := a.Get("result.detectors")
	if !detectors.IsObject() {
		return f, a.unexpected("result.detectors")
	}
	detectors.ForEach(func(name, d gjson.Result) bool {
		if d.Get("detected").Bool() {
			f.found = true
			f.kinds = append(f.kinds, name.Str)
		}
		return true
	})
	return f, nil
}

// readPangeaRedact reads what Redact has replaced.
func readPangeaRedact(a *answer) (finding, error) {
	n, text := a.Get("result.count"), a.Get("result.redacted_data.0")
	if n.Type != gjson.Number || n.Num > 0 && text.Type != gjson.String {
		return finding{}, a.unexpected("result.count and result.redacted_data")
	}
	return finding{found: n.Num > 0, fixed: text.Str, fixable: true}, nil
}

// readPromptfooPII reads where promptfoo has found personal data.
func readPromptfooPII(a *answer) (f finding, err error) {
	all := a.Get("results.0.payload.pii")
	if !a.Get("results.0.flagged").Exists() && !all.IsArray() {
		return f, a.unexpected("results[].payload.pii")
	}
	var places []stretch
	for _, p := range all.Array() {
		kind := p.Get("entity_type").Str
		f.kinds = append(f.kinds, kind)
		places = append(places, stretch{int(p.Get("start").Int()), int(p.Get("end").Int()), "[" + strings.ToUpper(kind) + "]"})
	}
	f.found, f.fixable = len(places) > 0 || a.Get("results.0.flagged").Bool(), len(places) > 0
	if f.fixable && a.redact {
		f.fixed, err = replaceStretches(a.text, places)
	}
	return f, err
}

// pillarScanners are what Pillar looks for.
var pillarScanners = []string{"pii", "prompt_injection", "secrets", "toxic_language", "invisible_characters"}

func pillarRow(id, path string, judges phases) row {
	return row{
		id: id, doc: "none of Pillar's scanners finds anything", vendor: pillar, judges: judges,
		base: "https://api.pillarseclabs.com/api/v1", path: "/scan" + path, header: bearer,
		parameters: []guardrails.Parameter{{Name: "scanners", Type: guardrails.Texts, Required: true, OneOf: pillarScanners, Doc: "what is looked for"}},
		body:       object{"message": "$text", "scanners": "$scannersOn"},
		values: func(c *check, _ *guardrails.Subject, _, name string) (any, bool) {
			on := make(object)
			for _, s := range c.p.Texts("scanners") {
				on[s] = true
			}
			return on, name == "scannersOn"
		},
		read: func(a *answer) (f finding, err error) {
			for _, s := range a.p.Texts("scanners") {
				v := a.Get(s)
				if !v.Exists() {
					return f, a.unexpected(s)
				}
				if truthy(v) {
					f.found = true
					f.kinds = append(f.kinds, s)
				}
			}
			return f, nil
		},
	}
}

// crowdstrikeValues has the text as a chat, or its answer.
func crowdstrikeValues(_ *check, s *guardrails.Subject, text, name string) (any, bool) {
	all := messages(s, text)
	chat := object{"messages": all}
	if s.Phase == guardrails.Output {
		chat = object{"messages": all[:len(all)-1], "choices": list{object{"message": all[len(all)-1]}}}
	}
	return chat, name == "guardInput"
}

// readCrowdstrike reads the verdict of a policy, and what it has made of the last message.
func readCrowdstrike(a *answer) (finding, error) {
	if status := a.Get("status"); status.Str != "Success" {
		return finding{}, errors.New("the answer to " + a.id + " has another status than Success")
	}
	f, err := flag("result.blocked", "")(a)
	if err != nil || f.found || !a.Get("result.transformed").Bool() {
		return f, err
	}
	content := a.Get("result.guard_output.messages.0.content")
	if a.s.Phase == guardrails.Output {
		content = a.Get("result.guard_output.choices.0.message.content")
	}
	if content.Type != gjson.String {
		return finding{}, a.unexpected("result.guard_output")
	}
	return finding{found: true, fixed: content.Str, fixable: true}, nil
}

// readZscaler reads the verdict of a policy, or of one of its detectors.
func readZscaler(a *answer) (finding, error) {
	f, err := word("action", []string{"ALLOW", "DETECT"}, []string{"BLOCK"})(a)
	if err != nil {
		return f, err
	}
	a.Get("detectorResponses").ForEach(func(name, d gjson.Result) bool {
		if d.Get("action").Str == "BLOCK" {
			f.found = true
			f.kinds = append(f.kinds, name.Str)
		}
		return true
	})
	return f, nil
}

// readF5 reads the outcome of the scanners, and what was redacted.
func readF5(a *answer) (finding, error) {
	f, err := word("result.outcome", []string{"cleared"}, []string{"flagged", "redacted", "blocked"})(a)
	text := a.Get("redactedInput")
	f.fixed, f.fixable = text.Str, a.Get("result.outcome").Str == "redacted" && text.Type == gjson.String
	return f, err
}

// javelinApplication names the application, if one is set.
func javelinApplication(_ context.Context, _ *check, _ guardrails.Services, settings map[string]string, q *guardrails.Request) error {
	return optionalHeader(q, "x-javelin-application", settings["application"])
}

// lassoHeaders names the conversation and the user, if they are given.
func lassoHeaders(_ context.Context, c *check, _ guardrails.Services, _ map[string]string, q *guardrails.Request) error {
	return errors.Join(optionalHeader(q, "lasso-conversation-id", c.p.Text("conversationId")), optionalHeader(q, "lasso-user-id", c.p.Text("userId")))
}

// lassoValid checks what becomes headers.
func lassoValid(p *guardrails.Parameters) error {
	for _, name := range [...]string{"conversationId", "userId"} {
		if _, err := headerPart(p.Text(name)); err != nil {
			return &guardrails.ParameterError{Name: name, Message: err.Error()}
		}
	}
	return nil
}

func optionalHeader(q *guardrails.Request, name, v string) error {
	if v == "" {
		return nil
	}
	v, err := headerPart(v)
	if err == nil {
		q.Header.Set(name, v)
	}
	return err
}

// readJavelin reads whether an assessment rejects the text.
func readJavelin(a *answer) (f finding, err error) {
	all := a.Get("assessments")
	if !all.IsArray() {
		return f, a.unexpected("assessments")
	}
	for _, assessment := range all.Array() {
		assessment.ForEach(func(name, v gjson.Result) bool {
			if v.Get("request_reject").Bool() {
				f.found = true
				f.kinds = append(f.kinds, name.Str)
			}
			return true
		})
	}
	return f, nil
}

// patronusRows are the evaluators of Patronus.
func patronusRows() (rows []row) {
	for _, e := range []struct{ name, evaluator, criteria, doc string }{
		{"phi", "phi", "", "Patronus finds no health information in the answer"},
		{"pii", "pii", "", "Patronus finds no personal data, or it is replaced with redact"},
		{"toxicity", "toxicity", "", "Patronus finds the answer not toxic"},
		{"isConcise", "judge", "patronus:is-concise", "Patronus finds the answer concise"},
		{"isHelpful", "judge", "patronus:is-helpful", "Patronus finds the answer helpful"},
		{"isPolite", "judge", "patronus:is-polite", "Patronus finds the answer polite"},
		{"noApologies", "judge", "patronus:no-apologies", "Patronus finds no apologies in the answer"},
		{"noGenderBias", "judge", "patronus:no-gender-bias", "Patronus finds no gender bias in the answer"},
		{"noRacialBias", "judge", "patronus:no-racial-bias", "Patronus finds no racial bias in the answer"},
		{"retrievalAnswerRelevance", "retrieval-answer-relevance", "", "Patronus finds the answer relevant to the question"},
		{"retrievalHallucination", "hallucination", "patronus:hallucination", "Patronus finds no hallucination in the answer"},
		{"custom", "judge", "$criteria", "the answer meets criteria of one's own at Patronus"},
	} {
		evaluator := object{"evaluator": e.evaluator, "explain_strategy": "always"}
		r := row{
			id: "patronus." + e.name, doc: e.doc, vendor: patronus, judges: answers,
			base: "https://api.patronus.ai", path: "/v1/evaluate", header: map[string]string{"x-api-key": "{apiKey}"}, timeout: 15 * time.Second,
			body: object{"evaluators": list{evaluator}, "evaluated_model_input": "$prompt", "evaluated_model_output": "$answer"},
			read: passes("results.0.evaluation_result.pass"),
		}
		if e.criteria != "" {
			evaluator["criteria"] = e.criteria
		}
		if e.name == "pii" { // of calls too
			r.judges, r.redacts, r.read = both, true, readPatronusPII
			r.body = object{"evaluators": list{evaluator}, "evaluated_model_output": "$text"}
		}
		if e.name == "custom" {
			r.parameters = []guardrails.Parameter{{Name: "criteria", Required: true, Doc: "the name of the criteria"}}
		}
		rows = append(rows, r)
	}
	return rows
}

// readPatronusPII reads the verdict of the evaluator, and where it has found personal data.
func readPatronusPII(a *answer) (finding, error) {
	f, err := passes("results.0.evaluation_result.pass")(a)
	if err != nil || !f.found || !a.redact {
		return f, err
	}
	var places []stretch
	for _, p := range a.Get("results.0.evaluation_result.additional_info.positions").Array() {
		at := p.Array()
		if len(at) != 2 || at[0].Type != gjson.Number || at[1].Type != gjson.Number {
			return f, a.unexpected("positions that are two numbers")
		}
		places = append(places, stretch{int(at[0].Num), int(at[1].Num), "[PII]"})
	}
	if f.fixable = len(places) > 0; f.fixable {
		f.fixed, err = replaceStretches(a.text, places)
	}
	return f, err
}

var qualifireMode = guardrails.Parameter{Name: "mode", OneOf: []string{"speed", "balanced", "quality"}, Default: `"balanced"`, Doc: "speed or quality"}

// qualifireRows are the evaluations of Qualifire.
func qualifireRows() (rows []row) {
	mode := qualifireMode
	for _, e := range []struct {
		name       string
		judges     phases
		body       object
		parameters []guardrails.Parameter
		doc        string
	}{
		{"contentModeration", both, object{"content_moderation_check": true}, nil, "Qualifire finds nothing to moderate"},
		{"pii", both, object{"pii_check": true}, nil, "Qualifire finds no personal data"},
		{"promptInjections", calls, object{"prompt_injections": true}, nil, "Qualifire finds no prompt injection"},
		{"hallucinations", answers, object{"hallucinations_check": true, "hallucinations_mode": "$mode"}, []guardrails.Parameter{mode}, "Qualifire finds no hallucination"},
		{"grounding", answers, object{"grounding_check": true, "grounding_mode": "$mode"}, []guardrails.Parameter{mode}, "Qualifire finds the answer grounded in the call"},
		{"policy", both, object{"assertions": "$policies", "assertions_mode": "$mode", "policy_target": "$policy_target"}, []guardrails.Parameter{
			{Name: "policies", Type: guardrails.Texts, Required: true, Doc: "the policies, in words"},
			mode,
			{Name: "policy_target", OneOf: []string{"input", "output", "both"}, Default: `"both"`, Doc: "what they are about"},
		}, "Qualifire finds the policies met"},
	} {
		e.body["input"], e.body["output"] = "$prompt", "$answer"
		rows = append(rows, row{
			id: "qualifire." + e.name, doc: e.doc, vendor: qualifire, judges: e.judges, parameters: e.parameters,
			base: "https://proxy.qualifire.ai", path: "/api/evaluation/evaluate", header: map[string]string{"X-Qualifire-API-Key": "{apiKey}"}, timeout: time.Minute,
			body: e.body, read: unless("status", "failed"),
		})
	}
	return rows
}

// aktoValues has the text as the body of a request, in a string.
func aktoValues(_ *check, s *guardrails.Subject, text, name string) (any, bool) {
	switch name {
	case "payload":
		payload, err := json.Marshal(object{"prompt": text, "model": s.Model})
		return string(payload), err == nil
	case "time":
		return s.Services.Now().Unix(), true
	}
	return nil, false
}

// sydeGuard has scores for three categories.
var sydeGuard = row{
	id: "sydelabs.sydeguard", doc: "no score of SydeGuard is above its threshold",
	vendor: sydelabs, base: "https://guard.sydelabs.ai", path: "/api/v1/guard/generate-score", header: map[string]string{"x-api-key": "{apiKey}"},
	parameters: []guardrails.Parameter{
		{Name: "prompt_injection_threshold", Type: guardrails.Number, Default: "0.5", Max: 1, Doc: "the highest score that passes"},
		{Name: "toxicity_threshold", Type: guardrails.Number, Default: "0.5", Max: 1, Doc: "the highest score that passes"},
		{Name: "evasion_threshold", Type: guardrails.Number, Default: "0.5", Max: 1, Doc: "the highest score that passes"},
	},
	body: object{"prompt": "$text"}, read: readSydeGuard,
}

var sydeThresholds = map[string]string{"PROMPT_INJECT": "prompt_injection_threshold", "TOXIC": "toxicity_threshold", "EVASION": "evasion_threshold"}

// readSydeGuard reads the scores; each of the three must be there.
func readSydeGuard(a *answer) (f finding, err error) {
	seen := make(map[string]bool)
	for _, c := range a.Get("category_scores").Array() {
		category, score := c.Get("category").Str, c.Get("score")
		threshold, known := sydeThresholds[category]
		if !known || score.Type != gjson.Number {
			continue
		}
		seen[category] = true
		if score.Num > a.p.Number(threshold) {
			f.found = true
			f.kinds = append(f.kinds, category)
		}
	}
	if len(seen) < len(sydeThresholds) {
		return f, a.unexpected("category_scores of every category")
	}
	return f, nil
}
