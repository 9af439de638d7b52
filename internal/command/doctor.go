package command

import (
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/caddy-gw/gateway/internal/app"
)

func doctorCommand() *cobra.Command {
	return withServer(&cobra.Command{
		Use: "doctor", Short: "Says what is wrong with the gateway, and what to do about it",
		Long: `
Looks at the store, the keys, the stored credentials, whether each secret that
is referred to can be fetched, whether each provider answers, and the clock. What
expires within two weeks is listed.

Providers are sent one request each, without a credential. The exit code is 1 if
something is wrong; warnings alone leave it at 0.`,
	}, func(cmd *cobra.Command, _ []string, s *server) error {
		report, err := s.do(cmd.Context(), http.MethodGet, "/gw/doctor", nil)
		if err != nil {
			return err
		}
		wrong := false
		if wantsJSON(cmd) {
			err = printJSON(cmd, report.Raw)
		}
		for _, f := range report.Get("findings").Array() {
			wrong = wrong || f.Get("status").Str == app.FindingError
			if wantsJSON(cmd) {
				continue
			}
			err = errors.Join(err, say(cmd, "%-8s %-12s %s", f.Get("status").Str, f.Get("check").Str, f.Get("message").Str))
			if advice := f.Get("advice").Str; advice != "" {
				err = errors.Join(err, say(cmd, "%21s %s", "", advice))
			}
		}
		if err == nil && wrong {
			err = errors.New("something is wrong with the gateway")
		}
		return err
	})
}
