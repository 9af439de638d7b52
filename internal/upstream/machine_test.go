package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
	_ "github.com/caddy-gw/gateway/providers/azure"
	_ "github.com/caddy-gw/gateway/providers/bedrock"
	"github.com/caddy-gw/gateway/secrets/awssm"
	"github.com/caddy-gw/gateway/secrets/azurekv"
)

const theRole = "arn:aws:iam::123456789012:role/r"

// on returns a pool whose connections all lead to a server, whatever host they are for. dialed counts them.
func on(t *testing.T, server *httptest.Server, dialed *atomic.Int64) *Pool {
	transport := server.Client().Transport.(*http.Transport).Clone()
	if transport.TLSClientConfig != nil {
		transport.TLSClientConfig.InsecureSkipVerify = true // the host is that of a cloud
	}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &Pool{Transport: transport}
}

// A cloud stands for the services of AWS and Azure on a machine, and for those that it asks elsewhere.
func cloud(t *testing.T) http.HandlerFunc {
	ends := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		_ = r.ParseForm()
		of := r.PostForm.Get
		switch host := r.Host; {
		case host == "169.254.169.254" && r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut:
			_, _ = io.WriteString(w, "imds")
		case host == "169.254.169.254" && r.URL.Path == "/latest/meta-data/iam/security-credentials/" && r.Header.Get("X-Aws-Ec2-Metadata-Token") == "imds":
			_, _ = io.WriteString(w, "of-the-machine")
		case host == "169.254.169.254" && r.URL.Path == "/latest/meta-data/iam/security-credentials/of-the-machine":
			fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"ASIA-M","SecretAccessKey":"sk","Token":"st","Expiration":%q}`, ends)
		case host == "sts.eu-west-1.amazonaws.com" && of("RoleArn") == theRole && strings.Contains(r.Header.Get("Authorization"), " Credential=ASIA-M/"):
			fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA-R</AccessKeyId><SecretAccessKey>of-%s</SecretAccessKey><SessionToken>st</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, of("ExternalId"), ends)
		case host == "169.254.169.254" && r.URL.Path == "/metadata/identity/oauth2/token" && r.Header.Get("Metadata") == "true":
			fmt.Fprintf(w, `{"access_token":"managed %s %s","expires_in":"3600"}`, query.Get("resource"), query.Get("client_id"))
		case host == "login.microsoftonline.com" && of("client_assertion") == "jwt-of-the-pod" && !r.PostForm.Has("client_secret"):
			fmt.Fprintf(w, `{"access_token":"federated %s %s %s","expires_in":3600}`, r.URL.Path, of("scope"), of("client_id"))
		default:
			t.Errorf("%s %s%s asked", r.Method, host, r.URL.Path)
			w.WriteHeader(http.StatusBadRequest)
		}
	}
}

// What the gateway's machine is is for credentials that may be that, if the operator gives it, and for the provider's own hosts;
// it is asked for once.
func TestWhatTheMachineIsGoesToTheHostsOfTheProviderOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("jwt-of-the-pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AZURE_CLIENT_ID", "app")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	aws, err := awssm.NewIdentity("instance")
	if err != nil {
		t.Fatal(err)
	}
	managed, err := azurekv.NewIdentity("instance")
	if err != nil {
		t.Fatal(err)
	}
	workload, err := azurekv.NewIdentity("workload")
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := httptest.NewServer(cloud(t)), httptest.NewTLSServer(cloud(t))
	defer plain.Close()
	defer secure.Close()
	bedrock := func(arn, external string) *providers.Login {
		return &providers.Login{Role: &providers.AssumedRole{Region: "eu-west-1", ARN: arn, ExternalID: external, Machine: true}}
	}
	azure := func(id providers.AzureIdentity) *providers.Login {
		id.Authority, id.Resource = "https://login.microsoftonline.com", "https://cognitiveservices.azure.com"
		return &providers.Login{Azure: &id}
	}
	yes := func(dialect string) credentials.Route {
		return credentials.Route{Provider: dialect, Dialect: dialect, VirtualKey: "vk", Stored: true, Machine: true}
	}
	at := func(r credentials.Route, address string) credentials.Route {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		r.BaseURL, r.CustomHost = u, true
		return r
	}
	no := yes("bedrock")
	no.Machine = false
	for name, c := range map[string]struct {
		machine Machine
		route   credentials.Route
		login   *providers.Login
		want    string // the token, or what the refusal says after "!"
	}{
		"AWS":                    {Machine{AWS: aws}, yes("bedrock"), bedrock("", ""), "ASIA-M sk st"},
		"a role":                 {Machine{AWS: aws}, yes("bedrock"), bedrock(theRole, "e1"), "ASIA-R of-e1 st"},
		"of a caller":            {Machine{AWS: aws}, no, bedrock("", ""), "!may not use"},
		"to a host of a tenant":  {Machine{AWS: aws}, at(yes("bedrock"), "https://bedrock.example.com"), bedrock("", ""), "!no custom host"},
		"not given":              {Machine{Azure: managed}, yes("bedrock"), bedrock("", ""), "!provider_identity aws"},
		"Azure not given":        {Machine{AWS: aws}, yes("azure-openai"), azure(providers.AzureIdentity{}), "!provider_identity azure"},
		"a managed identity":     {Machine{Azure: managed}, yes("azure-openai"), azure(providers.AzureIdentity{Client: "c1"}), "managed https://cognitiveservices.azure.com c1"},
		"to a project":           {Machine{Azure: managed}, at(yes("azure-ai"), "https://p.services.ai.azure.com/openai/v1"), azure(providers.AzureIdentity{}), "managed https://cognitiveservices.azure.com "},
		"to a container":         {Machine{Azure: managed}, at(yes("azure-ai"), "https://e.westeurope.inference.ml.azure.com"), azure(providers.AzureIdentity{}), "!no custom host"},
		"to what looks like one": {Machine{Azure: managed}, at(yes("azure-ai"), "https://p.services.ai.azure.com.example.com"), azure(providers.AzureIdentity{}), "!no custom host"},
		"in the clear":           {Machine{Azure: managed}, at(yes("azure-ai"), "http://p.services.ai.azure.com"), azure(providers.AzureIdentity{}), "!no custom host"},
		"to another port":        {Machine{Azure: managed}, at(yes("azure-ai"), "https://p.services.ai.azure.com:8443"), azure(providers.AzureIdentity{}), "!no custom host"},
		"a workload":             {Machine{Azure: workload}, yes("azure-openai"), azure(providers.AzureIdentity{Federated: true}), "federated /tenant/oauth2/v2.0/token https://cognitiveservices.azure.com/.default app"},
		"another application":    {Machine{Azure: workload}, yes("azure-openai"), azure(providers.AzureIdentity{Federated: true, Tenant: "t2", Client: "c2"}), "federated /t2/oauth2/v2.0/token https://cognitiveservices.azure.com/.default c2"},
		"no workload":            {Machine{Azure: managed}, yes("azure-openai"), azure(providers.AzureIdentity{Federated: true}), "!provider_identity azure workload"},
	} {
		t.Run(name, func(t *testing.T) {
			var dialed atomic.Int64
			d := newDesk(t)
			d.Machine, d.route = c.machine, &c.route
			d.pools = Pools{Public: on(t, secure, &dialed), Metadata: on(t, plain, &dialed), Operator: on(t, secure, new(atomic.Int64))}
			got, err := d.ask(t.Context(), c.login)
			if why, refused := strings.CutPrefix(c.want, "!"); refused {
				if refusal(err) != "machine_identity" || !strings.Contains(err.Error(), why) || dialed.Load() != 0 {
					t.Errorf("got %q, %v after %d connections", got, err, dialed.Load())
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			before := dialed.Load()
			if again, err := d.ask(t.Context(), c.login); err != nil || again != got || dialed.Load() != before {
				t.Errorf("it was asked for again: %q, %v", again, err)
			}
		})
	}
}

// App Service gives an app its identity at an address on the machine, which only the environment names.
func TestAppServiceGivesAnIdentity(t *testing.T) {
	until := time.Now().Add(time.Hour).Unix()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/msi/token" || r.Header.Get("X-Identity-Header") != "the-header" || q.Get("api-version") != "2019-08-01" {
			t.Errorf("%s, %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, `{"access_token":"`+q.Get("resource")+`","expires_on":"`+strconv.FormatInt(until, 10)+`","token_type":"Bearer"}`)
	}))
	defer server.Close()
	t.Setenv("IDENTITY_ENDPOINT", server.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "the-header")
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	pools, err := NewPools(ctx, new(reverseproxy.HTTPTransport), new(credentials.HostGuard))
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Retire()
	d := newDesk(t)
	d.pools = pools
	if d.Machine.Azure, err = azurekv.NewIdentity("app_service"); err != nil {
		t.Fatal(err)
	}
	d.route = &credentials.Route{Provider: "azure-openai", Dialect: "azure-openai", Stored: true, Machine: true}
	d.mustGive(t, &providers.Login{Azure: &providers.AzureIdentity{Authority: "https://login.microsoftonline.com", Resource: "https://ai.azure.com"}}, "https://ai.azure.com")
	for _, address := range []string{"", "http://10.0.0.1/x", "https://127.0.0.1/x", "http://example.com/x", "http://127.0.0.1/x?y", "http://[::ffff:10.0.0.1]/"} {
		t.Setenv("IDENTITY_ENDPOINT", address)
		if _, err := azurekv.NewIdentity("app_service"); err == nil || !strings.Contains(err.Error(), "IDENTITY_ENDPOINT") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
