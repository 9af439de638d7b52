package command

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func keyCommand() *cobra.Command {
	var workspace, description, expires, rotation string
	var scopes []string
	var organisation bool
	create := withServer(&cobra.Command{
		Use: "create <name> --scope <scopes...>", Short: "Creates an API key, and prints it",
		Long: `
Creates an API key for a workspace, or with --organisation for the organisation,
and prints it. It cannot be shown again.`,
		Example: `  $ caddy gw key create checkout --workspace ws-checkout --scope completions.write`,
	}, func(cmd *cobra.Command, args []string, s *server) error {
		body := map[string]any{"name": args[0], "scopes": scopes}
		if workspace != "" {
			body["workspace_id"] = workspace
		}
		if description != "" {
			body["description"] = description
		}
		if expires != "" {
			at, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			body["expires_at"] = at
		}
		if rotation != "" {
			body["rotation_policy"] = map[string]any{"rotation_period": rotation}
		}
		path := "/gw/v1/api-keys/workspace/service"
		if organisation {
			path = "/gw/v1/api-keys/organisation/service"
		}
		return printSecret(cmd, s, path, body)
	})
	create.Flags().StringVarP(&workspace, "workspace", "w", "", "Id or slug of the workspace (default: the default one)")
	create.Flags().BoolVar(&organisation, "organisation", false, "The key belongs to the organisation")
	create.Flags().StringSliceVarP(&scopes, "scope", "s", nil, "What the key may do, such as completions.write (required)")
	create.Flags().StringVar(&description, "description", "", "A description")
	create.Flags().StringVar(&expires, "expires", "", "When the key expires: a time such as 2027-01-31T12:00:00Z, or a duration such as 720h")
	create.Flags().StringVar(&rotation, "rotate", "", "How often the key is rotated: weekly or monthly")
	_ = create.MarkFlagRequired("scope")

	var of string
	list := withServer(&cobra.Command{Use: "list", Short: "Lists API keys"}, func(cmd *cobra.Command, _ []string, s *server) error {
		path := "/api-keys"
		if of != "" {
			path += "?workspace_id=" + url.QueryEscape(of)
		}
		keys, err := s.list(cmd.Context(), path)
		if err != nil {
			return err
		}
		return printItems(cmd, keys, "id", "name", "type", "workspace_id", "key", "status", "expires_at", "last_used_at")
	})
	list.Flags().StringVarP(&of, "workspace", "w", "", "Id or slug of a workspace (default: all)")

	var transition time.Duration
	rotate := withServer(&cobra.Command{
		Use: "rotate <id>", Short: "Gives an API key another secret, and prints it",
		Long: `
Gives an API key another secret, and prints it. The one before works for
the transition, so that it can be replaced everywhere.`,
	}, func(cmd *cobra.Command, args []string, s *server) error {
		body := map[string]any{}
		if transition != 0 {
			body["key_transition_period_ms"] = transition.Milliseconds()
		}
		return printSecret(cmd, s, "/gw/v1/api-keys/"+url.PathEscape(args[0])+"/rotate", body)
	})
	rotate.Flags().DurationVar(&transition, "transition", 0, "How long both secrets work (default: 30m, or that of the rotation policy)")

	revoke := withServer(&cobra.Command{Use: "revoke <id>", Short: "Revokes an API key"}, func(cmd *cobra.Command, args []string, s *server) error {
		_, err := s.do(cmd.Context(), http.MethodDelete, "/gw/v1/api-keys/"+url.PathEscape(args[0]), nil)
		return err
	})
	return group(&cobra.Command{Use: "key", Short: "Manages API keys"}, create, list, rotate, revoke)
}

// expiry parses a time, or a duration from now.
func expiry(text string, now time.Time) (string, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d).UTC().Format(time.RFC3339), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("--expires: expected a time such as 2027-01-31T12:00:00Z, or a duration such as 720h, got %q", text)
	}
	return at.Format(time.RFC3339), nil
}

// printSecret prints the key of an answer alone, so that a script can use it, or the answer as
// JSON.
func printSecret(cmd *cobra.Command, s *server, path string, body any) error {
	answer, err := s.do(cmd.Context(), http.MethodPost, path, body)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, answer.Raw)
	}
	if id := answer.Get("id").Str; id != "" {
		cmd.PrintErrln("id:", id)
	}
	if ends := answer.Get("key_transition_expires_at").Str; ends != "" {
		cmd.PrintErrln("the key before works until", ends)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), answer.Get("key").Str)
	return err
}
