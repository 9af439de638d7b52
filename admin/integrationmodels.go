package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/routing"
)

// IntegrationModels are the settings of an integration for models.
type IntegrationModels struct {
	Total          int                `json:"total"`
	AllowAllModels bool               `json:"allow_all_models" doc:"Whether models that are not listed may be called."`
	Models         []IntegrationModel `json:"models"`
}

// IntegrationModel is the setting for one model.
type IntegrationModel struct {
	Slug           string            `json:"slug"`
	Name           string            `json:"name"`
	Enabled        bool              `json:"enabled"`
	IsCustom       bool              `json:"is_custom"`
	IsFinetune     bool              `json:"is_finetune"`
	BaseModelSlug  *string           `json:"base_model_slug"`
	PricingConfig  json.RawMessage   `json:"pricing_config,omitempty"`
	Adjustments    json.RawMessage   `json:"pricing_adjustments,omitempty"`
	Configurations *modelHost        `json:"configurations,omitempty"`
	CustomHeaders  map[string]string `json:"custom_headers,omitempty" doc:"Values are masked."`
}

type modelHost struct {
	CustomHost string `json:"custom_host" minLength:"1" maxLength:"2048"`
}

type updateModel struct {
	Slug           string                      `json:"slug" minLength:"1" maxLength:"255"`
	Name           string                      `json:"name,omitempty" doc:"As it is shown; ignored."`
	Enabled        flag                        `json:"enabled"`
	IsCustom       Optional[flag]              `json:"is_custom,omitempty"`
	IsFinetune     Optional[flag]              `json:"is_finetune,omitempty"`
	BaseModelSlug  Optional[string]            `json:"base_model_slug,omitempty"`
	Configurations Optional[modelHost]         `json:"configurations,omitempty"`
	CustomHeaders  Optional[map[string]string] `json:"custom_headers,omitempty" doc:"Replaced as a whole."`
	PricingConfig  Optional[map[string]any]    `json:"pricing_config,omitempty" doc:"What it costs instead of its list price: type static, and pay_as_you_go with US cents for one of each unit."`
	Adjustments    Optional[map[string]any]    `json:"pricing_adjustments,omitempty" doc:"multiplier: what the price of each unit is multiplied by. Replaces the integration's."`
}

type updateModels struct {
	Models         []updateModel `json:"models" maxItems:"1000"`
	AllowAllModels *flag         `json:"allow_all_models,omitempty" doc:"Whether models that are not listed may be called."`
	Key            string        `json:"key,omitempty" maxLength:"16384" doc:"The integration's key, which has to be sent along when a model gets another host."`
}

func (a *API) integrationModels(integrations *resource[credentials.Integration]) {
	read(a, integrations, "/models", "List the models of an integration", func(_ *call, i *credentials.Integration) (*IntegrationModels, error) {
		out := &IntegrationModels{Total: len(i.Models), AllowAllModels: !i.OnlyListed, Models: make([]IntegrationModel, len(i.Models))}
		for n := range i.Models {
			out.Models[n] = showIntegrationModel(&i.Models[n])
		}
		return out, nil
	})
	some := *integrations
	some.details = func(_ *call, i *credentials.Integration) (any, error) {
		models := make(map[string]IntegrationModel, len(i.Models))
		for n := range i.Models {
			models[i.Models[n].Slug] = showIntegrationModel(&i.Models[n])
		}
		return map[string]any{"models": models}, nil
	}
	for _, sub := range []string{"/models", "/integration-models"} {
		act(a, &some, http.MethodPut, sub, "update", "Update models of an integration", (*call).updateModels)
	}
	longest := 16 << 10
	some.query = append(slices.Clone(some.query), parameter("query", "slugs", "Which models, separated by commas.", huma.Schema{MaxLength: &longest}))
	actBare(a, &some, http.MethodDelete, "/models", "update", "Delete models of an integration", func(c *call, i *credentials.Integration) error {
		slugs := c.item.query["slugs"]
		if slugs == "" {
			return invalid("slugs", "expected at least one model")
		}
		i.Models = slices.Clone(i.Models)
		for slug := range strings.SplitSeq(slugs, ",") {
			m, ok := i.Model(slug)
			if !ok {
				return notFound("Model", slug)
			}
			name := m.Slug
			i.Models = slices.DeleteFunc(i.Models, func(m credentials.IntegrationModel) bool { return m.Slug == name })
		}
		return c.api.Keyring.ReplaceIntegration(c.tx, i, credentials.Secret{})
	})
}

