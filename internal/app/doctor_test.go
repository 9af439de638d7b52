package app

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	_ "github.com/caddy-gw/gateway/providers/standard"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// doctored opens the services of an empty store.
func doctored(t *testing.T) *Services {
	t.Helper()
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := openServices(t.Context(), store, credentials.NewSecret("0123456789abcdef0123456789abcdef"), audit.Key{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Each secret reference is asked for, and what is wrong with it is said, but never its value.
func TestTheDoctorAsksForSecrets(t *testing.T) {
	s := doctored(t)
	const canary = "canary-of-a-secret"
	s.Secrets.Use(func(_ context.Context, r *credentials.SecretReference) (value credentials.Secret, err error) {
		switch r.Path {
		case "text":
			return credentials.NewSecret(canary), nil
		case "object":
			return credentials.NewSecret(`{"api":"` + canary + `"}`), nil
		case "gone":
			return value, &secrets.Error{What: "secret", Status: 404}
		}
		return value, errors.New("dial tcp: connection refused")
	})
	update := func(do func(tx *storage.Txn) error) {
		t.Helper()
		if err := s.DB.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*credentials.SecretReference{
		{Slug: "whole", Path: "text"},
		{Slug: "part", Path: "object", Key: "api"},
		{Slug: "no-key", Path: "object", Key: "other"},
		{Slug: "no-object", Path: "text", Key: "api"},
		{Slug: "gone", Path: "gone"},
		{Slug: "down", Path: "down"},
		{Slug: "mapped", Path: "object"},
	} {
		r.ID, r.Manager = r.Slug, "test_manager"
		update(func(tx *storage.Txn) error { return s.Keyring.ReplaceSecretReference(tx, r) })
	}
	v := &credentials.VirtualKey{Credential: credentials.Credential{ID: "vk", Provider: "openai", Mappings: []credentials.SecretMapping{{Field: credentials.MappedKey, Reference: "mapped", Key: "missing"}}}, Slug: "vk", WorkspaceID: "ws"}
	update(func(tx *storage.Txn) error { return s.Keyring.AddVirtualKey(tx, v, credentials.Secret{}) })

	p := &checker{Services: s, now: time.Now, reach: func(context.Context, string, bool) (time.Time, error) { return time.Now(), nil }}
	got := make(map[string]Finding)
	for _, f := range p.diagnose(t.Context()).Findings {
		if strings.Contains(f.Message+f.Advice, canary) {
			t.Errorf("the value is shown: %+v", f)
		}
		if rest, ok := strings.CutPrefix(f.Message, "the secret reference "); ok && f.Check == "secret" {
			slug, _, _ := strings.Cut(rest, ":")
			got[slug] = f
		}
	}
	for slug, want := range map[string]string{
		"whole": "test_manager answers, and the value is there", "part": "test_manager answers, and the value is there",
		"no-key": "the value at its key other cannot be used: the secret has no such key", "no-object": "the secret is not a JSON object",
		"gone": "test_manager has no secret at gone for it: the secret was answered with 404", "down": "test_manager does not answer: it cannot be reached or read: dial tcp",
		"mapped": "the value at its key missing cannot be used",
	} {
		f := got[slug]
		good := strings.HasSuffix(want, "is there")
		if strings.Count(f.Message, "answered with") > 1 {
			t.Errorf("it says a thing twice: %s", f.Message)
		}
		if !strings.Contains(f.Message, want) || (f.Status == FindingOK) != good || (f.Advice == "") != good {
			t.Errorf("%s: %+v", slug, f)
		}
	}
}

// Providers are asked at the address that their settings make, too.
func TestTheDoctorAsksHostsThatSettingsMake(t *testing.T) {
	s := doctored(t)
	add := func(slug, provider, host string, settings map[string]string) {
		t.Helper()
		v := &credentials.VirtualKey{Credential: credentials.Credential{ID: slug, Provider: provider, CustomHost: host}, Slug: slug, WorkspaceID: "ws"}
		secrets := make(map[string]credentials.Secret)
		for name, value := range settings {
			secrets[name] = credentials.NewSecret(value)
		}
		if err := s.Keyring.SealSettings(&v.Credential, secrets); err != nil {
			t.Fatal(err)
		}
		err := s.DB.Update(t.Context(), func(tx *storage.Txn) error { return s.Keyring.AddVirtualKey(tx, v, credentials.NewSecret("secret")) })
		if err != nil {
			t.Fatal(err)
		}
	}
	add("azure", "azure-openai", "", map[string]string{"azure_resource_name": "res", "azure_api_version": "2024-10-21"})
	add("aws", "bedrock", "", map[string]string{"aws_region": "eu-west-1", "aws_access_key_id": "AKID"})
	add("aws-none", "bedrock", "", nil)
	add("aws-own", "bedrock", "https://bedrock.example", map[string]string{"aws_region": "eu-west-1"})
	add("vertex", "vertex-ai", "", map[string]string{"vertex_region": "global", "vertex_project_id": "p"})
	add("plain", "openai", "", nil)

	var mu sync.Mutex
	asked := make(map[string]bool) // by URL, whether the host is one of callers
	p := &checker{
		Services: s, now: time.Now,
		providers: map[string]*credentials.Provider{
			"own":       {Slug: "own", Dialect: "bedrock", Settings: map[string]credentials.Secret{"aws_region": credentials.NewSecret("us-east-1")}},
			"elsewhere": {Slug: "elsewhere", Dialect: "bedrock", BaseURL: &url.URL{Scheme: "https", Host: "vpce.example"}},
		},
		reach: func(_ context.Context, url string, public bool) (time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[url] = public
			return time.Now(), nil
		},
	}
	d := p.diagnose(t.Context())
	want := map[string]bool{
		"https://res.openai.azure.com/":                   false,
		"https://bedrock-runtime.eu-west-1.amazonaws.com": false,
		"https://bedrock-runtime.us-east-1.amazonaws.com": false,
		"https://bedrock.example":                         true,
		"https://vpce.example":                            false,
		"https://aiplatform.googleapis.com/":              false,
		"https://api.openai.com/v1":                       false,
	}
	if !maps.Equal(asked, want) {
		t.Errorf("asked %v\nwant %v", asked, want)
	}
	unknown := slices.ContainsFunc(d.Findings, func(f Finding) bool {
		return f.Check == "provider" && f.Status == FindingWarning && strings.HasPrefix(f.Message, "virtual key aws-none is not asked, as its address is not known: ") && strings.Contains(f.Message, "aws_region")
	})
	if !unknown {
		t.Errorf("%+v", d.Findings)
	}
}
