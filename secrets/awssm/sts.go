package awssm

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/secrets"
)

// assume requests the credentials of a role, which the own ones may assume.
func assume(ctx context.Context, c *secrets.Clients, region string, own aws.Credentials, role sts.Role) (*keys, error) {
	q, err := sts.AssumeRole(ctx, region, own, role, c.Now())
	if err != nil {
		return nil, err
	}
	return askSTS(c, q)
}

// ofServiceAccount requests the credentials of the role of a Kubernetes service account, whose token
// Kubernetes replaces regularly.
func (id *Identity) ofServiceAccount(ctx context.Context, region string, c *secrets.Clients) (*keys, error) {
	token, err := secrets.ReadToken(id.vars["AWS_WEB_IDENTITY_TOKEN_FILE"])
	if err != nil {
		return nil, err
	}
	q, err := sts.WithWebIdentity(ctx, region, id.vars["AWS_ROLE_ARN"], token)
	if err != nil {
		return nil, err
	}
	return askSTS(c, q)
}

// askSTS sends a request to the Security Token Service.
func askSTS(c *secrets.Clients, q *http.Request) (*keys, error) {
	status, answer, err := secrets.Do(c.Public, q)
	if err != nil {
		return nil, err
	}
	got, err := sts.Read(status, answer)
	var refused *sts.Error
	switch {
	case errors.As(err, &refused):
		return nil, &secrets.Error{What: "login", Status: refused.Status, Code: secrets.Code(refused.Code)}
	case err != nil:
		return nil, errNoKeys
	}
	return &keys{AccessKeyID: got.AccessKeyID, SecretAccessKey: got.SecretAccessKey, Token: got.SessionToken, Expiration: got.Expires}, nil
}
