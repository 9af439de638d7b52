package admin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/secrets"
	"github.com/caddy-gw/gateway/storage"
)

// SecretReferenceRow is a secret reference as lists show it.
type SecretReferenceRow struct {
	ID            string `json:"id" format:"uuid"`
	Name          string `json:"name"`
	Slug          string `json:"slug"`
	ManagerType   string `json:"manager_type"`
	Status        string `json:"status" enum:"ACTIVE"`
	CreatedAt     string `json:"created_at" format:"date-time"`
	LastUpdatedAt string `json:"last_updated_at" format:"date-time"`
	Object        string `json:"object" enum:"secret-reference"`
}

// SecretReference is a secret reference as it is shown by itself.
type SecretReference struct {
	SecretReferenceRow
	OrganisationID     string            `json:"organisation_id" format:"uuid"`
	Description        *string           `json:"description"`
	SecretPath         string            `json:"secret_path"`
	SecretKey          *string           `json:"secret_key"`
	AllowAllWorkspaces bool              `json:"allow_all_workspaces"`
	AllowedWorkspaces  []string          `json:"allowed_workspaces" doc:"Ids; none if all workspaces may use it."`
	Tags               map[string]string `json:"tags"`
	CreatedBy          string            `json:"created_by" doc:"The user, or the API key."`
	AuthConfig         map[string]string `json:"auth_config" doc:"Credentials are masked, with masked_ before their names."`
}

// SecretReferenceFields are what create and update share.
type SecretReferenceFields struct {
	Description        Optional[string]            `json:"description,omitempty"`
	SecretKey          Optional[string]            `json:"secret_key,omitempty" doc:"The key in a secret that is a JSON object, unless a mapping names one."`
	AllowAllWorkspaces *flag                       `json:"allow_all_workspaces,omitempty" doc:"Default: true, unless there are allowed_workspaces."`
	AllowedWorkspaces  []string                    `json:"allowed_workspaces,omitempty" maxItems:"1000" doc:"Ids or slugs; at least one, unless allow_all_workspaces is true."`
	Tags               Optional[map[string]string] `json:"tags,omitempty"`
}

type createSecretReference struct {
	SecretReferenceFields
	OrganisationID string         `json:"organisation_id,omitempty" maxLength:"255"`
	Name           string         `json:"name" minLength:"1" maxLength:"255"`
	Slug           string         `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Default: made of the name."`
	ManagerType    string         `json:"manager_type" maxLength:"255" doc:"hashicorp_vault, aws_sm, azure_kv, environment, file, or another of this build."`
	AuthConfig     map[string]any `json:"auth_config,omitempty" doc:"How to log in to the manager; none for environment and file."`
	SecretPath     string         `json:"secret_path" minLength:"1" maxLength:"1024"`
}

type updateSecretReference struct {
	SecretReferenceFields
	Name        *string        `json:"name,omitempty" minLength:"1" maxLength:"255"`
	ManagerType *string        `json:"manager_type,omitempty" doc:"Cannot change."`
	AuthConfig  map[string]any `json:"auth_config,omitempty" doc:"What is left out stays."`
	SecretPath  *string        `json:"secret_path,omitempty" minLength:"1" maxLength:"1024"`
}

// secretReferenceList is the query of the list.
type secretReferenceList struct {
	PageSize    int    `query:"page_size" minimum:"1" maximum:"100" default:"20" doc:"Items a page."`
	CurrentPage int    `query:"current_page" minimum:"0" doc:"The page, counted from 0."`
	ManagerType string `query:"manager_type" maxLength:"255"`
	Search      string `query:"search" minLength:"1" maxLength:"255" doc:"Part of the name or slug."`
	Tags        string `query:"tags" maxLength:"4096" doc:"Only those with all of these: an object of texts, as JSON."`
	tags        map[string]string
}

func (f secretReferenceList) page() Paging { return Paging{f.PageSize, f.CurrentPage} }

// Resolve reads the tags.
func (f *secretReferenceList) Resolve(huma.Context) (errs []error) {
	f.tags, errs = readTags(f.Tags)
	return errs
}

// readTags reads the filter of a list by tags.
func readTags(text string) (tags map[string]string, errs []error) {
	if text != "" && json.Unmarshal([]byte(text), &tags) != nil {
		errs = []error{&huma.ErrorDetail{Location: "query.tags", Message: "expected a JSON object of texts"}}
	}
	return tags, errs
}

