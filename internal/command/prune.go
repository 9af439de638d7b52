package command

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/manifest"
)

type prunable struct {
	kind audit.Type
	path string
}

// pruned are the types of what import --prune deletes, each before those that it may refer to, and where they are in the API. What has
// limits is not deleted for their sake, plugins are only replaced, and the organisation stays.
var pruned = []prunable{
	{audit.APIKeys, "/api-keys/"},
	{audit.Invites, "/admin/users/invites/"},
	{audit.UsageLimits, "/policies/usage-limits/"},
	{audit.RateLimits, "/policies/rate-limits/"},
	{audit.ModelAliases, "/model-aliases/"},
	{audit.Configs, "/configs/"},
	{audit.Prompts, "/prompts/"},
	{audit.Partials, "/prompts/partials/"},
	{audit.Labels, "/labels/"},
	{audit.Collections, "/collections/"},
	{audit.Guardrails, "/guardrails/"},
	{audit.Providers, "/providers/"},
	{audit.VirtualKeys, "/virtual-keys/"},
	{audit.Integrations, "/integrations/"},
	{audit.SecretReferences, "/secret-references/"},
	{audit.Members, "/admin/workspaces/"},
	{audit.Users, "/admin/users/"},
	{audit.Workspaces, "/admin/workspaces/"},
}

// surplus returns what the store has and a document has not, of the kinds that the document has, in the order in which it is deleted.
func surplus(document, report gjson.Result) []gjson.Result {
	rank := func(o gjson.Result) int {
		return slices.IndexFunc(pruned, func(p prunable) bool { return string(p.kind) == o.Get("type").Str })
	}
	all := slices.DeleteFunc(report.Get("others").Array(), func(o gjson.Result) bool {
		return rank(o) < 0 || o.Get("archived").Bool() || !document.Get(gjson.Escape(o.Get("kind").Str)).Exists()
	})
	slices.SortStableFunc(all, func(a, b gjson.Result) int { return rank(a) - rank(b) })
	return all
}

// prune deletes objects by the API, whose rules hold: what others use, the last owner and the default workspace stay.
func prune(ctx context.Context, s *server, objects []gjson.Result) error {
	var home string // the id of the default workspace
	for _, o := range objects {
		id, kind := o.Get("id").Str, audit.Type(o.Get("type").Str)
		at := slices.IndexFunc(pruned, func(p prunable) bool { return p.kind == kind })
		path, body := pruned[at].path+url.PathEscape(id), any(nil)
		switch kind {
		case audit.Workspaces:
			w, err := s.do(ctx, http.MethodGet, "/gw/v1"+path, nil)
			if err != nil {
				return err
			}
			body = map[string]string{"name": w.Get("name").Str}
		case audit.Members:
			workspace, user, _ := strings.Cut(id, "/")
			if workspace == manifest.DefaultWorkspace {
				if home == "" {
					all, err := s.list(ctx, "/admin/workspaces")
					if err != nil {
						return err
					}
					for _, w := range all {
						if w.Get("is_default").Int() == 1 {
							home = w.Get("id").Str
						}
					}
				}
				workspace = home
			}
			path = pruned[at].path + url.PathEscape(workspace) + "/users/" + url.PathEscape(user)
		}
		if _, err := s.do(ctx, http.MethodDelete, "/gw/v1"+path, body); err != nil {
			return fmt.Errorf("deleting %s %s (%s): %w", o.Get("kind").Str, o.Get("name").Str, id, err)
		}
	}
	return nil
}

// importAndPrune imports a document, and then deletes what the store has besides it.
func importAndPrune(ctx context.Context, s *server, q *app.ImportQuestion) (report gjson.Result, gone []gjson.Result, err error) {
	q.AllOthers = true
	if report, err = s.do(ctx, http.MethodPost, "/gw/import", q); err != nil {
		return report, nil, err
	}
	gone = surplus(gjson.ParseBytes(q.Document), report)
	if q.DryRun {
		return report, gone, nil
	}
	return report, gone, prune(ctx, s, gone)
}
