// Package awssm reads secrets from AWS Secrets Manager, as the Caddy module
// gw.secrets.aws_sm.
package awssm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

func init() { caddy.RegisterModule(new(Manager)) }

// Manager reads secrets from AWS Secrets Manager. It signs requests with access keys.
type Manager struct {
	// Hosts that may be private, such as those of a VPC endpoint with private DNS:
	// secretsmanager.eu-west-1.amazonaws.com. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	hosts secrets.Hosts
}

// Fields of auth_config.
const (
	fieldType   = "aws_auth_type"
	fieldID     = "aws_access_key_id"
	fieldKey    = "aws_secret_access_key"
	fieldRegion = "aws_region"
)

// CaddyModule returns the Caddy module information.
func (*Manager) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gw.secrets.aws_sm", New: func() caddy.Module { return new(Manager) }}
}

// Provision checks the configuration.
func (m *Manager) Provision(caddy.Context) (err error) {
	m.hosts, err = secrets.NewHosts(m.Hosts)
	return err
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	secrets aws_sm {
//		hosts <hosts...>
//	}
func (m *Manager) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	m.Hosts, err = secrets.UnmarshalHosts(d)
	return err
}

// Login describes the auth_config.
func (*Manager) Login() secrets.Login {
	return secrets.Login{Mode: fieldType, Ways: map[string][]secrets.Field{
		"accessKey": {
			{Name: fieldID, Required: true, Secret: true},
			{Name: fieldKey, Required: true, Secret: true},
			{Name: fieldRegion, Required: true, Place: true},
		},
	}, Unsupported: []string{"assumedRole", "serviceRole"}}
}

// Check checks the region and the name.
func (*Manager) Check(r *secrets.Reference, _ secrets.Guard) error {
	if region := r.Auth[fieldRegion]; len(region) > 32 || strings.Trim(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(region, "-") != region {
		return &secrets.FieldError{Field: secrets.AuthField(fieldRegion), Message: "expected a region such as eu-west-1"}
	}
	if strings.ContainsFunc(r.Path, func(r rune) bool { return r < ' ' }) {
		return &secrets.FieldError{Field: secrets.FieldPath, Message: "expected the name or the ARN of a secret"}
	}
	return nil
}

// endpoint returns the address of a region.
func endpoint(region string) string {
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	return "https://secretsmanager." + region + "." + domain + "/"
}

// Fetch reads the current version of a secret.
func (m *Manager) Fetch(ctx context.Context, r *secrets.Reference, c *secrets.Clients) (value credentials.Secret, err error) {
	body, err := json.Marshal(map[string]string{"SecretId": r.Path})
	if err != nil {
		return value, err
	}
	region := r.Auth[fieldRegion]
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint(region), bytes.NewReader(body))
	if err != nil {
		return value, err
	}
	q.Header.Set("Content-Type", "application/x-amz-json-1.1")
	q.Header.Set("X-Amz-Target", "secretsmanager.GetSecretValue")
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: r.Auth[fieldID], SecretAccessKey: r.Auth[fieldKey]}
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
