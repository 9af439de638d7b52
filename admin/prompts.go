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
	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// promptList holds the query parameters of the list.
type promptList struct {
	WorkspaceFilter
	Sharing
	CollectionID string `query:"collection_id" maxLength:"255" doc:"Id or slug: only prompts of this collection."`
	Search       string `query:"search" maxLength:"255" doc:"Only what has this in its name or slug."`
}

// withVersions returns a resource for reading a version of a prompt: slug@12, slug@latest or slug@label in the path, or the
// query parameter version.
func withVersions(all *resource[prompts.Prompt]) *resource[prompts.Prompt] {
	one, longest := *all, 255
	one.query = []*huma.Param{parameter("query", "version", "A version's number, latest, or a label; default: the published one. The path may have it, too: slug@12.", huma.Schema{MaxLength: &longest})}
	one.find = func(c *call, reference string) (*prompts.Prompt, error) {
		id, _, _ := strings.Cut(reference, "@")
		return all.find(c, id)
	}
	return &one
}

// chosenVersion returns the version of a prompt that the path or the query names, or else the published one.
func (c *call) chosenVersion(p *prompts.Prompt) (*prompts.Version, error) {
	which := c.item.query["version"]
	if _, named, ok := strings.Cut(c.item.key, "@"); ok {
		if which != "" {
			return nil, invalid("version", "the path names a version, too; send one of them")
		}
		if which = named; which == "" {
			return nil, failure(http.StatusNotFound, "No version is named behind @, where a number, latest or a label is expected; leave @ out for the published one")
		}
	}
	v, ok := c.api.Prompts.Version(p, which)
	if !ok {
		return nil, notFound("Version", which)
	}
	return v, nil
}

// savedPrompts returns the resource of prompts or of partials.
func savedPrompts(path, param, noun string, kind audit.Type, partial bool) *resource[prompts.Prompt] {
	of := func(p *prompts.Prompt) bool { return p.Partial == partial }
	return &resource[prompts.Prompt]{
		path: path, param: param, noun: noun, kind: kind, scope: "prompts",
		find: func(c *call, id string) (*prompts.Prompt, error) {
			p, ok := c.api.Prompts.Get(id)
			return found(p, ok && of(p))
		},
		details: func(_ *call, p *prompts.Prompt) (any, error) { // of which the published version says nothing
			return map[string]any{"latest_version": p.Latest().Number, "labels": p.Labels}, nil
		},
		name:      func(p *prompts.Prompt) string { return p.Slug },
		workspace: func(p *prompts.Prompt) string { return p.WorkspaceID },
		shared:    sharedPrompt,
	}
}

func (a *API) prompts() {
	all := savedPrompts("/prompts", "prompt_id", "prompt", audit.Prompts, false)
	create(a, all, (*call).createPrompt)
	listChosen(a, all, choosePrompts(false), showPromptSummary)
	read(a, withVersions(all), "", "Get a prompt", func(c *call, p *prompts.Prompt) (*Prompt, error) {
		v, err := c.chosenVersion(p)
		if err != nil {
			return nil, err
		}
		return c.showPrompt(p, v)
	})
	act(a, all, http.MethodPut, "", "update", "Update a prompt; what changes its text is a new version", (*call).updatePrompt)
	remove(a, all, "Delete", func(c *call, p *prompts.Prompt) error {
		if err := unused(c, "prompt", p, dependentsOfPrompts); err != nil {
			return err
		}
		return c.api.Prompts.Delete(c.tx, p)
	})
	versions(a, all, func(p *prompts.Prompt) []prompts.Version { return p.Versions }, contents(showPromptVersion))
	version(a, all, promptVersion, (*call).showPrompt)
	act(a, all, http.MethodPut, "/versions/{version_id}", "publish", "Give a version a label", (*call).labelVersion)
	act(a, all, http.MethodPut, "/makeDefault", "publish", "Publish a version", (*call).publish)
	a.sharing(all)
}

