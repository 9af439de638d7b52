package admin

import (
	"net/http"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
)

// Self is who makes a request without an API key.
type Self struct {
	Object         string    `json:"object" enum:"auth"`
	Type           string    `json:"type" enum:"jwt"`
	OrganisationID string    `json:"organisation_id" format:"uuid"`
	WorkspaceID    *string   `json:"workspace_id" doc:"That of the requests; null: the organisation."`
	WorkspaceSlug  *string   `json:"workspace_slug"`
	User           *signedIn `json:"user" doc:"Null: the JWT names no user of the organisation."`
	Subject        string    `json:"subject" doc:"What the JWT calls its user."`
	Scopes         []string  `json:"scopes"`
	ExpiresAt      string    `json:"expires_at" format:"date-time" doc:"When the JWT does."`
}

type signedIn struct {
	ID            string  `json:"id" format:"uuid"`
	Email         string  `json:"email" format:"email"`
	FirstName     string  `json:"first_name"`
	LastName      string  `json:"last_name"`
	Role          string  `json:"role" enum:"owner,admin,member"`
	WorkspaceRole *string `json:"workspace_role" enum:"admin,manager,member" doc:"In the workspace of the requests."`
}

// self adds GET /auth/self, which says who makes the request. A key alone is refused.
func (a *API) self() {
	register(a, route{
		method: http.MethodGet, path: "/auth/self", kind: audit.Users, scopes: []string{"auth.read"}, anyone: true, summary: "Who makes the request: a user, or a JWT",
	}, func(c *call, _ *struct{}) (*output[Self], error) {
		who := c.caller
		if who.TokenExpires == nil {
			return nil, failure(http.StatusUnauthorized, "Unauthorised Request: expected a JWT; an API key alone is not a user")
		}
		out := Self{
			Object: "auth", Type: "jwt", OrganisationID: who.OrganisationID, Subject: who.KeyName, Scopes: []string{}, ExpiresAt: formatTime(*who.TokenExpires),
		}
		if w, ok := c.api.Directory.Workspace(who.WorkspaceID); ok {
			out.WorkspaceID, out.WorkspaceSlug = &w.ID, &w.Slug
		}
		if r := who.Rights; r != nil {
			if u, ok := c.api.Directory.User(who.UserID); ok {
				out.User = &signedIn{ID: u.ID, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), WorkspaceRole: text(string(r.Workspace))}
			}
		}
		for _, scope := range credentials.Scopes() {
			if who.May(scope) {
				out.Scopes = append(out.Scopes, scope)
			}
		}
		return &output[Self]{out}, nil
	})
}
