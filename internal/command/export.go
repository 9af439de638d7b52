package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/app"
)

// maxDocument bounds the documents that are read, in bytes.
const maxDocument = 512 << 20

func exportCommand() *cobra.Command {
	var output, file string
	var without bool
	cmd := withServer(&cobra.Command{
		Use: "export", Short: "Writes the control plane as a YAML document",
		Long: `
Writes the whole control plane as a YAML document that can be read, compared and
kept in git: settings, workspaces, users, credentials, configs, prompts,
guardrails, policies and API keys. Not in it are what was called, the audit
trail and what was used of limits; caddy gw backup has all of the store.

Secrets are sealed to a passphrase, of at least 12 characters, which is in a
file, in ` + passphraseEnv + `, or asked for. With an output file that is
there already, the same secret stays the same text, so that a document only
changes where the control plane did. Secrets of a secret manager stay references
to it. With --without-secrets, they are left out, and so are API keys and
invites.`,
		Example: `  $ caddy gw export --output gateway.yaml --passphrase-file passphrase`,
	}, func(cmd *cobra.Command, _ []string, s *server) error {
		var seal *sealing
		var key []byte
		if !without {
			secret, err := passphrase(cmd, file)
			if err != nil {
				return err
			}
			if len([]rune(secret)) < minPassphrase {
				return fmt.Errorf("the passphrase has fewer than %d characters", minPassphrase)
			}
			if seal, key, err = sealingFor(output, secret); err != nil {
				return err
			}
		}
		answer, err := s.do(cmd.Context(), http.MethodPost, "/gw/export", app.ExportQuestion{Key: key})
		if err != nil {
			return err
		}
		text := []byte(answer.Raw)
		if seal != nil {
			raw, err := json.Marshal(seal)
			if err != nil {
				return err
			}
			format, rest, _ := bytes.Cut(text, []byte(","))
			text = bytes.Join([][]byte{format, append([]byte(`"sealing":`), raw...), rest}, []byte(","))
		}
		var out bytes.Buffer
		if wantsJSON(cmd) {
			err = json.Indent(&out, text, "", "  ")
			out.WriteByte('\n')
		} else {
			out.WriteString("# The control plane of an AI gateway; caddy gw import reads it.\n")
			err = toYAML(&out, text)
		}
		if err != nil {
			return err
		}
		if output == "" {
			_, err = out.WriteTo(cmd.OutOrStdout())
			return err
		}
		return replaceFile(output, out.Bytes())
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "The file to write, instead of an earlier document (default: the terminal)")
	cmd.Flags().StringVar(&file, "passphrase-file", "", "A file with the passphrase that secrets are sealed to")
	cmd.Flags().BoolVar(&without, "without-secrets", false, "Leave out secrets, API keys and invites")
	return cmd
}

// sealingFor returns the sealing of a document: that of the one in its file, if it has the same
// passphrase.
func sealingFor(output, secret string) (*sealing, []byte, error) {
	if output != "" {
		text, err := os.ReadFile(output)
		if err == nil {
			var document []byte
			if document, err = fromYAML(text); err != nil || !gjson.GetBytes(document, "format").Exists() {
				return nil, nil, fmt.Errorf("%s is another file than a document of caddy gw export; it is not replaced", output)
			}
			before, err := readSealing(gjson.GetBytes(document, "sealing").Raw)
			if err == nil && before != nil {
				if key, err := before.open(secret); err == nil {
					return before, key, nil
				}
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return newSealing(secret)
}

// replaceFile writes a file that only its owner can read, whole or not at all.
func replaceFile(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func importCommand() *cobra.Command {
	var file string
	var dry, missing, pruning bool
	cmd := withServer(&cobra.Command{
		Use: "import <file>", Short: "Makes the control plane what a document says",
		Long: `
Reads a document of caddy gw export, or one written by hand, from a file, or
from the standard input if it is called -. Objects that differ are changed and
new ones created, each with a row of the audit trail. What the store has besides
them is kept. Importing a document again changes nothing.

With --prune, what the store has besides them is deleted afterwards, by the
rules of the API: only what nothing uses, and never the last owner or the
default workspace. Kinds of objects that the document does not have at all, such
as api_keys of one without secrets, are kept.

The whole document is checked before anything is written. Versions do not
change: a new text is a new version, with the next number. API keys and invites
that the store has keep their secrets. With --dry-run, nothing is written, and
what would be is printed.`,
		Example: `  $ caddy gw import gateway.yaml --dry-run`,
	}, func(cmd *cobra.Command, args []string, s *server) error {
		text, err := readDocument(cmd, args[0])
		if err != nil {
			return err
		}
		q := app.ImportQuestion{DryRun: dry, AllowMissing: missing}
		document, err := fromYAML(text)
		if err == nil && !gjson.ParseBytes(document).IsObject() {
			err = errors.New("expected a mapping")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		seal, err := readSealing(gjson.GetBytes(document, "sealing").Raw)
		if err == nil && seal != nil {
			var secret string
			if secret, err = passphrase(cmd, file); err == nil {
				q.Key, err = seal.open(secret)
			}
		}
		if err == nil {
			q.Document, err = sjson.DeleteBytes(document, "sealing")
		}
		if err != nil {
			return err
		}
		var report gjson.Result
		var gone []gjson.Result
		if pruning {
			report, gone, err = importAndPrune(cmd.Context(), s, &q)
		} else {
			report, err = s.do(cmd.Context(), http.MethodPost, "/gw/import", q)
		}
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			raw := report.Raw
			if pruning {
				list := make([]string, len(gone))
				for i, o := range gone {
					list[i] = o.Raw
				}
				if raw, err = sjson.SetRaw(raw, "pruned", "["+strings.Join(list, ",")+"]"); err != nil {
					return err
				}
			}
			return printJSON(cmd, raw)
		}
		return printReport(cmd, report, gone)
	})
	cmd.Flags().StringVar(&file, "passphrase-file", "", "A file with the passphrase that secrets are sealed to")
	cmd.Flags().BoolVar(&missing, "allow-missing", false, "What configs, prompts, model aliases, conditions and mappings of secrets refer to need not exist")
	cmd.Flags().BoolVar(&pruning, "prune", false, "Delete what the document does not have, of the kinds of objects that it has")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Write nothing, and print what would be")
	return cmd
}

func readDocument(cmd *cobra.Command, path string) ([]byte, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", path, maxDocument)
	}
	return text, err
}

// printReport prints what an import did, like a diff.
func printReport(cmd *cobra.Command, report gjson.Result, gone []gjson.Result) error {
	var out strings.Builder
	for _, c := range report.Get("changes").Array() {
		sign := "~"
		if c.Get("action").Str == "create" {
			sign = "+"
		}
		fmt.Fprintf(&out, "%s %s %s (%s)\n", sign, c.Get("kind").Str, c.Get("name").Str, c.Get("id").Str)
		for _, f := range c.Get("fields").Array() {
			if from := f.Get("from").Str; from != "" {
				fmt.Fprintf(&out, "    - %s: %s\n", f.Get("field").Str, from)
			}
			if to := f.Get("to").Str; to != "" {
				fmt.Fprintf(&out, "    + %s: %s\n", f.Get("field").Str, to)
			}
		}
	}
	pruned := make(map[string]bool)
	for _, o := range gone {
		pruned[o.Get("id").Str] = true
		fmt.Fprintf(&out, "- %s %s (%s)\n", o.Get("kind").Str, o.Get("name").Str, o.Get("id").Str)
	}
	others := slices.DeleteFunc(report.Get("others").Array(), func(o gjson.Result) bool { return pruned[o.Get("id").Str] })
	if report.Get("dry_run").Bool() && len(others) > 0 {
		out.WriteString("Not in the document, and kept:\n")
		for _, o := range others {
			fmt.Fprintf(&out, "  %s %s (%s)\n", o.Get("kind").Str, o.Get("name").Str, o.Get("id").Str)
		}
	}
	did := "were written"
	if report.Get("dry_run").Bool() {
		did = "would be written"
	}
	kept := -int64(len(gone))
	report.Get("kept").ForEach(func(_, n gjson.Result) bool { kept += n.Int(); return true })
	if more := kept - int64(len(others)); report.Get("dry_run").Bool() && more > 0 {
		fmt.Fprintf(&out, "  and %d more\n", more)
	}
	if len(gone) > 0 {
		did += fmt.Sprintf(" and %d deleted", len(gone))
	}
	fmt.Fprintf(&out, "%d objects %s, %d are as in the document, and %d are not in it.", report.Get("changes.#").Int(), did, report.Get("unchanged").Int(), kept)
	return say(cmd, "%s", out.String())
}
