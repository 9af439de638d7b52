package awssm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/caddy-gw/gateway/secrets"
)

const (
	stsVersion  = "2011-06-15"
	sessionName = "caddy-gw" // of roles, in AWS's own logs
)

// assume requests the credentials of a role, which the own ones may assume.
func assume(ctx context.Context, c *secrets.Clients, region string, own aws.Credentials, arn, external string) (*keys, error) {
	form := url.Values{"Action": {"AssumeRole"}, "Version": {stsVersion}, "RoleArn": {arn}, "RoleSessionName": {sessionName}}
	if external != "" {
		form.Set("ExternalId", external)
	}
	return askSTS(ctx, c, region, form, func(q *http.Request, sum string) error {
		return v4.NewSigner().SignHTTP(ctx, own, q, sum, "sts", region, c.Now())
	})
}

// ofServiceAccount requests the credentials of the role of a Kubernetes service account, whose token
// Kubernetes replaces regularly.
func (id *identity) ofServiceAccount(ctx context.Context, region string, c *secrets.Clients) (*keys, error) {
	token, err := secrets.ReadToken(id.vars["AWS_WEB_IDENTITY_TOKEN_FILE"])
	if err != nil {
		return nil, err
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {stsVersion}, "RoleArn": {id.vars["AWS_ROLE_ARN"]}, "RoleSessionName": {sessionName},
		"WebIdentityToken": {token},
	}
	return askSTS(ctx, c, region, form, func(*http.Request, string) error { return nil })
}

// askSTS sends a request to the Security Token Service of a region.
func askSTS(ctx context.Context, c *secrets.Clients, region string, form url.Values, sign func(q *http.Request, sum string) error) (*keys, error) {
	body := form.Encode()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint("sts", region), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(body))
	if err := sign(q, hex.EncodeToString(sum[:])); err != nil {
		return nil, err
	}
	status, answer, err := secrets.Do(c.Public, q)
	if err != nil {
		return nil, err
	}
	var response struct {
		Code string `xml:"Error>Code"`
		// Of either action.
		Assumed   stsKeys `xml:"AssumeRoleResult>Credentials"`
		Federated stsKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	err = xml.Unmarshal(answer, &response)
	if status != http.StatusOK {
		return nil, &secrets.Error{What: "login", Status: status, Code: secrets.Code(response.Code)}
	}
	got := response.Assumed
	if got == (stsKeys{}) {
		got = response.Federated
	}
	k := &keys{AccessKeyID: got.ID, SecretAccessKey: got.Key, Token: got.Token, Expiration: got.Until}
	if err != nil || !k.complete() {
		return nil, errNoKeys
	}
	return k, nil
}

// stsKeys are credentials as STS sends them.
type stsKeys struct {
	ID    string    `xml:"AccessKeyId"`
	Key   string    `xml:"SecretAccessKey"`
	Token string    `xml:"SessionToken"`
	Until time.Time `xml:"Expiration"`
}
