package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// arguments makes commands say which argument or flag is missing or too much, and how they are called. What arguments a command has is
// in its Use: `create <name> --scope <scopes...>` has one.
func arguments(commands []*cobra.Command) {
	for _, cmd := range commands {
		cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, err.Error()) })
		if cmd.HasSubCommands() {
			arguments(cmd.Commands())
			continue
		}
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			names := positional(cmd.Use)
			switch {
			case len(given) < len(names):
				return misused(cmd, names[len(given)]+": missing")
			case len(given) > len(names):
				return misused(cmd, fmt.Sprintf("%q: not expected", given[len(names)]))
			}
			var missing error
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if required := f.Annotations[cobra.BashCompOneRequiredFlag]; missing == nil && len(required) > 0 && !f.Changed {
					missing = misused(cmd, "--"+f.Name+": missing")
				}
			})
			return missing
		}
	}
}

// positional returns the arguments of a command, as its Use names them, before its flags.
func positional(use string) (names []string) {
	use, _, _ = strings.Cut(use, " --")
	for {
		_, rest, ok := strings.Cut(use, "<")
		if !ok {
			return names
		}
		name, behind, _ := strings.Cut(rest, ">")
		names, use = append(names, "<"+name+">"), behind
	}
}

func misused(cmd *cobra.Command, what string) error {
	return fmt.Errorf("%s; call it as: %s", what, cmd.UseLine())
}
