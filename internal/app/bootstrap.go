package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/storage"
)

// bootstrap creates the organisation in an empty store, and the owner's key if there is
// none: at the first start, or when admin_key is no longer configured. It returns the key,
// if it has created one.
func (a *App) bootstrap(ctx context.Context, s *Services) (issued credentials.Secret, err error) {
	organisation := s.Directory.Organisation()
	needsKey := a.adminKey.Empty() && !s.Keyring.HasOwner()
	if organisation != nil && !needsKey {
		return issued, nil
	}
	err = s.DB.Update(ctx, func(tx *storage.Txn) (err error) {
		issued = credentials.Secret{}
		// Another process may have been faster.
		if organisation = s.Directory.In(tx).Organisation(); organisation == nil {
			if organisation, _, err = s.Directory.Create(tx); err != nil {
				return err
			}
		}
		if !needsKey || s.Keyring.In(tx).HasOwner() {
			return nil
		}
		issued, err = s.Keyring.Issue(tx, storage.NewID(rand.Reader), a.keyPrefix, &credentials.APIKey{
			Name: "Organisation owner", Kind: credentials.OrganisationService, OrganisationID: organisation.ID,
			Owner: true, Scopes: credentials.OrganisationService.Scopes(), CreationMode: "auto",
		})
		return err
	})
	return issued, err
}

// masterKey returns the encryption key of the store in dir: the configured one, or the one
// in its file, which is created together with a new store.
func (a *App) masterKey(dir string) (credentials.Secret, error) {
	if !a.master.Empty() {
		return a.master, nil
	}
	path := a.EncryptionKeyFile
	if path == "" {
		path = dir + ".encryption-key"
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && a.EncryptionKeyFile == "" {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return credentials.Secret{}, fmt.Errorf(
				"the store in %s exists, but its encryption key %s does not: restore the file, or set encryption_key to the key that the store was made with", dir, path)
		}
		raw, err = newSecretFile(path)
	}
	if err != nil {
		return credentials.Secret{}, fmt.Errorf("encryption key: %w", err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) < minKey {
		return credentials.Secret{}, fmt.Errorf("encryption key: %s: expected at least %d characters, got %d", path, minKey, len(raw))
	}
	return credentials.NewSecret(string(raw)), nil
}

// newSecretFile writes a new file with a random key, and returns the key.
func newSecretFile(path string) ([]byte, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	raw := []byte(base64.StdEncoding.EncodeToString(key))
	return raw, writeSecret(path, raw)
}

// writeSecret durably writes a new file that only its owner can read.
func writeSecret(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(slices.Clip(content), '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// announce shows the new key to the operator: on the terminal, or, if there is none, in a
// file.
func (a *App) announce(dir string, key credentials.Secret) error {
	if key.Empty() {
		return nil
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprint(os.Stderr, banner(key, a.curl("$KEY")))
		return nil
	}
	path := dir + ".admin-key"
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("admin key: %w", err)
	}
	if err := writeSecret(path, []byte(key.Reveal())); err != nil {
		return fmt.Errorf("admin key: %w", err)
	}
	a.logger.Info("made the organisation owner's service key; move it to a safe place and delete the file",
		zap.String("file", path), zap.String("try", strings.ReplaceAll(a.curl("$(cat "+path+")"), " \\\n    ", " ")))
	return nil
}

func banner(key credentials.Secret, curl string) string {
	const rule = "────────────────────────────────────────────────────────────────────────────────\n"
	return "\n" + rule +
		"  AI gateway: the organisation owner's service key, shown this once\n\n" +
		"    " + key.Reveal() + "\n\n" +
		"  Try it:\n\n" +
		"    " + strings.ReplaceAll(curl, "$KEY", key.Reveal()) + "\n" +
		rule + "\n"
}

// curl returns a command that works as pasted: a chat with the example's provider or, since
// the models of other providers are not known, a request to the control plane.
func (a *App) curl(key string) string {
	base := a.baseURL()
	if p := a.providers["echo"]; p == nil || len(p.Workspaces) > 0 {
		return fmt.Sprintf("curl %s/v1/admin/workspaces \\\n    -H \"x-gw-api-key: %s\"", base, key)
	}
	return fmt.Sprintf("curl %s/v1/chat/completions \\\n    -H \"x-gw-api-key: %s\" \\\n    -H \"x-gw-provider: echo\" \\\n"+
		"    -H \"content-type: application/json\" \\\n    -d '{\"model\":\"echo\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'", base, key)
}
