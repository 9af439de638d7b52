package manifest

import (
	"context"
	"slices"

	"github.com/caddy-gw/gateway/internal/audit"
)

// pruned are the types of what an import deletes, each before those that it may refer to. What has limits is not deleted for their
// sake, plugins are only replaced, and the organisation stays.
var pruned = []audit.Type{
	audit.APIKeys, audit.Invites, audit.UsageLimits, audit.RateLimits, audit.ModelAliases, audit.Configs, audit.Prompts, audit.Partials, audit.Labels,
	audit.Collections, audit.Guardrails, audit.Providers, audit.VirtualKeys, audit.Integrations, audit.SecretReferences, audit.Members, audit.Users, audit.Workspaces,
}

// surplus returns what the store has and a document has not, of the kinds that the document has, in the order in which it is deleted. The
// default workspace is none of it: no store is without.
func surplus(in *Import, others []Other) []Other {
	if in.Delete == nil {
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(others), func(o Other) bool {
		_, has := in.Document[o.Kind]
		return !has || o.Archived || o.Kind == "workspaces" && o.ID == DefaultWorkspace || !slices.Contains(pruned, o.Type)
	})
	slices.SortStableFunc(all, func(a, b Other) int { return slices.Index(pruned, a.Type) - slices.Index(pruned, b.Type) })
	return all
}

// prune deletes objects, those that others of the same type refer to after these, and returns them in their order, with those that cannot be
// deleted.
func prune(ctx context.Context, objects []Other, drop func(context.Context, *Other) error) (gone []Other, refused []Refusal) {
	for left := objects; len(left) > 0; {
		var again []Other
		refused = nil
		for _, o := range left {
			if err := drop(ctx, &o); err != nil {
				again, refused = append(again, o), append(refused, Refusal{o, err.Error()})
				continue
			}
			gone = append(gone, o)
		}
		if len(again) == len(left) {
			break
		}
		left = again
	}
	return gone, refused
}
