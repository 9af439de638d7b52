package admin

import (
	"net/http"
	"strconv"

	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// PartialSummary is a partial in a list.
type PartialSummary struct {
	ID             string `json:"id" format:"uuid"`
	Slug           string `json:"slug"`
	Name           string `json:"name"`
	CollectionID   string `json:"collection_id" format:"uuid"`
	WorkspaceID    string `json:"workspace_id"`
	OrganisationID string `json:"organisation_id" format:"uuid"`
	CreatedAt      string `json:"created_at" format:"date-time"`
	LastUpdatedAt  string `json:"last_updated_at" format:"date-time"`
	Status         string `json:"status" enum:"active,archived"`
	Object         string `json:"object" enum:"partial"`
	SharingFields
}

// Partial is a version of a partial.
type Partial struct {
	PartialSummary
	String      string        `json:"string"`
	Version     int           `json:"version"`
	Description *string       `json:"version_description"`
	VersionID   string        `json:"prompt_partial_version_id" format:"uuid"`
	Labels      []promptLabel `json:"version_labels"`
}

// PartialVersion is a version in the list of versions.
type PartialVersion struct {
	PartialID   string  `json:"prompt_partial_id" format:"uuid"`
	VersionID   string  `json:"prompt_partial_version_id" format:"uuid"`
	Slug        string  `json:"slug"`
	Version     string  `json:"version" doc:"Its number; as a text in the list of versions only."`
	String      string  `json:"string"`
	Description *string `json:"description"`
	CreatedAt   string  `json:"created_at" format:"date-time"`
	Status      string  `json:"prompt_version_status" enum:"active,archived"`
	Object      string  `json:"object" enum:"partial"`
}

type createPartial struct {
	Name         string `json:"name" minLength:"1" maxLength:"255"`
	String       string `json:"string" maxLength:"524288"`
	Description  string `json:"version_description,omitempty" maxLength:"1024"`
	CollectionID string `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; default: the workspace's default collection."`
	WorkspaceID  string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
}

type updatePartial struct {
	Name         *string          `json:"name,omitempty" minLength:"1" maxLength:"255"`
	String       *string          `json:"string,omitempty" maxLength:"524288" doc:"The text of a new version."`
	Description  Optional[string] `json:"version_description,omitempty" maxLength:"1024"`
	OtherName    Optional[string] `json:"description,omitempty" maxLength:"1024" doc:"The same as version_description."`
	CollectionID string           `json:"collection_id,omitempty" maxLength:"255"`
	Status       string           `json:"status,omitempty" enum:"active,archived"`
}

type updatedPartial struct {
	VersionID string `json:"prompt_partial_version_id" format:"uuid" doc:"Of the newest version."`
}

func (a *API) partials() {
	all := savedPrompts("/prompts/partials", "prompt_partial_id", "partial", audit.Partials, true)
	create(a, all, (*call).createPartial)
	listChosen(a, all, choosePrompts(true), showPartialSummary)
	read(a, withVersions(all), "", "Get a partial", func(c *call, p *prompts.Prompt) (*Partial, error) {
		v, err := c.chosenVersion(p)
		if err != nil {
			return nil, err
		}
		content, err := c.content(p, v)
		if err != nil {
			return nil, err
		}
		return &Partial{showPartialSummary(c, p), content.String, v.Number, text(content.Description), v.ID, c.labelsOf(p, v)}, nil
	})
	act(a, all, http.MethodPut, "", "update", "Update a partial; a new text is a new version", (*call).updatePartial)
	remove(a, all, "Delete", func(c *call, p *prompts.Prompt) error {
		if err := unused(c, "partial", p, dependentsOfPartials); err != nil {
			return err
		}
		return c.api.Prompts.Delete(c.tx, p)
	})
	versions(a, all, func(p *prompts.Prompt) []prompts.Version { return p.Versions }, contents(showPartialVersion))
	act(a, all, http.MethodPut, "/versions/{version_id}", "publish", "Give a version of a partial a label", (*call).labelVersion)
	act(a, all, http.MethodPut, "/makeDefault", "publish", "Publish a version of a partial", (*call).publish)
	a.sharing(all)
}

func showPartialVersion(_ *call, p *prompts.Prompt, v *prompts.Version, content *prompts.Content) PartialVersion {
	return PartialVersion{p.ID, v.ID, p.Slug, strconv.Itoa(v.Number), content.String, text(content.Description), formatTime(v.CreatedAt), "active", "partial"}
}

func showPartialSummary(c *call, p *prompts.Prompt) PartialSummary {
	return PartialSummary{
		p.ID, p.Slug, p.Name, p.CollectionID, p.WorkspaceID, p.OrganisationID,
		formatTime(p.CreatedAt), formatTime(p.UpdatedAt), status(p.Archived), "partial", c.showSharing(p),
	}
}

func (c *call) createPartial(in *createPartial) (*prompts.Prompt, *createdPrompt, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	p := &prompts.Prompt{
		Slug: directory.NewSlug(c.api.Random, "pp", in.Name), Name: in.Name, Partial: true, WorkspaceID: w.ID,
		OrganisationID: c.caller.OrganisationID, CreatedBy: c.caller.KeyID, CollectionID: prompts.DefaultCollection(w.ID, w.CreatedAt).ID,
	}
	content := &prompts.Content{String: in.String, Description: in.Description, CreatedBy: c.caller.KeyID}
	if err := c.applyPartial(p, content, in.CollectionID); err != nil {
		return p, nil, err
	}
	if err := promptError(c.api.Prompts.Add(c.tx, p, content)); err != nil {
		return p, nil, err
	}
	return p, &createdPrompt{p.ID, p.Slug, p.Latest().ID, "partial"}, nil
}

// applyPartial moves a partial to a collection, unless it is empty, and checks the
// text.
func (c *call) applyPartial(p *prompts.Prompt, content *prompts.Content, collection string) error {
	if collection != "" {
		in, ok := c.collection(collection, p.WorkspaceID)
		if !ok {
			return unknownReference("collection_id", "the workspace has no such collection")
		}
		p.CollectionID = in.ID
	}
	if content == nil {
		return nil
	}
	compiled, err := prompts.CompilePartial(content)
	return c.checkTemplate(p, compiled, err)
}

func (c *call) updatePartial(p *prompts.Prompt, in *updatePartial) (*updatedPartial, error) {
	assign(&p.Name, in.Name)
	if in.Status == "archived" && !p.Archived { // it is then as if it was deleted
		if err := unused(c, "partial", p, dependentsOfPartials); err != nil {
			return nil, err
		}
	}
	activated := p.Archived && in.Status == "active"
	if in.Status != "" {
		p.Archived = in.Status == "archived"
	}
	var content *prompts.Content
	description := in.Description
	if !description.Set {
		description = in.OtherName
	}
	if in.String != nil {
		content = &prompts.Content{String: *in.String, Description: description.Value, CreatedBy: c.caller.KeyID}
	} else if description.Set {
		return nil, invalid("string", "required with version_description, which is about a new version")
	}
	if err := c.applyPartial(p, content, in.CollectionID); err != nil {
		return nil, err
	}
	if err := promptError(c.api.Prompts.Put(c.tx, p, content)); err != nil {
		return nil, err
	}
	if activated { // what it inserts may have been deleted or archived with it
		for _, v := range c.api.Prompts.Named(p) {
			if err := c.checkVersion(p, v); err != nil {
				return nil, err
			}
		}
	}
	return &updatedPartial{p.Latest().ID}, nil
}
