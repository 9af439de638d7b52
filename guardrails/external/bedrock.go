package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// bedrock is Amazon Bedrock, whose guardrails judge texts of any model.
var bedrock = vendor("bedrock", baseURL,
	guardrails.Parameter{Name: "awsAccessKeyId", Required: true, Doc: "the access key"},
	guardrails.Parameter{Name: "awsSecretAccessKey", Required: true, Secret: true, Doc: "its secret"},
	guardrails.Parameter{Name: "awsSessionToken", Secret: true, Doc: "of temporary credentials"},
	guardrails.Parameter{Name: "awsRegion", Required: true, Doc: "the region, such as us-east-1"},
)

var bedrockGuard = row{
	id: "bedrock.guard", doc: "an Amazon Bedrock guardrail does not intervene, or has only personal data replaced with redact",
	vendor: bedrock, base: "https://bedrock-runtime.{awsRegion}.amazonaws.com", path: "/guardrail/{guardrailId}/version/{guardrailVersion}/apply",
	oneByOne: true, redacts: true, authorize: signBedrock,
	parameters: []guardrails.Parameter{
		{Name: "guardrailId", Required: true, Doc: "the guardrail, by its id or ARN"},
		{Name: "guardrailVersion", Required: true, Doc: "its version, or DRAFT"},
	},
	body: object{"source": "$source", "content": list{object{"text": object{"text": "$text"}}}}, read: readBedrock,
}

// signBedrock signs a request with AWS Signature Version 4.
func signBedrock(ctx context.Context, _ *check, services guardrails.Services, settings map[string]string, q *guardrails.Request) error {
	u := *q.URL
	if p := u.Port(); p == "443" && u.Scheme == "https" || p == "80" && u.Scheme == "http" {
		u.Host = strings.TrimSuffix(u.Host, ":"+p)
	}
	signed := &http.Request{Method: q.Method, URL: &u, Host: u.Host, Header: make(http.Header, 4)}
	sum := sha256.Sum256(q.Body)
	keys := aws.Credentials{AccessKeyID: settings["awsAccessKeyId"], SecretAccessKey: settings["awsSecretAccessKey"], SessionToken: settings["awsSessionToken"]}
	// A signer caches derived keys. A new one for each request keeps no keys of tenants.
	if err := v4.NewSigner().SignHTTP(ctx, keys, signed, hex.EncodeToString(sum[:]), "bedrock", settings["awsRegion"], services.Now()); err != nil {
		return err
	}
	q.URL = &u
	for name, values := range signed.Header {
		q.Header[name] = values
	}
	return nil
}

// readBedrock reads what a guardrail has done. Only what its policy for sensitive information has
// found can be replaced.
func readBedrock(a *answer) (finding, error) {
	f, err := word("action", []string{"NONE"}, []string{"GUARDRAIL_INTERVENED"})(a)
	if err != nil || !f.found {
		return f, err
	}
	anonymized, others := true, false
	type match struct{ text, kind string }
	var matches []match
	for _, assessment := range a.Get("assessments").Array() {
		assessment.ForEach(func(policy, v gjson.Result) bool {
			switch policy.Str {
			case "sensitiveInformationPolicy":
				for path, name := range map[string]string{"piiEntities": "type", "regexes": "name"} {
					for _, e := range v.Get(path).Array() {
						kind := e.Get(name).Str
						matches = append(matches, match{e.Get("match").Str, kind})
						f.kinds = append(f.kinds, kind)
						anonymized = anonymized && e.Get("action").Str == "ANONYMIZED"
					}
				}
			case "topicPolicy", "contentPolicy", "wordPolicy", "contextualGroundingPolicy":
				if truthy(v) {
					others = true
					f.kinds = append(f.kinds, strings.TrimSuffix(policy.Str, "Policy"))
				}
			}
			return true
		})
	}
	if others || len(matches) == 0 {
		return f, nil
	}
	output := a.Get("output.0.text")
	if !output.Exists() {
		output = a.Get("outputs.0.text")
	}
	f.fixable = true
	if anonymized && output.Type == gjson.String {
		f.fixed = output.Str
		return f, nil
	}
	f.fixed = a.text
	for _, m := range matches {
		if m.text == "" || !strings.Contains(f.fixed, m.text) && !strings.Contains(a.text, m.text) {
			f.fixable = false // it would be left where it is
			continue
		}
		f.fixed = strings.ReplaceAll(f.fixed, m.text, "{"+m.kind+"}")
	}
	return f, nil
}
