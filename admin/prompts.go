package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/storage"
)

// PromptSummary is a prompt as lists show it.
type PromptSummary struct {
	ID             string `json:"id" format:"uuid"`
	Slug           string `json:"slug"`
	Name           string `json:"name"`
	CollectionID   string `json:"collection_id" format:"uuid"`
	WorkspaceID    string `json:"workspace_id"`
	OrganisationID string `json:"organisation_id" format:"uuid"`
	Model          string `json:"model"`
	Status         string `json:"status" enum:"active,archived"`
	CreatedAt      string `json:"created_at" format:"date-time"`
	LastUpdatedAt  string `json:"last_updated_at" format:"date-time"`
	Object         string `json:"object" enum:"prompt"`
}

// Prompt is one version of a prompt.
type Prompt struct {
	PromptSummary
	String       string             `json:"string" doc:"Of a chat the JSON of its messages, else the prompt of a text completion."`
	Parameters   object             `json:"parameters"`
	Version      int                `json:"prompt_version"`
	VersionID    string             `json:"prompt_version_id" format:"uuid"`
	VersionState string             `json:"prompt_version_status" enum:"active,archived"`
	Description  *string            `json:"prompt_version_description"`
	LabelID      *string            `json:"prompt_version_label_id"`
	LabelName    *string            `json:"prompt_version_label_name"`
	Labels       []promptLabel      `json:"prompt_version_labels"`
	VirtualKey   string             `json:"virtual_key"`
	Functions    objects            `json:"functions,omitempty"`
	Tools        objects            `json:"tools,omitempty"`
	ToolChoice   anyJSON            `json:"tool_choice,omitempty"`
	Metadata     object             `json:"template_metadata"`
	Raw          int                `json:"is_raw_template" enum:"0,1"`
	Components   variableComponents `json:"variable_components"`
}

type promptLabel struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name"`
}

// variableComponents are what a template names.
type variableComponents struct {
	Partials         []string `json:"partials"`
	Sections         []string `json:"sections"`
	Variables        []string `json:"variables"`
	SectionVariables []string `json:"sectionVariables"`
	VariablePartials []string `json:"variablePartials"`
}

// PromptVersion is a version as the list of versions shows it.
type PromptVersion struct {
	ID          string   `json:"id" format:"uuid"`
	PromptID    string   `json:"prompt_id" format:"uuid"`
	Template    template `json:"prompt_template"`
	Version     int      `json:"prompt_version"`
	Description *string  `json:"prompt_description"`
	LabelID     *string  `json:"label_id"`
	CreatedAt   string   `json:"created_at" format:"date-time"`
	Status      string   `json:"status" enum:"active,archived"`
	Object      string   `json:"object" enum:"prompt"`
}

type template struct {
	String     string `json:"string"`
	Parameters object `json:"parameters"`
	Model      string `json:"model"`
	VirtualKey string `json:"virtual_key"`
}

// What is JSON of the caller's own is kept as it was sent.
type (
	object  json.RawMessage
	objects json.RawMessage
	anyJSON json.RawMessage
)

func keepJSON(to *[]byte, b []byte) error {
	*to = slices.Clone(b)
	if string(b) == "null" {
		*to = nil
	}
	return nil
}

func showJSON(b []byte, none string) ([]byte, error) {
	if len(b) == 0 {
		return []byte(none), nil
	}
	return b, nil
}

func (o *object) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns what was sent.
func (o object) MarshalJSON() ([]byte, error) { return showJSON(o, "{}") }

// Schema is any object.
func (object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}
}

func (o *objects) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns what was sent.
func (o objects) MarshalJSON() ([]byte, error) { return showJSON(o, "[]") }

// Schema is an array of objects.
func (objects) Schema(huma.Registry) *huma.Schema {
	most := 128
	return &huma.Schema{Type: huma.TypeArray, Nullable: true, MaxItems: &most, Items: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}
}

func (o *anyJSON) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

// MarshalJSON returns what was sent.
func (o anyJSON) MarshalJSON() ([]byte, error) { return showJSON(o, "null") }

