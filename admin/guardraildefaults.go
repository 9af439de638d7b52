package admin

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/routing"
)

// maxDefaults is how many guardrails may apply to all calls, in each phase.
const maxDefaults = 20

// OrganisationDefaults are what applies to the calls of all workspaces.
type OrganisationDefaults struct {
	Start  []GuardrailIDs `json:"start_hooks"`
	Input  []GuardrailIDs `json:"input_guardrails"`
	Output []GuardrailIDs `json:"output_guardrails"`

	MCPInput  []GuardrailIDs `json:"mcp_input_guardrails"`
	MCPOutput []GuardrailIDs `json:"mcp_output_guardrails"`
}

// GuardrailIDs are the names of a guardrail.
type GuardrailIDs struct {
	ID   string `json:"id" format:"uuid"`
	Slug string `json:"slug"`
}

// GuardrailLists are the guardrails of all calls in a request: of a workspace, or of the organisation.
type GuardrailLists struct {
	Start     Optional[[]string] `json:"start_hooks,omitempty" doc:"Ids or slugs of guardrails that run at the start of every call, whatever its endpoint, those of the organisation first; no workspace is excluded."`
	Input     Optional[[]string] `json:"input_guardrails,omitempty" doc:"Ids or slugs of the guardrails of all calls, in the order in which they run: the organisation's, and of a workspace also its own. A list that is left out is kept; null clears it."`
	Output    Optional[[]string] `json:"output_guardrails,omitempty" doc:"The same for answers."`
	MCPInput  Optional[[]string] `json:"mcp_input_guardrails,omitempty" doc:"The same for arguments of MCP tools, which the gateway does not call yet."`
	MCPOutput Optional[[]string] `json:"mcp_output_guardrails,omitempty" doc:"The same for their results."`
}

// sent returns the lists of a request, in the order of [directory.Guardrails.Lists].
func (in *GuardrailLists) sent() [5]Optional[[]string] {
	return [...]Optional[[]string]{in.Start, in.Input, in.Output, in.MCPInput, in.MCPOutput}
}

// clear clears all lists.
func (in *GuardrailLists) clear() {
	none := Optional[[]string]{Set: true, Null: true}
	*in = GuardrailLists{none, none, none, none, none}
}

// phases are those in which the lists are judged, in the same order.
var phases = [...]guardrails.Phase{guardrails.Start, guardrails.Input, guardrails.Output, guardrails.Input, guardrails.Output}

type updateOrganisationDefaults struct {
	GuardrailLists
	OrganisationID string `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's, which it is anyway."`
}

// Exclusions are the workspaces with whether the organisation's guardrails apply to them.
type Exclusions struct {
	Workspaces []Exclusion `json:"workspaces"`
}

// Exclusion says of a workspace that it is excluded, or not.
type Exclusion struct {
	WorkspaceID string `json:"workspace_id"`
	Excluded    bool   `json:"excluded"`
}

type updateExclusions struct {
	OrganisationID   string      `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's, which it is anyway."`
	Workspaces       []Exclusion `json:"workspaces" minItems:"1" maxItems:"1000" nullable:"false" doc:"By their ids or slugs."`
	OverrideExisting flag        `json:"override_existing,omitempty" doc:"Whether workspaces that are not named are excluded no longer."`
}

type exclusionQuery struct {
	OrganisationID string `query:"organisation_id" maxLength:"255" doc:"The caller's, which it is anyway."`
}

