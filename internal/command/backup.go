package command

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-gw/gateway/storage/badger"
)

func backupCommand() *cobra.Command {
	return withServer(&cobra.Command{
		Use: "backup <file>", Short: "Writes a backup of the store, while the server runs",
		Long: `
Writes all rows of the store to a new file, as they are at one moment, while the
server runs, and reads the file to verify it.

The keys next to the store (gw.encryption-key and gw.audit-key) are not in it.
Keep them elsewhere: without the first one, provider credentials in the backup
cannot be read.`,
	}, func(cmd *cobra.Command, args []string, s *server) error {
		rows, err := backup(cmd, s, args[0])
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd, fmt.Sprintf(`{"rows":%d}`, rows))
		}
		return say(cmd, "%d rows are in %s, which was verified.", rows, args[0])
	})
}

// backup writes a file that only its owner can read, and removes it if it is not whole.
func backup(cmd *cobra.Command, s *server, path string) (rows int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if s.remote == nil {
		_, err = s.local.DB.Backup(cmd.Context(), f)
	} else {
		err = s.send(cmd.Context(), http.MethodGet, "/gw/backup", nil, f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, err
	}
	if rows, err = badger.VerifyBackup(f); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return rows, err
}

func restoreCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "restore <file> --to <dir>", Short: "Writes a backup to a new store",
		Long: `
Writes a backup to a new store in a directory that does not exist, and compares
the two. Copy the keys of the store that was backed up next to it, named like
the directory (DIR.encryption-key and DIR.audit-key), and start Caddy with it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			rows, err := badger.Restore(cmd.Context(), f, to, caddy.Log())
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, fmt.Sprintf(`{"rows":%d}`, rows))
			}
			return say(cmd, "%d rows are in the new store in %s, which was compared with the backup. Its keys are %s.encryption-key and %s.audit-key.", rows, to, to, to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "The directory of the new store (required)")
	cmd.Flags().Bool("json", false, "Print JSON")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}
