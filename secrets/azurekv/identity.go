package azurekv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/secrets"
)

// Identities that a gateway on Azure can have.
const (
	instance   = "instance"    // a managed identity of the virtual machine, by its metadata service
	appService = "app_service" // a managed identity of App Service or Container Apps, by the endpoint of the environment
	workload   = "workload"    // that of a Kubernetes service account, by Entra ID
)

const (
	metadataService = "http://169.254.169.254/metadata/identity/oauth2/token"
	metadataVersion = "2018-02-01"
	endpointVersion = "2019-08-01" // of App Service
	// metadataTimeout bounds requests to the metadata service, which is near or not there.
	metadataTimeout = 5 * time.Second
)

// An Identity is what the machine or the workload of the gateway is for Azure.
type Identity struct {
	way       string
	vars      map[string]string // of the environment
	authority string            // of the environment; "": that of the resource's cloud
	endpoint  *url.URL          // of App Service
}

// NewIdentity returns the identity that the operator chose, instance, app_service or workload, which the platform
// announces by the environment.
func NewIdentity(way string) (id *Identity, err error) {
	id = &Identity{way: way}
	switch way {
	case instance:
		return id, nil
	case appService:
		if id.vars, err = secrets.Environment(secrets.IdentityEndpointVariable, "IDENTITY_HEADER"); err == nil {
			id.endpoint, err = secrets.IdentityEndpoint()
		}
		if err != nil {
			return nil, fmt.Errorf("identity %s: %w", way, err)
		}
		return id, nil
	case workload:
		if id.vars, err = secrets.Environment("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"); err != nil {
			return nil, fmt.Errorf("identity %s: %w", way, err)
		}
		if !tenantName.MatchString(id.vars["AZURE_TENANT_ID"]) {
			return nil, errors.New("identity workload: AZURE_TENANT_ID is no tenant")
		}
		id.authority = strings.TrimSuffix(os.Getenv("AZURE_AUTHORITY_HOST"), "/")
		return id, nil
	}
	return nil, fmt.Errorf("identity: expected %s, %s or %s, got %q", instance, appService, workload, way)
}

// login requests a token for the vaults of a cloud.
func (id *Identity) login(ctx context.Context, of cloud, auth secrets.Auth, c *secrets.Clients) (t secrets.Token, err error) {
	t, err = id.Token(ctx, of.authority, of.resource(), auth[fieldOwn], c)
	if errors.Is(err, ErrOtherCloud) {
		err = &secrets.FieldError{Field: secrets.AuthField(fieldVault), Message: "the vault is in another cloud than the gateway"}
	}
	return t, err
}

// ErrOtherCloud is the error of a resource in another cloud than the workload.
var ErrOtherCloud = errors.New("the resource is in another cloud than the gateway")

// ErrNotFederated is the error of an identity that has no token of a workload.
var ErrNotFederated = errors.New("the gateway's identity for Azure is not that of a workload")

// Federated reports whether the identity is that of a workload, whose token stands for applications that trust it.
func (id *Identity) Federated() bool { return id.way == workload }

// Token requests a token for a resource, such as https://vault.azure.net, of the cloud whose logins are at
// authority. client, if it is not "", chooses one of several identities, by its client id.
func (id *Identity) Token(ctx context.Context, authority, resource, client string, c *secrets.Clients) (t secrets.Token, err error) {
	switch id.way {
	case instance:
		return ofInstance(ctx, resource, client, c)
	case appService:
		return id.ofAppService(ctx, resource, client, c)
	}
	return id.FederatedToken(ctx, authority, resource, "", client, c)
}

// FederatedToken is Token for the application client of a tenant, which trusts the workload; "" for either is that of the
// environment. The error is [ErrNotFederated] if the identity is not that of a workload.
func (id *Identity) FederatedToken(ctx context.Context, authority, resource, tenant, client string, c *secrets.Clients) (t secrets.Token, err error) {
	if !id.Federated() {
		return t, ErrNotFederated
	}
	if id.authority != "" && id.authority != authority {
		return t, ErrOtherCloud
	}
	token, err := secrets.ReadToken(id.vars["AZURE_FEDERATED_TOKEN_FILE"])
	if err != nil {
		return t, err
	}
	return askEntra(ctx, c, authority, resource, cmp.Or(tenant, id.vars["AZURE_TENANT_ID"]), url.Values{
		"client_id": {cmp.Or(client, id.vars["AZURE_CLIENT_ID"])}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
	})
}

// ofInstance asks the metadata service of a virtual machine. client chooses one of several
// identities.
func ofInstance(ctx context.Context, resource, client string, c *secrets.Clients) (t secrets.Token, err error) {
	// Forged requests and redirects do not have the header.
	return askMetadata(ctx, metadataService, metadataVersion, resource, client, "Metadata", "true", c)
}

// ofAppService asks the endpoint that App Service has for each of its apps.
func (id *Identity) ofAppService(ctx context.Context, resource, client string, c *secrets.Clients) (t secrets.Token, err error) {
	return askMetadata(ctx, id.endpoint.String(), endpointVersion, resource, client, "X-Identity-Header", id.vars["IDENTITY_HEADER"], c)
}

// askMetadata requests a token from a service on the machine, which wants a header.
func askMetadata(ctx context.Context, address, version, resource, client, header, value string, c *secrets.Clients) (t secrets.Token, err error) {
	query := url.Values{"api-version": {version}, "resource": {resource}}
	if client != "" {
		query.Set("client_id", client)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+query.Encode(), nil)
	if err != nil {
		return t, err
	}
	q.Header.Set(header, value)
	return login(c.Metadata, q, c.Now())
}