func (a *API) guardrailDefaults() {
	defaults := &resource[directory.Organisation]{
		path: "/admin/organisation/defaults", noun: "organisation's defaults", kind: audit.Organisations, scope: "organisation_settings",
		find: func(c *call, _ string) (*directory.Organisation, error) { return c.api.Directory.Organisation(), nil },
		name: func(o *directory.Organisation) string { return o.ID },
	}
	get(a, defaults, func(c *call, o *directory.Organisation) OrganisationDefaults {
		g := &o.Guardrails
		return OrganisationDefaults{
			Start: c.guardrailIDs(g.Start), Input: c.guardrailIDs(g.Input), Output: c.guardrailIDs(g.Output),
			MCPInput: c.guardrailIDs(g.MCPInput), MCPOutput: c.guardrailIDs(g.MCPOutput),
		}
	})
	update(a, defaults, func(c *call, o *directory.Organisation, in *updateOrganisationDefaults) error {
		if err := c.ownOrganisation(in.OrganisationID); err != nil {
			return err
		}
		if err := c.applyGuardrails(&o.Guardrails, "", "", &in.GuardrailLists); err != nil {
			return err
		}
		return c.api.Directory.ReplaceOrganisation(c.tx, o)
	})
	a.exclusions("input-guardrails", func(w *directory.Workspace) *bool { return &w.Excluded.Input })
	a.exclusions("output-guardrails", func(w *directory.Workspace) *bool { return &w.Excluded.Output })
}

// exclusions adds the routes that say which workspaces are excluded from the guardrails of the
// organisation, in a phase.
func (a *API) exclusions(which string, of func(*directory.Workspace) *bool) {
	path := "/workspace-exclusions/" + which
	show := func(c *call) Exclusions {
		out := Exclusions{[]Exclusion{}}
		for _, w := range c.api.Directory.Workspaces() {
			out.Workspaces = append(out.Workspaces, Exclusion{w.ID, *of(w)})
		}
		return out
	}
	register(a, route{method: http.MethodGet, path: path, kind: audit.Exclusions, scopes: []string{"organisation_exclusions.list"}, summary: "List the workspaces with whether they are excluded"}, func(c *call, in *exclusionQuery) (*output[Exclusions], error) {
		if err := c.ownOrganisation(in.OrganisationID); err != nil {
			return nil, err
		}
		return &output[Exclusions]{show(c)}, nil
	})
	change(a, route{method: http.MethodPut, path: path, kind: audit.Exclusions, scopes: []string{"organisation_exclusions.update"}, summary: "Say which workspaces are excluded"}, func(c *call, in *bodyInput[updateExclusions]) (*Exclusions, edit, error) {
		if err := c.ownOrganisation(in.Body.OrganisationID); err != nil {
			return nil, edit{}, err
		}
		excluded := func() map[string]any {
			is := make(map[string]any)
			for _, e := range show(c).Workspaces {
				is[e.WorkspaceID] = e.Excluded
			}
			return map[string]any{"excluded": is}
		}
		before := excluded()
		c.record.Resource = which
		named := make(map[string]bool)
		for i, e := range in.Body.Workspaces {
			w, ok := c.api.Directory.Workspace(e.WorkspaceID)
			if !ok {
				return nil, edit{}, unknownReference(fmt.Sprintf("workspaces[%d].workspace_id", i), "there is no workspace %q", credentials.Clip(e.WorkspaceID))
			}
			if _, twice := named[w.ID]; twice {
				return nil, edit{}, invalid(fmt.Sprintf("workspaces[%d].workspace_id", i), "given twice")
			}
			named[w.ID] = e.Excluded
		}
		for _, w := range c.api.Directory.Workspaces() {
			excluded, given := named[w.ID]
			if !given && !bool(in.Body.OverrideExisting) || *of(w) == excluded {
				continue
			}
			changed := *w
			*of(&changed) = excluded
			if err := c.api.Directory.ReplaceWorkspace(c.tx, &changed); err != nil {
				return nil, edit{}, err
			}
		}
		v := show(c)
		return &v, edit{before, excluded()}, nil
	})
}

// ownOrganisation returns an error if another organisation than the caller's is named.
func (c *call) ownOrganisation(id string) error {
	if id != "" && id != c.caller.OrganisationID {
		return forbidden("organisation_id: the %s belongs to another organisation", c.credential())
	}
	return nil
}