// choosePrompts implements the filters of the list of prompts, or of partials. Only a search looks at
// every row that the other filters leave.
func choosePrompts(partial bool) func(*call, string, *promptList) (choice[prompts.Prompt], error) {
	return func(c *call, workspace string, f *promptList) (chosen choice[prompts.Prompt], err error) {
		switch {
		case f.CollectionID != "":
			in, ok := c.collection(f.CollectionID, workspace)
			if !ok {
				in, ok = c.collection(f.CollectionID, "") // of what others share
			}
			if !ok {
				return chosen, nil
			}
			chosen.rows, chosen.foreign = c.api.Prompts.ListedIn(in.ID, partial), workspace != "" && workspace != in.WorkspaceID
		case f.Type == "shared":
			chosen.rows, chosen.foreign = c.api.Prompts.Shared(partial), workspace != ""
		default:
			chosen.rows = c.api.Prompts.Listed(workspace, partial)
			if workspace != "" && f.Show {
				chosen.rows, chosen.foreign = merge(func(p *prompts.Prompt) string { return p.ID }, chosen.rows, c.api.Prompts.Shared(partial)), true
			}
		}
		if chosen.foreign || f.Type == "shared" {
			chosen.only(func(p *prompts.Prompt) bool { return f.keep(workspace, p) })
		}
		chosen.search(f.Search, func(p *prompts.Prompt) []string { return []string{p.Name, p.Slug} })
		return chosen, nil
	}
}

// contains reports whether one of the names contains search, ignoring case.
func contains(search string, names ...string) bool {
	search = strings.ToLower(search)
	return search == "" || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(n), search) })
}

func showPromptSummary(c *call, p *prompts.Prompt) PromptSummary {
	return PromptSummary{
		ID: p.ID, Slug: p.Slug, Name: p.Name, Model: p.Model, CollectionID: p.CollectionID, WorkspaceID: p.WorkspaceID, OrganisationID: p.OrganisationID,
		Status: status(p.Archived), CreatedAt: formatTime(p.CreatedAt), LastUpdatedAt: formatTime(p.UpdatedAt), Object: "prompt",
		SharingFields: c.showSharing(p),
	}
}

func status(archived bool) string {
	if archived {
		return "archived"
	}
	return "active"
}

func (c *call) showPrompt(p *prompts.Prompt, v *prompts.Version) (*Prompt, error) {
	content, err := c.content(p, v)
	if err != nil {
		return nil, err
	}
	compiled, err := c.api.Prompts.Compiled(c, p, v)
	if err != nil {
		return nil, err
	}
	out := &Prompt{
		PromptSummary: showPromptSummary(c, p), String: content.String, Parameters: object(content.Parameters), Version: v.Number, VersionID: v.ID,
		VersionState: "active", Description: text(content.Description), Labels: c.labelsOf(p, v), VirtualKey: content.VirtualKey,
		Functions: objects(content.Functions), Tools: objects(content.Tools), ToolChoice: anyJSON(content.ToolChoice), Metadata: object(content.Metadata),
	}
	out.Model = content.ModelName()
	if content.Raw {
		out.Raw = 1
	}
	if len(out.Labels) > 0 {
		out.LabelID, out.LabelName = &out.Labels[0].ID, &out.Labels[0].Name
	}
	uses := compiled.Uses()
	some := func(names []string) []string { return append([]string{}, names...) }
	out.Components = variableComponents{some(uses.Partials), some(uses.Sections), some(uses.Variables), some(uses.SectionVariables), some(uses.VariablePartials)}
	return out, nil
}

// labelsOf shows the labels of a version.
func (c *call) labelsOf(p *prompts.Prompt, v *prompts.Version) []promptLabel {
	shown := []promptLabel{}
	for _, l := range c.api.Prompts.LabelsOf(p, v) {
		shown = append(shown, promptLabel{l.ID, l.Name})
	}
	return shown
}

// content reads the content of a version, of whose size memory is reserved for the answer.
func (c *call) content(p *prompts.Prompt, v *prompts.Version) (*prompts.Content, error) {
	content, err := c.api.Prompts.Content(c, p, v)
	if err != nil {
		return nil, err
	}
	return content, c.reserve(content.Size())
}

