// Package command is the command caddy gw: it manages the gateway from a terminal. Its
// subcommands use the running server by Caddy's admin endpoint, or open the store if none runs,
// and are requests to the control plane either way, so that they are checked and recorded in
// the audit trail like any others.
package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-gw/gateway/storage/badger"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "gw",
		Usage: "<command>",
		Short: "Manages the AI gateway",
		Long: `
Manages the AI gateway of a Caddy server: keys, workspaces, the audit trail,
backups, its control plane as a document, and its store; doctor says what is
wrong with it.

All but verify, salvage and restore use the running server, by its admin
endpoint, and open the store if none runs. --address is that of the admin
endpoint; --config is the configuration of the server, from which it is taken,
or the store. The default is the Caddyfile in the current directory, and
otherwise localhost:2019 and the store in Caddy's data directory.

The exit code is 0 if all is well, and 1 if the command failed or found
something wrong.`,
		CobraFunc: func(cmd *cobra.Command) {
			group(cmd, commands()...)
		},
	})
}

// group makes a command one that only has others, and adds those. Cobra prints the help for what is none of them,
// as if all was well.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.DisableFlagParsing = true // the flags are those of a command that there is not, which matters more
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch name, flags := firstOf(args); {
		case slices.Contains(flags, "--help") || slices.Contains(flags, "-h") || name == "" && len(flags) == 0:
			return cmd.Help()
		case name == "":
			return fmt.Errorf("%s: a command is missing; see %s --help", flags[0], cmd.CommandPath())
		default:
			return fmt.Errorf("there is no command %q; see %s --help", name, cmd.CommandPath())
		}
	}
	return cmd
}

// firstOf returns the first of some arguments that is no flag and no value of one, or "", and the flags before it.
func firstOf(args []string) (name string, flags []string) {
	valued := false
	for _, arg := range args {
		switch {
		case strings.HasPrefix(arg, "-"):
			flags = append(flags, arg)
		case !valued:
			return arg, flags
		}
		valued = slices.Contains([]string{"--address", "--config", "-c", "--adapter", "-a"}, arg)
	}
	return "", flags
}

func commands() []*cobra.Command {
	all := append(badger.Commands(), keyCommand(), workspaceCommand(), auditCommand(), backupCommand(), restoreCommand(), exportCommand(), importCommand(), doctorCommand())
	arguments(all)
	return all
}

// A runner is what a subcommand does with a server. It returns an error if something is wrong.
type runner func(cmd *cobra.Command, args []string, s *server) error

// withServer makes a runner the function of a command, and adds the flags that name a server.
func withServer(cmd *cobra.Command, run runner) *cobra.Command {
	cmd.Flags().String("address", "", "The address of the server's admin endpoint, such as localhost:2019")
	cmd.Flags().StringP("config", "c", "", "The server's configuration")
	cmd.Flags().StringP("adapter", "a", "", "The adapter of the configuration, such as caddyfile")
	cmd.Flags().Bool("json", false, "Print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		s, err := connect(cmd)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		return run(cmd, args, s)
	}
	return cmd
}
