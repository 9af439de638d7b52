package upstream

import (
	"context"
	"errors"

	"golang.org/x/oauth2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/secrets/awssm"
	"github.com/caddy-gw/gateway/secrets/azurekv"
)

// Machine is what the gateway's machine is in clouds, as far as the operator gives that to providers. Only credentials
// with [credentials.Route.Machine] may use it. The zero value gives nothing.
type Machine struct {
	AWS   *awssm.Identity   // nil: none
	Azure *azurekv.Identity // nil: none
}

// ofMachine is how messages name the server of a login of the machine.
const ofMachine = "of the machine's identity"

// machine returns the grant of a login of the gateway's machine. What is obtained goes to the hosts of the provider
// only, which neither callers nor tenants have chosen.
func (c *Client) machine(route *credentials.Route, l *providers.Login) (*Grant, error) {
	refuse := func(message string) (*Grant, error) {
		return nil, &providers.RequestError{Code: "machine_identity", Message: message}
	}
	p, ok := providers.Lookup(route.Dialect)
	switch {
	case !ok || !route.Machine:
		return refuse("The credential may not use what the gateway's machine is: only those may that an API key of the organisation has saved")
	case route.BaseURL != nil && !p.Owns(route.BaseURL):
		return refuse("What the gateway's machine is goes to the hosts of provider " + p.Name + " only, and to no custom host")
	}
	g := &Grant{server: ofMachine}
	switch r, id := l.Role, l.Azure; {
	case r != nil && c.Machine.AWS != nil:
		g.key = secrets.KeyOf("aws", r.Region, r.ARN, r.ExternalID)
		g.own = func(ctx context.Context, clients *secrets.Clients) (*oauth2.Token, error) {
			keys, err := c.Machine.AWS.Keys(ctx, r.Region, r.ARN, r.ExternalID, clients)
			if err != nil {
				return nil, err
			}
			token := providers.RoleToken{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken}
			return &oauth2.Token{AccessToken: token.Secret().Reveal(), Expiry: keys.Expires}, nil
		}
	case id != nil && c.Machine.Azure != nil:
		way := "managed"
		if id.Federated {
			way = "federated"
		}
		g.key = secrets.KeyOf("azure", way, id.Authority, id.Resource, id.Tenant, id.Client)
		g.own = func(ctx context.Context, clients *secrets.Clients) (*oauth2.Token, error) {
			return azureToken(ctx, c.Machine.Azure, id, clients)
		}
	case r != nil:
		return refuse("The operator's configuration gives providers nothing of what the gateway's machine is for AWS (provider_identity aws)")
	default:
		return refuse("The operator's configuration gives providers nothing of what the gateway's machine is for Azure (provider_identity azure)")
	}
	return g, nil
}

func azureToken(ctx context.Context, machine *azurekv.Identity, id *providers.AzureIdentity, clients *secrets.Clients) (*oauth2.Token, error) {
	var t secrets.Token
	var err error
	if id.Federated {
		t, err = machine.FederatedToken(ctx, id.Authority, id.Resource, id.Tenant, id.Client, clients)
	} else {
		t, err = machine.Token(ctx, id.Authority, id.Resource, id.Client, clients)
	}
	if errors.Is(err, azurekv.ErrNotFederated) || errors.Is(err, azurekv.ErrOtherCloud) {
		return nil, &providers.RequestError{Code: "machine_identity", Message: "The gateway's machine cannot log in to Azure: " + err.Error() + " (provider_identity azure workload)"}
	}
	return &oauth2.Token{AccessToken: t.Secret.Reveal(), Expiry: t.Until}, err
}

// machineToken asks for a token of what the gateway's machine is.
func (c *Client) machineToken(ctx context.Context, asked string, ask func(context.Context, *secrets.Clients) (*oauth2.Token, error)) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), login.Timeout)
	defer cancel()
	t, err := ask(ctx, c.clientsOf(ctx, &login, asked))
	if err == nil && t.AccessToken == "" {
		err = errors.New("no token")
	}
	return t, err
}
