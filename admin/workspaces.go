package admin

import (
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/directory"
)

// Workspace is a workspace as the control plane shows it.
type Workspace struct {
	ID            string  `json:"id" format:"uuid"`
	Slug          string  `json:"slug"`
	Name          string  `json:"name"`
	Description   *string `json:"description"`
	CreatedAt     string  `json:"created_at" format:"date-time"`
	LastUpdatedAt string  `json:"last_updated_at" format:"date-time"`
	IsDefault     int     `json:"is_default" enum:"0,1"`
	Defaults      *struct {
		Metadata map[string]string `json:"metadata"`
	} `json:"defaults"`
	UsageLimits []empty `json:"usage_limits"`
	RateLimits  []empty `json:"rate_limits"`
	Object      string  `json:"object" enum:"workspace"`
}

func showWorkspace(w *directory.Workspace) Workspace {
	out := Workspace{
		ID: w.ID, Slug: w.Slug, Name: w.Name,
		CreatedAt: formatTime(w.CreatedAt), LastUpdatedAt: formatTime(w.UpdatedAt),
		UsageLimits: []empty{}, RateLimits: []empty{}, Object: "workspace",
	}
	if w.Description != "" {
		out.Description = &w.Description
	}
	if w.Default {
		out.IsDefault = 1
	}
	return out
}

func (a *API) workspaces() {
	register(a, route{
		method: http.MethodGet, path: "/admin/workspaces", alias: "/v2/workspaces", scopes: []string{"workspaces.list"}, summary: "List workspaces",
	}, func(c *call, in *struct {
		Paging
		Name      string `query:"name" doc:"Only workspaces of this name."`
		ExactName string `query:"exact_name" doc:"Only workspaces of this name."`
		Status    string `query:"status" enum:"active,archived"`
	},
	) (*listOutput[Workspace], error) {
		return list(c.api.Directory.Workspaces(), in.Paging, func(w *directory.Workspace) bool {
			return c.sees(w.ID) && in.Status != "archived" &&
				(in.Name == "" || strings.EqualFold(in.Name, w.Name)) && (in.ExactName == "" || in.ExactName == w.Name)
		}, showWorkspace), nil
	})

	register(a, route{
		method: http.MethodGet, path: "/admin/workspaces/{workspace_id}", alias: "/v2/workspaces/{workspace_id}",
		scopes: []string{"workspaces.read"}, summary: "Get a workspace by its id or slug",
	}, func(c *call, in *struct {
		ID string `path:"workspace_id"`
	},
	) (*struct{ Body Workspace }, error) {
		w, ok := c.api.Directory.Workspace(in.ID)
		if !ok || !c.sees(w.ID) {
			return nil, notFound("Workspace", in.ID)
		}
		return &struct{ Body Workspace }{showWorkspace(w)}, nil
	})
}
