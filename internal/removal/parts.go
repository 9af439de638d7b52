package removal

import (
	"context"

	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/stores"
	"github.com/caddy-gw/gateway/storage"
)

const (
	atOnce        = 100 // rows that a transaction removes
	promptsAtOnce = 4   // each has up to 200 versions
)

// Parts returns everything that workspaces have, apart from what disappears by itself: the
// records of their calls, cached answers and the counters of rate limits. A new kind of rows
// that belong to a workspace needs an entry here.
func Parts(db *storage.DB, s *stores.Set) []Part {
	byID := func(remove func(tx *storage.Txn, id string) error) func(*storage.Txn, string, string) error {
		return func(tx *storage.Txn, id, _ string) error { return remove(tx, id) }
	}
	return []Part{
		{
			Rows:  "API keys",
			Count: func(tx *storage.Txn, w string) int { n, _, _ := s.Keyring.In(tx).Counts(w); return n },
			Step:  rows(db, atOnce, s.Keyring.APIKeysOf, byID(s.Keyring.Revoke)),
		},
		{
			Rows:  "virtual keys and providers",
			Count: func(tx *storage.Txn, w string) int { _, n, _ := s.Keyring.In(tx).Counts(w); return n },
			Step:  rows(db, atOnce, s.Keyring.VirtualKeysOf, byID(s.Keyring.RemoveVirtualKey)),
		},
		{
			Rows:  "integrations", // what the organisation's say of the workspace does not count
			Count: func(tx *storage.Txn, w string) int { _, _, n := s.Keyring.In(tx).Counts(w); return n },
			Step:  rows(db, atOnce, s.Keyring.IntegrationsOf, s.Keyring.LeaveIntegration),
		},
		{
			Rows: "secret references",
			Step: rows(db, atOnce, s.Keyring.SecretReferencesOf, s.Keyring.LeaveSecretReference),
		},
		{
			Rows:  "configs",
			Count: func(tx *storage.Txn, w string) int { return s.Configs.In(tx).CountOf(w) },
			Step:  rows(db, atOnce, s.Configs.Of, byID(s.Configs.Delete)),
		},
		{
			Rows:  "model aliases",
			Count: func(tx *storage.Txn, w string) int { return s.Aliases.In(tx).CountOf(w) },
			Step:  rows(db, atOnce, s.Aliases.Of, byID(s.Aliases.Delete)),
		},
		{
			Rows:  "prompts and partials",
			Count: func(tx *storage.Txn, w string) int { n, _, _ := s.Prompts.In(tx).Counts(w); return n },
			Step: rows(db, promptsAtOnce, s.Prompts.Of, func(tx *storage.Txn, id, _ string) error {
				p, ok := s.Prompts.In(tx).Get(id)
				if !ok {
					return storage.ErrNotFound
				}
				return s.Prompts.Delete(tx, p)
			}),
		},
		{
			Rows:  "guardrails",
			Count: func(tx *storage.Txn, w string) int { return s.Guardrails.In(tx).CountOf(w) },
			Step:  rows(db, atOnce, s.Guardrails.Of, byID(s.Guardrails.Delete)),
		},
		{
			Rows:  "labels",
			Count: func(tx *storage.Txn, w string) int { _, n, _ := s.Prompts.In(tx).Counts(w); return n },
			Step: rows(db, atOnce, s.Prompts.LabelsOfWorkspace, func(tx *storage.Txn, id, _ string) error {
				l, ok := s.Prompts.In(tx).Label(id)
				if !ok {
					return storage.ErrNotFound
				}
				return s.Prompts.DeleteLabel(tx, l)
			}),
		},
		{
			Rows:  "collections",
			Count: func(tx *storage.Txn, w string) int { _, _, n := s.Prompts.In(tx).Counts(w); return n },
			Step:  rows(db, atOnce, s.Prompts.CollectionsOf, byID(s.Prompts.DeleteCollection)),
		},
		{
			Rows:  "rate-limit policies",
			Count: func(tx *storage.Txn, w string) int { return s.Limits.Rates.In(tx).CountOf(w) },
			Step:  policiesOf(db, s, s.Limits.Rates),
		},
		{
			Rows:  "usage-limit policies",
			Count: func(tx *storage.Txn, w string) int { return s.Limits.Budgets.In(tx).CountOf(w) },
			Step:  policiesOf(db, s, s.Limits.Budgets),
		},
		{
			Rows: "limits of the workspace, and of what it has",
			Step: carriedLimits(db, s),
		},
		{
			Rows: "members",
			Step: rows(db, atOnce, s.Directory.MembersOf, func(tx *storage.Txn, user, workspace string) error {
				return s.Directory.RemoveMember(tx, workspace, user)
			}),
		},
		{
			Rows: "batches",
			Step: rows(db, atOnce, s.Batches.Of, byID(s.Limits.DropBatch)),
		},
		{Rows: "stored responses", Step: s.Responses.RemoveSome},
		{Rows: "objects of providers", Step: s.Owners.RemoveSome},
	}
}

// carriedLimits removes the limits of objects of a workspace, and before them their counters.
func carriedLimits(db *storage.DB, s *stores.Set) func(context.Context, storage.Step, string) (bool, error) {
	of := s.Limits.Carried
	remove := rows(db, atOnce, of.Of, func(tx *storage.Txn, id, _ string) error { return of.Delete(tx, id) })
	return func(ctx context.Context, step storage.Step, workspace string) (bool, error) {
		for _, id := range of.Of(workspace, atOnce) {
			had, ok := of.Get(id)
			if !ok {
				continue
			}
			if err := s.Limits.ForgetCarried(ctx, had, nil); err != nil {
				return false, err
			}
		}
		return remove(ctx, step, workspace)
	}
}

// policiesOf removes policies of a workspace, and before them their counters, which nothing
// would name after a crash.
func policiesOf[P any](db *storage.DB, s *stores.Set, of *policies.Store[P]) func(context.Context, storage.Step, string) (bool, error) {
	remove := rows(db, atOnce, of.Of, func(tx *storage.Txn, id, _ string) error { return of.Delete(tx, id) })
	return func(ctx context.Context, step storage.Step, workspace string) (bool, error) {
		for _, id := range of.Of(workspace, atOnce) {
			if err := s.Limits.Forget(ctx, id); err != nil {
				return false, err
			}
		}
		return remove(ctx, step, workspace)
	}
}