// hasTags reports whether a row has all tags of a filter.
func hasTags(tags, wanted map[string]string) bool {
	for name, v := range wanted {
		if got, ok := tags[name]; !ok || got != v {
			return false
		}
	}
	return true
}

type createdSecretReference struct {
	ID     string `json:"id" format:"uuid"`
	Slug   string `json:"slug"`
	Object string `json:"object" enum:"secret-reference"`
}

func (a *API) secretReferences() {
	references := &resource[credentials.SecretReference]{
		path: "/secret-references", param: "secretReferenceId", noun: "secret reference", kind: audit.SecretReferences, scope: "secret_references",
		rows: func(c *call) []*credentials.SecretReference { return c.api.Keyring.SecretReferences() },
		find: func(c *call, slugOrID string) (*credentials.SecretReference, error) {
			return found(c.api.Keyring.SecretReference(slugOrID))
		},
		name: func(r *credentials.SecretReference) string { return r.Slug },
		secrets: func(c *call, r *credentials.SecretReference, is func(secret string, path ...string)) error {
			auth, err := c.api.Keyring.OpenAuth(r)
			for name, value := range auth {
				is(value, "auth_config", maskedPrefix+name)
			}
			return err
		},
	}
	create(a, references, (*call).createSecretReference)
	listChosen(a, references, func(c *call, _ string, f *secretReferenceList) (chosen choice[credentials.SecretReference], err error) {
		if chosen.rows = c.api.Keyring.SecretReferences(); f.ManagerType != "" {
			chosen.rows = c.api.Keyring.SecretReferencesWith(f.ManagerType)
		}
		if f.tags != nil {
			chosen.only(func(r *credentials.SecretReference) bool { return hasTags(r.Tags, f.tags) })
		}
		chosen.search(f.Search, func(r *credentials.SecretReference) []string { return []string{r.Name, r.Slug} })
		return chosen, nil
	}, showSecretReferenceRow)
	read(a, references, "", "Get a secret reference", showSecretReference)
	update(a, references, (*call).updateSecretReference)
	remove(a, references, "Delete", func(c *call, r *credentials.SecretReference) error {
		if err := unused(c, "secret reference", r, dependentsOfSecretReferences); err != nil {
			return err
		}
		return c.api.Keyring.RemoveSecretReference(c.tx, r.ID)
	})
}

func showSecretReferenceRow(_ *call, r *credentials.SecretReference) SecretReferenceRow {
	return SecretReferenceRow{
		ID: r.ID, Name: r.Name, Slug: r.Slug, ManagerType: r.Manager, Status: "ACTIVE",
		CreatedAt: formatTime(r.CreatedAt), LastUpdatedAt: formatTime(r.UpdatedAt), Object: "secret-reference",
	}
}

// maskedPrefix is before the names of credentials in an auth_config as it is shown.
const maskedPrefix = "masked_"

