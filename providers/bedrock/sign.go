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

	"github.com/caddy-gw/gateway/providers"
)

const service = "bedrock" // as signatures name it, whatever the host

// sign adds the credential: a signature (AWS Signature Version 4) with AWS keys, or else
// a Bedrock API key as a bearer token.
func sign(c *providers.Call, r *providers.Request) error {
	keys, err := keysOf(c)
	if err != nil {
		return err
	}
	if keys.AccessKeyID == "" {
		return providers.Bearer(c, r.Header)
	}
	region := c.Setting("aws_region")
	switch {
	case region == "":
		return c.Provider.Missing("aws_region")
	case strings.ContainsFunc(region, func(r rune) bool { return r != '-' && (r > 'z' || !letterOrDigit(byte(r))) }):
		return &providers.Refusal{Param: "x-gw-aws-region", Code: "invalid_setting", Message: "Invalid aws_region: expected a region such as us-east-1"}
	}
	body := r.Body
	if body == nil {
		body = c.Body
	}
	if media := c.Header("Content-Type"); body == nil && media != "" && !strings.HasPrefix(media, mediaJSON) {
		// It passes through unread, and the signature is made of its digest.
		return &providers.Refusal{Param: "content-type", Code: "unsupported_media_type", Message: "Provider " + c.Provider.Name + " takes JSON only: what is signed is read first"}
	}
	r.URL = withoutDefaultPort(r.URL)
	return signAs(r, body, keys, region, c.Now)
}

func signAs(r *providers.Request, body []byte, keys aws.Credentials, region string, now time.Time) error {
	// Only these headers are signed, beside the host: others may be added on the way.
	u := *r.URL
	signed := &http.Request{Method: r.Method, URL: &u, Host: u.Host, Header: make(http.Header, 4)}
	digest := sha256.Sum256(body)
	// A signer keeps the keys it derives, by region: one for each call keeps none of a
	// caller's.
	err := v4.NewSigner().SignHTTP(context.Background(), keys, signed, hex.EncodeToString(digest[:]), service, region, now)
	if err != nil {
		return err
	}
	r.URL = &u // its query is put in the order that was signed
	for name, v := range signed.Header {
		r.Header[name] = v
	}
	return nil
}

// withoutDefaultPort is the URL as its host is signed and sent.
func withoutDefaultPort(u *url.URL) *url.URL {
	out := *u
	if p := u.Port(); p == "443" && u.Scheme == "https" || p == "80" && u.Scheme == "http" {
		out.Host = strings.TrimSuffix(u.Host, ":"+p)
	}
	return &out
}

// keysOf are the AWS keys of a call; with none, its credential is a Bedrock API key. Of a
// saved credential the secret access key is the credential itself.
func keysOf(c *providers.Call) (keys aws.Credentials, err error) {
	if c.Setting("aws_role_arn") != "" || strings.EqualFold(c.Setting("aws_auth_type"), "assumedRole") {
		return keys, &providers.Refusal{
			Param: "x-gw-aws-role-arn", Code: "not_supported",
			Message: "Assumed roles are not supported yet: give provider " + c.Provider.Name + " access keys or a Bedrock API key",
		}
	}
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
