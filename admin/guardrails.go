package admin

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
)

// GuardrailSummary is a saved guardrail in a list.
type GuardrailSummary struct {
	ID             string  `json:"id" format:"uuid"`
	Slug           string  `json:"slug"`
	Name           string  `json:"name"`
	OrganisationID string  `json:"organisation_id" format:"uuid"`
	WorkspaceID    *string `json:"workspace_id" doc:"null: it is the organisation's, whose workspaces may all use it."`
	Target         string  `json:"target" enum:"llm"`
	Status         string  `json:"status" enum:"active"`
	OwnerID        *string `json:"owner_id"`
	UpdatedBy      *string `json:"updated_by"`
	CreatedAt      string  `json:"created_at" format:"date-time"`
	LastUpdatedAt  string  `json:"last_updated_at" format:"date-time"`
	Object         string  `json:"object" enum:"guardrail"`
}

// Guardrail is a version of a saved guardrail.
type Guardrail struct {
	GuardrailSummary
	Checks    objects `json:"checks" doc:"Credentials in it are masked."`
	Actions   object  `json:"actions"`
	VersionID string  `json:"version_id" format:"uuid"`
	Version   int     `json:"version" doc:"Counted from 1."`
}

// guardrailChecks is a list of checks. The handler reports what is wrong with one.
type guardrailChecks objects

func (o *guardrailChecks) UnmarshalJSON(b []byte) error { return keepJSON((*[]byte)(o), b) }

func (guardrailChecks) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Description: "id, parameters and is_enabled; see guardrails.md.",
	}}
}

// GuardrailFields are the fields of both create and update.
type GuardrailFields struct {
	Checks  *guardrailChecks `json:"checks,omitempty" doc:"At least one. Credentials that are sent as they are shown are kept."`
	Actions *object          `json:"actions,omitempty" doc:"What follows from the verdict: deny, async, on_success, on_fail and the other settings of a hook."`
}

type createGuardrail struct {
	GuardrailFields
	Name           string `json:"name" minLength:"1" maxLength:"255"`
	Target         string `json:"target,omitempty" enum:"llm,mcp_tools" doc:"What it judges. Only llm, the default, is supported."`
	WorkspaceID    string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; default: the caller's workspace, or the organisation."`
	OrganisationID string `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's, which it is anyway."`
}

type updateGuardrail struct {
	GuardrailFields
	Name      *string `json:"name,omitempty" minLength:"1" maxLength:"255"`
	VersionID string  `json:"version_id,omitempty" maxLength:"255" doc:"Rolls back: what this version says, by its id or number, becomes the newest one. With checks or actions, it is the newest one, as it is shown."`
}

// savedGuardrail is the response to a write.
type savedGuardrail struct {
	ID        string `json:"id" format:"uuid"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id" format:"uuid"`
	Object    string `json:"object" enum:"guardrail"`
}

// guardrailList holds the query parameters of the list.
type guardrailList struct {
	WholePages
	InWorkspace
	OrganisationID string `query:"organisation_id" maxLength:"255" doc:"The caller's, which it is anyway."`
	IDs            string `query:"ids" maxLength:"65536" doc:"Only those with these ids or slugs, with commas between them."`
	ID             string `query:"id" maxLength:"255" doc:"Only the one with this id or slug."`
	Target         string `query:"target" maxLength:"255" doc:"Only those that judge one of these, with commas between them: llm, mcp_tools."`
	Search         string `query:"search" maxLength:"255" doc:"Only those with this in their name or slug."`
}

// guardrailScope is the scope for an action on a guardrail of a workspace, or for "" of the
// organisation.
func guardrailScope(workspace, action string) string {
	if workspace == "" {
		return "organisation_guardrails." + action
	}
	return "guardrails." + action
}