func showSecretReference(c *call, r *credentials.SecretReference) (*SecretReference, error) {
	auth, err := c.api.Keyring.OpenAuth(r)
	if err != nil {
		return nil, err
	}
	shown := make(map[string]string, len(auth))
	public := secrets.PublicFields(c.api.Managers[r.Manager])
	for name, v := range auth {
		if public[name] {
			shown[name] = v
		} else {
			shown[maskedPrefix+name] = credentials.NewSecret(v).Hint()
		}
	}
	out := &SecretReference{
		SecretReferenceRow: showSecretReferenceRow(c, r), OrganisationID: r.OrganisationID, Description: text(r.Description), SecretPath: r.Path, SecretKey: text(r.Key),
		AllowAllWorkspaces: r.AllWorkspaces, AllowedWorkspaces: r.Workspaces, Tags: r.Tags, CreatedBy: r.CreatedBy, AuthConfig: shown,
	}
	if out.AllowedWorkspaces == nil {
		out.AllowedWorkspaces = []string{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	return out, nil
}

func (c *call) createSecretReference(in *createSecretReference) (*credentials.SecretReference, *createdSecretReference, error) {
	if in.OrganisationID != "" && in.OrganisationID != c.caller.OrganisationID {
		return nil, nil, unknownReference("organisation_id", "there is no organisation %q", credentials.Clip(in.OrganisationID))
	}
	r := &credentials.SecretReference{
		ID: storage.NewID(c.api.Random), OrganisationID: c.caller.OrganisationID, Slug: in.Slug, Name: in.Name, Manager: in.ManagerType,
		Path: in.SecretPath, AllWorkspaces: in.AllowedWorkspaces == nil, CreatedBy: c.caller.UserID,
	}
	if r.CreatedBy == "" {
		r.CreatedBy = c.caller.KeyName
	}
	if _, err := uuid.Parse(r.Slug); err == nil {
		return nil, nil, invalid("slug", "expected a name that is not a UUID, by which secret references are found too")
	}
	if r.Slug == "" {
		r.Slug = directory.NewSlug(c.api.Random, "", in.Name)
	}
	if err := c.applySecretReference(r, &in.SecretReferenceFields); err != nil {
		return nil, nil, err
	}
	if err := c.applyAuth(r, nil, in.AuthConfig); err != nil {
		return nil, nil, err
	}
	if err := c.api.Keyring.ReplaceSecretReference(c.tx, r); err != nil {
		return r, nil, slugTaken(err, r.Slug)
	}
	return r, &createdSecretReference{r.ID, r.Slug, "secret-reference"}, nil
}

func (c *call) updateSecretReference(r *credentials.SecretReference, in *updateSecretReference) error {
	if in.ManagerType != nil && *in.ManagerType != r.Manager {
		return invalid("manager_type", "it cannot change; make another secret reference")
	}
	assign(&r.Name, in.Name)
	assign(&r.Path, in.SecretPath)
	if err := c.applySecretReference(r, &in.SecretReferenceFields); err != nil {
		return err
	}
	stored, err := c.api.Keyring.OpenAuth(r)
	if err != nil {
		return err
	}
	if err := c.applyAuth(r, stored, in.AuthConfig); err != nil {
		return err
	}
	return c.api.Keyring.ReplaceSecretReference(c.tx, r)
}

// applySecretReference makes r, which is new or a copy of a stored one, what in says.
func (c *call) applySecretReference(r *credentials.SecretReference, in *SecretReferenceFields) (err error) {
	if err := applyText("description", &in.Description, &r.Description); err != nil {
		return err
	}
	if len(in.SecretKey.Value) > 255 {
		return invalid("secret_key", "expected at most 255 bytes")
	}
	in.SecretKey.assign(&r.Key)
	if in.Tags.Set {
		if r.Tags, err = checkTags(in.Tags.Value); err != nil {
			return err
		}
	}
	if in.AllowedWorkspaces != nil {
		r.Workspaces, r.AllWorkspaces = nil, false
		for _, named := range in.AllowedWorkspaces {
			w, ok := c.api.Directory.Workspace(named)
			if !ok {
				return unknownReference("allowed_workspaces", "there is no workspace %q", credentials.Clip(named))
			}
			if !slices.Contains(r.Workspaces, w.ID) {
				r.Workspaces = append(r.Workspaces, w.ID)
			}
		}
	}
	if in.AllowAllWorkspaces != nil {
		r.AllWorkspaces = bool(*in.AllowAllWorkspaces)
	}
	switch {
	case r.AllWorkspaces && len(in.AllowedWorkspaces) > 0:
		return invalid("allow_all_workspaces", "expected false with allowed_workspaces")
	case r.AllWorkspaces:
		r.Workspaces = nil
	case len(r.Workspaces) == 0:
		return invalid("allowed_workspaces", "expected at least one where allow_all_workspaces is false")
	}
	return nil
}

// applyAuth merges the auth_config that is sent into the stored one, and has the manager check
// the whole. A credential that is not sent has to go where it went.
func (c *call) applyAuth(r *credentials.SecretReference, stored map[string]string, sent map[string]any) error {
	m, ok := c.api.Managers[r.Manager]
	if !ok {
		return invalid("manager_type", "expected one of %s", strings.Join(slices.Sorted(maps.Keys(c.api.Managers)), ", "))
	}
	auth := maps.Clone(stored)
	if auth == nil {
		auth = make(map[string]string)
	}
	for name, v := range sent {
		value, ok := v.(string)
		switch {
		case strings.HasPrefix(name, maskedPrefix): // as it is shown
			continue
		case !ok && v != nil, len(value) > 16384:
			return invalid(secrets.AuthField(credentials.Clip(name)), "expected a text of at most 16384 bytes")
		}
		if auth[name] = value; value == "" {
			delete(auth, name)
		}
	}
	checked, err := secrets.CheckReference(m, c.api.Guard, r, stored, auth, func(field string) bool { _, again := sent[field]; return again }, refuse(""))
	if err != nil {
		return err
	}
	return c.api.Keyring.SealAuth(r, checked)
}
