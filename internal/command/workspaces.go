package command

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func workspaceCommand() *cobra.Command {
	list := withServer(&cobra.Command{Use: "list", Short: "Lists workspaces"}, func(cmd *cobra.Command, _ []string, s *server) error {
		workspaces, err := s.list(cmd.Context(), "/admin/workspaces")
		if err != nil {
			return err
		}
		return printItems(cmd, workspaces, "id", "slug", "name", "created_at")
	})

	var slug, description string
	create := withServer(&cobra.Command{Use: "create <name>", Short: "Creates a workspace, and prints its id"}, func(cmd *cobra.Command, args []string, s *server) error {
		body := map[string]any{"name": args[0]}
		if slug != "" {
			body["slug"] = slug
		}
		if description != "" {
			body["description"] = description
		}
		answer, err := s.do(cmd.Context(), http.MethodPost, "/gw/v1/admin/workspaces", body)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd, answer.Raw)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), answer.Get("id").Str)
		return err
	})
	create.Flags().StringVar(&slug, "slug", "", "Its slug (default: made from the name)")
	create.Flags().StringVar(&description, "description", "", "A description")

	get := withServer(&cobra.Command{Use: "get <id or slug>", Short: "Shows a workspace as JSON"}, func(cmd *cobra.Command, args []string, s *server) error {
		answer, err := s.do(cmd.Context(), http.MethodGet, "/gw/v1/admin/workspaces/"+url.PathEscape(args[0]), nil)
		if err != nil {
			return err
		}
		return printJSON(cmd, answer.Raw)
	})

	var name string
	var force bool
	remove := withServer(&cobra.Command{
		Use: "delete <id or slug> --name <name>", Short: "Deletes a workspace",
		Long: `
Deletes a workspace, whose name has to be given so that it is not another one.
With --force, it is deleted with everything that it has.`,
	}, func(cmd *cobra.Command, args []string, s *server) error {
		body := map[string]any{"name": name, "force_delete": force}
		_, err := s.do(cmd.Context(), http.MethodDelete, "/gw/v1/admin/workspaces/"+url.PathEscape(args[0]), body)
		return err
	})
	remove.Flags().StringVar(&name, "name", "", "Its name (required)")
	remove.Flags().BoolVar(&force, "force", false, "Delete what it has, too")
	_ = remove.MarkFlagRequired("name")
	return group(&cobra.Command{Use: "workspace", Short: "Manages workspaces"}, list, create, get, remove)
}