// Schema is an object or a word.
func (anyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}, {Type: huma.TypeString}}}
}

// PromptFields are what create and update share.
type PromptFields struct {
	CollectionID string   `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; default: the workspace's default collection."`
	Parameters   *object  `json:"parameters,omitempty" doc:"Parameters of the call; its member variables has values of variables that a call leaves out."`
	Functions    *objects `json:"functions,omitempty"`
	Tools        *objects `json:"tools,omitempty"`
	ToolChoice   *anyJSON `json:"tool_choice,omitempty"`
	Model        *string  `json:"model,omitempty" maxLength:"512"`
	Description  *string  `json:"version_description,omitempty" maxLength:"1024"`
	Metadata     *object  `json:"template_metadata,omitempty"`
	OtherName    *object  `json:"prompt_metadata,omitempty" doc:"The same as template_metadata."`
	Raw          *flag    `json:"is_raw_template,omitempty" doc:"Whether the string is rendered before it is parsed as JSON."`
}

type createPrompt struct {
	PromptFields
	Name        string `json:"name" minLength:"1" maxLength:"255"`
	String      string `json:"string" maxLength:"524288"`
	VirtualKey  string `json:"virtual_key" maxLength:"255" doc:"What answers completions: a virtual key, @slug of a saved provider, or a config."`
	WorkspaceID string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updatePrompt struct {
	PromptFields
	Patch      flag    `json:"patch,omitempty" doc:"Whether the new version keeps what is left out from the one before."`
	Name       *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	String     *string `json:"string,omitempty" maxLength:"524288"`
	VirtualKey *string `json:"virtual_key,omitempty" maxLength:"255"`
}

// createdPrompt is the answer to POST.
type createdPrompt struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id" format:"uuid"`
	Object    string `json:"object" enum:"prompt,partial"`
}

