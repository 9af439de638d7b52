package external

import (
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// acuvityToken says that the service is at acuvity.example.com.
const acuvityToken = "e30.eyJvcGFxdWUiOnsiYXBleC11cmwiOiJodHRwczovL2FjdXZpdHkuZXhhbXBsZS5jb20ifX0.x"

func init() {
	acuvityHeader, panwHeader := map[string]string{"Authorization": "Bearer " + acuvityToken}, map[string]string{"x-pan-token": "k"}
	const acuvityURL, panwURL = "https://acuvity.example.com/_acuvity/scan", "https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request"
	conversation := `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":[{"type":"text","text":"three <system-reminder>x</system-reminder>"}]},{"role":"tool","content":"four"}]}`
	panwBody := func(text string) string {
		return `{"ai_profile":{"profile_id":"i"},"metadata":{"ai_model":"unknown-model","app_user":"ann"},"contents":[{"prompt":"` + text + `"}]}`
	}
	qualifireURL, qualifireHeader := "https://proxy.qualifire.ai/api/evaluation/evaluate", map[string]string{"X-Qualifire-API-Key": "k"}
	verdicts := [][3]string{{`{"status":"success"}`, "true"}, {`{"status":"failed"}`, "false"}, {`{}`, "error"}}
	trials = append(
		trials,
		trial{
			id: "acuvity.scan", parameters: `{"toxic":false,"language_values":"eng_Latn","biased_threshold":0.9}`, credentials: `{"apiKey":"` + acuvityToken + `"}`,
			want: wanted{acuvityURL, acuvityHeader, `{"anonymization":"FixedSize","messages":["Ann's number is 12"],"redactions":[],"type":"Input"}`},
			replies: [][3]string{
				{`{"extractions":[{"data":"x","exploits":{"jailbreak":0.4},"malcontents":{"toxic":1,"biased":0.8},"languages":{"deu_Latn":1},"PIIs":{"person":1}}]}`, "true"},
				{`{"extractions":[{"exploits":{"jailbreak":0.5}}]}`, "false"},
				{`{"extractions":[{"malcontents":{"biased":0.9}}]}`, "false"},
				{`{"extractions":[{"languages":{"eng_Latn":0.9}}]}`, "false"},
				{`{"extractions":[]}`, "error"},
			},
		},
		trial{
			id: "acuvity.Acuvity", parameters: `{"pii":true,"pii_redact":true,"pii_categories":["person"],"secrets":true}`, credentials: `{"apiKey":"k","baseUrl":"https://acuvity.example.com/"}`, output: true,
			want: wanted{acuvityURL, map[string]string{"Authorization": "Bearer k"}, `{"anonymization":"FixedSize","messages":["Ann's number is 12"],"redactions":["person"],"type":"Output"}`},
			replies: [][3]string{
				{`{"extractions":[{"data":"***'s number is 12","PIIs":{"person":0.9}}]}`, "true", "***'s number is 12"},
				{`{"extractions":[{"data":"***'s number is 12","detections":[{"type":"PII","name":"person"}]}]}`, "true", "***'s number is 12"},
				{`{"extractions":[{"data":"***'s number is 12","PIIs":{"person":0.9},"secrets":{"aws":1}}]}`, "false"},
				{`{"extractions":[{"data":"***'s number is 12","PIIs":{"ssn":0.9}}]}`, "true"},
				{`{"extractions":[{"PIIs":{"person":0.9}}]}`, "error"},
			},
		},
		trial{
			id: "sydelabs.sydeguard", parameters: `{"toxicity_threshold":0.9}`, credentials: `{"apiKey":"k"}`,
			want: wanted{"https://guard.sydelabs.ai/api/v1/guard/generate-score", map[string]string{"x-api-key": "k"}, `{"prompt":"Ann's number is 12"}`},
			replies: [][3]string{
				{`{"category_scores":[{"category":"EVASION","score":0.5},{"category":"PROMPT_INJECT","score":0},{"category":"TOXIC","score":0.9}]}`, "true"},
				{`{"category_scores":[{"category":"EVASION","score":0.6},{"category":"PROMPT_INJECT","score":0},{"category":"TOXIC","score":0}]}`, "false"},
				{`{"category_scores":[{"category":"EVASION","score":0.1}]}`, "error"},
			},
		},
		trial{
			id: "patronus.pii", parameters: `{"redact":true}`, credentials: `{"apiKey":"k"}`,
			want: wanted{"https://api.patronus.ai/v1/evaluate", map[string]string{"x-api-key": "k"}, `{"evaluators":[{"evaluator":"pii","explain_strategy":"always"}],"evaluated_model_output":"Ann's number is 12"}`},
			replies: [][3]string{
				{`{"results":[{"evaluation_result":{"pass":true}}]}`, "true"},
				{`{"results":[{"evaluation_result":{"pass":false,"additional_info":{"positions":[[0,3],[16,18]]}}}]}`, "true", "[PII]'s number is [PII]"},
				{`{"results":[{"evaluation_result":{"pass":false}}]}`, "false"},
				{`{"results":[{"evaluation_result":{"pass":false,"additional_info":{"positions":[["a"]]}}}]}`, "error"},
				{`{"results":[{"evaluation_result":{"pass":false,"additional_info":{"positions":[[0,99]]}}}]}`, "error"},
			},
		},
		trial{
			id: "panw-prisma-airs.intercept", parameters: `{"profile_id":"i","scan_scope":"last_user_message","strip_scaffolding":true}`, credentials: `{"AIRS_API_KEY":"k"}`, request: conversation,
			want: wanted{panwURL, panwHeader, panwBody("three")}, replies: [][3]string{{`{"action":"allow"}`, "true"}},
		},
		trial{
			id: "panw-prisma-airs.intercept", parameters: `{"profile_id":"i","scan_scope":"user_messages"}`, credentials: `{"AIRS_API_KEY":"k"}`, request: conversation,
			want: wanted{panwURL, panwHeader, panwBody(`one\nthree <system-reminder>x</system-reminder>`)}, replies: [][3]string{{`{"action":"block"}`, "false"}},
		},
		trial{
			id: "panw-prisma-airs.intercept", parameters: `{"profile_id":"i","scan_scope":"all_messages","strip_scaffolding":true}`, credentials: `{"AIRS_API_KEY":"k"}`, request: conversation,
			want: wanted{panwURL, panwHeader, panwBody(`one\ntwo\nthree \nfour`)}, replies: [][3]string{{`{"action":"allow"}`, "true"}},
		},
		trial{
			id: "panw-prisma-airs.intercept", parameters: `{"profile_id":"i","scan_scope":"user_messages"}`, credentials: `{"AIRS_API_KEY":"k"}`, request: `{"prompt":"a"}`,
			want: wanted{panwURL, panwHeader, panwBody("Ann's number is 12")}, replies: [][3]string{{`{"action":"allow"}`, "true"}},
		},
		trial{
			id: "qualifire.toolUseQuality", parameters: `{"mode":"speed"}`, credentials: `{"apiKey":"k"}`, output: true,
			request:  `{"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},{"type":"web_search"}]}`,
			response: `{"choices":[{"message":{"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}`,
			want:     wanted{qualifireURL, qualifireHeader, `{"messages":[{"role":"user","content":"asked"},{"role":"assistant","content":"Ann's number is 12","tool_calls":[{"id":"1","name":"f","arguments":{"a":1}}]}],"available_tools":[{"name":"f","description":"d","parameters":{"type":"object"}}],"tool_use_quality_check":true,"tuq_mode":"speed"}`},
			replies:  verdicts,
		},
		trial{
			id: "qualifire.toolUseQuality", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true, wordless: true,
			request:  `{"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}]}`,
			response: `{"content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1}}]}`,
			want:     wanted{qualifireURL, qualifireHeader, `{"messages":[{"role":"user","content":"asked"},{"role":"assistant","content":"","tool_calls":[{"id":"1","name":"f","arguments":{"a":1}}]}],"available_tools":[{"name":"f","description":"d","parameters":{"type":"object"}}],"tool_use_quality_check":true,"tuq_mode":"balanced"}`},
			replies:  verdicts,
		},
		trial{
			id: "qualifire.toolUseQuality", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true, wordless: true,
			response: `{"output":[{"type":"function_call","call_id":"1","name":"f","arguments":"["}]}`,
			want:     wanted{qualifireURL, qualifireHeader, `{"messages":[{"role":"user","content":"asked"},{"role":"assistant","content":"","tool_calls":[{"id":"1","name":"f","arguments":"["}]}],"tool_use_quality_check":true,"tuq_mode":"balanced"}`},
			replies:  verdicts,
		},
		trial{id: "qualifire.toolUseQuality", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true, wordless: true, response: `{}`, replies: [][3]string{{`{}`, "error"}}},
	)
}

func TestTracesAreNamedToPrismaAIRS(t *testing.T) {
	s := &standIn{t: t, reply: `{"action":"allow"}`, want: wanted{"https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request", map[string]string{"x-pan-token": "k"}, `{"tr_id":"t1","ai_profile":{"profile_id":"i"},"metadata":{"ai_model":"unknown-model","app_user":"ann"},"contents":[{"prompt":"Ann's number is 12"}]}`}}
	of := subject(s, false)
	of.Header.Set("x-gw-trace-id", "t1")
	if r, err := made(t, "panw-prisma-airs.intercept", `{"profile_id":"i"}`, `{"AIRS_API_KEY":"k"}`).Judge(t.Context(), of); err != nil || !r.Verdict {
		t.Errorf("%v, %v", r, err)
	}
}

func TestAcuvityIsWhereItsTokenSays(t *testing.T) {
	s := &standIn{t: t, reply: `{"extractions":[{}]}`, want: wanted{"https://acuvity.example.com/_acuvity/scan", map[string]string{"Authorization": "Bearer " + acuvityToken}, `{"anonymization":"FixedSize","messages":["Ann's number is 12"],"redactions":[],"type":"Input"}`}}
	if _, err := made(t, "acuvity.scan", `{}`, `{"apiKey":"`+acuvityToken+`"}`).Judge(t.Context(), subject(s, false)); err != nil || !s.public {
		t.Errorf("%v; an address that others chose must be guarded: %v", err, s.public)
	}
	faults := guardrails.Lookup("acuvity.scan").Faults([]byte(`{"secrets":true,"secrets_redact":true}`))
	if len(faults) != 1 || faults[0].Name != "secrets_categories" {
		t.Errorf("redaction of no categories: %v", faults)
	}
}