// contents is content for a page of versions, which show shows.
func contents[V any](show func(*call, *prompts.Prompt, *prompts.Version, *prompts.Content) V) func(*call, *prompts.Prompt, []prompts.Version) ([]V, error) {
	return func(c *call, p *prompts.Prompt, versions []prompts.Version) ([]V, error) {
		all, err := c.api.Prompts.Contents(c, p, versions, c.reserve)
		if err != nil {
			return nil, err
		}
		shown := make([]V, len(versions))
		for i := range versions {
			shown[i] = show(c, p, &versions[i], all[i])
		}
		return shown, nil
	}
}

func showPromptVersion(c *call, p *prompts.Prompt, v *prompts.Version, content *prompts.Content) PromptVersion {
	out := PromptVersion{
		ID: v.ID, PromptID: p.ID, Version: v.Number, Description: text(content.Description), CreatedAt: formatTime(v.CreatedAt), Status: "active", Object: "prompt",
		Template: template{content.String, object(content.Parameters), content.ModelName(), content.VirtualKey},
	}
	if labels := c.api.Prompts.LabelsOf(p, v); len(labels) > 0 {
		out.LabelID = &labels[0].ID
	}
	return out
}

// promptVersion returns a version of a prompt by its id or number.
func promptVersion(p *prompts.Prompt, which string) (*prompts.Version, bool) {
	for i := range p.Versions {
		if v := &p.Versions[i]; v.ID == strings.ToLower(which) || strconv.Itoa(v.Number) == which {
			return v, true
		}
	}
	return nil, false
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
	content := &prompts.Content{String: in.String, VirtualKey: in.VirtualKey, Description: in.Description.Value, CreatedBy: c.caller.KeyID}
	if err := c.applyPrompt(p, content, &in.PromptFields); err != nil {
		return p, nil, err
	}
	if p.CollectionID == "" {
		p.CollectionID = prompts.DefaultCollection(w.ID, w.CreatedAt).ID
	}
	if err := promptError(c.api.Prompts.Add(c.tx, p, content)); err != nil {
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

// promptError converts an error of the prompt store.
func promptError(err error) error {
	if errors.Is(err, prompts.ErrVersions) {
		return failure(http.StatusConflict, "A prompt has at most %d versions, and %v; remove labels first", prompts.MaxVersions, err)
	}
	return err
}

// applyPrompt applies a request to a prompt, and checks the result. content is nil if
// the request does not create a version.
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
		if given { // null clears it
			*to = from
		}
	}
	set(&content.Parameters, in.Parameters.Value, in.Parameters.Set)
	set(&content.Functions, in.Functions.Value, in.Functions.Set)
	set(&content.Tools, in.Tools.Value, in.Tools.Set)
	set(&content.ToolChoice, in.ToolChoice.Value, in.ToolChoice.Set)
	set(&content.Metadata, in.OtherName.Value, in.OtherName.Set)
	set(&content.Metadata, in.Metadata.Value, in.Metadata.Set)
	in.Model.assign(&content.Model)
	if in.Raw != nil {
		content.Raw = bool(*in.Raw)
	}
	if !c.references().Answers(p.WorkspaceID, content.VirtualKey) {
		return unknownReference("virtual_key", "the workspace has no virtual key, provider or config %q", credentials.Clip(content.VirtualKey))
	}
	compiled, err := prompts.Check(content)
	return c.checkTemplate(p, compiled, err)
}

// checkTemplate returns the error of a version that was checked or compiled, or else one about the partials that it inserts.
func (c *call) checkTemplate(p *prompts.Prompt, compiled *prompts.Compiled, err error) error {
	if err == nil {
		err = c.api.Prompts.CheckPartials(c, p, compiled)
	}
	var field *prompts.FieldError
	if errors.As(err, &field) {
		return invalid(field.Field, "%s", field.Message)
	}
	return err
}

// versioned reports whether an update creates a version.
func (in *updatePrompt) versioned() bool {
	f := &in.PromptFields
	return in.String != nil || in.VirtualKey != nil || f.Parameters.Set || f.Functions.Set || f.Tools.Set || f.ToolChoice.Set ||
		f.Model.Set || f.Description.Set || f.Metadata.Set || f.OtherName.Set || f.Raw != nil
}

