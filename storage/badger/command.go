package badger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Commands returns the commands that look after the files of a store: verify and salvage.
func Commands() []*cobra.Command {
	verify := &cobra.Command{
		Use: "verify", Short: "Says which files of the store are damaged or missing",
		Long: `
Reads all files of the store, a Badger database in a directory, and says which
are damaged or missing. It changes nothing. Caddy must not be running with the
store.`,
		RunE: caddycmd.WrapCommandFuncForCobra(cmdVerify),
	}
	salvage := &cobra.Command{
		Use: "salvage --to <dir>", Short: "Writes what can be read to a new store",
		Long: `
Writes all that can be read in a damaged store to a new one, in a directory that
does not exist, and says what is lost. It does not change the damaged one. Caddy
must not be running with it.`,
		RunE: caddycmd.WrapCommandFuncForCobra(cmdSalvage),
	}
	for _, cmd := range []*cobra.Command{verify, salvage} {
		cmd.Flags().String("dir", "", "The directory of the store (default: gw in Caddy's data directory)")
		cmd.Flags().Bool("json", false, "Print JSON")
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
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	err = Verify(dir, caddy.Log())
	if fl.Bool("json") {
		err = errors.Join(err, printJSON(map[string]any{"dir": dir, "sound": err == nil, "faults": lines(err)}))
	} else if err == nil {
		fmt.Printf("The store in %s is sound.\n", dir)
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
}

func printJSON(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Printf("%s\n", b)
	}
	return err
}

// lines returns the lines of an error, of which there are none for nil.
func lines(err error) []string {
	if err == nil {
		return []string{}
	}
	return strings.Split(err.Error(), "\n")
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
	lost := []string{}
	for _, one := range result.Lost {
		lost = append(lost, fmt.Sprint(one))
		if !fl.Bool("json") {
			fmt.Printf("Lost: %v\n", one)
		}
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("after %d rows: %w", result.Rows, err)
	}
	if fl.Bool("json") {
		if err := printJSON(map[string]any{"to": to, "rows": result.Rows, "lost": lost}); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	}
	fmt.Printf("%d rows are in the new store in %s.\n", result.Rows, to)
	return caddy.ExitCodeSuccess, nil
}
