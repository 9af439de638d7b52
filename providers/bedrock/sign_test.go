package bedrock

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
)

// The signatures were computed by another implementation, from the algorithm's text.
func TestARequestIsSigned(t *testing.T) {
	const ask = `{"model":"anthropic.claude-x-v1:0","messages":[{"role":"user","content":"Hi"}]}`
	const host = "https://bedrock-runtime.us-east-1.amazonaws.com"
	with := func(more words) words {
		all := maps.Clone(keys)
		maps.Copy(all, more)
		return all
	}
	for _, c := range []struct {
		name, base, query, signature string
		setting                      words
		endpoint                     string
	}{
		{"for the provider's host", host, "", "us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=75240d556d3acbf18356e291ce372d6cba30235dfe39820b97a1fb89376a86c4", keys, providers.ChatComplete},
		{"the default port aside", host + ":443", "", "us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=75240d556d3acbf18356e291ce372d6cba30235dfe39820b97a1fb89376a86c4", keys, providers.ChatComplete},
		{
			"with a session", host, "", "us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=5bfa71349bf421673ba43505cddef6a49606a80f70d7f16c888cf65f549d2250",
			with(words{"aws_session_token": "tok+/="}), providers.ChatComplete,
		},
		{
			"for a custom host", "https://proxy.example.com:8443/b", "", "eu-west-3/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=237d224e192f27c9f97f09fc923694adc8e204264d64938ad7104485e29245c6",
			with(words{"aws_region": "eu-west-3"}), providers.ChatComplete,
		},
		{
			"without a body", host, "statusEquals=a%20b&maxResults=2", "us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=71af1276a09b3ffcc7140ba293526e00ee7a5e2c452985c526c7d546324d9cd6",
			keys, providers.Proxy,
		},
	} {
		call := newCall(t, c.endpoint, ask)
		call.Setting = c.setting.get
		if c.endpoint == providers.Proxy {
			call.Method, call.Path, call.Query, call.Body = http.MethodGet, "/async-invoke", c.query, nil
		}
		var err error
		if call.Base, err = url.Parse(c.base); err != nil {
			t.Fatal(err)
		}
		r := prepare(t, call)
		if got, want := r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/"+c.signature; got != want {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
		if got := r.Header.Get("X-Amz-Date"); got != "20260102T030405Z" {
			t.Errorf("%s: date %s", c.name, got)
		}
		if got := r.Header.Get("X-Amz-Security-Token"); got != c.setting["aws_session_token"] {
			t.Errorf("%s: token %s", c.name, got)
		}
		if r.URL.Port() == "443" {
			t.Errorf("%s: sent to %s, which is not the host that was signed", c.name, r.URL)
		}
	}
}

// The signatures of the vectors are of another implementation of AWS's algorithm. A path
// that is escaped is escaped once more in what is signed.
func TestVectorsAreSigned(t *testing.T) {
	const secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	for name, v := range map[string]struct {
		method, base, path, query, body, region, token, date, want string
	}{
		"a conversation": {
			http.MethodPost, "https://bedrock-runtime.us-east-1.amazonaws.com", "/model/amazon.nova-lite-v1%3A0/converse", "", `{"messages":[]}`, "us-east-1", "", "20260102T030405Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, " +
				"Signature=5489fad4e609abab8c8fc6d0518c467d81cbc4e5fa364afa02f5f65fc1d19312",
		},
		"an ARN, a port, and a body that is not of ASCII": {
			http.MethodPost, "http://127.0.0.1:8443", "/behind/a/prefix/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprofile%2Fa/invoke", "", `{"a":"ü"}`, "eu-central-1", "", "20251231T235959Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20251231/eu-central-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, " +
				"Signature=09ca32c5ab1513bbe73dc39d8cb9f4d3aad0b65541b85840f22fc1f2957c08fa",
		},
		"no body, and a session": {
			http.MethodGet, "https://bedrock.eu-west-1.amazonaws.com", "/foundation-models", "", "", "eu-west-1", "SESSION/+==", "20240229T000000Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20240229/eu-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, " +
				"Signature=673c4958e33f2206b393135a12737cbf33075141f024d54a7cccc1715fb23f35",
		},
		"a query out of order, with what must be escaped": {
			http.MethodGet, "https://bedrock.ap-south-1.amazonaws.com", "/model-invocation-jobs", "statusEquals=In%20Progress&nameContains=a%2Bb~c&maxResults=2&nextToken=", "", "ap-south-1", "", "20260630T120000Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260630/ap-south-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, " +
				"Signature=83cd11f49b0f9b9241ff904701ddca530478bedd71d61ba98576cecb0a6269c4",
		},
		"a stream behind a host of one's own, with a session": {
			http.MethodPost, "https://gateway.example", "/aws/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream", "",
			`{"messages":[{"role":"user","content":[{"text":"Guten Tag, 世界 \n"}]}],"inferenceConfig":{"stopSequences":["END"]}}`, "us-west-2",
			"IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVzLXdlc3QtMiJH", "20261127T222509Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261127/us-west-2/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, " +
				"Signature=0ac626de1d178694cab878885e575eefff4b17e59a780da8ed94f172b0c3f9e4",
		},
		"another method": {
			http.MethodDelete, "https://bedrock.us-gov-west-1.amazonaws.com", "/guardrails/abc", "guardrailVersion=1", "", "us-gov-west-1", "", "20260101T000000Z",
			"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-gov-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, " +
				"Signature=77032cd50d80f2e3b25dcf86d0aea31b77727367f154c1d2b681f3a91ec2b459",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCall(t, providers.Proxy, v.body)
			c.Method, c.Path, c.Query = v.method, v.path, v.query
			c.Setting = words{"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": secret, "aws_region": v.region, "aws_session_token": v.token}.get
			var err, wrong error
			c.Base, err = url.Parse(v.base)
			c.Now, wrong = time.Parse("20060102T150405Z", v.date)
			if err := errors.Join(err, wrong); err != nil {
				t.Fatal(err)
			}
			if got := prepare(t, c).Header.Get("Authorization"); got != v.want {
				t.Errorf("got %s, want %s", got, v.want)
			}
		})
	}
}

