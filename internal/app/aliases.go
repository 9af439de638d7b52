package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// checkAliases refuses aliases that could not work, or that would hide something else.
func (a *App) checkAliases() error {
	for _, name := range slices.Sorted(maps.Keys(a.Aliases)) {
		to := a.Aliases[name]
		if err := credentials.CheckAlias(name); err != nil {
			return fmt.Errorf("alias %q: %w", name, err)
		}
		if strings.HasPrefix(to, "@") {
			if _, _, err := credentials.ParseModel(to); err != nil {
				return fmt.Errorf("alias %s: %w", name, err)
			}
		} else if slug, _, _ := strings.Cut(to, "@"); !validSlug.MatchString(slug) {
			return fmt.Errorf("alias %s: expected @<provider>/<model> or the slug of a config, got %q", name, to)
		}
	}
	return nil
}

// warnOfAliases warns of aliases that only something in the store can serve.
func (a *App) warnOfAliases() {
	for _, name := range slices.Sorted(maps.Keys(a.Aliases)) {
		to := a.Aliases[name]
		at, isModel := strings.CutPrefix(to, "@")
		slug, _, _ := strings.Cut(at, "/")
		switch {
		case isModel && a.providers[slug] == nil:
			a.logger.Warn("alias of a provider that is not in the gw block: its calls fail unless a virtual key has this slug", zap.String("alias", name), zap.String("provider", slug))
		case !isModel && !strings.HasPrefix(to, "pc-"): // as saved configs are named
			a.logger.Warn("alias is read as that of a saved config: its calls fail unless there is one; write @<provider>/<model> for a model", zap.String("alias", name), zap.String("config", to))
		}
	}
}

// unmarshalAlias parses alias <model> <@provider/model or config>.
func (a *App) unmarshalAlias(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.ArgErr()
	}
	if _, twice := a.Aliases[args[0]]; twice {
		return d.Errf("alias %s is given twice", args[0])
	}
	if a.Aliases == nil {
		a.Aliases = make(map[string]string)
	}
	a.Aliases[args[0]] = args[1]
	return noBlock(d, "alias")
}

// aliases are those of the control plane and, for names that a workspace has no alias for,
// those of the configuration, but for those of providers that the workspace may not use.
type aliases struct {
	stored     *routing.Aliases
	configured map[string]string
	hides      func(workspace, slug string) bool // a provider from a workspace
}

// target returns what a model stands for in a workspace, or "" if it is not an alias.
func (a *aliases) target(workspace, model string) string {
	if to := a.stored.Target(workspace, model); to != "" {
		return to
	}
	return a.ofFile(workspace, model)
}

// ofFile returns what a model stands for in the configuration, or "".
func (a *aliases) ofFile(workspace, model string) string {
	to := a.configured[model]
	if at, ok := strings.CutPrefix(to, "@"); ok {
		if slug, _, _ := strings.Cut(at, "/"); a.hides(workspace, slug) {
			return ""
		}
	}
	return to
}

// names returns the aliases that a workspace has, sorted.
func (a *aliases) names(workspace string) []string {
	var all []string
	for name := range a.configured {
		if a.ofFile(workspace, name) != "" {
			all = append(all, name)
		}
	}
	for _, alias := range a.stored.All() {
		if alias.WorkspaceID == workspace {
			all = append(all, alias.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
