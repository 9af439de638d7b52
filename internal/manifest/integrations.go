package manifest

import (
	"cmp"
	stdjson "encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

func decodeIntegration(text []byte, i *credentials.Integration) error {
	type plain credentials.Integration
	return json.Unmarshal(text, (*plain)(i), json.RejectUnknownMembers(true))
}

func writeIntegration(x *session, i *credentials.Integration, f *form) error {
	for n := range i.Models {
		at := "models." + strconv.Itoa(n) + "."
		headers, err := x.Keyring.OpenHeaders(i, &i.Models[n])
		if err != nil {
			return err
		}
		f.drop(at+"headers", at+"hints")
		if len(headers) > 0 {
			for name, value := range headers {
				headers[name] = x.seal("integrations/"+i.ID, value)
			}
			f.set(at+"headers", headers)
		}
	}
	return x.writeCredential("integrations", &i.Credential, f)
}

func readIntegration(x *session, f *form, old *credentials.Integration, at string) (func(*credentials.Integration) error, error) {
	of := "integrations/" + f.get("id").Str
	var stored *credentials.Credential
	if old != nil {
		stored = &old.Credential
	}
	if access := f.get("access"); access.IsObject() {
		named, twice := make(map[string]stdjson.RawMessage), ""
		access.ForEach(func(workspace, may gjson.Result) bool {
			id := workspace.Str
			if of, ok := x.slugs[id]; ok {
				id = of
			} else if w, ok := x.Directory.Workspace(id); ok {
				id = w.ID
			}
			if _, ok := named[id]; ok {
				twice = workspace.Str
			}
			named[id] = stdjson.RawMessage(may.Raw)
			return twice == ""
		})
		if twice != "" {
			return nil, wrong(at+".access."+credentials.Clip(twice), "the workspace is named twice")
		}
		f.set("access", named)
	}
	all := make(map[string]map[string]string) // headers by model
	kept := make(map[int]bool)                // models with headers of the store
	for n, m := range f.get("models").Array() {
		at, path := at+".models["+strconv.Itoa(n)+"].headers", "models."+strconv.Itoa(n)+"."
		headers := f.take(path + "headers")
		if f.get(path + "hints").Exists() {
			return nil, wrong(at, "unknown member hints")
		}
		if !headers.Exists() {
			continue
		}
		slug := credentials.Normal(m.Get("slug").Str)
		var had map[string]string
		if old != nil {
			if model, ok := old.Model(slug); ok {
				var err error
				if had, err = x.Keyring.OpenHeaders(old, model); err != nil {
					return nil, err
				}
			}
		}
		opened, some, err := x.openTexts(of, at, headers, had)
		if err != nil {
			return nil, err
		}
		if len(opened) > credentials.MaxHeaders {
			return nil, wrong(at, "expected at most %d headers", credentials.MaxHeaders)
		}
		for name, value := range opened {
			if !credentials.CheckHeader(name, value) {
				return nil, wrong(at+"."+credentials.Clip(name), "expected a header that can be set, with a value without control characters")
			}
		}
		all[slug], kept[n] = opened, len(some) < len(opened)
	}
	sent, finish, err := x.readCredential("integrations", f, stored, at)
	if err != nil {
		return nil, err
	}
	return func(i *credentials.Integration) error {
		if err := finish(&i.Credential); err != nil {
			return err
		}
		if old == nil || string(i.ModelConfig) != string(old.ModelConfig) || !slices.Equal(i.Mappings, old.Mappings) {
			settings := cmp.Or(string(i.ModelConfig), "{}")
			if err := routing.CheckConfigurations(i.Provider, settings, i.Mappings, refuse(at+".model_config.")); err != nil {
				return err
			}
		}
		if err := x.machine(&i.Credential, stored, refuse(at+".model_config.")); err != nil {
			return err
		}
		if i.Machine != "" && i.WorkspaceID != "" {
			return wrong(at+".model_config", "an integration of a workspace cannot be what the gateway's machine is; make one of the organisation")
		}
		if err := credentials.CheckModels(i.Models, refuse(at+".models")); err != nil {
			return err
		}
		for n := range i.Models {
			if err := x.Keyring.SealHeaders(i, &i.Models[n], all[credentials.Normal(i.Models[n].Slug)]); err != nil {
				return err
			}
		}
		return x.bindModels(i, old, sent, kept, at)
	}, nil
}

// bindModels refuses to send secrets of the store to hosts of models that they did not go to. sent: the document
// has the integration's key; kept are the models with headers of the store.
func (x *session) bindModels(i, old *credentials.Integration, sent bool, kept map[int]bool, at string) error {
	hosts := map[string]bool{"": true}
	if old != nil {
		hosts = routing.KeyHosts(old)
	}
	for n := range i.Models {
		m, at := &i.Models[n], at+".models["+strconv.Itoa(n)+"]."
		if m.CustomHost != "" && !hosts[m.CustomHost] {
			if err := routing.CheckModelHost(x.Keyring, x.Guard, i, m.CustomHost, sent, refuse(at)); err != nil {
				return err
			}
		}
		if !kept[n] {
			continue
		}
		was, _ := old.Model(m.Slug)
		moved := was.CustomHost != m.CustomHost
		if !moved && m.CustomHost == "" {
			before, err := x.destinationOf(&old.Credential)
			if err != nil {
				return err
			}
			after, err := x.destinationOf(&i.Credential)
			if err != nil {
				return err
			}
			moved = before != after
		}
		if moved {
			return wrong(at+"headers", "send them along; a stored credential is not sent to where it was not saved for")
		}
	}
	return routing.CheckModels(x.Keyring, i, false, true, func(field, format string, args ...any) error {
		if field == "secret_mappings" {
			field = "mappings"
		}
		return refuseIn(at, "mappings")(field, format, args...)
	})
}

// refuseIn makes the errors of a credential: of its settings, unless the field is one of those named.
func refuseIn(at string, own ...string) credentials.Refuse {
	return func(field, format string, args ...any) error {
		if !slices.Contains(own, field) {
			field = strings.TrimSuffix("model_config."+field, ".")
		}
		return wrong(at+"."+field, format, args...)
	}
}

// destinationOf returns what is equal for credentials with the same destination.
func (x *session) destinationOf(c *credentials.Credential) (string, error) {
	_, settings, err := routing.CredentialSecrets(x.Keyring, c)
	return routing.CredentialDestination(c, settings).Key(), err
}
