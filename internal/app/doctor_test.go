package app

import (
	"context"
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
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// Providers are asked at the address that their settings make, too.
func TestTheDoctorAsksHostsThatSettingsMake(t *testing.T) {
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
