package manifest

import (
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/policies"
)

var slug = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func checkSlug(s string) error {
	if _, err := uuid.Parse(s); err == nil || !slug.MatchString(s) {
		return wrong("slug", "expected letters, digits, - and _, and no UUID, by which objects are found too")
	}
	return nil
}

func checkSlugIn(s, workspace string) error {
	if workspace == "" {
		return wrong("workspace_id", "required")
	}
	return checkSlug(s)
}

func checkPolicy(p *policies.Policy, err error) error {
	if err == nil && p.WorkspaceID == "" {
		return wrong("workspace_id", "required")
	}
	return documented(err)
}

// documented names the field of a limit that is refused as documents do.
func documented(err error) error {
	field := new(policies.FieldError)
	if !errors.As(err, &field) {
		return err
	}
	names := strings.NewReplacer("usage_limits.credit_limit", "budget.limit", "usage_limits.", "budget.", "rate_limits[", "rates[", "credit_limit", "limit")
	return wrong(names.Replace(field.Field), "%s", field.Message)
}

func checkSecretReference(x *session, r, _ *credentials.SecretReference) error {
	switch {
	case r.Path == "" || len(r.Path) > maxText:
		return wrong("path", "expected 1 to %d bytes", maxText)
	case len(r.Key) > maxName:
		return wrong("key", "expected at most %d bytes", maxName)
	case r.AllWorkspaces && len(r.Workspaces) > 0:
		return wrong("everywhere", "expected false with workspaces")
	case !r.AllWorkspaces && len(r.Workspaces) == 0 && !x.allowMissing: // those that it had may be gone
		return wrong("workspaces", "expected at least one where everywhere is false%s", allowing)
	}
	if err := credentials.CheckTags(r.Tags); err != nil {
		return wrong("tags", "%v", err)
	}
	return checkSlug(r.Slug)
}

// guardrailRefs are the guardrails of all calls.
func guardrailRefs(g *directory.Guardrails) (all []ref) {
	for _, list := range g.Lists() {
		for n, id := range *list.IDs {
			all = append(all, ref{fmt.Sprintf("guardrails.%s[%d]", list.Member, n), "guardrails", id})
		}
	}
	return all
}

func checkUser(_ *session, u, _ *directory.User) error {
	if at, err := mail.ParseAddress(u.Email); err != nil || at.Address != u.Email || u.Email != strings.ToLower(u.Email) {
		return wrong("email", "expected an address in lower case")
	}
	if !u.Role.Valid() {
		return wrong("role", "expected owner, admin or member")
	}
	return nil
}
