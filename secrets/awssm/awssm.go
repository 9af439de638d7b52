// Package awssm reads secrets from AWS Secrets Manager, as the Caddy module
// gw.secrets.aws_sm.
package awssm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/sts"
	"github.com/caddy-gw/gateway/secrets"
)

func init() { caddy.RegisterModule(new(Manager)) }

// Manager reads secrets from AWS Secrets Manager. It signs requests with access keys, or as what
// the machine is.
type Manager struct {
	// Hosts that may be private, such as those of a VPC endpoint with private DNS:
	// secretsmanager.eu-west-1.amazonaws.com. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The identity that references without credentials of their own use: instance, the role of
	// the EC2 instance by its metadata service (IMDSv2); container, that of the ECS task or the
	// EKS pod identity; or web_identity, that of the Kubernetes service account. Whoever may make
	// references can read all secrets that it may. Default: none, and such references are refused.
	Identity string `json:"identity,omitempty"`

	// The region of references that name none. Default: AWS_REGION of the environment.
	Region string `json:"region,omitempty"`

	hosts    secrets.Hosts
	identity *Identity
}

// Fields of auth_config.
const (
	fieldType     = "aws_auth_type"
	fieldID       = "aws_access_key_id"
	fieldKey      = "aws_secret_access_key"
	fieldRegion   = "aws_region"
	fieldRole     = "aws_role_arn"
	fieldExternal = "aws_external_id"
)

// Values of aws_auth_type.
const (
	byAccessKey   = "accessKey"
	byServiceRole = "serviceRole"
	byAssumedRole = "assumedRole"
)

// CaddyModule returns the Caddy module information.
func (*Manager) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.aws_sm", New: func() caddy.Module { return new(Manager) }}
}

// Provision checks the configuration.
func (m *Manager) Provision(caddy.Context) (err error) {
	if m.hosts, err = secrets.NewHosts(m.Hosts); err != nil {
		return err
	}
	if m.Region == "" {
		m.Region = os.Getenv("AWS_REGION")
	}
	if m.Region != "" && !isRegion(m.Region) {
		return fmt.Errorf("region: expected a region such as eu-west-1, got %q", m.Region)
	}
	if m.Identity != "" {
		m.identity, err = NewIdentity(m.Identity)
	}
	return err
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets aws_sm {
//		hosts    <hosts...>
//		identity instance|container|web_identity
//		region   <region>
//	}
func (m *Manager) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return secrets.UnmarshalOptions(d, &m.Hosts, map[string]*string{"identity": &m.Identity, "region": &m.Region})
}

// Login describes the auth_config.
func (m *Manager) Login() secrets.Login {
	l := secrets.Login{Mode: fieldType, Ways: map[string][]secrets.Field{
		byAccessKey: {
			{Name: fieldID, Required: true, Secret: true},
			{Name: fieldKey, Required: true, Secret: true},
			{Name: fieldRegion, Required: true, Place: true},
		},
	}}
	if m.identity == nil {
		const why = "the operator's configuration has no identity of the gateway; see secrets aws_sm"
		l.Unavailable = map[string]string{byServiceRole: why, byAssumedRole: why}
		return l
	}
	l.Ways[byServiceRole] = []secrets.Field{{Name: fieldRegion}}
	l.Ways[byAssumedRole] = []secrets.Field{{Name: fieldRole, Required: true}, {Name: fieldExternal}, {Name: fieldRegion, Required: true}}
	return l
}

func isRegion(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(s, "-") == s
}

// Check checks the region, the role and the name.
func (m *Manager) Check(r *secrets.Reference, _ secrets.Guard) error {
	region := r.Auth[fieldRegion]
	switch way := r.Auth[fieldType]; {
	case region == "" && way == byServiceRole && m.Region == "":
		return &secrets.FieldError{Field: secrets.AuthField(fieldRegion), Message: "required, as the operator's configuration has no region"}
	case region == "" && way == byServiceRole:
	case !isRegion(region):
		return &secrets.FieldError{Field: secrets.AuthField(fieldRegion), Message: "expected a region such as eu-west-1"}
	case way == byAssumedRole && roleOf(r.Auth).CheckARN() != "":
		return &secrets.FieldError{Field: secrets.AuthField(fieldRole), Message: roleOf(r.Auth).CheckARN()}
	case roleOf(r.Auth).CheckExternalID() != "":
		return &secrets.FieldError{Field: secrets.AuthField(fieldExternal), Message: roleOf(r.Auth).CheckExternalID()}
	}
	if strings.ContainsFunc(r.Path, func(r rune) bool { return r < ' ' }) {
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the name or the ARN of a secret"}
	}
	return nil
}

// roleOf returns the role of an auth_config.
func roleOf(auth secrets.Auth) sts.Role {
	return sts.Role{ARN: auth[fieldRole], ExternalID: auth[fieldExternal]}
}

// Fetch reads the current version of a secret.
func (m *Manager) Fetch(ctx context.Context, r *secrets.Reference, c *secrets.Clients) (credentials.Secret, error) {
	region := cmp.Or(r.Auth[fieldRegion], m.Region)
	read := func(keys aws.Credentials) (credentials.Secret, error) { return m.read(ctx, r.Path, region, keys, c) }
	switch way := r.Auth[fieldType]; {
	case way == byAccessKey:
		return read(aws.Credentials{AccessKeyID: r.Auth[fieldID], SecretAccessKey: r.Auth[fieldKey]})
	case m.identity == nil: // the configuration has changed
		return credentials.Secret{}, &secrets.FieldError{Field: secrets.AuthField(fieldType), Message: "the operator's configuration has no identity of the gateway any more"}
	case way == byAssumedRole:
		return m.identity.useRole(ctx, r.Auth, c, read)
	}
	return m.identity.use(ctx, region, c, read)
}

// read reads a secret in a region.
func (m *Manager) read(ctx context.Context, path, region string, keys aws.Credentials, c *secrets.Clients) (value credentials.Secret, err error) {
	body, err := json.Marshal(map[string]string{"SecretId": path})
	if err != nil {
		return value, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, sts.Endpoint("secretsmanager", region), bytes.NewReader(body))
	if err != nil {
		return value, err
	}
	q.Header.Set("Content-Type", "application/x-amz-json-1.1")
	q.Header.Set("X-Amz-Target", "secretsmanager.GetSecretValue")
	sum := sha256.Sum256(body)
	// A signer keeps derived keys, so that each request has its own.
	if err := v4.NewSigner().SignHTTP(ctx, keys, q, hex.EncodeToString(sum[:]), "secretsmanager", region, c.Now()); err != nil {
		return value, err
	}
	status, answer, err := secrets.Do(m.hosts.Client(c, q.URL), q)
	if err != nil {
		return value, err
	}
	if status != http.StatusOK {
		return value, &secrets.Error{What: "secret", Status: status, Code: secrets.Code(gjson.GetBytes(answer, "__type").Str)}
	}
	if s := gjson.GetBytes(answer, "SecretString"); s.Type == gjson.String {
		return credentials.NewSecret(s.Str), nil
	}
	binary, err := base64.StdEncoding.DecodeString(gjson.GetBytes(answer, "SecretBinary").Str)
	if err != nil || len(binary) == 0 {
		return value, &secrets.Error{What: "secret", Status: status, Code: "without_value"}
	}
	return credentials.NewSecret(string(binary)), nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Manager)(nil)
	_ caddyfile.Unmarshaler = (*Manager)(nil)
	_ secrets.Manager       = (*Manager)(nil)
)
