package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/providers"
)

// Services, as signatures name them regardless of the host.
const (
	service   = "bedrock"
	s3Service = "s3"
)

// sign adds the credential: an AWS Signature Version 4 if there are AWS keys, otherwise a
// Bedrock API key as a bearer token.
func sign(c *providers.Call, r *providers.Request) error {
	keys, err := keysOf(c)
	if err != nil {
		return err
	}
	if keys.AccessKeyID == "" {
		return providers.Bearer(c, r.Header)
	}
	region, err := regionOf(c)
	if err != nil {
		return err
	}
	body := r.Body
	if body == nil {
		body = c.Body
	}
	if media := c.Header("Content-Type"); body == nil && media != "" && !strings.HasPrefix(media, mediaJSON) {
		// A streamed body cannot be signed, because the signature covers its digest.
		return &providers.RequestError{Param: "content-type", Code: "unsupported_media_type", Message: "Provider " + c.Provider.Name + " takes JSON only: what is signed is read first"}
	}
	r.URL = withoutDefaultPort(r.URL)
	return scope{service, region, keys}.sign(r, body, c.Now)
}

// signS3 signs a request to S3, which does not accept Bedrock API keys.
func signS3(c *providers.Call, r *providers.Request) error {
	keys, err := keysOf(c)
	if err != nil {
		return err
	}
	if keys.AccessKeyID == "" {
		return &providers.RequestError{
			Param: "x-gw-aws-access-key-id", Code: "missing_setting",
			Message: "Files of provider " + c.Provider.Name + " are in S3, which takes AWS access keys (aws_access_key_id) and no Bedrock API key",
		}
	}
	region, err := regionOf(c)
	if err != nil {
		return err
	}
	r.URL = withoutDefaultPort(r.URL)
	return scope{s3Service, region, keys}.sign(r, r.Body, c.Now)
}

func regionOf(c *providers.Call) (string, error) {
	region := c.Setting("aws_region")
	switch {
	case region == "":
		return "", c.Provider.Missing("aws_region")
	case strings.ContainsFunc(region, func(r rune) bool { return r != '-' && (r > 'z' || !letterOrDigit(byte(r))) }):
		return "", &providers.RequestError{Param: "x-gw-aws-region", Code: "invalid_setting", Message: "Invalid aws_region: expected a region such as us-east-1"}
	}
	return region, nil
}

// A scope is the service, region and key pair of a signature.
type scope struct {
	service, region string
	keys            aws.Credentials
}

func (s scope) sign(r *providers.Request, body []byte, now time.Time) error {
	// Only these headers are signed besides Host, since others may be added on the way.
	u := *r.URL
	signed := &http.Request{Method: r.Method, URL: &u, Host: u.Host, Header: make(http.Header, 4)}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if s.service == s3Service {
		signed.Header["X-Amz-Content-Sha256"] = []string{digest}
	}
	// A signer caches derived keys by region. A new one for each call keeps no keys of
	// callers.
	err := v4.NewSigner().SignHTTP(context.Background(), s.keys, signed, digest, s.service, s.region, now, func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = s.service == s3Service // S3 expects its paths escaped once
	})
	if err != nil {
		return err
	}
	r.URL = &u // its query is in the signed order
	for name, v := range signed.Header {
		r.Header[name] = v
	}
	return nil
}

// withoutDefaultPort returns the URL with the host as it is signed and sent.
func withoutDefaultPort(u *url.URL) *url.URL {
	out := *u
	if p := u.Port(); p == "443" && u.Scheme == "https" || p == "80" && u.Scheme == "http" {
		out.Host = strings.TrimSuffix(u.Host, ":"+p)
	}
	return &out
}

// keysOf returns the AWS keys that a call is signed with: those of the role that it assumes, or its own.
// Without keys, its credential is a Bedrock API key.
func keysOf(c *providers.Call) (keys aws.Credentials, err error) {
	if assumes(c) {
		t := providers.ReadRoleToken(c.Token)
		if t.AccessKeyID == "" { // or else what assumes the role would be sent itself
			return keys, &providers.RequestError{Param: "x-gw-aws-role-arn", Code: "not_supported", Message: "The role of provider " + c.Provider.Name + " was not assumed"}
		}
		return aws.Credentials{AccessKeyID: t.AccessKeyID, SecretAccessKey: t.SecretAccessKey, SessionToken: t.SessionToken}, nil
	}
	return ownKeys(c)
}

// assumes reports whether the keys of a call are only good for a role.
func assumes(c *providers.Call) bool {
	return c.Setting(settingRole) != "" || strings.EqualFold(c.Setting("aws_auth_type"), "assumedRole")
}

const (
	settingRole     = "aws_role_arn"
	settingExternal = "aws_external_id"
)

// login assumes the role of a call.
func login(c *providers.Call) (*providers.Login, error) {
	if !assumes(c) {
		return nil, nil
	}
	role := sts.Role{ARN: c.Setting(settingRole), ExternalID: c.Setting(settingExternal)}
	region, err := regionOf(c)
	if err != nil {
		return nil, err
	}
	if role.ARN == "" {
		return nil, c.Provider.Missing(settingRole)
	}
	if fault := role.CheckARN(); fault != "" {
		return nil, &providers.RequestError{Param: "x-gw-aws-role-arn", Code: "invalid_setting", Message: "Invalid aws_role_arn: " + fault}
	}
	if fault := role.CheckExternalID(); fault != "" {
		return nil, &providers.RequestError{Param: "x-gw-aws-external-id", Code: "invalid_setting", Message: "Invalid aws_external_id: " + fault}
	}
	keys, err := ownKeys(c)
	if err != nil {
		return nil, err
	}
	if keys.AccessKeyID == "" { // a Bedrock API key cannot assume a role, and what the machine is belongs to the operator
		return nil, c.Provider.Missing("aws_access_key_id")
	}
	return &providers.Login{Role: &providers.AssumedRole{
		Region: region, ARN: role.ARN, ExternalID: role.ExternalID,
		Keys: providers.RoleToken{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken},
	}}, nil
}

// ownKeys returns the AWS keys of the credential of a call. In a saved credential, the secret access
// key is the credential itself.
func ownKeys(c *providers.Call) (keys aws.Credentials, err error) {
	keys = aws.Credentials{
		AccessKeyID:     c.Setting("aws_access_key_id"),
		SecretAccessKey: c.Setting("aws_secret_access_key"),
		SessionToken:    c.Setting("aws_session_token"),
	}
	switch {
	case keys.AccessKeyID == "" && keys.SecretAccessKey != "":
		return keys, c.Provider.Missing("aws_access_key_id")
	case keys.AccessKeyID == "" && c.Key.Empty():
		return keys, c.Provider.Missing("aws_access_key_id")
	case keys.AccessKeyID != "" && keys.SecretAccessKey == "":
		keys.SecretAccessKey = c.Key.Reveal()
	}
	if keys.AccessKeyID != "" && keys.SecretAccessKey == "" {
		return keys, c.Provider.Missing("aws_secret_access_key")
	}
	return keys, nil
}