func (a *API) guardrails() {
	all := &resource[hooks.Guardrail]{
		path: "/guardrails", param: "guardrailId", noun: "guardrail", kind: audit.Guardrails,
		scopes: func(action string) []string {
			return []string{guardrailScope("w", action), guardrailScope("", action)}
		},
		rows: func(c *call) []*hooks.Guardrail { return c.api.Guardrails.All() },
		find: func(c *call, id string) (*hooks.Guardrail, error) { return found(c.api.Guardrails.Get(id)) },
		name: func(g *hooks.Guardrail) string { return g.Slug },
		secrets: func(c *call, g *hooks.Guardrail, is func(secret string, path ...string)) error {
			text, err := c.api.Guardrails.Text(g.Current())
			if err == nil {
				is(string(text.Checks), "checks")
			}
			return err
		},
		workspace: func(g *hooks.Guardrail) string { return g.WorkspaceID },
		allow: func(c *call, g *hooks.Guardrail, action string) error {
			if action == "invoke" {
				return c.need("guardrails.invoke")
			}
			return c.need(guardrailScope(g.WorkspaceID, action))
		},
		// Workspaces may name those of the organisation in their configs, and so try them.
		shared: func(_ *call, _ string, g *hooks.Guardrail, action string) bool {
			return action == "invoke" && g.WorkspaceID == ""
		},
	}
	create(a, all, (*call).createGuardrail)
	listChosen(a, all, (*call).chooseGuardrails, showGuardrail)
	read(a, all, "", "Get a guardrail", func(c *call, g *hooks.Guardrail) (*Guardrail, error) { return c.showGuardrailVersion(g, g.Current()) })
	versions(a, all, func(g *hooks.Guardrail) []hooks.Version { return g.Versions }, each((*call).showGuardrailVersion))
	version(a, all, (*hooks.Guardrail).Version, (*call).showGuardrailVersion)
	act(a, all, http.MethodPut, "", "update", "Update a guardrail; other checks or actions are a new version", (*call).updateGuardrail)
	remove(a, all, "Delete", func(c *call, g *hooks.Guardrail) error {
		if err := unused(c, "guardrail", g, dependentsOfGuardrails); err != nil {
			return err
		}
		return c.api.Guardrails.Delete(c.tx, g.ID)
	})
	invoke := all.routeOfOne(http.MethodPost, "/invoke", "invoke", "Try a guardrail on a text or on messages")
	invoke.scopes, invoke.data = []string{"guardrails.invoke"}, true
	register(a, invoke, func(c *call, in *itemBodyInput[invokeGuardrail]) (*output[GuardrailVerdict], error) {
		g, err := all.one(c, &in.item, "invoke")
		if err != nil {
			return nil, err
		}
		v, err := c.invokeGuardrail(g, &in.Body)
		if err != nil {
			return nil, err
		}
		return &output[GuardrailVerdict]{*v}, nil
	})
}

// chooseGuardrails implements the filters of the list. Only a search looks at every guardrail.
func (c *call) chooseGuardrails(workspace string, f *guardrailList) (chosen choice[hooks.Guardrail], err error) {
	if f.Target != "" && !slices.Contains(strings.Split(f.Target, ","), "llm") {
		return chosen, nil // all judge that
	}
	own, organisation := c.caller.May(guardrailScope("w", "list")), c.caller.May(guardrailScope("", "list"))
	switch {
	case f.IDs != "" || f.ID != "":
		if chosen.rows, err = c.guardrailsNamed(f); err != nil {
			return chosen, err
		}
		chosen.foreign = true
		if f.IDs != "" && f.ID != "" {
			chosen.only(func(g *hooks.Guardrail) bool { return f.ID == g.ID || f.ID == g.Slug })
		}
		chosen.only(func(g *hooks.Guardrail) bool {
			return g.WorkspaceID == "" && organisation || g.WorkspaceID != "" && own
		})
	case workspace != "" && own:
		chosen.rows = c.api.Guardrails.OfWorkspace(workspace)
	case workspace == "" && own && organisation:
		chosen.rows = c.api.Guardrails.All()
	case workspace == "" && own:
		chosen.rows = c.api.Guardrails.OfWorkspaces()
	case workspace == "" && organisation:
		chosen.rows = c.api.Guardrails.OfWorkspace("")
	}
	chosen.search(f.Search, func(g *hooks.Guardrail) []string { return []string{g.Name, g.Slug} })
	return chosen, nil
}