func showIntegrationModel(m *credentials.IntegrationModel) IntegrationModel {
	out := IntegrationModel{
		Slug: m.Slug, Name: m.Slug, Enabled: m.Enabled, IsCustom: m.Custom, IsFinetune: m.Finetune, BaseModelSlug: text(m.BaseModel),
		PricingConfig: m.Pricing, Adjustments: m.Adjustments, CustomHeaders: m.Hints,
	}
	if m.CustomHost != "" {
		out.Configurations = &modelHost{m.CustomHost}
	}
	return out
}

func (c *call) updateModels(i *credentials.Integration, in *updateModels) (*empty, error) {
	if in.AllowAllModels != nil {
		i.OnlyListed = !bool(*in.AllowAllModels)
	}
	var secret credentials.Secret
	if in.Key != "" && in.Key != i.Hint && in.Key != credentials.Masked {
		if err := checkSecret(in.Key); err != nil {
			return nil, err
		}
		if _, mapped := i.Mapping(credentials.MappedKey); mapped {
			return nil, invalid("key", "secret_mappings has it from a secret reference; leave it out")
		}
		secret = credentials.NewSecret(in.Key)
	}
	hosts := routing.KeyHosts(i)
	i.Models = slices.Clone(i.Models)
	seen := make(map[string]bool)
	for n := range in.Models {
		one := &in.Models[n]
		if seen[credentials.Normal(one.Slug)] {
			return nil, invalid(element("models", n, "slug"), "%q is named twice", credentials.Clip(one.Slug))
		}
		seen[credentials.Normal(one.Slug)] = true
		m, ok := i.Model(one.Slug)
		if !ok {
			i.Models = append(i.Models, credentials.IntegrationModel{Slug: one.Slug, Custom: !c.priced(i, one.Slug)})
			m = &i.Models[len(i.Models)-1]
		}
		if err := c.applyModel(i, m, one, element("models", n, "")); err != nil {
			return nil, err
		}
		if m.CustomHost == "" || hosts[m.CustomHost] {
			continue
		}
		if err := routing.CheckModelHost(c.api.Keyring, c.api.Guard, i, m.CustomHost, !secret.Empty(), refuse(element("models", n, "configurations."))); err != nil {
			return nil, err
		}
	}
	for n := range in.Models { // a base may be listed behind what is made of it
		if err := c.checkBase(i, &in.Models[n], element("models", n, "")); err != nil {
			return nil, err
		}
	}
	if err := credentials.CheckModels(i.Models, refuse("models")); err != nil {
		return nil, err
	}
	return &empty{}, c.api.Keyring.ReplaceIntegration(c.tx, i, secret)
}

// checkBase returns an error if a model of a request is said to be made of one that neither the integration lists nor the list
// of prices knows, or not to be custom although it is made of another.
func (c *call) checkBase(i *credentials.Integration, in *updateModel, field string) error {
	m, ok := i.Model(in.Slug)
	if !ok {
		return fmt.Errorf("model %s was not added", in.Slug)
	}
	if in.IsCustom.Set && !in.IsCustom.Null && !m.Custom && (m.Finetune || m.BaseModel != "") {
		return invalid(field+".is_custom", "expected true for a model that is made of another; clear base_model_slug and is_finetune, or leave it out")
	}
	base := in.BaseModelSlug.Value
	if base == "" {
		return nil
	}
	field += ".base_model_slug"
	switch of, listed := i.Model(base); {
	case listed && of.Slug == m.Slug:
		return invalid(field, "expected another model than the one that is made of it")
	case listed, c.priced(i, base):
		return nil
	}
	return unknownReference(field, "there is no model %q of %s, neither among the models of the integration nor with a known price", credentials.Clip(base), i.Provider)
}

