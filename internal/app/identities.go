package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/secrets/awssm"
	"github.com/caddy-gw/gateway/secrets/azurekv"
)

// provisionIdentities makes what the gateway's machine is, for checks and for providers.
func (a *App) provisionIdentities() (err error) {
	if a.AzureIdentity != "" {
		if a.azure, err = azurekv.NewIdentity(a.AzureIdentity); err != nil {
			return fmt.Errorf("azure_%w", err)
		}
	}
	for _, cloud := range slices.Sorted(maps.Keys(a.ProviderIdentity)) {
		switch way := a.ProviderIdentity[cloud]; cloud {
		case routing.AWS:
			a.machine.AWS, err = awssm.NewIdentity(way)
		case routing.Azure:
			a.machine.Azure, err = azurekv.NewIdentity(way)
		default:
			return fmt.Errorf("provider_identity: expected aws or azure, got %q", cloud)
		}
		if err != nil {
			return fmt.Errorf("provider_identity %s: %w", cloud, err)
		}
	}
	return nil
}
