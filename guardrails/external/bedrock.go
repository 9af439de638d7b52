package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/sts"
)

// bedrock is Amazon Bedrock, whose guardrails judge texts of any model.
var bedrock = vendor("bedrock", baseURL,
	guardrails.Parameter{Name: "awsAccessKeyId", Required: true, Doc: "the access key"},
	guardrails.Parameter{Name: "awsSecretAccessKey", Required: true, Secret: true, Doc: "its secret"},
	guardrails.Parameter{Name: "awsSessionToken", Secret: true, Doc: "of temporary credentials"},
	guardrails.Parameter{Name: "awsRegion", Required: true, Doc: "the region, such as us-east-1"},
	guardrails.Parameter{Name: "awsRoleArn", Doc: "a role that the keys assume, whose keys sign the requests"},
	guardrails.Parameter{Name: "awsExternalId", Doc: "what the role's owner expects of who assumes it"},
)

// awsRegion is one label of a host.
var awsRegion = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// bedrockNeeds checks the region, which requests are signed for wherever they go, and the role.
func bedrockNeeds(settings map[string]string) error {
	if !awsRegion.MatchString(settings["awsRegion"]) {
		return credentialError("awsRegion", "expected a region, such as us-east-1")
	}
	role := sts.Role{ARN: settings["awsRoleArn"], ExternalID: settings["awsExternalId"]}
	if role.ARN == "" {
		if role.ExternalID != "" {
			return credentialError("awsExternalId", "only with awsRoleArn")
		}
		return nil
	}
	if why := role.CheckARN(); why != "" {
		return credentialError("awsRoleArn", why)
	}
	if why := role.CheckExternalID(); why != "" {
		return credentialError("awsExternalId", why)
	}
	return nil
}

// keysOf are the keys that requests are signed with.
func keysOf(ctx context.Context, services guardrails.Services, settings map[string]string) (guardrails.Keys, error) {
	own := guardrails.Keys{AccessKeyID: settings["awsAccessKeyId"], SecretAccessKey: settings["awsSecretAccessKey"], SessionToken: settings["awsSessionToken"]}
	if settings["awsRoleArn"] == "" {
		return own, nil
	}
	return services.AssumeRole(ctx, bedrock.ID, &guardrails.Role{
		Region: settings["awsRegion"], ARN: settings["awsRoleArn"], ExternalID: settings["awsExternalId"], Keys: own,
	})
}

var bedrockGuard = row{
	id: "bedrock.guard", doc: "an Amazon Bedrock guardrail does not intervene, or has only personal data replaced with redact",
	vendor: bedrock, base: "https://bedrock-runtime.{awsRegion}.amazonaws.com", path: "/guardrail/{guardrailId}/version/{guardrailVersion}/apply",
	oneByOne: true, redacts: true, needs: bedrockNeeds, authorize: signBedrock,
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
	own, err := keysOf(ctx, services, settings)
	if err != nil {
		return err
	}
	keys := aws.Credentials{AccessKeyID: own.AccessKeyID, SecretAccessKey: own.SecretAccessKey, SessionToken: own.SessionToken}
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
