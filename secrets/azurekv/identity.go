package azurekv

import (
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
	instance = "instance" // a managed identity of the virtual machine, by its metadata service
	workload = "workload" // that of a Kubernetes service account, by Entra ID
)

const (
	metadataService = "http://169.254.169.254/metadata/identity/oauth2/token"
	metadataVersion = "2018-02-01"
	// metadataTimeout bounds requests to the metadata service, which is near or not there.
	metadataTimeout = 5 * time.Second
)

// An Identity is what the machine or the workload of the gateway is for Azure.
type Identity struct {
	way       string
	vars      map[string]string // of the environment
	authority string            // of the environment; "": that of the resource's cloud
}

// NewIdentity returns the identity that the operator chose, instance or workload, which the platform announces by
// the environment.
func NewIdentity(way string) (id *Identity, err error) {
	id = &Identity{way: way}
	switch way {
	case instance:
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
	return nil, fmt.Errorf("identity: expected %s or %s, got %q", instance, workload, way)
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

// Token requests a token for a resource, such as https://vault.azure.net, of the cloud whose logins are at
// authority. client, if it is not "", chooses one of several identities, by its client id.
func (id *Identity) Token(ctx context.Context, authority, resource, client string, c *secrets.Clients) (t secrets.Token, err error) {
	if id.way == instance {
		return ofInstance(ctx, resource, client, c)
	}
	if id.authority != "" && id.authority != authority {
		return t, ErrOtherCloud
	}
	token, err := secrets.ReadToken(id.vars["AZURE_FEDERATED_TOKEN_FILE"])
	if err != nil {
		return t, err
	}
	if client == "" {
		client = id.vars["AZURE_CLIENT_ID"]
	}
	return askEntra(ctx, c, authority, resource, id.vars["AZURE_TENANT_ID"], url.Values{
		"client_id": {client}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
	})
}

// ofInstance asks the metadata service of a virtual machine. client chooses one of several
// identities.
func ofInstance(ctx context.Context, resource, client string, c *secrets.Clients) (t secrets.Token, err error) {
	query := url.Values{"api-version": {metadataVersion}, "resource": {resource}}
	if client != "" {
		query.Set("client_id", client)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, metadataService+"?"+query.Encode(), nil)
	if err != nil {
		return t, err
	}
	q.Header.Set("Metadata", "true") // forged requests and redirects do not have it
	return login(c.Metadata, q, c.Now())
}
