package awssm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/caddyserver/caddy/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/secretstest"
)

// account are the credentials that AWS knows in these tests.
type account map[string]aws.Credentials

var permanent = account{"AKIAEXAMPLE": {AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "key-of-the-account"}}

// signed signs a request again with the credentials that it names, and returns what is wrong with its
// signature, or "".
func (a account) signed(t *testing.T, r *http.Request, body []byte, service, region string, now time.Time) (id, fault string) {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || at.Sub(now).Abs() > 15*time.Minute {
		return "", "InvalidSignatureException"
	}
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ = strings.Cut(rest, "/")
	known, ok := a[id]
	switch {
	case ok && r.Header.Get("X-Amz-Security-Token") != known.SessionToken, !ok && id != "AKIAEXAMPLE":
		return id, "UnrecognizedClientException"
	case known.CanExpire && !now.Before(known.Expires):
		return id, "ExpiredTokenException"
	}
	again, err := http.NewRequestWithContext(t.Context(), r.Method, "https://"+r.Host+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return id, "error"
	}
	for _, name := range []string{"Content-Type", "X-Amz-Target"} {
		if v := r.Header.Get(name); v != "" {
			again.Header.Set(name, v)
		}
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), known, again, hex.EncodeToString(sum[:]), service, region, at); err != nil {
		t.Error(err)
	}
	if r.Header.Get("Authorization") != again.Header.Get("Authorization") {
		return id, "InvalidSignatureException"
	}
	return id, ""
}

// server stands for AWS Secrets Manager: it signs what it got again with the credentials that it
// knows, and compares.
func server(t *testing.T, region string, now func() time.Time, known account) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		refuse := func(code string) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.secretsmanager#`+code+`","Message":"AKIA"}`)
		}
		_, fault := known.signed(t, r, body, "secretsmanager", region, now())
		switch {
		case fault != "":
			refuse(fault)
		case r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1":
			refuse("UnknownOperationException")
		case gjson.GetBytes(body, "SecretId").Str == "binary":
			_, _ = io.WriteString(w, `{"Name":"binary","SecretBinary":"YmluYXJ5"}`)
		case gjson.GetBytes(body, "SecretId").Str == "prod/openai":
			_, _ = io.WriteString(w, `{"Name":"prod/openai","VersionStages":["AWSCURRENT"],"SecretString":"{\"key\":\"sk-1\"}"}`)
		default:
			refuse("ResourceNotFoundException")
		}
	}
}

func TestSecretsOfAWS(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func() time.Time { return now }
	hosts := secretstest.Hosts{
		"secretsmanager.eu-west-1.amazonaws.com":     server(t, "eu-west-1", at, permanent),
		"secretsmanager.cn-north-1.amazonaws.com.cn": server(t, "cn-north-1", at, permanent),
	}
	for name, c := range map[string]struct{ path, key, region, want, code string }{
		"a text":          {"prod/openai", "key-of-the-account", "eu-west-1", `{"key":"sk-1"}`, ""},
		"in China":        {"prod/openai", "key-of-the-account", "cn-north-1", `{"key":"sk-1"}`, ""},
		"bytes":           {"binary", "key-of-the-account", "eu-west-1", "binary", ""},
		"another key":     {"prod/openai", "key-of-another", "eu-west-1", "", "InvalidSignatureException"},
		"no such secret":  {"none", "key-of-the-account", "eu-west-1", "", "ResourceNotFoundException"},
		"an unknown host": {"none", "key-of-the-account", "us-east-1", "", "no route"},
	} {
		r := &secrets.Reference{Path: c.path, Auth: map[string]string{fieldType: "accessKey", fieldID: "AKIAEXAMPLE", fieldKey: c.key, fieldRegion: c.region}}
		m := new(Manager)
		if err := errors.Join(m.Provision(caddy.Context{}), m.Check(r, nil)); err != nil {
			t.Fatal(err)
		}
		got, err := m.Fetch(t.Context(), r, secretstest.Clients(hosts, nil, at))
		switch {
		case c.code == "" && (err != nil || got.Reveal() != c.want), c.code != "" && (err == nil || !strings.Contains(err.Error(), c.code)):
			t.Errorf("%s: got %q, %v", name, got.Reveal(), err)
		case err != nil && strings.Contains(err.Error(), "AKIA"):
			t.Errorf("%s: the error repeats the answer: %v", name, err)
		}
	}
}

func TestReferencesOfAWSAreChecked(t *testing.T) {
	for region, ok := range map[string]bool{"eu-west-1": true, "eu.evil.example.com/": false, "EU": false, "": false, "-eu": false, strings.Repeat("a", 33): false} {
		err := new(Manager).Check(&secrets.Reference{Path: "p", Auth: map[string]string{fieldRegion: region}}, nil)
		if (err == nil) != ok {
			t.Errorf("%q: %v", region, err)
		}
	}
	if err := new(Manager).Check(&secrets.Reference{Path: "a\nb", Auth: map[string]string{fieldRegion: "eu-west-1"}}, nil); err == nil {
		t.Error("a path with a line break")
	}
}
