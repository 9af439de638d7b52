// Package sigv4 signs the requests of calls to AWS (Signature Version 4): with the access keys of their credential,
// those of a role that these assume, or those of what the gateway's machine is.
//
// The settings are aws_region; aws_access_key_id, aws_secret_access_key and aws_session_token; aws_role_arn and
// aws_external_id; and aws_auth_type, which only some ways to log in need. In a saved credential, the secret access
// key may be the credential itself.
package sigv4

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

// S3 is the service whose signatures differ: its paths are escaped once, and it wants the digest of the body.
const S3 = "s3"

const mediaJSON = "application/json"

// Sign signs a request for a service, named as in signatures, in the region of the call. Without a body of its own,
// the request has the call's, which must have been read: a body that passes through has no digest.
func Sign(c *providers.Call, r *providers.Request, service string, keys aws.Credentials) error {
	region, err := Region(c)
	if err != nil {
		return err
	}
	body := r.Body
	if body == nil && service != S3 {
		body = c.Body
		if media := c.Header("Content-Type"); body == nil && media != "" && !strings.HasPrefix(media, mediaJSON) {
			return &providers.RequestError{Param: "content-type", Code: "unsupported_media_type", Message: "Provider " + c.Provider.Name + " takes JSON only: what is signed is read first"}
		}
	}
	r.URL = withoutDefaultPort(r.URL)
	return sign(r, body, service, region, keys, c.Now)
}

func sign(r *providers.Request, body []byte, service, region string, keys aws.Credentials, now time.Time) error {
	// Only these headers are signed besides Host, since others may be added on the way.
	u := *r.URL
	signed := &http.Request{Method: r.Method, URL: &u, Host: u.Host, Header: make(http.Header, 4)}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if service == S3 {
		signed.Header["X-Amz-Content-Sha256"] = []string{digest}
	}
	// A signer caches derived keys by region. A new one for each call keeps no keys of
	// callers.
	err := v4.NewSigner().SignHTTP(context.Background(), keys, signed, digest, service, region, now, func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = service == S3
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

// Region returns the region of a call.
func Region(c *providers.Call) (string, error) {
	region := c.Setting("aws_region")
	switch {
	case region == "":
		return "", c.Provider.Missing("aws_region")
	case strings.ContainsFunc(region, separates):
		return "", &providers.RequestError{Param: "x-gw-aws-region", Code: "invalid_setting", Message: "Invalid aws_region: expected a region such as us-east-1"}
	}
	return region, nil
}

func separates(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
