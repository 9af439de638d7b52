package command

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/caddy-gw/gateway/internal/app"
	"github.com/caddy-gw/gateway/internal/audit"
)

func auditCommand() *cobra.Command {
	var logs, keys []string
	verify := withServer(&cobra.Command{
		Use: "verify", Short: "Says whether rows of the audit trail were removed or changed",
		Long: `
Compares the rows of the audit trail with their seals, the index with the rows,
and the rows with the checkpoints in Caddy's logs. It says which rows are
missing or were changed, and then exits with 1.

That the end of the trail was cut off is only found with the logs (--log), which
should be kept on another machine.`,
		Example: `  $ caddy gw audit verify --log /var/log/caddy/caddy.log`,
	}, func(cmd *cobra.Command, _ []string, s *server) error {
		var q app.AuditQuestion
		for _, path := range logs {
			checkpoints, err := readCheckpoints(path)
			if err != nil {
				return err
			}
			q.Checkpoints = append(q.Checkpoints, checkpoints...)
		}
		for _, path := range keys {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			q.Keys = append(q.Keys, string(raw))
		}
		report, err := s.do(cmd.Context(), http.MethodPost, "/gw/audit/verify", q)
		if err != nil {
			return err
		}
		faults := report.Get("faults").Array()
		if wantsJSON(cmd) {
			err = printJSON(cmd, report.Raw)
		} else {
			for _, fault := range faults {
				err = errors.Join(err, say(cmd, "%s", fault.Get("message").Str))
			}
			if report.Get("more").Bool() {
				err = errors.Join(err, say(cmd, "and more"))
			}
			err = errors.Join(err, say(cmd, "%d rows, up to number %d; %d checkpoints compared", report.Get("rows").Int(), report.Get("last").Int(), report.Get("checkpoints").Int()))
		}
		if err == nil && len(faults) > 0 {
			err = errors.New("the audit trail is not as it was written")
		}
		return err
	})
	verify.Flags().StringSliceVar(&logs, "log", nil, "Logs of Caddy with checkpoints")
	verify.Flags().StringSliceVar(&keys, "key-file", nil, "Files with earlier keys of the audit trail")
	return group(&cobra.Command{Use: "audit", Short: "Verifies the audit trail"}, verify)
}

func readCheckpoints(path string) ([]audit.Checkpoint, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	checkpoints, err := audit.ReadCheckpoints(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return checkpoints, nil
}