// slugOrID matches what can be the id or the slug of a guardrail.
var slugOrID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,255}$`)

// guardrailsNamed returns the guardrails that a list of ids and slugs names, in the order of their creation.
func (c *call) guardrailsNamed(f *guardrailList) ([]*hooks.Guardrail, error) {
	field, list := "ids", f.IDs
	if list == "" {
		field, list = "id", f.ID
	}
	var named []*hooks.Guardrail
	for id := range strings.SplitSeq(list, ",") {
		if id = strings.TrimSpace(id); !slugOrID.MatchString(id) {
			return nil, invalid(field, "expected ids or slugs separated by commas, got %q", credentials.Clip(id))
		}
		if g, ok := c.api.Guardrails.Get(id); ok {
			named = append(named, g)
		}
	}
	return inOrder(func(g *hooks.Guardrail) string { return g.ID }, named), nil
}

func showGuardrail(_ *call, g *hooks.Guardrail) GuardrailSummary {
	return GuardrailSummary{
		ID: g.ID, Slug: g.Slug, Name: g.Name, OrganisationID: g.OrganisationID, WorkspaceID: text(g.WorkspaceID), Target: "llm", Status: "active",
		OwnerID: text(g.OwnerID), UpdatedBy: text(g.UpdatedBy), CreatedAt: formatTime(g.CreatedAt), LastUpdatedAt: formatTime(g.UpdatedAt),
		Object: "guardrail",
	}
}

func (c *call) showGuardrailVersion(g *hooks.Guardrail, v *hooks.Version) (*Guardrail, error) {
	text, err := c.api.Guardrails.Text(v)
	if err != nil {
		return nil, err
	}
	if err := c.reserve(len(text.Checks) + len(text.Actions)); err != nil {
		return nil, err
	}
	return &Guardrail{showGuardrail(c, g), objects(maskChecks(text.Checks)), object(text.Actions), v.ID, v.Number}, nil
}

func savedAs(g *hooks.Guardrail) *savedGuardrail {
	return &savedGuardrail{g.ID, g.Slug, g.Current().ID, "guardrail"}
}

func (c *call) createGuardrail(in *createGuardrail) (*hooks.Guardrail, *savedGuardrail, error) {
	g := &hooks.Guardrail{Name: in.Name, OrganisationID: c.caller.OrganisationID, OwnerID: c.caller.UserID}
	switch {
	case in.Target == "mcp_tools":
		return nil, nil, invalid("target", "guardrails of MCP tools are not supported yet; expected llm")
	case in.OrganisationID != "" && in.OrganisationID != c.caller.OrganisationID:
		return nil, nil, forbidden("organisation_id: the %s belongs to another organisation", c.credential())
	case in.Checks == nil:
		return nil, nil, invalid("checks", "required: an array of at least one check")
	}
	if in.WorkspaceID != "" || c.caller.WorkspaceID != "" {
		w, err := c.workspace(in.WorkspaceID)
		if err != nil {
			return nil, nil, err
		}
		g.WorkspaceID = w.ID
	}
	if err := c.need(guardrailScope(g.WorkspaceID, "create")); err != nil {
		return nil, nil, err
	}
	g.Slug = directory.NewSlug(c.api.Random, "pg", in.Name)
	text, err := c.guardrailText(&in.GuardrailFields, hooks.Text{Actions: []byte("{}")})
	if err != nil {
		return nil, nil, err
	}
	if err := c.api.Guardrails.Put(c.tx, g, text, c.caller.KeyID); err != nil {
		return g, nil, err
	}
	return g, savedAs(g), nil
}

func (c *call) updateGuardrail(g *hooks.Guardrail, in *updateGuardrail) (*savedGuardrail, error) {
	assign(&g.Name, in.Name)
	text, err := c.nextGuardrailText(g, in)
	if err != nil {
		return nil, err
	}
	if text != nil {
		if err := c.misplacedGuardrail(g, text); err != nil {
			return nil, err
		}
	}
	if err := c.api.Guardrails.Put(c.tx, g, text, c.caller.KeyID); err != nil {
		return nil, err
	}
	return savedAs(g), nil
}

// nextGuardrailText returns what the version says that an update creates; nil: it creates none.
func (c *call) nextGuardrailText(g *hooks.Guardrail, in *updateGuardrail) (*hooks.Text, error) {
	changes := in.Checks != nil || in.Actions != nil
	old := g.Current()
	switch {
	case changes && in.VersionID != "" && in.VersionID != old.ID: // which a client sends back as it was shown
		return nil, invalid("version_id", "expected either checks and actions or version_id, not both")
	case !changes && in.VersionID != "":
		var ok bool
		if old, ok = g.Version(in.VersionID); !ok {
			return nil, unknownReference("version_id", "the guardrail has no version %q", credentials.Clip(in.VersionID))
		}
	case !changes:
		return nil, nil //nolint:nilnil // it creates no version
	}
	text, err := c.api.Guardrails.Text(old)
	if err != nil {
		return nil, err
	}
	sent, err := c.guardrailText(&in.GuardrailFields, text)
	if err == nil && changes && string(sent.Checks) == string(text.Checks) && string(sent.Actions) == string(text.Actions) { // as it was shown
		return nil, nil //nolint:nilnil // likewise
	}
	return sent, err
}

// guardrailText returns what is sent of a guardrail, and for the rest what it was, if that is valid.
// The error lists everything that is wrong.
func (c *call) guardrailText(in *GuardrailFields, old hooks.Text) (*hooks.Text, error) {
	text := old
	if in.Checks != nil {
		if len(*in.Checks) == 0 {
			return nil, invalid("checks", "expected an array of at least one check")
		}
		var err error
		if text.Checks, err = unmaskChecks(*in.Checks, old.Checks); err != nil {
			return nil, err
		}
	}
	if in.Actions != nil {
		text.Actions = []byte("{}")
		if *in.Actions != nil {
			text.Actions = []byte(*in.Actions)
		}
	}
	var faults []string
	hooks.Saved(text.Checks, text.Actions, hooks.Options{CheckHost: c.api.ParseOptions.CheckHost}, func(path, message string) {
		if len(faults) < maxListed {
			faults = append(faults, path+": "+message)
		}
	})
	if len(faults) > 0 {
		return nil, failure(http.StatusBadRequest, "%s", strings.Join(faults, "; "))
	}
	return &text, nil
}
