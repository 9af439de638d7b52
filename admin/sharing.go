package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/prompts"
)

// SharingFields say with whom a prompt or partial is shared, and what it was forked from.
type SharingFields struct {
	AccessLevel       string   `json:"access_level" enum:"workspace,workspaces,organisation" doc:"Who has it: its workspace, others that are named, or all."`
	AllWorkspaces     int      `json:"allow_all_workspaces" enum:"0,1"`
	SharedWith        []string `json:"workspaces,omitempty" doc:"Ids of the workspaces that it is shared with by name. Only its own workspace sees them."`
	ShareOrganisation *string  `json:"share_organisation_id"`
	SharedAt          *string  `json:"shared_at"`
	SharedBy          *string  `json:"shared_by_user_id"`
	SharedFrom        *string  `json:"shared_from_version_id"`
	OwningWorkspace   string   `json:"prompt_owning_workspace_id"`
	ForkedFrom        *string  `json:"forked_from_prompt_id"`
	ForkedFromVersion *string  `json:"forked_from_prompt_version_id"`
}

func (c *call) showSharing(p *prompts.Prompt) SharingFields {
	out := SharingFields{AccessLevel: "workspace", OwningWorkspace: p.WorkspaceID, ForkedFrom: text(p.ForkedFrom), ForkedFromVersion: text(p.ForkedFromVersion)}
	s := p.Share
	if s == nil {
		return out
	}
	at := formatTime(s.SharedAt)
	out.AccessLevel, out.SharedAt, out.SharedBy, out.SharedFrom = "workspaces", &at, text(s.SharedBy), text(s.VersionID)
	if s.AllWorkspaces {
		out.AccessLevel, out.AllWorkspaces, out.ShareOrganisation = "organisation", 1, &p.OrganisationID
	} else if c.maySee(p.WorkspaceID) {
		out.SharedWith = s.Workspaces
	}
	return out
}

// Sharing holds the query parameters of lists of what can be shared.
type Sharing struct {
	Type string `query:"type" enum:"all,shared" default:"all" doc:"shared: only what other workspaces share with the workspace, or for a key of the organisation without workspace_id, all that is shared."`
	Show bool   `query:"show_prompt_share" doc:"Whether what other workspaces share with the workspace is listed, too."`
}

// keep reports whether a list has a prompt. workspace is the one that the list is of; "": it is
// of all.
func (f *Sharing) keep(workspace string, p *prompts.Prompt) bool {
	foreign := workspace != "" && p.WorkspaceID != workspace
	if f.Type == "shared" {
		return foreign || workspace == "" && p.Share != nil
	}
	return !foreign || f.Show
}

// sharedPrompt reports whether the caller may read and fork a prompt of another workspace.
func sharedPrompt(c *call, workspace string, p *prompts.Prompt, action string) bool {
	if workspace == "" {
		workspace = c.caller.WorkspaceID
	}
	return p.Share.In(workspace) && slices.Contains([]string{"read", "list", actionFork}, action)
}

// actionFork is the action of a fork, whose scope is that of what it creates.
const actionFork = "create"

type sharePrompt struct {
	AccessLevel     string   `json:"access_level,omitempty" enum:"organisation,workspaces" default:"organisation"`
	Workspaces      []string `json:"workspaces,omitempty" maxItems:"500" doc:"Ids or slugs, if the access level is workspaces. Only a key of the organisation names workspaces."`
	IncludePartials flag     `json:"include_partials,omitempty" doc:"Whether the partials that the published version inserts are shared with the same workspaces."`
}

type forkPrompt struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"255" doc:"Default: as it was."`
	WorkspaceID  string  `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the default one."`
	CollectionID string  `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; default: the workspace's default collection."`
	VirtualKey   *string `json:"virtual_key,omitempty" maxLength:"255" doc:"What answers completions in the workspace; default: its provider of the same integration. Partials have none."`
}