func TestTheCredentialIsWhatTheSettingsSay(t *testing.T) {
	for _, c := range []struct {
		name    string
		setting words
		key     string
		want    string // what the header begins with, or the parameter that is refused
	}{
		{"AWS keys before a bearer", keys, "api-key", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"},
		{"the saved credential is the secret", words{"aws_access_key_id": "AKID2", "aws_region": "eu-west-1"}, "secret", "AWS4-HMAC-SHA256 Credential=AKID2/20260102/eu-west-1/"},
		{"an API key", words{"aws_region": "us-east-1"}, "api-key", "Bearer api-key"},
		{"an API key and a custom host", words{}, "api-key", "Bearer api-key"},
		{"nothing", words{"aws_region": "us-east-1"}, "", "x-gw-aws-access-key-id"},
		{"half a pair", words{"aws_region": "us-east-1", "aws_access_key_id": "AKID"}, "", "x-gw-aws-secret-access-key"},
		{"the other half", words{"aws_region": "us-east-1", "aws_secret_access_key": "s"}, "key", "x-gw-aws-access-key-id"},
		{"no region", words{"aws_access_key_id": "AKID"}, "secret", "x-gw-aws-region"},
		{"a region that is none", words{"aws_access_key_id": "AKID", "aws_region": "us/east"}, "secret", "x-gw-aws-region"},
		{"a role that was not assumed", words{"aws_role_arn": "arn:aws:iam::123456789012:role/x", "aws_access_key_id": "AKID", "aws_region": "us-east-1"}, "key", "x-gw-aws-role-arn"},
		{"a role by its type", words{"aws_auth_type": "assumedRole", "aws_access_key_id": "AKID", "aws_region": "us-east-1"}, "key", "x-gw-aws-role-arn"},
	} {
		call := newCall(t, providers.ChatComplete, `{"model":"m","messages":[]}`)
		call.Setting, call.Key = c.setting.get, credentials.NewSecret(c.key)
		p := provider()
		r, err := p.Prepare(call)
		var refusal *providers.RequestError
		switch {
		case errors.As(err, &refusal):
			if refusal.Param != c.want {
				t.Errorf("%s: refused for %s: %s", c.name, refusal.Param, refusal.Message)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !strings.HasPrefix(r.Header.Get("Authorization"), c.want):
			t.Errorf("%s: got %s, want %s", c.name, r.Header.Get("Authorization"), c.want)
		}
	}
}

func TestAnUploadThatIsNotReadCannotBeSigned(t *testing.T) {
	call := newCall(t, providers.Proxy, "")
	call.Body, call.Header = nil, words{"Content-Type": "multipart/form-data; boundary=x"}.get
	p := provider()
	if _, err := p.Prepare(call); err == nil {
		t.Error("it was signed")
	}
}

// What the gateway's machine is logs in where the call may be that and its settings have no keys.
func TestTheMachineLogsIn(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/x"
	for _, c := range []struct {
		name    string
		setting words
		of      bool   // it may be what the machine is
		refused string // the parameter; "": it is not
		want    providers.AssumedRole
	}{
		{"itself", words{"aws_auth_type": "serviceRole", "aws_region": "us-east-1"}, true, "", providers.AssumedRole{Region: "us-east-1", Machine: true}},
		{"a role", words{"aws_auth_type": "serviceRole", "aws_region": "us-east-1", "aws_role_arn": arn, "aws_external_id": "e1"}, true, "", providers.AssumedRole{Region: "us-east-1", ARN: arn, ExternalID: "e1", Machine: true}},
		{"a role by its type", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1", "aws_role_arn": arn}, true, "", providers.AssumedRole{Region: "us-east-1", ARN: arn, Machine: true}},
		{"a role by keys", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1", "aws_role_arn": arn, "aws_access_key_id": "AKID", "aws_secret_access_key": "sk"}, true, "", providers.AssumedRole{
			Region: "us-east-1", ARN: arn, Keys: providers.RoleToken{AccessKeyID: "AKID", SecretAccessKey: "sk"},
		}},
		{"a role without a type", words{"aws_region": "us-east-1", "aws_role_arn": arn}, true, "x-gw-aws-access-key-id", providers.AssumedRole{}},
		{"of a caller", words{"aws_auth_type": "serviceRole", "aws_region": "us-east-1"}, false, "x-gw-aws-auth-type", providers.AssumedRole{}},
		{"of a caller with keys", words{"aws_auth_type": "serviceRole", "aws_region": "us-east-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "sk"}, false, "x-gw-aws-auth-type", providers.AssumedRole{}},
		{"a role of a caller", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1", "aws_role_arn": arn}, false, "x-gw-aws-access-key-id", providers.AssumedRole{}},
		{"no role", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1"}, true, "x-gw-aws-role-arn", providers.AssumedRole{}},
		{"another ARN", words{"aws_auth_type": "serviceRole", "aws_region": "us-east-1", "aws_role_arn": "x"}, true, "x-gw-aws-role-arn", providers.AssumedRole{}},
		{"no region", words{"aws_auth_type": "serviceRole"}, true, "x-gw-aws-region", providers.AssumedRole{}},
	} {
		call := newCall(t, providers.ChatComplete, `{"model":"m","messages":[]}`)
		p := provider()
		call.Setting, call.Key, call.Provider, call.Machine = c.setting.get, credentials.Secret{}, &p, c.of
		l, err := p.Login(call)
		if refusal := new(providers.RequestError); errors.As(err, &refusal) != (c.refused != "") || refusal.Param != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.refused == "" && (l == nil || *l.Role != c.want || l.OfMachine() != c.want.Machine) {
			t.Errorf("%s: got %+v", c.name, l)
		}
		// Without its login, nothing is signed.
		if r, err := p.Prepare(call); err == nil {
			t.Errorf("%s: signed as %s", c.name, r.Header.Get("Authorization"))
		}
	}
}

func TestARoleIsAssumedByTheKeysBesideIt(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/x"
	for _, c := range []struct {
		name    string
		setting words
		key     string
		refused string // the parameter; "": it is not
		want    *providers.AssumedRole
	}{
		{"no role", words{"aws_region": "us-east-1", "aws_access_key_id": "AKID"}, "secret", "", nil},
		{"a role", words{"aws_region": "us-east-1", "aws_access_key_id": "AKID", "aws_role_arn": arn, "aws_external_id": "e1"}, "secret", "", &providers.AssumedRole{
			Region: "us-east-1", ARN: arn, ExternalID: "e1", Keys: providers.RoleToken{AccessKeyID: "AKID", SecretAccessKey: "secret"},
		}},
		{"by the type", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1", "aws_access_key_id": "AKID", "aws_secret_access_key": "sk", "aws_session_token": "st", "aws_role_arn": arn}, "", "", &providers.AssumedRole{
			Region: "us-east-1", ARN: arn, Keys: providers.RoleToken{AccessKeyID: "AKID", SecretAccessKey: "sk", SessionToken: "st"},
		}},
		{"no ARN", words{"aws_auth_type": "assumedRole", "aws_region": "us-east-1", "aws_access_key_id": "AKID"}, "secret", "x-gw-aws-role-arn", nil},
		{"another ARN", words{"aws_region": "us-east-1", "aws_access_key_id": "AKID", "aws_role_arn": "arn:aws:iam::123456789012:user/x"}, "secret", "x-gw-aws-role-arn", nil},
		{"another external id", words{"aws_region": "us-east-1", "aws_access_key_id": "AKID", "aws_role_arn": arn, "aws_external_id": "a b"}, "secret", "x-gw-aws-external-id", nil},
		{"no region", words{"aws_access_key_id": "AKID", "aws_role_arn": arn}, "secret", "x-gw-aws-region", nil},
		{"a region that is a host", words{"aws_access_key_id": "AKID", "aws_role_arn": arn, "aws_region": "x.example/"}, "secret", "x-gw-aws-region", nil},
		{"an API key of Bedrock's", words{"aws_region": "us-east-1", "aws_role_arn": arn}, "api-key", "x-gw-aws-access-key-id", nil},
	} {
		call := newCall(t, providers.ChatComplete, `{"model":"m","messages":[]}`)
		call.Setting, call.Key = c.setting.get, credentials.NewSecret(c.key)
		p := provider()
		call.Provider = &p
		l, err := p.Login(call)
		if refusal := new(providers.RequestError); errors.As(err, &refusal) != (c.refused != "") || refusal.Param != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if (l == nil) != (c.want == nil) || l != nil && *l.Role != *c.want {
			t.Errorf("%s: got %+v", c.name, l)
		}
		if l == nil {
			continue
		}
		call.Token = providers.RoleToken{AccessKeyID: "ASIA", SecretAccessKey: "of-the-role", SessionToken: "session"}.Secret()
		r, err := p.Prepare(call)
		if err != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=ASIA/") || r.Header.Get("X-Amz-Security-Token") != "session" {
			t.Errorf("%s: %v, %v", c.name, r, err)
		}
	}
}
