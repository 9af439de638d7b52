package admin

import (
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
)

// KeyDetails is an API key as it sees itself, with what its calls obey.
type KeyDetails struct {
	APIKey
	Organisation keyOrganisation `json:"organisation_details"`
	Workspace    *keyWorkspace   `json:"workspace_details" doc:"Null: the key is the organisation's."`
}

type keyOrganisation struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
	KeyDefaults
}

type keyWorkspace struct {
	ID   string `json:"id" format:"uuid"`
	Slug string `json:"slug"`
	Name string `json:"name"`
	KeyDefaults
	ExcludedInput  bool `json:"excluded_from_input_guardrails" doc:"Those of the organisation."`
	ExcludedOutput bool `json:"excluded_from_output_guardrails"`
}

// KeyDefaults are what all calls of an organisation, or of a workspace, obey.
type KeyDefaults struct {
	BlockInlineConfig bool     `json:"block_inline_config"`
	Start             []string `json:"start_hooks" doc:"Slugs of guardrails."`
	Input             []string `json:"input_guardrails"`
	Output            []string `json:"output_guardrails"`
}

func (c *call) keyDefaults(blocks bool, g *directory.Guardrails) KeyDefaults {
	slugs := func(ids []string) []string { return append([]string{}, c.guardrailSlugs(ids)...) }
	return KeyDefaults{blocks, slugs(g.Start), slugs(g.Input), slugs(g.Output)}
}

// operatorsKey returns the owner's key of the configuration, or the operator, as an API key. It is as old as the organisation.
func (c *call) operatorsKey() *credentials.APIKey {
	o := c.api.Directory.Organisation()
	return &credentials.APIKey{
		ID: c.caller.KeyID, Name: c.caller.KeyName, Hint: credentials.Masked, Kind: c.caller.Kind, OrganisationID: o.ID, CreationMode: "api",
		Scopes: slices.DeleteFunc(slices.Clone(credentials.Scopes()), func(scope string) bool { return !c.caller.May(scope) }), CreatedAt: o.CreatedAt, UpdatedAt: o.CreatedAt,
	}
}

// keyDetails adds GET /api-keys/self/details, by which a key learns what it is and may do. It needs no scope.
func (a *API) keyDetails() {
	register(a, route{
		method: http.MethodGet, path: "/api-keys/self/details", kind: audit.APIKeys, scopes: []string{"auth.read"}, anyone: true, summary: "What the API key of the request is, may do, and obeys",
	}, func(c *call, _ *struct{}) (*output[KeyDetails], error) {
		k, ok := c.api.Keyring.APIKey(c.caller.KeyID)
		switch {
		case c.caller.TokenExpires != nil:
			return nil, failure(http.StatusUnauthorized, "Unauthorised Request: expected an API key; GET /v1/auth/self says who sent a JWT")
		case !ok && !c.caller.Owner:
			return nil, notFound("API key", c.caller.KeyID)
		case !ok: // of the operator, and not stored
			k = c.operatorsKey()
		}
		o := c.api.Directory.Organisation()
		out := KeyDetails{APIKey: showAPIKey(c, k), Organisation: keyOrganisation{o.ID, o.Name, c.keyDefaults(o.BlocksInline(o.DataPlane, c.api.BlockInline), &o.Guardrails)}}
		if w, ok := c.api.Directory.Workspace(k.WorkspaceID); ok {
			out.Workspace = &keyWorkspace{
				ID: w.ID, Slug: w.Slug, Name: w.Name, KeyDefaults: c.keyDefaults(o.BlocksInline(c.api.Directory.DataPlaneOf(w), c.api.BlockInline), &w.Guardrails), ExcludedInput: w.Excluded.Input, ExcludedOutput: w.Excluded.Output,
			}
		}
		return &output[KeyDetails]{out}, nil
	})
}
