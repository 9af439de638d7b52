package app

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/secretcache"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/secrets"
)

// defaultManagers are usable without configuration: they give away nothing of the operator's.
var defaultManagers = []string{"hashicorp_vault", "aws_sm", "azure_kv"}

// loadSecretManagers loads the modules of secret managers.
func (a *App) loadSecretManagers(ctx caddy.Context) error {
	if a.SecretsRaw == nil {
		a.SecretsRaw = make(caddy.ModuleMap)
	}
	for _, name := range defaultManagers {
		if _, err := caddy.GetModule("gw.secrets." + name); err == nil && a.SecretsRaw[name] == nil {
			a.SecretsRaw[name] = json.RawMessage("{}")
		}
	}
	loaded, err := ctx.LoadModule(a, "SecretsRaw")
	if err != nil {
		return fmt.Errorf("loading the secret managers: %w", err)
	}
	a.managers = make(map[string]secrets.Manager)
	for name, module := range loaded.(map[string]any) {
		m, ok := module.(secrets.Manager)
		if !ok {
			return fmt.Errorf("secrets: %s is not a secret manager", name)
		}
		a.managers[name] = m
	}
	return nil
}

// fetchSecrets returns the function by which this configuration fetches secrets.
func (a *App) fetchSecrets(k *credentials.Keyring) secretcache.Fetch {
	client := upstream.NewClient(a.transport.Pools(), a.own())
	return func(ctx context.Context, r *credentials.SecretReference) (value credentials.Secret, err error) {
		m, ok := a.managers[r.Manager]
		if !ok {
			return value, fmt.Errorf("this build or its configuration has no secret manager %s", r.Manager)
		}
		auth, err := k.OpenAuth(r)
		if err != nil {
			return value, err
		}
		return m.Fetch(ctx, &secrets.Reference{Path: r.Path, Auth: auth}, client.SecretClients(ctx, r.Manager))
	}
}

func (a *App) unmarshalSecrets(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	if _, twice := a.SecretsRaw[name]; twice {
		return d.Errf("secrets %s is given twice", name)
	}
	module, err := caddyfile.UnmarshalModule(d, "gw.secrets."+name)
	if err != nil {
		return err
	}
	if a.SecretsRaw == nil {
		a.SecretsRaw = make(caddy.ModuleMap)
	}
	a.SecretsRaw[name] = caddyconfig.JSON(module, nil)
	return nil
}

// staleSecrets is how many secrets have a last value only.
func (a *App) staleSecrets() float64 {
	if !a.started() {
		return 0
	}
	return float64(a.services.Secrets.Stale())
}