type updatedPrompt struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"prompt_version_id" format:"uuid" doc:"Of the newest version."`
}

type makeDefault struct {
	Version int `json:"version" minimum:"1"`
}

type labelVersion struct {
	LabelID *string `json:"label_id,omitempty" maxLength:"255" doc:"The label that the version gets; another version loses it."`
}

// promptList is the query of the list.
type promptList struct {
	WorkspaceFilter
	CollectionID string `query:"collection_id" maxLength:"255" doc:"Id or slug: only prompts of this collection."`
	Search       string `query:"search" maxLength:"255" doc:"Only what has this in its name or slug."`
}

// versionQuery is the parameter that says which version of a prompt is shown.
func versionQuery() []*huma.Param {
	longest := 255
	return []*huma.Param{parameter("query", "version", "A version's number, latest, or a label; default: the published one.", huma.Schema{MaxLength: &longest})}
}

// savedPrompts is the resource of prompts, or of partials.
func savedPrompts(path, param, noun string, partial bool) *resource[prompts.Prompt] {
	of := func(p *prompts.Prompt) bool { return p.Partial == partial }
	return &resource[prompts.Prompt]{
		path: path, param: param, noun: noun, scope: "prompts",
		rows: func(c *call) []*prompts.Prompt {
			return slices.DeleteFunc(slices.Clone(c.api.Prompts.All()), func(p *prompts.Prompt) bool { return !of(p) })
		},
		find: func(c *call, id string) (*prompts.Prompt, error) {
			p, ok := c.api.Prompts.Get(id)
			return found(p, ok && of(p))
		},
		name:      func(p *prompts.Prompt) string { return p.Slug },
		workspace: func(p *prompts.Prompt) string { return p.WorkspaceID },
	}
}

func (a *API) prompts() {
	all := savedPrompts("/prompts", "prompt_id", "prompt", false)
	create(a, all, (*call).createPrompt)
	list(a, all, keepPrompt, showPromptSummary)
	one := *all
	one.query = versionQuery()
	read(a, &one, "", "Get a prompt", func(c *call, p *prompts.Prompt) (*Prompt, error) {
		v, ok := c.api.Prompts.Version(p, c.item.query["version"])
		if !ok {
			return nil, notFound("Version", c.item.query["version"])
		}
		return c.showPrompt(p, v)
	})
	act(a, all, http.MethodPut, "", "update", "Update a prompt; what changes its text is a new version", (*call).updatePrompt)
	remove(a, all, "Delete", func(c *call, p *prompts.Prompt) error { return c.api.Prompts.Delete(c.tx, p) })
	readList(a, all, "/versions", "List the versions of a prompt", (*call).promptVersions)
	read(a, all, "/versions/{version_id}", "Get a version of a prompt", func(c *call, p *prompts.Prompt) (*Prompt, error) {
		v, err := c.version(p)
		if err != nil {
			return nil, err
		}
		return c.showPrompt(p, v)
	})
	act(a, all, http.MethodPut, "/versions/{version_id}", "publish", "Give a version a label", (*call).labelVersion)
	act(a, all, http.MethodPut, "/makeDefault", "publish", "Publish a version", (*call).publish)
}

// keepPrompt applies the query of the list.
func keepPrompt(c *call, p *prompts.Prompt, f *promptList) bool {
	if p.Archived {
		return false
	}
	if f.CollectionID != "" {
		in, ok := c.collection(f.CollectionID, p.WorkspaceID)
		if !ok || in.ID != p.CollectionID {
			return false
		}
	}
	return contains(f.Search, p.Name, p.Slug)
}

// contains reports whether one of the names has search in it, in any letter case.
func contains(search string, names ...string) bool {
	search = strings.ToLower(search)
	return search == "" || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), search) })
}

func showPromptSummary(c *call, p *prompts.Prompt) PromptSummary {
	out := PromptSummary{
		ID: p.ID, Slug: p.Slug, Name: p.Name, CollectionID: p.CollectionID, WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
		Status: status(p.Archived), CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "prompt",
	}
	if v, ok := c.api.Prompts.Version(p, ""); ok {
		out.Model = v.Model
	}
	return out
}

func status(archived bool) string {
	if archived {
		return "archived"
	}
	return "active"
}

func (c *call) showPrompt(p *prompts.Prompt, v *prompts.Version) (*Prompt, error) {
	content, err := c.api.Prompts.Content(c, v)
	if err != nil {
		return nil, err
	}
	compiled, err := c.api.Prompts.Compiled(c, p, v)
	if err != nil {
		return nil, err
	}
	out := &Prompt{
		PromptSummary: showPromptSummary(c, p), String: content.String, Parameters: object(content.Parameters), Version: v.Number, VersionID: v.ID,
		VersionState: "active", Description: text(v.Description), Labels: []promptLabel{}, VirtualKey: content.VirtualKey,
		Functions: objects(content.Functions), Tools: objects(content.Tools), ToolChoice: anyJSON(content.ToolChoice), Metadata: object(content.Metadata),
	}
	out.Model = content.Model
	if content.Raw {
		out.Raw = 1
	}
	for _, id := range p.LabelsOf(v) {
		if l, ok := c.api.Prompts.Label(id); ok {
			out.Labels = append(out.Labels, promptLabel{l.ID, l.Name})
		}
	}
	if len(out.Labels) > 0 {
		out.LabelID, out.LabelName = &out.Labels[0].ID, &out.Labels[0].Name
	}
	uses := compiled.Uses()
	some := func(names []string) []string { return append([]string{}, names...) }
	out.Components = variableComponents{some(uses.Partials), some(uses.Sections), some(uses.Variables), some(uses.SectionVariables), some(uses.VariablePartials)}
	return out, nil
}

func (c *call) promptVersions(p *prompts.Prompt) (all []*PromptVersion, err error) {
	for i := range p.Versions {
		v := &p.Versions[i]
		content, err := c.api.Prompts.Content(c, v)
		if err != nil {
			return nil, err
		}
		out := &PromptVersion{
			ID: v.ID, PromptID: p.ID, Version: v.Number, Description: text(v.Description), CreatedAt: formatTime(v.CreatedAt), Status: "active", Object: "prompt",
			Template: template{content.String, object(content.Parameters), content.Model, content.VirtualKey},
		}
		if labels := p.LabelsOf(v); len(labels) > 0 {
			out.LabelID = &labels[0]
		}
		all = append(all, out)
	}
	return all, nil
}

// version returns the version that the path names.
func (c *call) version(p *prompts.Prompt) (*prompts.Version, error) {
	id := c.item.query["version_id"]
	for i := range p.Versions {
		if v := &p.Versions[i]; v.ID == strings.ToLower(id) || strconv.Itoa(v.Number) == id {
			return v, nil
		}
	}
	return nil, notFound("Version", id)
}

func (c *call) createPrompt(in *createPrompt) (*prompts.Prompt, *createdPrompt, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	p := &prompts.Prompt{
		Slug: directory.NewSlug(c.api.Random, "pp", in.Name), Name: in.Name, WorkspaceID: w.ID,
		OrganisationID: c.caller.OrganisationID, CreatedBy: c.caller.KeyID,
	}
	content := &prompts.Content{String: in.String, VirtualKey: in.VirtualKey}
	if err := c.applyPrompt(p, content, &in.PromptFields); err != nil {
		return p, nil, err
	}
	if p.CollectionID == "" {
		p.CollectionID = prompts.DefaultCollection(w.ID, w.CreatedAt).ID
	}
	if err := promptError(c.api.Prompts.Add(c.tx, p, content, deref(in.Description))); err != nil {
		return p, nil, err
	}
	return p, &createdPrompt{p.ID, p.Slug, p.Latest().ID, "prompt"}, nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// promptError words what the store refuses.
func promptError(err error) error {
	switch {
	case errors.Is(err, prompts.ErrTooMany):
		return failure(http.StatusConflict, "A workspace has at most %d prompts and partials, %d labels and %d collections", prompts.MaxPrompts, prompts.MaxLabels, prompts.MaxCollections)
	case errors.Is(err, prompts.ErrVersions):
		return failure(http.StatusConflict, "A prompt has at most %d versions, and %v; remove labels first", prompts.MaxVersions, err)
	}
	return err
}

// applyPrompt makes the changes of a create or an update, and checks what they come to. The
// content is nil where they make no version.
func (c *call) applyPrompt(p *prompts.Prompt, content *prompts.Content, in *PromptFields) error {
	if in.CollectionID != "" {
		collection, ok := c.collection(in.CollectionID, p.WorkspaceID)
		if !ok {
			return unknownReference("collection_id", "the workspace has no collection %q", credentials.Clip(in.CollectionID))
		}
		p.CollectionID = collection.ID
	}
	if content == nil {
		return nil
	}
	set := func(to *json.RawMessage, from []byte, given bool) {
		if given {
			*to = from
		}
	}
	set(&content.Parameters, deref(in.Parameters), in.Parameters != nil)
	set(&content.Functions, deref(in.Functions), in.Functions != nil)
	set(&content.Tools, deref(in.Tools), in.Tools != nil)
	set(&content.ToolChoice, deref(in.ToolChoice), in.ToolChoice != nil)
	set(&content.Metadata, deref(in.OtherName), in.OtherName != nil)
	set(&content.Metadata, deref(in.Metadata), in.Metadata != nil)
	if in.Model != nil {
		content.Model = *in.Model
	}
	if in.Raw != nil {
		content.Raw = bool(*in.Raw)
	}
	if slug := strings.TrimPrefix(content.VirtualKey, "@"); slug == "" || !c.answers(p.WorkspaceID, content.VirtualKey) {
		return unknownReference("virtual_key", "the workspace has no virtual key, provider or config %q", credentials.Clip(content.VirtualKey))
	}
	_, err := prompts.Compile(content)
	var field *prompts.FieldError
	if errors.As(err, &field) {
		return invalid(field.Field, "%s", field.Message)
	}
	return err
}

// answers reports whether a workspace has a provider or a config of a name.
func (c *call) answers(workspace, name string) bool {
	if c.saves(workspace, strings.TrimPrefix(name, "@")) {
		return true
	}
	s, ok := c.api.Configs.Get(name)
	return ok && s.WorkspaceID == workspace && !s.Archived
}

// versioned reports whether an update makes a new version.
func (in *updatePrompt) versioned() bool {
	f := &in.PromptFields
	return in.String != nil || in.VirtualKey != nil || f.Parameters != nil || f.Functions != nil || f.Tools != nil || f.ToolChoice != nil ||
		f.Model != nil || f.Description != nil || f.Metadata != nil || f.OtherName != nil || f.Raw != nil
}

func (c *call) updatePrompt(p *prompts.Prompt, in *updatePrompt) (*updatedPrompt, error) {
	if in.Name != nil {
		p.Name = *in.Name
	}
	content, err := c.newVersion(p, in)
	if err != nil {
		return nil, err
	}
	if err := c.applyPrompt(p, content, &in.PromptFields); err != nil {
		return nil, err
	}
	if err := promptError(c.api.Prompts.Put(c.tx, p, content, deref(in.Description), c.caller.KeyID)); err != nil {
		return nil, err
	}
	return &updatedPrompt{p.ID, p.Slug, p.Latest().ID}, nil
}

// newVersion is what an update begins a version with; nil: it makes none.
func (c *call) newVersion(p *prompts.Prompt, in *updatePrompt) (*prompts.Content, error) {
	if !in.versioned() {
		return nil, nil //nolint:nilnil // there is none
	}
	content, err := c.api.Prompts.Content(c, p.Latest())
	if err != nil {
		return nil, err
	}
	if !bool(in.Patch) {
		// A whole version: only where it goes, and how it is read, stays as it was.
		if in.String == nil {
			return nil, invalid("string", "required in a new version, unless patch is true")
		}
		content = &prompts.Content{VirtualKey: content.VirtualKey, Raw: content.Raw}
	}
	if in.String != nil {
		content.String = *in.String
	}
	if in.VirtualKey != nil {
		content.VirtualKey = *in.VirtualKey
	}
	return content, nil
}

func (c *call) publish(p *prompts.Prompt, in *makeDefault) (*empty, error) {
	if _, ok := c.api.Prompts.Version(p, strconv.Itoa(in.Version)); !ok {
		return nil, unknownReference("version", "there is no version %d", in.Version)
	}
	p.Published = in.Version
	return &empty{}, c.api.Prompts.Put(c.tx, p, nil, "", c.caller.KeyID)
}

func (c *call) labelVersion(p *prompts.Prompt, in *labelVersion) (*empty, error) {
	v, err := c.version(p)
	if err != nil {
		return nil, err
	}
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = make(map[string]int)
	}
	if in.LabelID == nil { // the version loses its labels
		for _, id := range p.LabelsOf(v) {
			delete(labels, id)
		}
	} else {
		l, ok := c.api.Prompts.Label(*in.LabelID)
		if !ok || !l.Universal() && l.WorkspaceID != p.WorkspaceID {
			return nil, unknownReference("label_id", "the workspace has no label %q", credentials.Clip(*in.LabelID))
		}
		labels[l.ID] = v.Number
	}
	p.Labels = labels
	return &empty{}, c.api.Prompts.Put(c.tx, p, nil, "", c.caller.KeyID)
}

// namedPartial refuses the removal of a partial that the published or newest version of a
// prompt inserts by its slug.
func (c *call) namedPartial(partial *prompts.Prompt) error {
	var by []string
	for _, p := range c.api.Prompts.All() {
		if p.WorkspaceID != partial.WorkspaceID || p.ID == partial.ID {
			continue
		}
		for _, which := range []string{"", "latest"} {
			v, ok := c.api.Prompts.Version(p, which)
			if !ok {
				continue
			}
			compiled, err := c.api.Prompts.Compiled(c, p, v)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			if err == nil && slices.ContainsFunc(compiled.Uses().Partials, func(name string) bool {
				name, _, _ = strings.Cut(name, "@")
				return name == partial.Slug || name == partial.ID
			}) {
				by = append(by, "prompt "+p.Slug)
				break
			}
		}
	}
	return inUse("partial", by)
}