func (c *call) updatePrompt(p *prompts.Prompt, in *updatePrompt) (*updatedPrompt, error) {
	assign(&p.Name, in.Name)
	content, err := c.newVersion(p, in)
	if err != nil {
		return nil, err
	}
	if err := c.applyPrompt(p, content, &in.PromptFields); err != nil {
		return nil, err
	}
	if err := promptError(c.api.Prompts.Put(c.tx, p, content)); err != nil {
		return nil, err
	}
	return &updatedPrompt{p.ID, p.Slug, p.Latest().ID}, nil
}

// newVersion returns the content that an update's version is based on, or nil if the
// update does not create a version.
func (c *call) newVersion(p *prompts.Prompt, in *updatePrompt) (content *prompts.Content, err error) {
	if !in.versioned() {
		return content, nil
	}
	content, err = c.api.Prompts.Content(c, p, p.Latest())
	if err != nil {
		return nil, err
	}
	content.Description, content.CreatedBy = in.Description.Value, c.caller.KeyID
	switch {
	case !bool(in.Patch):
		// The request contains a whole version, except for its provider and type.
		if in.String == nil {
			return nil, invalid("string", "required in a new version, unless patch is true")
		}
		content = &prompts.Content{VirtualKey: content.VirtualKey, Raw: content.Raw, Description: content.Description, CreatedBy: content.CreatedBy}
	case gjson.GetBytes(in.Parameters.Value, "model").Exists():
		content.Model = "" // that of the parameters takes its place
	case in.Parameters.Set:
		content.Model = content.ModelName() // it may have been among the parameters
	}
	assign(&content.String, in.String)
	assign(&content.VirtualKey, in.VirtualKey)
	return content, nil
}

func (c *call) publish(p *prompts.Prompt, in *makeDefault) (*empty, error) {
	v, ok := c.api.Prompts.Version(p, strconv.Itoa(in.Version))
	if !ok {
		return nil, unknownReference("version", "there is no version %d", in.Version)
	}
	if err := c.checkVersion(p, v); err != nil {
		return nil, err
	}
	return &empty{}, c.api.Prompts.Publish(c, c.tx, p, v)
}

// checkVersion returns an error if a version inserts a partial that was deleted since it was saved.
func (c *call) checkVersion(p *prompts.Prompt, v *prompts.Version) error {
	compiled, err := c.api.Prompts.Compiled(c, p, v)
	return c.checkTemplate(p, compiled, err)
}

func (c *call) labelVersion(p *prompts.Prompt, in *labelVersion) (*empty, error) {
	which := c.item.query["version_id"]
	v, ok := promptVersion(p, which)
	if !ok {
		return nil, notFound("Version", which)
	}
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = make(map[string]int)
	}
	switch {
	case in.LabelID == nil && bool(in.Remove):
		return nil, invalid("label_id", "expected the label to be removed; null without remove removes all")
	case in.LabelID == nil: // the version loses its labels
		for _, l := range c.api.Prompts.LabelsOf(p, v) {
			delete(labels, l.ID)
		}
	case bool(in.Remove):
		id := strings.ToLower(*in.LabelID)
		if number, ok := labels[id]; !ok || number != v.Number {
			return nil, unknownReference("label_id", "the version has no label %q", credentials.Clip(*in.LabelID))
		}
		delete(labels, id)
	default:
		l, ok := c.api.Prompts.Label(*in.LabelID)
		if !ok || !l.Universal() && l.WorkspaceID != p.WorkspaceID {
			return nil, unknownReference("label_id", "the workspace has no label %q", credentials.Clip(*in.LabelID))
		}
		if err := c.checkVersion(p, v); err != nil {
			return nil, err
		}
		labels[l.ID] = v.Number
	}
	maps.DeleteFunc(labels, func(id string, _ int) bool { // labels that have been deleted
		_, ok := c.api.Prompts.Label(id)
		return !ok
	})
	p.Labels = labels
	return &empty{}, c.api.Prompts.Put(c.tx, p, nil)
}
