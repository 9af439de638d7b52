package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// A standIn is a service: it refuses all but one request, as the real one does with what it does
// not know.
type standIn struct {
	t      *testing.T
	want   wanted
	saved  map[string]map[string]string
	status int // of an answer to the right request; 0: 200
	reply  string
	err    error
	sent   int
	public bool
	logins []guardrails.Login

	most, reserved int // bytes of memory; most 0: any
}

// wanted is the only request that is right: every header is compared but the content type, and the
// whole body.
type wanted struct {
	url    string
	header map[string]string
	body   string
}

func (s *standIn) Send(ctx context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	s.sent++
	s.public = q.Public
	if s.err != nil {
		return nil, s.err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	refuse := func(status int, what, got string) (*guardrails.Answer, error) {
		s.t.Logf("the stand-in refuses %s: %s", what, got)
		return guardrails.NewAnswer(status, []byte(`{"error":"refused sk-secret"}`), nil), nil
	}
	header := map[string]string{}
	for name, values := range q.Header {
		if name != "Content-Type" {
			header[name] = strings.Join(values, ",")
		}
	}
	wantHeader := map[string]string{}
	for name, v := range s.want.header {
		wantHeader[http.CanonicalHeaderKey(name)] = v
	}
	var got, want any
	switch {
	case q.Method != http.MethodPost || q.URL.String() != s.want.url:
		return refuse(404, "the URL", q.URL.String())
	case !reflect.DeepEqual(header, wantHeader):
		return refuse(401, "the header", string(must(json.Marshal(header))))
	case q.Header.Get("Content-Type") != "application/json":
		return refuse(415, "the type", q.Header.Get("Content-Type"))
	case json.Unmarshal(q.Body, &got) != nil || json.Unmarshal([]byte(s.want.body), &want) != nil || !reflect.DeepEqual(got, want):
		return refuse(400, "the body", string(q.Body))
	}
	status := s.status
	if status == 0 {
		status = 200
	}
	return guardrails.NewAnswer(status, []byte(s.reply), nil), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s *standIn) Token(_ context.Context, _ string, l *guardrails.Login) (string, error) {
	s.logins = append(s.logins, *l)
	return "token", nil
}

func (s *standIn) Settings(name string) (map[string]string, error) { return s.saved[name], nil }

func (s *standIn) AssumeRole(_ context.Context, vendor string, r *guardrails.Role) (guardrails.Keys, error) {
	if want := (guardrails.Role{Region: "eu-west-1", ARN: "arn:aws:iam::123456789012:role/guard", ExternalID: "ext-1", Keys: guardrails.Keys{AccessKeyID: "AKID", SecretAccessKey: "secret"}}); vendor != "bedrock" || *r != want {
		return guardrails.Keys{}, fmt.Errorf("%s may not assume %+v", vendor, *r)
	}
	return guardrails.Keys{AccessKeyID: "ASIAROLE", SecretAccessKey: "of the role", SessionToken: "session"}, nil
}

func (s *standIn) Reserve(bytes int) (func(), error) {
	if s.most > 0 && s.reserved+bytes > s.most {
		return nil, errors.New("there is no room")
	}
	s.reserved += bytes
	return func() { s.reserved -= bytes }, nil
}

func (s *standIn) Reserved(header string) bool { return strings.HasPrefix(header, "X-Brand-") }

func (s *standIn) HoldsKey(text string) bool { return strings.Contains(text, "gateway-key") }

func (s *standIn) Now() time.Time { return time.Unix(1700000000, 0) }

// A trial is a check, what is right to ask about a text, and answers with what they mean.
type trial struct {
	id, parameters, credentials string
	output, wordless            bool   // wordless: there is no text
	request, response           string // the bodies
	want                        wanted
	replies                     [][3]string // the answer; true, false or error; the texts that replace the text
}

const text = "Ann's number is 12"

var trials = []trial{
	{
		id: "openai.moderateContent", parameters: `{}`, credentials: `{"apiKey":"sk-1"}`,
		want: wanted{"https://api.openai.com/v1/moderations", map[string]string{"Authorization": "Bearer sk-1"}, `{"model":"omni-moderation-latest","input":"Ann's number is 12"}`},
		replies: [][3]string{
			{`{"results":[{"flagged":false,"categories":{"hate":false}}]}`, "true"},
			{`{"results":[{"flagged":true,"categories":{"hate":true}}]}`, "false"},
			{`{"results":[]}`, "error"},
			{`{"results":[{"flagged":true}]}`, "error"},
			{`[`, "error"},
		},
	},
	{
		id: "openai.moderateContent", parameters: `{"categories":["violence"],"model":"m","not":true}`, credentials: `{"apiKey":"sk-1","baseUrl":"https://proxy.example.com/v1/"}`,
		want: wanted{"https://proxy.example.com/v1/moderations", map[string]string{"Authorization": "Bearer sk-1"}, `{"model":"m","input":"Ann's number is 12"}`},
		replies: [][3]string{
			{`{"results":[{"flagged":true,"categories":{"hate":true,"violence":false}}]}`, "false"},
			{`{"results":[{"flagged":true,"categories":{"violence":true}}]}`, "true"},
		},
	},
	{
		id: "gw.moderateContent", parameters: `{"categories":["hate"]}`, credentials: `{"apiKey":"sk-1"}`,
		want:    wanted{"https://api.openai.com/v1/moderations", map[string]string{"Authorization": "Bearer sk-1"}, `{"model":"omni-moderation-latest","input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"flagged":true,"categories":{"hate":false,"violence":true}}]}`, "true"}, {`{"results":[{"flagged":true,"categories":{"hate":true}}]}`, "false"}},
	},
	{
		id: "mistral.moderateContent", parameters: `{"categories":["pii"]}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://api.mistral.ai/v1/moderations", map[string]string{"Authorization": "Bearer k"}, `{"model":"mistral-moderation-latest","input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"categories":{"pii":false,"law":true}}]}`, "true"}, {`{"results":[{"categories":{"pii":true}}]}`, "false"}, {`{"object":"error"}`, "error"}},
	},
	{
		id: "lakera.guard", parameters: `{"projectID":"p","redact":true}`, credentials: `{"apiKey":"k"}`,
		want: wanted{"https://api.lakera.ai/v2/guard", map[string]string{"Authorization": "Bearer k"}, `{"messages":[{"role":"user","content":"Ann's number is 12"}],"project_id":"p","payload":true,"breakdown":true}`},
		replies: [][3]string{
			{`{"flagged":false}`, "true"},
			{`{}`, "error"},
			{`{"flagged":true,"breakdown":[{"detector_type":"pii/name","detected":true},{"detector_type":"prompt_attack","detected":false}],"payload":[{"start":0,"end":3,"detector_type":"pii/name","message_id":0}]}`, "true", "[NAME]'s number is 12"},
			{`{"flagged":true,"breakdown":[{"detector_type":"pii/name","detected":true},{"detector_type":"prompt_attack","detected":true}],"payload":[{"start":0,"end":3,"detector_type":"pii/name","message_id":0}]}`, "false"},
			{`{"flagged":true,"breakdown":[{"detector_type":"pii/name","detected":true}],"payload":[{"start":0,"end":99,"detector_type":"pii/name","message_id":0}]}`, "error"},
		},
	},
	{
		id: "lakera.guard", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true,
		want:    wanted{"https://api.lakera.ai/v2/guard", map[string]string{"Authorization": "Bearer k"}, `{"messages":[{"role":"user","content":"asked"},{"role":"assistant","content":"Ann's number is 12"}],"payload":true,"breakdown":true}`},
		replies: [][3]string{{`{"flagged":true,"breakdown":[{"detector_type":"pii/name","detected":true}]}`, "false"}},
	},
	{
		id: "aporia.validateProject", parameters: `{"projectID":"p/1"}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://gr-prd.aporia.com/p%2F1/validate", map[string]string{"X-APORIA-API-KEY": "k"}, `{"messages":[{"role":"user","content":"Ann's number is 12"}],"validation_target":"prompt","explain":true}`},
		replies: [][3]string{{`{"action":"passthrough"}`, "true"}, {`{"action":"modify"}`, "false"}, {`{"action":1}`, "error"}},
	},
	{
		id: "pangea.textGuard", parameters: `{"recipe":"r"}`, credentials: `{"apiKey":"k","domain":"aws.us.pangea.cloud"}`,
		want:    wanted{"https://ai-guard.aws.us.pangea.cloud/v1/text/guard", map[string]string{"Authorization": "Bearer k"}, `{"text":"Ann's number is 12","recipe":"r"}`},
		replies: [][3]string{{`{"result":{"detectors":{"prompt_injection":{"detected":false}}}}`, "true"}, {`{"result":{"detectors":{"prompt_injection":{"detected":true}}}}`, "false"}, {`{"result":{}}`, "error"}},
	},
	{
		id: "pangea.pii", parameters: `{"redact":true}`, credentials: `{"apiKey":"k","domain":"aws.us.pangea.cloud"}`,
		want:    wanted{"https://redact.aws.us.pangea.cloud/v1/redact_structured", map[string]string{"Authorization": "Bearer k"}, `{"data":["Ann's number is 12"]}`},
		replies: [][3]string{{`{"result":{"count":0}}`, "true"}, {`{"result":{"count":1,"redacted_data":["<P>'s number is 12"]}}`, "true", "<P>'s number is 12"}, {`{"result":{"count":1}}`, "error"}},
	},
	{
		id: "pangea.pii", parameters: `{}`, credentials: `{"apiKey":"k","domain":"aws.us.pangea.cloud"}`,
		want:    wanted{"https://redact.aws.us.pangea.cloud/v1/redact_structured", map[string]string{"Authorization": "Bearer k"}, `{"data":["Ann's number is 12"]}`},
		replies: [][3]string{{`{"result":{"count":1,"redacted_data":["x"]}}`, "false"}},
	},
	{
		id: "promptfoo.guard", parameters: `{}`, want: wanted{"https://api.promptfoo.dev/v1/guard", nil, `{"input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"flagged":false,"categories":{"jailbreak":false}}]}`, "true"}, {`{"results":[{"flagged":true,"categories":{"jailbreak":true}}]}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "promptfoo.harm", parameters: `{}`, want: wanted{"https://api.promptfoo.dev/v1/harm", nil, `{"input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"flagged":false}]}`, "true"}, {`{"results":[{"flagged":true}]}`, "false"}},
	},
	{
		id: "promptfoo.pii", parameters: `{"redact":true}`, want: wanted{"https://api.promptfoo.dev/v1/pii", nil, `{"input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"flagged":false}]}`, "true"}, {`{"results":[{"flagged":true,"payload":{"pii":[{"entity_type":"name","start":0,"end":3},{"entity_type":"num","start":16,"end":18}]}}]}`, "true", "[NAME]'s number is [NUM]"}, {`{}`, "error"}},
	},
	{
		id: "promptfoo.pii", parameters: `{}`, want: wanted{"https://api.promptfoo.dev/v1/pii", nil, `{"input":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"flagged":true,"payload":{"pii":[{"entity_type":"name","start":0,"end":3}]}}]}`, "false"}},
	},
	{
		id: "pillar.scanPrompt", parameters: `{"scanners":["pii","secrets"]}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://api.pillarseclabs.com/api/v1/scan/prompt", map[string]string{"Authorization": "Bearer k"}, `{"message":"Ann's number is 12","scanners":{"pii":true,"secrets":true}}`},
		replies: [][3]string{{`{"pii":false,"secrets":null}`, "true"}, {`{"pii":["x"],"secrets":null}`, "false"}, {`{"pii":false}`, "error"}},
	},
	{
		id: "pillar.scanResponse", parameters: `{"scanners":["pii"]}`, credentials: `{"apiKey":"k"}`, output: true,
		want:    wanted{"https://api.pillarseclabs.com/api/v1/scan/response", map[string]string{"Authorization": "Bearer k"}, `{"message":"Ann's number is 12","scanners":{"pii":true}}`},
		replies: [][3]string{{`{"pii":false}`, "true"}, {`{"pii":true}`, "false"}},
	},
	{
		id: "promptsecurity.protectPrompt", parameters: `{}`, credentials: `{"apiKey":"k","apiDomain":"eu.prompt.security"}`,
		want:    wanted{"https://eu.prompt.security/api/protect", map[string]string{"APP-ID": "k"}, `{"prompt":"Ann's number is 12"}`},
		replies: [][3]string{{`{"result":{"prompt":{"passed":true}}}`, "true"}, {`{"result":{"prompt":{"passed":false}}}`, "false"}, {`{"result":{"response":{"passed":true}}}`, "error"}},
	},
	{
		id: "promptsecurity.protectResponse", parameters: `{}`, credentials: `{"apiKey":"k","apiDomain":"eu.prompt.security"}`, output: true,
		want:    wanted{"https://eu.prompt.security/api/protect", map[string]string{"APP-ID": "k"}, `{"response":"Ann's number is 12"}`},
		replies: [][3]string{{`{"result":{"response":{"passed":true}}}`, "true"}, {`{"result":{"response":{"passed":false}}}`, "false"}},
	},
	{
		id: "panw-prisma-airs.intercept", parameters: `{"profile_name":"p"}`, credentials: `{"AIRS_API_KEY":"k"}`,
		want: wanted{
			"https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request",
			map[string]string{"x-pan-token": "k"},
			`{"ai_profile":{"profile_name":"p"},"metadata":{"ai_model":"unknown-model","app_user":"ann"},"contents":[{"prompt":"Ann's number is 12"}]}`,
		},
		replies: [][3]string{{`{"action":"allow"}`, "true"}, {`{"action":"block"}`, "false"}, {`{"action":"other"}`, "error"}},
	},
	{
		id: "panw-prisma-airs.intercept", parameters: `{"profile_id":"i","ai_model":"m","app_user":"u","app_name":"n"}`, credentials: `{"AIRS_API_KEY":"k"}`, output: true,
		want: wanted{
			"https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request",
			map[string]string{"x-pan-token": "k"},
			`{"ai_profile":{"profile_id":"i"},"metadata":{"ai_model":"m","app_user":"u","app_name":"n"},"contents":[{"response":"Ann's number is 12"}]}`,
		},
		replies: [][3]string{{`{"action":"allow"}`, "true"}},
	},
	{
		id: "crowdstrike-aidr.guardChatCompletions", parameters: `{"redact":true}`, credentials: `{"apiKey":"k","baseUrl":"https://api.crowdstrike.example.com/aidr"}`,
		want: wanted{
			"https://api.crowdstrike.example.com/aidr/v1/guard_chat_completions",
			map[string]string{"Authorization": "Bearer k"},
			`{"guard_input":{"messages":[{"role":"user","content":"Ann's number is 12"}]},"event_type":"input","app_id":"caddy-gw","user_id":"ann","llm_provider":"acme","model":"m","extra_info":{}}`,
		},
		replies: [][3]string{
			{`{"status":"Success","result":{"blocked":false,"transformed":false}}`, "true"},
			{`{"status":"Success","result":{"blocked":true}}`, "false"},
			{`{"status":"Success","result":{"blocked":false,"transformed":true,"guard_output":{"messages":[{"role":"user","content":"***"}]}}}`, "true", "***"},
			{`{"status":"Success","result":{"blocked":false,"transformed":true}}`, "error"},
			{`{"status":"Accepted"}`, "error"},
		},
	},
	{
		id: "crowdstrike-aidr.guardChatCompletions", parameters: `{}`, credentials: `{"apiKey":"k","baseUrl":"https://api.crowdstrike.example.com/aidr"}`, output: true,
		want: wanted{
			"https://api.crowdstrike.example.com/aidr/v1/guard_chat_completions",
			map[string]string{"Authorization": "Bearer k"},
			`{"guard_input":{"messages":[{"role":"user","content":"asked"}],"choices":[{"message":{"role":"assistant","content":"Ann's number is 12"}}]},"event_type":"output","app_id":"caddy-gw","user_id":"ann","llm_provider":"acme","model":"m","extra_info":{}}`,
		},
		replies: [][3]string{{`{"status":"Success","result":{"blocked":false,"transformed":true,"guard_output":{"choices":[{"message":{"content":"***"}}]}}}`, "false"}},
	},
	{
		id: "zscaler.zscalerprotect", parameters: `{"policyId":"7"}`, credentials: `{"zscalerApiKey":"k"}`,
		want:    wanted{"https://api.zseclipse.net/v1/detection/execute-policy", map[string]string{"Authorization": "Bearer k"}, `{"policyId":"7","direction":"IN","content":"Ann's number is 12"}`},
		replies: [][3]string{{`{"action":"ALLOW","detectorResponses":{}}`, "true"}, {`{"action":"BLOCK"}`, "false"}, {`{"action":"ALLOW","detectorResponses":{"toxicity":{"action":"BLOCK"}}}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "walledai.walledprotect", parameters: `{"pii_list":["Address"],"greetings_list":[]}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://services.walled.ai/v1/walled-protect", map[string]string{"x-api-key": "k"}, `{"text":"Ann's number is 12","generic_safety_check":true,"greetings_list":[],"pii_list":["Address"],"compliance_list":[]}`},
		replies: [][3]string{{`{"data":{"safety":[{"isSafe":true}]}}`, "true"}, {`{"data":{"safety":[{"isSafe":false}]}}`, "false"}, {`{"data":{}}`, "error"}},
	},
	{
		id: "f5-guardrails.scan", parameters: `{"projectId":"p","redact":true}`, credentials: `{"apiKey":"k"}`,
		want: wanted{"https://us1.calypsoai.app/backend/v1/scans", map[string]string{"Authorization": "Bearer k"}, `{"input":"Ann's number is 12","project":"p"}`},
		replies: [][3]string{
			{`{"result":{"outcome":"cleared"}}`, "true"},
			{`{"result":{"outcome":"flagged"},"redactedInput":"x"}`, "false"},
			{`{"result":{"outcome":"redacted"},"redactedInput":"***"}`, "true", "***"},
			{`{"result":{"outcome":"new"}}`, "error"},
		},
	},
	{
		id: "javelin.guardrails", parameters: `{"config":{"a":1}}`, credentials: `{"apiKey":"k","application":"app"}`,
		want:    wanted{"https://api.javelin.live/v1/guardrails/apply", map[string]string{"x-javelin-apikey": "k", "x-javelin-application": "app"}, `{"input":{"text":"Ann's number is 12"},"config":{"a":1},"metadata":{}}`},
		replies: [][3]string{{`{"assessments":[{"promptinjectiondetection":{"request_reject":false}}]}`, "true"}, {`{"assessments":[{"trustsafety":{"request_reject":true}}]}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "akto.scan", parameters: `{}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://1726615470-guardrails.akto.io/api/validate/request", map[string]string{"Authorization": "Bearer k"}, `{"path":"/v1/chat/completions","method":"POST","requestPayload":"{\"model\":\"m\",\"prompt\":\"Ann's number is 12\"}","time":1700000000,"source":"caddy-gw"}`},
		replies: [][3]string{{`{"Allowed":true}`, "true"}, {`{"Allowed":false,"Reason":"x"}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "lasso.classify", parameters: `{"userId":"u"}`, credentials: `{"apiKey":"k","apiEndpoint":"https://lasso.example.com"}`,
		want:    wanted{"https://lasso.example.com/gateway/v2/classify", map[string]string{"lasso-api-key": "k", "lasso-user-id": "u"}, `{"messages":[{"role":"user","content":"Ann's number is 12"}]}`},
		replies: [][3]string{{`{"violations_detected":false}`, "true"}, {`{"violations_detected":true,"deputies":{"jailbreak":true}}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "azure.contentSafety", parameters: `{"blocklistNames":["b"],"categories":["Hate"]}`, credentials: `{"resourceName":"res","apiKey":"k"}`,
		want: wanted{"https://res.cognitiveservices.azure.com/contentsafety/text:analyze?api-version=2024-11-01", map[string]string{"Ocp-Apim-Subscription-Key": "k"}, `{"text":"Ann's number is 12","categories":["Hate"],"blocklistNames":["b"]}`},
		replies: [][3]string{
			{`{"categoriesAnalysis":[{"category":"Hate","severity":0}],"blocklistsMatch":[]}`, "true"},
			{`{"categoriesAnalysis":[{"category":"Hate","severity":2}]}`, "false"},
			{`{"categoriesAnalysis":[],"blocklistsMatch":[{"blocklistName":"b"}]}`, "false"},
			{`{}`, "error"},
		},
	},
	{
		id: "azure.shieldPrompt", parameters: `{}`, credentials: `{"customHost":"content.example.com","azureAuthMode":"entra","azureEntraTenantId":"t","azureEntraClientId":"c","azureEntraClientSecret":"s"}`,
		want:    wanted{"https://content.example.com/contentsafety/text:shieldPrompt?api-version=2024-09-01", map[string]string{"Authorization": "Bearer token"}, `{"userPrompt":"Ann's number is 12","documents":[]}`},
		replies: [][3]string{{`{"userPromptAnalysis":{"attackDetected":false},"documentsAnalysis":[]}`, "true"}, {`{"userPromptAnalysis":{"attackDetected":true}}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "azure.protectedMaterial", parameters: `{"apiVersion":"2025-01-01"}`, credentials: `{"resourceName":"res","apiKey":"k"}`, output: true,
		want:    wanted{"https://res.cognitiveservices.azure.com/contentsafety/text:detectProtectedMaterial?api-version=2025-01-01", map[string]string{"Ocp-Apim-Subscription-Key": "k"}, `{"text":"Ann's number is 12"}`},
		replies: [][3]string{{`{"protectedMaterialAnalysis":{"detected":false}}`, "true"}, {`{"protectedMaterialAnalysis":{"detected":true}}`, "false"}},
	},
	{
		id: "azure.pii", parameters: `{"redact":true,"categories":["Person"]}`, credentials: `{"resourceName":"res","apiKey":"k"}`,
		want: wanted{"https://res.cognitiveservices.azure.com/language/:analyze-text?api-version=2024-11-01", map[string]string{"Ocp-Apim-Subscription-Key": "k"}, `{"kind":"PiiEntityRecognition","parameters":{"domain":"none","modelVersion":"latest","piiCategories":["Person"]},"analysisInput":{"documents":[{"id":"1","text":"Ann's number is 12","language":"en"}]}}`},
		replies: [][3]string{
			{`{"results":{"documents":[{"id":"1","entities":[],"redactedText":"Ann's number is 12"}]}}`, "true"},
			{`{"results":{"documents":[{"id":"1","entities":[{"category":"Person"}],"redactedText":"***'s number is 12"}]}}`, "true", "***'s number is 12"},
			{`{"results":{"documents":[],"errors":[{"id":"1"}]}}`, "error"},
		},
	},
	{
		id: "azure.pii", parameters: `{}`, credentials: `{"resourceName":"res","apiKey":"k"}`,
		want:    wanted{"https://res.cognitiveservices.azure.com/language/:analyze-text?api-version=2024-11-01", map[string]string{"Ocp-Apim-Subscription-Key": "k"}, `{"kind":"PiiEntityRecognition","parameters":{"domain":"none","modelVersion":"latest"},"analysisInput":{"documents":[{"id":"1","text":"Ann's number is 12","language":"en"}]}}`},
		replies: [][3]string{{`{"results":{"documents":[{"id":"1","entities":[{"category":"Person"}],"redactedText":"x"}]}}`, "false"}},
	},
	{
		id: "qualifire.contentModeration", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true,
		want:    wanted{"https://proxy.qualifire.ai/api/evaluation/evaluate", map[string]string{"X-Qualifire-API-Key": "k"}, `{"input":"asked","output":"Ann's number is 12","content_moderation_check":true}`},
		replies: [][3]string{{`{"status":"success"}`, "true"}, {`{"status":"failed"}`, "false"}, {`{}`, "error"}},
	},
	{
		id: "qualifire.policy", parameters: `{"policies":["be kind"]}`, credentials: `{"apiKey":"k"}`,
		want:    wanted{"https://proxy.qualifire.ai/api/evaluation/evaluate", map[string]string{"X-Qualifire-API-Key": "k"}, `{"input":"Ann's number is 12","assertions":["be kind"],"assertions_mode":"balanced","policy_target":"both"}`},
		replies: [][3]string{{`{"status":"success"}`, "true"}, {`{"status":"failed"}`, "false"}},
	},
	{
		id: "patronus.isConcise", parameters: `{}`, credentials: `{"apiKey":"k"}`, output: true,
		want:    wanted{"https://api.patronus.ai/v1/evaluate", map[string]string{"x-api-key": "k"}, `{"evaluators":[{"evaluator":"judge","criteria":"patronus:is-concise","explain_strategy":"always"}],"evaluated_model_input":"asked","evaluated_model_output":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"evaluation_result":{"pass":true}}]}`, "true"}, {`{"results":[{"evaluation_result":{"pass":false}}]}`, "false"}, {`{"results":[{"evaluation_result":{"pass":null}}]}`, "error"}},
	},
	{
		id: "patronus.custom", parameters: `{"criteria":"mine"}`, credentials: `{"apiKey":"k"}`, output: true,
		want:    wanted{"https://api.patronus.ai/v1/evaluate", map[string]string{"x-api-key": "k"}, `{"evaluators":[{"evaluator":"judge","criteria":"mine","explain_strategy":"always"}],"evaluated_model_input":"asked","evaluated_model_output":"Ann's number is 12"}`},
		replies: [][3]string{{`{"results":[{"evaluation_result":{"pass":true}}]}`, "true"}},
	},
}

// made makes a check, with its credentials among its parameters.
func made(t *testing.T, id, parameters, credentials string) guardrails.Check {
	t.Helper()
	if credentials != "" {
		parameters = strings.TrimSuffix(parameters, "}")
		if parameters != "{" {
			parameters += ","
		}
		parameters += `"credentials":` + credentials + `}`
	}
	check, err := guardrails.Lookup(id).Make(json.RawMessage(parameters))
	if err != nil {
		t.Fatalf("%s with %s: %v", id, parameters, err)
	}
	return check
}

func subject(s *standIn, output bool) *guardrails.Subject {
	of := &guardrails.Subject{Type: "chatComplete", Model: "m", Provider: "acme", Metadata: []byte(`{"_user":"ann"}`), Texts: []string{text}, Services: s, Header: http.Header{}}
	if output {
		of.Phase, of.Asked = guardrails.Output, func() string { return "asked" }
	}
	return of
}

func TestServicesAreAskedAndUnderstood(t *testing.T) {
	for _, c := range trials {
		for _, r := range c.replies {
			t.Run(c.id+" "+r[1], func(t *testing.T) {
				s := &standIn{t: t, want: c.want, reply: r[0]}
				of := subject(s, c.output)
				of.Request, of.Response = []byte(c.request), []byte(c.response)
				if c.wordless {
					of.Texts = []string{""}
				}
				result, err := made(t, c.id, c.parameters, c.credentials).Judge(t.Context(), of)
				got := map[bool]string{true: "true", false: "false"}[result.Verdict]
				if err != nil {
					got = "error"
				}
				if got != r[1] || strings.Join(result.Texts, "|") != r[2] {
					t.Errorf("%s: %s with %q, want %s with %q: %v", r[0], got, result.Texts, r[1], r[2], err)
				}
				if err == nil && len(must(json.Marshal(result.Data))) > 1000 {
					t.Errorf("data %v", result.Data)
				}
			})
		}
	}
}

// Rows that are made by a function are tried by one of theirs.
func TestEveryCheckIsTried(t *testing.T) {
	for _, k := range guardrails.Kinds() {
		vendor, _, _ := strings.Cut(k.ID, ".")
		if k.Vendor == nil || k.ID == bedrockGuard.id || k.ID == similarInjection.ID || slices.ContainsFunc(searches, func(s search) bool { return s.id == k.ID }) {
			continue // they have tests of their own
		}
		if !slices.ContainsFunc(trials, func(c trial) bool {
			return c.id == k.ID || (vendor == "patronus" || vendor == "qualifire") && strings.HasPrefix(c.id, vendor+".")
		}) {
			t.Errorf("%s has no trial", k.ID)
		}
		if !strings.EqualFold(vendor, k.Vendor.ID) && vendor != "gw" {
			t.Errorf("%s is of %s", k.ID, k.Vendor.ID)
		}
		if guardrails.VendorOf(k.ID) != k.Vendor || guardrails.VendorOf(k.Vendor.ID) != k.Vendor {
			t.Errorf("%s has another vendor", k.ID)
		}
	}
}

func TestEntraLogsInToTheTenant(t *testing.T) {
	s := &standIn{t: t, reply: `{}`}
	_, _ = made(t, "azure.shieldPrompt", `{}`, `{"resourceName":"res","azureAuthMode":"entra","azureEntraTenantId":"t/../x","azureEntraClientId":"c","azureEntraClientSecret":"s"}`).Judge(t.Context(), subject(s, false))
	want := guardrails.Login{TokenURL: "https://login.microsoftonline.com/t%2F..%2Fx/oauth2/v2.0/token", ClientID: "c", ClientSecret: "s", Scope: "https://cognitiveservices.azure.com/.default"}
	if len(s.logins) != 1 || s.logins[0] != want {
		t.Errorf("logins %+v", s.logins)
	}
}

// What the machine of the gateway is, is used only with credentials that the organisation has saved, and told only
// to Azure's own hosts.
func TestTheIdentityOfTheMachineIsTheOrganisationsToUse(t *testing.T) {
	const id = "0a1b2c3d-0000-4000-8000-000000000001"
	for name, c := range map[string]struct {
		saved map[string]string
		want  string // the error; "": there is none
	}{
		"its only one":   {map[string]string{"resourceName": "res", "azureAuthMode": "managed"}, ""},
		"one of several": {map[string]string{"resourceName": "res", "azureAuthMode": "managed", "azureManagedClientId": id}, ""},
		"no id":          {map[string]string{"resourceName": "res", "azureAuthMode": "managed", "azureManagedClientId": "x&y"}, "credentials.azureManagedClientId"},
		"no resource":    {map[string]string{"azureAuthMode": "managed"}, "credentials.resourceName"},
		"another host":   {map[string]string{"resourceName": "res", "customHost": "https://content.example.com", "azureAuthMode": "managed"}, "credentials.customHost"},
		"no label":       {map[string]string{"resourceName": "evil.example/", "azureAuthMode": "managed"}, "credentials.resourceName"},
	} {
		s := &standIn{
			t: t, saved: map[string]map[string]string{"azure": c.saved}, reply: `{"userPromptAnalysis":{"attackDetected":false}}`,
			want: wanted{"https://res.cognitiveservices.azure.com/contentsafety/text:shieldPrompt?api-version=2024-09-01", map[string]string{"Authorization": "Bearer token"}, `{"userPrompt":"Ann's number is 12","documents":[]}`},
		}
		_, err := made(t, "azure.shieldPrompt", `{}`, "").Judge(t.Context(), subject(s, false))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || s.sent != 0 || len(s.logins) != 0 {
				t.Errorf("%s: %v, %d requests, logins %+v", name, err, s.sent, s.logins)
			}
			continue
		}
		want := guardrails.Login{TokenURL: "https://login.microsoftonline.com/", ClientID: c.saved["azureManagedClientId"], Scope: "https://cognitiveservices.azure.com/.default", Managed: true}
		if err != nil || len(s.logins) != 1 || s.logins[0] != want {
			t.Errorf("%s: %v, logins %+v", name, err, s.logins)
		}
	}
	for _, row := range azureRows {
		faults := guardrails.Lookup(row.id).Faults([]byte(`{"credentials":{"resourceName":"res","azureAuthMode":"managed"}}`))
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), "credentials.azureAuthMode: managed is only for") {
			t.Errorf("%s: a caller may use what the machine is: %v", row.id, faults)
		}
	}
}

