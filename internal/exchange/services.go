package exchange

import (
	"context"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/stored"
)

// An Authenticator says who calls, see [credentials.Authenticator].
type Authenticator interface {
	AuthenticateCall(token, scope string, others ...string) (*credentials.Caller, *credentials.Error)
	Knows(token string) bool
	OperatorKeys
}

// keyRecognizer distinguishes service keys from other credentials.
type keyRecognizer interface{ Knows(token string) bool }

// SavedConfigs are the configs that workspaces have saved, see [routing.ConfigStore].
type SavedConfigs interface {
	Get(idOrSlug string) (*routing.Saved, bool)
	DefaultOf(workspace string) *routing.Saved
	Config(v *routing.Version, o routing.Options) (*routing.Config, error)
}

// Responses are the stored responses, see [stored.Responses].
type Responses interface {
	Put(ctx context.Context, workspace, id string, t *stored.Response) error
	Delete(ctx context.Context, workspace, id string) error
	Conversation(ctx context.Context, workspace, id string) ([]stored.Response, error)
	Recall(ctx context.Context, workspace, id string) (slug string, held *stored.Response, err error)
	Remember(ctx context.Context, workspace, id, slug string) error
	Claim(ctx context.Context, workspace, slug string, ids []string) error
	Owns(ctx context.Context, workspace, slug string, ids []string, owns []bool) error
}

// Owners are whose an object is, see [stored.Owners].
type Owners interface {
	Claim(ctx context.Context, workspace, slug string, objects []stored.Listed, at time.Time, lenient bool) error
	NoteListed(ctx context.Context, workspace, slug string, objects []stored.Listed, at time.Time) error
	CreatedAt(ctx context.Context, workspace, account, id string) (int64, error)
	Next(ctx context.Context, workspace, slug string, s stored.Stretch, n int, want func(*stored.Listed) bool) (listed []stored.Listed, more bool, err error)
	Unsure(ctx context.Context, workspace, slug, list string, n int) (ids []string, err error)
	Learn(ctx context.Context, workspace, slug string, seen []stored.Listed, gone []string, now time.Time) (moved bool, err error)
	Owns(ctx context.Context, workspace, slug string, ids []string) (owns []bool, err error)
	Release(ctx context.Context, workspace, slug, id string) error
	NoteRead(ctx context.Context, workspace, slug string, ids []string) error
	Read(ctx context.Context, workspace, slug string, ids []string) (read []bool, err error)
	ClaimModels(ctx context.Context, workspace, slug string, models []string, at time.Time) error
	ModelOwner(slug, model string) string
}

// Guardrails are the saved guardrails.
type Guardrails interface {
	// Hook returns the hook that a saved guardrail is, by the slug or id under which the
	// workspace may use it; version is an id or a number, or "" for the current one. The error is
	// hooks.ErrUnknown if the workspace has none.
	Hook(workspace, slugOrID, version string) (*hooks.Hook, error)
	// Defaults returns the hooks of a phase that apply to all calls of a workspace; nil: none do.
	Defaults(workspace string, phase guardrails.Phase) ([]*hooks.Hook, error)
}

// Prompts are the saved prompts, see [prompts.Store].
type Prompts interface {
	Find(workspace, reference string, partial bool) (*prompts.Prompt, *prompts.Version, bool)
	Compiled(ctx context.Context, p *prompts.Prompt, v *prompts.Version) (*prompts.Compiled, error)
	Render(ctx context.Context, dst []byte, workspace string, c *prompts.Compiled, body []byte) ([]byte, error)
}
