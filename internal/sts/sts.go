// Package sts speaks with AWS's Security Token Service, which gives the credentials of roles: those
// end, and are requested again. It sends nothing itself.
package sts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	version     = "2011-06-15"
	sessionName = "caddy-gw" // of roles, in AWS's own logs
)

var (
	roleARN    = regexp.MustCompile(`^arn:aws(-[a-z]+)*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}$`)
	externalID = regexp.MustCompile(`^[\w+=,.@:/-]{2,1000}$`)
)

// A Role is one that an account's credentials may assume.
type Role struct {
	ARN        string
	ExternalID string // what the role's owner expects of who assumes it; "": nothing
}

// CheckARN says what is wrong with the ARN; "": nothing.
func (r Role) CheckARN() string {
	if !roleARN.MatchString(r.ARN) {
		return "expected the ARN of a role, such as arn:aws:iam::123456789012:role/gateway"
	}
	return ""
}

// CheckExternalID says what is wrong with the external id; "": nothing.
func (r Role) CheckExternalID() string {
	if r.ExternalID != "" && !externalID.MatchString(r.ExternalID) {
		return "expected 2 to 1000 letters, digits and _+=,.@:/-"
	}
	return ""
}

// Endpoint returns the address of a service of AWS in a region, which is one label of a host.
func Endpoint(service, region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	return "https://" + service + "." + region + "." + domain + "/"
}

// AssumeRole returns the request for the credentials of a role, which own may assume.
func AssumeRole(ctx context.Context, region string, own aws.Credentials, r Role, now time.Time) (*http.Request, error) {
	form := url.Values{"Action": {"AssumeRole"}, "Version": {version}, "RoleArn": {r.ARN}, "RoleSessionName": {sessionName}}
	if r.ExternalID != "" {
		form.Set("ExternalId", r.ExternalID)
	}
	q, sum, err := newRequest(ctx, region, form)
	if err != nil {
		return nil, err
	}
	// A signer keeps derived keys, so that each request has its own.
	return q, v4.NewSigner().SignHTTP(ctx, own, q, sum, "sts", region, now)
}

// WithWebIdentity returns the request for the credentials of a role, which the bearer of a token of
// its identity provider may assume.
func WithWebIdentity(ctx context.Context, region, arn, token string) (*http.Request, error) {
	q, _, err := newRequest(ctx, region, url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {version}, "RoleArn": {arn}, "RoleSessionName": {sessionName}, "WebIdentityToken": {token},
	})
	return q, err
}

// newRequest returns a request with the hash of its body, in hex.
func newRequest(ctx context.Context, region string, form url.Values) (*http.Request, string, error) {
	body := form.Encode()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, Endpoint("sts", region), strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(body))
	return q, hex.EncodeToString(sum[:]), nil
}

// An Error is an answer other than credentials.
type Error struct {
	Status int
	Code   string // AWS's, such as AccessDenied; "": there is none
}

func (e *Error) Error() string { return fmt.Sprintf("STS answered %d %s", e.Status, e.Code) }

// ErrNoCredentials means that an answer has no credentials, or not all of them.
var ErrNoCredentials = errors.New("the answer of STS has no credentials")

// code matches AWS's error codes, and nothing that could contain a secret.
var code = regexp.MustCompile(`^[A-Za-z.]{1,64}$`)

// Read returns the credentials in an answer, which say when they end. The error is an [Error] or
// [ErrNoCredentials].
func Read(status int, answer []byte) (aws.Credentials, error) {
	var response struct {
		Code string `xml:"Error>Code"`
		// Of either action.
		Assumed   credentials `xml:"AssumeRoleResult>Credentials"`
		Federated credentials `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	err := xml.Unmarshal(answer, &response)
	if status != http.StatusOK {
		e := &Error{Status: status}
		if code.MatchString(response.Code) {
			e.Code = response.Code
		}
		return aws.Credentials{}, e
	}
	got := response.Assumed
	if got == (credentials{}) {
		got = response.Federated
	}
	if err != nil || got.ID == "" || got.Key == "" || got.Token == "" || got.Until.IsZero() {
		return aws.Credentials{}, ErrNoCredentials
	}
	return aws.Credentials{AccessKeyID: got.ID, SecretAccessKey: got.Key, SessionToken: got.Token, CanExpire: true, Expires: got.Until}, nil
}

// credentials are those of an answer.
type credentials struct {
	ID    string    `xml:"AccessKeyId"`
	Key   string    `xml:"SecretAccessKey"`
	Token string    `xml:"SessionToken"`
	Until time.Time `xml:"Expiration"`
}