// Credentials come all from the parameters, or all from what was saved, so that none goes where
// somebody else says.
func TestCredentialsGoOnlyWhereTheyWereSavedFor(t *testing.T) {
	saved := map[string]map[string]string{"mistral": {"apiKey": "saved", "baseUrl": "https://saved.example.com"}}
	body := `{"model":"mistral-moderation-latest","input":"Ann's number is 12"}`
	reply := `{"results":[{"categories":{}}]}`
	for name, c := range map[string]struct {
		credentials string
		want        wanted
		public      bool
	}{
		"saved":              {"", wanted{"https://saved.example.com/moderations", map[string]string{"Authorization": "Bearer saved"}, body}, true},
		"among the settings": {`{"apiKey":"own"}`, wanted{"https://api.mistral.ai/v1/moderations", map[string]string{"Authorization": "Bearer own"}, body}, false},
		"with an address":    {`{"apiKey":"own","baseUrl":"https://own.example.com"}`, wanted{"https://own.example.com/moderations", map[string]string{"Authorization": "Bearer own"}, body}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &standIn{t: t, saved: saved, want: c.want, reply: reply}
			if r, err := made(t, "mistral.moderateContent", `{"categories":["pii"]}`, c.credentials).Judge(t.Context(), subject(s, false)); err != nil || !r.Verdict || s.public != c.public {
				t.Errorf("%v, %v, public %v", r, err, s.public)
			}
		})
	}
	faults := guardrails.Lookup("mistral.moderateContent").Faults([]byte(`{"categories":["pii"],"credentials":{"baseUrl":"https://own.example.com"}}`))
	if len(faults) != 1 || faults[0].Error() != "parameters.credentials.apiKey: required: a string" {
		t.Errorf("an address without a credential: %v", faults)
	}
	s := &standIn{t: t}
	if _, err := made(t, "mistral.moderateContent", `{"categories":["pii"]}`, "").Judge(t.Context(), subject(s, false)); err == nil || s.sent != 0 {
		t.Errorf("without credentials: %v, %d requests", err, s.sent)
	}
	s.saved = map[string]map[string]string{"mistral": {"apiKey": "all"}, "mistral.moderateContent": {"apiKey": "one"}}
	s.want, s.reply = wanted{"https://api.mistral.ai/v1/moderations", map[string]string{"Authorization": "Bearer one"}, body}, reply
	if _, err := made(t, "mistral.moderateContent", `{"categories":["pii"]}`, "").Judge(t.Context(), subject(s, false)); err != nil {
		t.Errorf("what is saved for the check does not win: %v", err)
	}
}