// sharing adds the routes by which prompts or partials are shared and forked.
func (a *API) sharing(all *resource[prompts.Prompt]) {
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		act(a, all, method, "/share", "update", "Share "+all.aNoun()+" with other workspaces", (*call).share)
		change(a, all.routeOfOne(method, "/fork", actionFork, "Fork "+all.aNoun()+": a copy of its published version"), func(c *call, in *itemBodyInput[forkPrompt]) (*createdPrompt, edit, error) {
			from, err := all.one(c, &in.item, actionFork)
			if err != nil {
				return nil, edit{}, err
			}
			p, v, err := c.fork(from, &in.Body)
			if err != nil {
				return nil, edit{}, err
			}
			return v, all.edited(c, p, nil, all.show(c, p)), nil
		})
		change(a, all.routeOfOne(method, "/unshare", "update", "Stop sharing "+all.aNoun()), func(c *call, in *optionalBodyInput[noMembers]) (*empty, edit, error) {
			e, err := all.edit(c, &in.item, "update", func(p *prompts.Prompt) error { return c.reshare(p, nil) })
			return &empty{}, e, err
		})
	}
	for _, sub := range []string{"/share", "/unshare"} {
		actBare(a, all, http.MethodDelete, sub, "update", "Stop sharing "+all.aNoun(), func(c *call, p *prompts.Prompt) error { return c.reshare(p, nil) })
	}
	actBare(a, all, http.MethodDelete, "/fork", "update", "Forget what "+all.aNoun()+" was forked from", func(c *call, p *prompts.Prompt) error {
		p.ForkedFrom, p.ForkedFromVersion = "", ""
		return c.api.Prompts.Put(c.tx, p, nil)
	})
}

func (c *call) share(p *prompts.Prompt, in *sharePrompt) (*empty, error) {
	s := &prompts.Share{AllWorkspaces: in.AccessLevel != "workspaces", SharedBy: c.caller.UserID, SharedAt: c.api.Now().UTC()}
	switch {
	case p.Archived:
		return nil, invalid("status", "it is archived")
	case s.AllWorkspaces && len(in.Workspaces) > 0:
		return nil, invalid("workspaces", "expected access_level workspaces with it")
	case !s.AllWorkspaces && len(in.Workspaces) == 0:
		return nil, invalid("workspaces", "expected at least one")
	case !s.AllWorkspaces && c.caller.WorkspaceID != "":
		return nil, forbidden("workspaces: only a key of the organisation names workspaces; share with the organisation")
	}
	for _, named := range in.Workspaces {
		w, err := c.workspace(named)
		if err != nil {
			return nil, unknownReference("workspaces", "there is no workspace %q", credentials.Clip(named))
		}
		if w.ID != p.WorkspaceID && !slices.Contains(s.Workspaces, w.ID) {
			s.Workspaces = append(s.Workspaces, w.ID)
		}
	}
	v, ok := c.api.Prompts.Version(p, "")
	if !ok {
		return nil, fmt.Errorf("prompt %s has no published version", p.Slug)
	}
	s.VersionID = v.ID
	partials, _, err := c.api.Prompts.Included(c, p, v)
	if err != nil {
		return nil, err
	}
	for _, partial := range partials {
		switch {
		case partial.Share.Covers(s):
		case !bool(in.IncludePartials):
			return nil, invalid("include_partials", "the partial %s, which is inserted, is not shared with all of them; share it first, or set this to true", partial.Slug)
		case partial.WorkspaceID != p.WorkspaceID:
			return nil, invalid("include_partials", "the partial %s is another workspace's, which has to share it", partial.Slug)
		default:
			changed := *partial
			changed.Share = s.With(partial.Share)
			changed.Share.VersionID = ""
			if published, ok := c.api.Prompts.Version(partial, ""); ok {
				changed.Share.VersionID = published.ID
			}
			if err := c.api.Prompts.Put(c.tx, &changed, nil); err != nil {
				return nil, err
			}
		}
	}
	return &empty{}, c.reshare(p, s)
}

// reshare stores with whom a prompt or partial is shared; nil: it is not shared. A partial stays shared where a prompt
// is that inserts it, and where a prompt of the workspace itself or, for a prompt, a config refers
// to it.
func (c *call) reshare(p *prompts.Prompt, s *prompts.Share) error {
	if p.Partial {
		by, err := c.sharedWith(p, s)
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return failure(http.StatusConflict, "The partial is inserted by %s, which other workspaces would still see; unshare that first", strings.Join(by[:min(len(by), maxListed)], ", "))
		}
	}
	lost := func(w string) bool { return w != p.WorkspaceID && !s.In(w) }
	noun, dependents := "prompt", dependentsOfPrompts
	if p.Partial {
		noun, dependents = "partial", dependentsOfPartials
	}
	if err := unusedIn(c, noun, p, dependents, lost); err != nil {
		return err
	}
	p.Share = s
	return c.api.Prompts.Put(c.tx, p, nil)
}

