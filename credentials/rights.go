package credentials

import (
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/internal/roles"
)

// Rights are what a user may do, which follows from the user's roles.
type Rights struct {
	Organisation roles.Organisation
	Workspace    roles.Workspace // in the caller's workspace; "": none

	// Only limits what the roles give to these scopes, unless it is nil.
	Only []string

	// On reports whether a security setting is on in the caller's workspace.
	On func(setting string) bool
}

// May reports whether the roles give a scope.
func (r *Rights) May(scope string) bool {
	switch {
	case r.Only != nil && !slices.Contains(r.Only, scope):
		return false
	case !mayCreate(r.Organisation, r.Workspace, scope):
		return false
	case r.Organisation.Administers():
		return holdersOf[scope] != 0
	case !r.Workspace.Valid() || !WorkspaceService.MayHold(scope):
		return false
	case r.Workspace == roles.WorkspaceAdmin:
		return true
	}
	if gates := roles.Gates(r.Workspace, scope); len(gates) > 0 {
		return slices.ContainsFunc(gates, r.On)
	}
	return r.Workspace == roles.WorkspaceManager || ofMembers(scope)
}

// ofMembers reports whether members of a workspace have a scope that no setting gives: they
// read, and make calls.
func ofMembers(scope string) bool {
	switch scope {
	case ScopeCompletions, "logs.write", "feedbacks.write":
		return true
	}
	_, action, _ := strings.Cut(scope, ".")
	switch action {
	case "read", "list", "view", "invoke", "render":
		return true
	}
	return false
}
