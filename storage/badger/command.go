package badger

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Commands returns the commands that look after the files of a store: verify and salvage.
func Commands() []*cobra.Command {
	verify := &cobra.Command{
		Use: "verify", Short: "Says which files of the store are damaged or missing", Args: cobra.NoArgs,
		Long: `
Reads all files of the store, a Badger database in a directory, and says which
are damaged or missing. It changes nothing. Caddy must not be running with the
store.`,
		RunE: caddycmd.WrapCommandFuncForCobra(cmdVerify),
	}
	salvage := &cobra.Command{
		Use: "salvage", Short: "Writes what can be read to a new store", Args: cobra.NoArgs,
		Long: `
Writes all that can be read in a damaged store to a new one, in a directory that
does not exist, and says what is lost. It does not change the damaged one. Caddy
must not be running with it.`,
		RunE: caddycmd.WrapCommandFuncForCobra(cmdSalvage),
	}
	for _, cmd := range []*cobra.Command{verify, salvage} {
		cmd.Flags().String("dir", "", "The directory of the store (default: gw in Caddy's data directory)")
	}
	salvage.Flags().String("to", "", "The directory of the new store (required)")
	_ = salvage.MarkFlagRequired("to")
	return []*cobra.Command{verify, salvage}
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