// sharedWith describes the prompts and partials that are shared with workspaces that a partial,
// which they insert, would not be shared with.
func (c *call) sharedWith(partial *prompts.Prompt, s *prompts.Share) (by []string, err error) {
	for _, p := range c.api.Prompts.SharedBy(partial.WorkspaceID) {
		if p.ID == partial.ID || s.Covers(p.Share) {
			continue
		}
		v, ok := c.api.Prompts.Version(p, "")
		if !ok {
			continue
		}
		included, _, err := c.api.Prompts.Included(c, p, v)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(included, func(i *prompts.Prompt) bool { return i.ID == partial.ID }) {
			by = append(by, p.Slug)
		}
	}
	return by, nil
}

// sharedBy describes the prompts and partials that a workspace shares, because it then cannot
// be deleted.
func (c *call) sharedBy(workspace string) (by []string) {
	for _, p := range c.api.Prompts.SharedBy(workspace) {
		noun := "prompt "
		if p.Partial {
			noun = "partial "
		}
		by = append(by, noun+p.Slug)
	}
	return by
}

// fork copies the published version of a prompt or partial to a new one.
func (c *call) fork(from *prompts.Prompt, in *forkPrompt) (*prompts.Prompt, *createdPrompt, error) {
	w, err := c.workspace(in.WorkspaceID)
	if err != nil {
		return nil, nil, err
	}
	if !from.VisibleIn(w.ID) {
		return nil, nil, invalid("workspace_id", "it is not shared with this workspace")
	}
	v, ok := c.api.Prompts.Version(from, "")
	if !ok {
		return nil, nil, fmt.Errorf("prompt %s has no published version", from.Slug)
	}
	included, _, err := c.api.Prompts.Included(c, from, v)
	if err != nil {
		return nil, nil, err
	}
	for _, partial := range included {
		if !partial.VisibleIn(w.ID) {
			return nil, nil, failure(http.StatusConflict, "The partial %s, which is inserted, is not shared with the workspace", partial.Slug)
		}
	}
	content, err := c.api.Prompts.Content(c, from, v)
	if err != nil {
		return nil, nil, err
	}
	copied := *content
	copied.CreatedBy = c.caller.KeyID
	p := &prompts.Prompt{
		Slug: directory.NewSlug(c.api.Random, "pp", from.Name), Name: from.Name, Partial: from.Partial, WorkspaceID: w.ID, OrganisationID: c.caller.OrganisationID,
		CollectionID: prompts.DefaultCollection(w.ID, w.CreatedAt).ID, CreatedBy: c.caller.KeyID, ForkedFrom: from.ID, ForkedFromVersion: v.ID,
	}
	assign(&p.Name, in.Name)
	switch {
	case from.Partial && in.VirtualKey != nil:
		return nil, nil, invalid("virtual_key", "a partial has none")
	case from.Partial:
		err = c.applyPartial(p, &copied, in.CollectionID)
	default:
		if in.VirtualKey != nil {
			copied.VirtualKey = *in.VirtualKey
		} else if copied.VirtualKey, err = c.counterpart(from.WorkspaceID, content.VirtualKey, w.ID); err != nil {
			return nil, nil, err
		}
		err = c.applyPrompt(p, &copied, &PromptFields{CollectionID: in.CollectionID})
	}
	if err != nil {
		return nil, nil, err
	}
	if err := promptError(c.api.Prompts.Add(c.tx, p, &copied)); err != nil {
		return nil, nil, err
	}
	object := "prompt"
	if p.Partial {
		object = "partial"
	}
	return p, &createdPrompt{p.ID, p.Slug, p.Latest().ID, object}, nil
}

// counterpart returns what answers the completions of a prompt of a workspace in another one: the
// same provider of the operator, or a provider of the same integration.
func (c *call) counterpart(from, name, to string) (string, error) {
	slug := strings.TrimPrefix(name, "@")
	if from == to || c.mayUse(from, slug) && c.mayUse(to, slug) {
		return name, nil
	}
	if v, ok := c.api.Keyring.VirtualKey(from, slug); ok && v.IntegrationID != "" {
		for _, other := range c.api.Keyring.ProvidersOf(v.IntegrationID) {
			if other.WorkspaceID == to {
				return other.Slug, nil
			}
		}
	}
	return "", invalid("virtual_key", "the workspace has no provider of the integration that the prompt is for; name another one of its own")
}
