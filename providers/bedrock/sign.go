package bedrock

import (
	"github.com/caddy-gw/gateway/internal/sigv4"
	"github.com/caddy-gw/gateway/providers"
)

// service is Bedrock's name in signatures, regardless of the host.
const service = "bedrock"

// sign adds the credential: an AWS Signature Version 4 if there are AWS keys, otherwise a
// Bedrock API key as a bearer token.
func sign(c *providers.Call, r *providers.Request) error {
	keys, err := sigv4.Keys(c)
	if err != nil {
		return err
	}
	if keys.AccessKeyID == "" {
		return providers.Bearer(c, r.Header)
	}
	return sigv4.Sign(c, r, service, keys)
}

// signS3 signs a request to S3, which does not accept Bedrock API keys.
func signS3(c *providers.Call, r *providers.Request) error {
	keys, err := sigv4.Keys(c)
	if err != nil {
		return err
	}
	if keys.AccessKeyID == "" {
		return &providers.RequestError{
			Param: "x-gw-aws-access-key-id", Code: "missing_setting",
			Message: "Files of provider " + c.Provider.Name + " are in S3, which takes AWS access keys (aws_access_key_id) and no Bedrock API key",
		}
	}
	return sigv4.Sign(c, r, sigv4.S3, keys)
}