func TestFailuresOfServicesAreErrorsThatSayNothingOfTheirAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		services *standIn
		want     string
	}{
		"another request": {&standIn{}, "mistral answered with status 404"},
		"unreachable":     {&standIn{err: errors.New("mistral could not be reached")}, "mistral could not be reached"},
		"late":            {&standIn{err: context.DeadlineExceeded}, "mistral did not answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			c.services.t = t
			_, err := made(t, "mistral.moderateContent", `{"categories":["pii"]}`, `{"apiKey":"sk-secret"}`).Judge(t.Context(), subject(c.services, false))
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	check := made(t, "mistral.moderateContent", `{"categories":["pii"]}`, `{"apiKey":"k"}`)
	empty := subject(&standIn{t: t}, false)
	empty.Texts = []string{""}
	if _, err := check.Judge(t.Context(), empty); !errors.Is(err, guardrails.ErrNoText) {
		t.Errorf("no text: %v", err)
	}
	nobody := subject(nil, false)
	nobody.Services = nil
	if _, err := check.Judge(t.Context(), nobody); err == nil {
		t.Error("nobody can be asked, and that is no error")
	}
	if _, err := made(t, "azure.protectedMaterial", `{}`, `{"resourceName":"r","apiKey":"k"}`).Judge(t.Context(), subject(&standIn{t: t}, false)); err == nil {
		t.Error("a check of answers judges a call")
	}
	many := subject(&standIn{t: t, want: wanted{"https://redact.d.example.com/v1/redact_structured", map[string]string{"Authorization": "Bearer k"}, `{"data":["a"]}`}, reply: `{"result":{"count":0}}`}, false)
	many.Texts = slices.Repeat([]string{"a"}, maxRequests+1)
	if _, err := made(t, "pangea.pii", `{}`, `{"apiKey":"k","domain":"d.example.com"}`).Judge(t.Context(), many); err == nil {
		t.Error("there are too many texts, and nobody minds")
	}
}

func TestTimeoutsThatAreNoneAreTheDefault(t *testing.T) {
	for parameter, want := range map[string]time.Duration{"250": 250 * time.Millisecond, "0": defaultTimeout, "-1": defaultTimeout, `"x"`: defaultTimeout, "1e99": defaultTimeout} {
		if c := made(t, "mistral.moderateContent", `{"categories":["pii"],"timeout":`+parameter+`}`, `{"apiKey":"k"}`).(*check); c.timeout != want {
			t.Errorf("%s is %v", parameter, c.timeout)
		}
	}
}

func TestHeadersThatAreForwarded(t *testing.T) {
	for _, name := range []string{"Authorization", "x-api-key", "ocp-apim-subscription-key", "proxy-authorization", "cookie", "metadata-flavor", "connection", "x-gw-config", "x-other-api-key", "a b"} {
		if faults := guardrails.Lookup("default.webhook").Faults(must(json.Marshal(object{"webhookURL": "https://x.example.com", "forwardHeaders": []string{name}}))); len(faults) != 1 || faults[0].Name != "forwardHeaders" {
			t.Errorf("%s: %v", name, faults)
		}
	}
	s := &standIn{t: t, reply: `{"verdict":true}`}
	s.want = wanted{"https://x.example.com", map[string]string{"X-Tenant": "blue", "X-Gw-Trace-Id": "t", "X-Own": "own"}, `{"request":{"json":{"a":1},"text":"Ann's number is 12","isStreamingRequest":false,"isTransformed":false},"response":{"json":null,"text":"","isTransformed":false},"provider":"acme","requestType":"chatComplete","metadata":{"_user":"ann"},"eventType":"beforeRequestHook"}`}
	of := subject(s, false)
	of.Request = []byte(`{"a":1}`)
	of.Header = http.Header{"X-Tenant": {"blue"}, "X-Gw-Trace-Id": {"t"}, "X-Brand-Config": {"secret"}, "X-Own": {"the call's"}, "X-Else": {"x"}}
	result, err := made(t, "default.webhook", `{"webhookURL":"https://x.example.com","headers":"{\"x-own\":\"own\"}","forwardHeaders":["X-Tenant","x-gw-trace-id","x-brand-config","x-own","x-absent"]}`, "").Judge(t.Context(), of)
	if err != nil || !result.Verdict || !s.public {
		t.Errorf("%v, %v", result, err)
	}
}

func TestWebhooksJudgeAndReplaceBodies(t *testing.T) {
	for _, c := range []struct{ reply, want, body string }{
		{`{"verdict":true}`, "true", ""},
		{`{"verdict":false,"data":{"why":"x"}}`, "false", ""},
		{`{"verdict":true,"transformedData":{"response":{"json":{"b":2}}}}`, "true", `{"b":2}`},
		{`{"verdict":true,"transformedData":{"request":{"json":{"b":2}}}}`, "true", ""},
		{`{"verdict":"true"}`, "error", ""},
		{`{`, "error", ""},
	} {
		s := &standIn{t: t, reply: c.reply, want: wanted{"https://x.example.com/a?b=c", nil, `{"request":{"json":{"a":1},"text":"asked","isStreamingRequest":false,"isTransformed":false},"response":{"json":{"r":1},"text":"Ann's number is 12","statusCode":200,"isTransformed":false},"provider":"acme","requestType":"chatComplete","metadata":{"_user":"ann"},"eventType":"afterRequestHook"}`}}
		of := subject(s, true)
		of.Request, of.Response, of.Status = []byte(`{"a":1}`), []byte(`{"r":1}`), 200
		result, err := made(t, "default.webhook", `{"webhookURL":"https://x.example.com/a?b=c"}`, "").Judge(t.Context(), of)
		got := map[bool]string{true: "true", false: "false"}[result.Verdict]
		if err != nil {
			got = "error"
		}
		if got != c.want || string(result.Body) != c.body {
			t.Errorf("%s: %s with %s: %v", c.reply, got, result.Body, err)
		}
		s.status = 500
		if _, err := made(t, "default.webhook", `{"webhookURL":"https://x.example.com/a?b=c"}`, "").Judge(t.Context(), of); err == nil {
			t.Error("a status of failure is no error")
		}
	}
	for _, parameters := range []string{`{"webhookURL":"x"}`, `{"webhookURL":"ftp://x.example.com"}`, `{"webhookURL":"https://u:p@x.example.com"}`, `{"webhookURL":"https://x.example.com","headers":[1]}`, `{"webhookURL":"https://x.example.com","headers":{"a":1}}`, `{}`} {
		if len(guardrails.Lookup("default.webhook").Faults([]byte(parameters))) == 0 {
			t.Errorf("%s is valid", parameters)
		}
	}
}

func TestCallsAreLogged(t *testing.T) {
	s := &standIn{t: t, want: wanted{"https://x.example.com", map[string]string{"Authorization": "secret"}, `{"request":{"json":null,"text":"Ann's number is 12","isStreamingRequest":false,"isTransformed":false},"response":{"json":null,"text":"","isTransformed":false},"provider":"acme","requestType":"chatComplete","metadata":{"_user":"ann"},"eventType":"beforeRequestHook"}`}}
	if r, err := made(t, "default.log", `{"logURL":"https://x.example.com","headers":{"Authorization":"secret"}}`, "").Judge(t.Context(), subject(s, false)); err != nil || !r.Verdict || s.sent != 1 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestBedrockSignsAndRedacts(t *testing.T) {
	credentials := `{"awsAccessKeyId":"AKID","awsSecretAccessKey":"secret","awsRegion":"eu-west-1"}`
	for _, c := range []struct{ reply, want, texts string }{
		{`{"action":"NONE","output":[],"assessments":[]}`, "true", ""},
		{`{"action":"GUARDRAIL_INTERVENED","output":[{"text":"{NAME}'s number is 12"}],"assessments":[{"sensitiveInformationPolicy":{"piiEntities":[{"match":"Ann","type":"NAME","action":"ANONYMIZED"}],"regexes":[]}}]}`, "true", "{NAME}'s number is 12"},
		{`{"action":"GUARDRAIL_INTERVENED","output":[{"text":"blocked"}],"assessments":[{"sensitiveInformationPolicy":{"piiEntities":[{"match":"Ann","type":"NAME","action":"BLOCKED"}],"regexes":[{"name":"num","match":"12","action":"ANONYMIZED"}]}}]}`, "true", "{NAME}'s number is {num}"},
		{`{"action":"GUARDRAIL_INTERVENED","output":[{"text":"x"}],"assessments":[{"topicPolicy":{"topics":[{"name":"t"}]},"sensitiveInformationPolicy":{"piiEntities":[{"match":"Ann","type":"NAME","action":"ANONYMIZED"}]}}]}`, "false", ""},
		{`{"action":"GUARDRAIL_INTERVENED","assessments":[{"sensitiveInformationPolicy":{"piiEntities":[{"match":"Bob","type":"NAME","action":"BLOCKED"}]}}]}`, "false", ""},
		{`{"action":"GUARDRAIL_INTERVENED","assessments":[]}`, "false", ""},
		{`{}`, "error", ""},
	} {
		signed := &signedService{standIn: standIn{t: t, reply: c.reply, want: wanted{"https://bedrock-runtime.eu-west-1.amazonaws.com/guardrail/g1/version/DRAFT/apply", nil, `{"source":"INPUT","content":[{"text":{"text":"Ann's number is 12"}}]}`}}, key: "AKID"}
		of := subject(nil, false)
		of.Services = signed
		result, err := made(t, "bedrock.guard", `{"guardrailId":"g1","guardrailVersion":"DRAFT","redact":true}`, credentials).Judge(t.Context(), of)
		got := map[bool]string{true: "true", false: "false"}[result.Verdict]
		if err != nil {
			got = "error"
		}
		if got != c.want || strings.Join(result.Texts, "|") != c.texts {
			t.Errorf("%s: %s with %q: %v", c.reply, got, result.Texts, err)
		}
	}
}

// With a role, requests are signed with its keys, and say so.
func TestBedrockAssumesARole(t *testing.T) {
	const role = `{"awsAccessKeyId":"AKID","awsSecretAccessKey":"secret","awsRegion":"eu-west-1","awsRoleArn":"arn:aws:iam::123456789012:role/guard","awsExternalId":"ext-1"}`
	judge := func(credentials string) (guardrails.Result, error) {
		s := &signedService{standIn: standIn{t: t, reply: `{"action":"NONE"}`, want: wanted{"https://bedrock-runtime.eu-west-1.amazonaws.com/guardrail/g1/version/1/apply", nil, `{"source":"INPUT","content":[{"text":{"text":"Ann's number is 12"}}]}`}}, key: "ASIAROLE", session: "session"}
		of := subject(nil, false)
		of.Services = s
		return made(t, "bedrock.guard", `{"guardrailId":"g1","guardrailVersion":"1"}`, credentials).Judge(t.Context(), of)
	}
	if r, err := judge(role); err != nil || !r.Verdict {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := judge(strings.Replace(role, "ext-1", "ext-2", 1)); err == nil {
		t.Error("a role that may not be assumed")
	}
	for field, value := range map[string]string{"awsRoleArn": "guard", "awsExternalId": "é", "awsRegion": "eu.example.com/"} {
		settings := make(map[string]string)
		_ = json.Unmarshal([]byte(role), &settings)
		settings[field] = value
		raw, _ := json.Marshal(settings)
		faults := guardrails.Lookup("bedrock.guard").Faults([]byte(`{"guardrailId":"g1","guardrailVersion":"1","credentials":` + string(raw) + `}`))
		if len(faults) != 1 || faults[0].Name != "credentials."+field {
			t.Errorf("%s: %v", field, faults)
		}
	}
	if faults := guardrails.Lookup("bedrock.guard").Faults([]byte(`{"guardrailId":"g1","guardrailVersion":"1","credentials":{"awsAccessKeyId":"A","awsSecretAccessKey":"b","awsRegion":"eu-west-1","awsExternalId":"ext-1"}}`)); len(faults) != 1 || faults[0].Name != "credentials.awsExternalId" {
		t.Errorf("an external id without a role: %v", faults)
	}
}

// A signedService wants an AWS Signature Version 4 of its clock.
type signedService struct {
	standIn
	key, session string
}

func (s *signedService) Send(ctx context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	authorization := q.Header.Get("Authorization")
	if !strings.HasPrefix(authorization, "AWS4-HMAC-SHA256 Credential="+s.key+"/20231114/eu-west-1/bedrock/aws4_request, SignedHeaders=") || q.Header.Get("X-Amz-Date") != "20231114T221320Z" || q.Header.Get("X-Amz-Security-Token") != s.session {
		return guardrails.NewAnswer(403, nil, nil), nil
	}
	q.Header = http.Header{"Content-Type": q.Header["Content-Type"]}
	return s.standIn.Send(ctx, q)
}

func TestPlacesAreReplacedWithinTheirText(t *testing.T) {
	got, err := replaceStretches("éa bb cc", []stretch{{6, 8, "C"}, {0, 2, "A"}, {1, 4, "B"}})
	if err != nil || got != "Ab C" {
		t.Errorf("%q, %v", got, err)
	}
	for _, p := range []stretch{{-1, 1, ""}, {2, 1, ""}, {0, 99, ""}} {
		if _, err := replaceStretches("ab", []stretch{p}); err == nil {
			t.Errorf("%v is in the text", p)
		}
	}
	if _, err := replaceStretches("ab", []stretch{{0, 2, ""}, {1, 9, ""}}); err == nil {
		t.Error("the second place is in the text")
	}
}

// Whatever a service answers, a check has a verdict or an error, and nothing of the answer but names.
func FuzzAnswers(f *testing.F) {
	for _, c := range trials {
		for _, r := range c.replies {
			f.Add(r[0])
		}
	}
	var checks []*check
	for i := range table {
		r := &table[i]
		parameters := object{"redact": true}
		for _, p := range r.parameters {
			switch {
			case !p.Required:
			case p.Type == guardrails.Texts && p.OneOf != nil:
				parameters[p.Name] = p.OneOf
			case p.Type == guardrails.Texts:
				parameters[p.Name] = []string{"x"}
			default:
				parameters[p.Name] = "x"
			}
		}
		made, err := guardrails.Lookup(r.id).Make(must(json.Marshal(parameters)))
		if err != nil {
			f.Fatal(err)
		}
		if c, ok := made.(redacting); ok {
			checks = append(checks, c.check)
		} else {
			checks = append(checks, made.(*check))
		}
	}
	f.Fuzz(func(t *testing.T, reply string) {
		if !gjson.Valid(reply) {
			return
		}
		for _, c := range checks {
			found, err := c.read(&answer{gjson.Parse(reply), c, subject(&standIn{t: t}, false), text})
			if err == nil && len(names(found.kinds)) > maxKinds {
				t.Fatalf("%s has %d names", c.id, len(found.kinds))
			}
		}
	})
}