// priced reports whether the list of prices knows a model of an integration's provider, so that it is none of the caller's own.
func (c *call) priced(i *credentials.Integration, model string) bool {
	return c.api.Price != nil && c.api.Price(c.api.Directory.DefaultWorkspace().ID, i.Provider, model) != nil
}

// applyModel applies a request to a model, which is a copy.
func (c *call) applyModel(i *credentials.Integration, m *credentials.IntegrationModel, in *updateModel, field string) error {
	m.Enabled = bool(in.Enabled)
	for _, f := range []struct {
		given Optional[flag]
		to    *bool
	}{{in.IsCustom, &m.Custom}, {in.IsFinetune, &m.Finetune}} {
		if f.given.Set {
			*f.to = bool(f.given.Value)
		}
	}
	if in.BaseModelSlug.Set {
		if m.BaseModel = in.BaseModelSlug.Value; len(m.BaseModel) > 255 {
			return invalid(field+".base_model_slug", "expected at most 255 bytes")
		}
	}
	if err := applyPricing(&m.Pricing, in.PricingConfig, field+".pricing_config", prices.ParseConfig); err != nil {
		return err
	}
	if err := applyPricing(&m.Adjustments, in.Adjustments, field+".pricing_adjustments", prices.ParseAdjustment); err != nil {
		return err
	}
	was := m.CustomHost
	if in.Configurations.Set {
		m.CustomHost = in.Configurations.Value.CustomHost
	}
	stored, err := c.api.Keyring.OpenHeaders(i, m)
	if err != nil {
		return err
	}
	if !in.CustomHeaders.Set {
		if len(stored) > 0 && m.CustomHost != was {
			return invalid(field+".configurations.custom_host", "send custom_headers along; a stored credential is not sent to where it was not saved for")
		}
		return nil
	}
	headers, err := receiveHeaders(field+".custom_headers", in.CustomHeaders.Value, stored, was, m.CustomHost)
	if err != nil {
		return err
	}
	return c.api.Keyring.SealHeaders(i, m, headers)
}

// applyPricing applies a field about prices, which parse checks, to what is stored.
func applyPricing[T any](stored *json.RawMessage, in Optional[map[string]any], field string, parse func([]byte) (*T, error)) error {
	switch {
	case !in.Set:
		return nil
	case in.Null:
		*stored = nil
		return nil
	}
	raw, err := json.Marshal(in.Value)
	if err == nil {
		_, err = parse(raw)
	}
	if err != nil {
		return invalid(field, "%s", err)
	}
	*stored = raw
	return nil
}

// receiveHeaders returns the headers in a request, with masked values replaced by the
// stored ones. Those may only be kept if the host stays the same.
func receiveHeaders(field string, sent, stored map[string]string, was, is string) (map[string]string, error) {
	var bound credentials.Binding
	for name, v := range stored {
		bound.Add(credentials.Bound{Field: name, Name: name, Secret: credentials.NewSecret(v), For: credentials.Destination{"custom_host": was}})
	}
	out := make(map[string]string, len(sent))
	if len(sent) > credentials.MaxHeaders {
		return nil, invalid(field, "expected at most %d headers", credentials.MaxHeaders)
	}
	for name, v := range sent {
		if !credentials.CheckHeader(name, v) {
			return nil, invalid(field+"."+credentials.Clip(name), "expected a header that can be set, with a value without control characters")
		}
		secret, err := bound.Take(name, name, v, credentials.Destination{"custom_host": is})
		var refused *credentials.BindingError
		if errors.As(err, &refused) {
			return nil, invalid(field+"."+credentials.Clip(name), "%s", refused.Why)
		}
		out[name] = secret.Reveal()
	}
	return out, nil
}
