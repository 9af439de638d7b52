package badger

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "gw",
		Usage: "verify|salvage [--dir <dir>] [--to <dir>]",
		Short: "Verifies and salvages the gateway's store",
		Long: `
Looks after the store of the gateway, a Badger database in a directory. Caddy
must not be running with it.

verify reads all files of the store, and says which are damaged or missing. It
changes nothing.

salvage writes all that can be read in a damaged store to a new one, in a
directory that does not exist, and says what is lost. It does not change the
damaged one.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.PersistentFlags().String("dir", "", "The directory of the store (default: gw in Caddy's data directory)")
			verify := &cobra.Command{
				Use: "verify", Short: "Says which files of the store are damaged or missing", Args: cobra.NoArgs,
				RunE: caddycmd.WrapCommandFuncForCobra(cmdVerify),
			}
			salvage := &cobra.Command{
				Use: "salvage", Short: "Writes what can be read to a new store", Args: cobra.NoArgs,
				RunE: caddycmd.WrapCommandFuncForCobra(cmdSalvage),
			}
			salvage.Flags().String("to", "", "The directory of the new store (required)")
			_ = salvage.MarkFlagRequired("to")
			cmd.AddCommand(verify, salvage)
		},
	})
}

func storeDir(fl caddycmd.Flags) (string, error) {
	dir := fl.String("dir")
	if dir == "" {
		dir = filepath.Join(caddy.AppDataDir(), "gw")
	}
	return canonical(dir)
}

func cmdVerify(fl caddycmd.Flags) (int, error) {
	dir, err := storeDir(fl)
	if err == nil {
		err = Verify(dir, caddy.Log())
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Printf("The store in %s is sound.\n", dir)
	return caddy.ExitCodeSuccess, nil
}

func cmdSalvage(fl caddycmd.Flags) (int, error) {
	from, err := storeDir(fl)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	to, err := canonical(fl.String("to"))
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	result, err := Salvage(context.Background(), from, to, caddy.Log())
	for _, lost := range result.Lost {
		fmt.Printf("Lost: %v\n", lost)
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("after %d rows: %w", result.Rows, err)
	}
	fmt.Printf("%d rows are in the new store in %s.\n", result.Rows, to)
	return caddy.ExitCodeSuccess, nil
}
