package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/plugins"
	"github.com/caddy-gw/gateway/storage"
)

// Plugin is what the organisation has saved for a vendor of checks, or for one check.
type Plugin struct {
	ID             string  `json:"id" format:"uuid"`
	PluginID       string  `json:"plugin_id" doc:"Of a vendor, such as mistral, or of a check, such as azure.pii, for which the vendor's then does not count."`
	OrganisationID string  `json:"organisation_id" format:"uuid"`
	Credentials    *object `json:"credentials" nullable:"true" doc:"Texts. Those that are secret are masked. null: there are none."`
	CreatedBy      string  `json:"created_by" doc:"The user, or the API key."`
	CreatedAt      string  `json:"created_at" format:"date-time"`
	LastUpdatedAt  string  `json:"last_updated_at" format:"date-time"`
	Object         string  `json:"object" enum:"plugin"`
}

type createPlugin struct {
	PluginID       string         `json:"plugin_id" minLength:"1" maxLength:"255" doc:"A vendor, or a check of one."`
	Credentials    map[string]any `json:"credentials" doc:"All that the vendor has to be told; see guardrails.md."`
	OrganisationID string         `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's, which it is anyway."`
}

type updatePlugin struct {
	Credentials Optional[map[string]any] `json:"credentials" doc:"What is left out stays, and null removes a member, or all of them. A secret goes only where it was saved for: it has to be sent along where anything changes that is not secret."`
}

type createdPlugin struct {
	ID       string `json:"id" format:"uuid"`
	PluginID string `json:"plugin_id"`
	Object   string `json:"object" enum:"plugin"`
}

func (a *API) plugins() {
	all := &resource[plugins.Plugin]{
		path: "/plugins", param: "plugin_id", noun: "plugin", kind: audit.Plugins, scope: "plugins",
		rows: func(c *call) []*plugins.Plugin { return c.api.Plugins.All() },
		find: func(c *call, id string) (*plugins.Plugin, error) { return found(c.api.Plugins.Get(id)) },
		name: func(p *plugins.Plugin) string { return p.For },
		secrets: func(c *call, p *plugins.Plugin, is func(secret string, path ...string)) error {
			settings, err := c.api.Plugins.Open(p)
			for name, value := range settings {
				is(value, "credentials", name)
			}
			return err
		},
	}
	all.shownBy(a, func(c *call, p *plugins.Plugin) (any, error) { return showPlugin(c, p) })
	create(a, all, (*call).createPlugin)
	register(a, all.route(http.MethodGet, "list", "List plugins"), func(c *call, in *Paging) (*listOutput[*Plugin], error) {
		var failed error
		out := pageOf(&choice[plugins.Plugin]{rows: c.api.Plugins.All()}, *in, func(p *plugins.Plugin) *Plugin {
			v, err := showPlugin(c, p)
			failed = errors.Join(failed, err)
			return v
		})
		return out, failed
	})
	update(a, all, (*call).updatePlugin)
}

func showPlugin(c *call, p *plugins.Plugin) (*Plugin, error) {
	settings, err := c.api.Plugins.Open(p)
	if err != nil {
		return nil, err
	}
	v, _, _ := plugins.Name(p.For)
	for name, value := range settings {
		if plugins.IsSecret(v, name) {
			settings[name] = credentials.NewSecret(value).Hint()
		}
	}
	var shown *object
	if settings != nil {
		raw, err := json.Marshal(settings) // sorted by their names
		if err != nil {
			return nil, err
		}
		shown = (*object)(&raw)
	}
	return &Plugin{
		ID: p.ID, PluginID: p.For, OrganisationID: p.OrganisationID, Credentials: shown, CreatedBy: p.CreatedBy,
		CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "plugin",
	}, nil
}

func (c *call) createPlugin(in *createPlugin) (*plugins.Plugin, *createdPlugin, error) {
	if in.OrganisationID != "" && in.OrganisationID != c.caller.OrganisationID {
		return nil, nil, unknownReference("organisation_id", "there is no organisation %q", credentials.Clip(in.OrganisationID))
	}
	_, name, ok := plugins.Name(in.PluginID)
	if !ok {
		return nil, nil, invalid("plugin_id", "expected one of %s, or the id of a check of one", strings.Join(guardrails.VendorIDs(), ", "))
	}
	p := &plugins.Plugin{For: name, OrganisationID: c.caller.OrganisationID, CreatedBy: c.caller.UserID}
	if p.CreatedBy == "" {
		p.CreatedBy = c.caller.KeyName
	}
	if err := c.storePlugin(p, nil, in.Credentials); err != nil {
		return p, nil, err
	}
	return p, &createdPlugin{p.ID, p.For, "plugin"}, nil
}

func (c *call) updatePlugin(p *plugins.Plugin, in *updatePlugin) error {
	switch {
	case !in.Credentials.Set:
		return invalid("credentials", "required: an object, or null")
	case in.Credentials.Null:
		return c.api.Plugins.Put(c.tx, p, nil)
	}
	stored, err := c.api.Plugins.Open(p)
	if err != nil {
		return err
	}
	return c.storePlugin(p, stored, in.Credentials.Value)
}

// storePlugin stores a plugin, whose settings are the stored ones with those that are sent.
func (c *call) storePlugin(p *plugins.Plugin, stored map[string]string, sent map[string]any) error {
	v, _, ok := plugins.Name(p.For)
	if !ok {
		return failure(http.StatusBadRequest, "plugin_id: this build has no checks of %s any more", p.For)
	}
	settings, err := mergeSettings(v, p.For, stored, sent, func(host string) error {
		_, err := c.api.Guard.Check(host)
		return err
	})
	if err != nil {
		return err
	}
	err = c.api.Plugins.Put(c.tx, p, settings)
	if errors.Is(err, storage.ErrExists) {
		return failure(http.StatusConflict, "plugin_id: %s has credentials already; change them with PUT /v1/plugins/%s", p.For, p.For)
	}
	return err
}

// mergeSettings merges settings that are sent into the stored ones.
func mergeSettings(v *guardrails.Vendor, name string, stored map[string]string, sent map[string]any, checkHost func(string) error) (map[string]string, error) {
	const at = "credentials."
	merged := maps.Clone(stored)
	if merged == nil {
		merged = make(map[string]string)
	}
	for name, value := range sent {
		text, ok := value.(string)
		switch {
		case value == nil:
			delete(merged, name)
		case !ok, len(text) > 16384:
			return nil, invalid(at+credentials.Clip(name), "expected a text of at most 16384 bytes")
		default:
			merged[name] = text
		}
	}
	return plugins.Check(v, name, at, stored, merged, func(setting string) bool { _, again := sent[setting]; return again }, checkHost, refuse(""))
}
