package app

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/manifest"
)

// paths are where what an import deletes is in the control plane, by the types of the audit trail.
var paths = map[audit.Type]string{
	audit.APIKeys:          "/api-keys/",
	audit.Invites:          "/admin/users/invites/",
	audit.UsageLimits:      "/policies/usage-limits/",
	audit.RateLimits:       "/policies/rate-limits/",
	audit.ModelAliases:     "/model-aliases/",
	audit.Configs:          "/configs/",
	audit.Prompts:          "/prompts/",
	audit.Partials:         "/prompts/partials/",
	audit.Labels:           "/labels/",
	audit.Collections:      "/collections/",
	audit.Guardrails:       "/guardrails/",
	audit.Providers:        "/providers/",
	audit.VirtualKeys:      "/virtual-keys/",
	audit.Integrations:     "/integrations/",
	audit.SecretReferences: "/secret-references/",
	audit.Members:          "/admin/workspaces/",
	audit.Users:            "/admin/users/",
	audit.Workspaces:       "/admin/workspaces/",
}

// remove deletes an object by the control plane, whose rules hold, for the operator who sent r.
func (rt *Runtime) remove(ctx context.Context, r *http.Request, o *manifest.Other) error {
	path, body := paths[o.Type]+url.PathEscape(o.ID), []byte(nil)
	switch o.Type {
	case audit.Workspaces:
		if w, ok := rt.Directory.Workspace(o.ID); ok {
			var err error
			if body, err = json.Marshal(map[string]string{"name": w.Name}); err != nil {
				return err
			}
		}
	case audit.Members:
		workspace, user, _ := strings.Cut(o.ID, "/")
		if workspace == manifest.DefaultWorkspace {
			workspace = rt.Directory.DefaultWorkspace().ID
		}
		path = paths[o.Type] + url.PathEscape(workspace) + "/users/" + url.PathEscape(user)
	}
	inner, err := http.NewRequestWithContext(admin.AsOperator(ctx), http.MethodDelete, "/v1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	inner.RemoteAddr = r.RemoteAddr
	inner.Header.Set("Content-Type", "application/json")
	inner.Header.Set("User-Agent", r.UserAgent())
	answer := new(Answer)
	rt.Admin.ServeHTTP(answer, inner)
	return answer.Err()
}