// guardrailIDs are the names of guardrails that are there.
func (c *call) guardrailIDs(ids []string) []GuardrailIDs {
	all := []GuardrailIDs{}
	for _, id := range ids {
		if g, ok := c.api.Guardrails.Get(id); ok {
			all = append(all, GuardrailIDs{g.ID, g.Slug})
		}
	}
	return all
}

// guardrailSlugs are the slugs of guardrails that are there.
func (c *call) guardrailSlugs(ids []string) (slugs []string) {
	for _, g := range c.guardrailIDs(ids) {
		slugs = append(slugs, g.Slug)
	}
	return slugs
}

// defaultGuardrails returns the ids of the guardrails that a list names, which apply to all calls of
// a workspace, or for "" of the organisation.
func (c *call) defaultGuardrails(field, workspace string, phase guardrails.Phase, named []string) (ids []string, err error) {
	if len(named) > maxDefaults {
		return nil, invalid(field, "expected at most %d guardrails", maxDefaults)
	}
	whose := "the workspace"
	if workspace == "" {
		whose = "the organisation"
	}
	for i, name := range named {
		g, ok := c.api.Guardrails.Usable(workspace, name)
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !ok:
			return nil, unknownReference(at, "%s has no guardrail %q", whose, credentials.Clip(name))
		case slices.Contains(ids, g.ID):
			return nil, invalid(at, "given twice")
		}
		h, err := c.api.Guardrails.Hook(workspace, name, "")
		if err != nil {
			return nil, err
		}
		if why := h.Misplaced(phase); why != "" {
			return nil, invalid(at, "%s", why)
		}
		ids = append(ids, g.ID)
	}
	return ids, nil
}

// applyGuardrails applies the guardrails of all calls of a workspace, or for "" of the organisation. The names of their fields begin with
// inside.
func (c *call) applyGuardrails(g *directory.Guardrails, workspace, inside string, in *GuardrailLists) error {
	sent := in.sent()
	for i, list := range g.Lists() {
		if !sent[i].Set {
			continue
		}
		ids, err := c.defaultGuardrails(inside+list.Field, workspace, phases[i], sent[i].Value)
		if err != nil {
			return err
		}
		*list.IDs = ids
	}
	return nil
}

// misplacedGuardrail returns an error if what a guardrail is to say has checks that never judge where configs, workspaces
// or the organisation use it.
func (c *call) misplacedGuardrail(g *hooks.Guardrail, text *hooks.Text) error {
	h := hooks.Saved(text.Checks, text.Actions, hooks.Options{Broken: true}, func(string, string) {})
	why := ""
	never := func(phase guardrails.Phase) bool {
		said := h.Misplaced(phase)
		if why == "" {
			why = said
		}
		return said != ""
	}
	uses := func(of directory.Guardrails) bool {
		for i, list := range of.Lists() {
			if slices.Contains(*list.IDs, g.ID) && never(phases[i]) {
				return true
			}
		}
		return false
	}
	if uses(c.api.Directory.Organisation().Guardrails) {
		return invalid("checks", "the defaults of the organisation use the guardrail: %s", why)
	}
	for _, w := range c.api.Directory.Workspaces() {
		if uses(w.Guardrails) {
			return invalid("checks", "the defaults of the workspace %s use the guardrail: %s", w.Slug, why)
		}
	}
	if h.Misplaced(guardrails.Start) == "" && h.Misplaced(guardrails.Input) == "" && h.Misplaced(guardrails.Output) == "" {
		return nil
	}
	by := users{of: everywhere}
	err := c.configsThat(&by, usedBy(g), func(r routing.Reference) bool {
		return r.Guardrail && r.Version == "" && names(r.Name, g.Slug, g.ID) && never(r.Phase)
	})
	if err != nil || inUse("guardrail", by) == nil {
		return err
	}
	return invalid("checks", "configs use the guardrail: %s", why)
}

// usedBy are the workspaces whose configs may name a guardrail.
func usedBy(g *hooks.Guardrail) func(workspace string) bool {
	if g.WorkspaceID != "" {
		return only(g.WorkspaceID)
	}
	return everywhere
}
