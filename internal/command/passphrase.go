package command

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/scrypt"
	"golang.org/x/term"

	"github.com/caddy-gw/gateway/internal/manifest"
)

const (
	passphraseEnv = "CADDY_GW_PASSPHRASE"
	minPassphrase = 12 // characters
)

// A sealing says how the key of the secrets of a document is made of a passphrase.
type sealing struct {
	KDF  string `json:"kdf"`
	N    int    `json:"n"`
	R    int    `json:"r"`
	P    int    `json:"p"`
	Salt string `json:"salt"` // base64
	// Check is a sealed empty text, which reveals another passphrase.
	Check string `json:"check"`
}

const checked = "check" // what check is sealed for

// Bounds of the cost of a passphrase: some 4 GiB of memory.
const (
	maxN = 1 << 22
	maxR = 8
	maxP = 4
)

// defaultN is scrypt's cost of a new document.
const defaultN = 1 << 17

var newN = defaultN // the tests have less

// newSealing returns the sealing of a new document, and its key.
func newSealing(passphrase string) (*sealing, []byte, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	s := &sealing{KDF: "scrypt", N: newN, R: 8, P: 1, Salt: base64.StdEncoding.EncodeToString(salt)}
	key, err := s.derive(passphrase)
	if err != nil {
		return nil, nil, err
	}
	sealer, err := manifest.NewSealer(key)
	if err != nil {
		return nil, nil, err
	}
	s.Check = sealer.Seal(checked, "")
	return s, key, nil
}

// derive makes the key of a passphrase.
func (s *sealing) derive(passphrase string) ([]byte, error) {
	salt, err := base64.StdEncoding.DecodeString(s.Salt)
	switch {
	case s.KDF != "scrypt":
		return nil, fmt.Errorf("sealing.kdf: expected scrypt, got %q", s.KDF)
	case err != nil || len(salt) < 16:
		return nil, errors.New("sealing.salt: expected at least 16 bytes in base64")
	case s.N < 2 || s.N > maxN || s.R < 1 || s.R > maxR || s.P < 1 || s.P > maxP:
		return nil, fmt.Errorf("sealing: expected n up to %d, r up to %d and p up to %d", maxN, maxR, maxP)
	}
	return scrypt.Key([]byte(passphrase), salt, s.N, s.R, s.P, manifest.KeySize)
}

// open returns the key of a document, or an error if the passphrase is another one.
func (s *sealing) open(passphrase string) ([]byte, error) {
	key, err := s.derive(passphrase)
	if err != nil {
		return nil, err
	}
	sealer, err := manifest.NewSealer(key)
	if err != nil {
		return nil, err
	}
	if _, err := sealer.Open(checked, s.Check); err != nil {
		return nil, errors.New("the passphrase is not that of the document")
	}
	return key, nil
}

// readSealing reads the member sealing of a document; nil: it has none.
func readSealing(raw string) (*sealing, error) {
	if raw == "" {
		return nil, nil
	}
	s := new(sealing)
	if err := json.Unmarshal([]byte(raw), s); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return s, nil
}

// passphrase returns the passphrase of a command: from a file, the environment or a terminal.
func passphrase(cmd *cobra.Command, file string) (string, error) {
	text := os.Getenv(passphraseEnv)
	switch {
	case file != "":
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text = strings.TrimRight(string(raw), "\r\n")
	case text == "" && term.IsTerminal(int(os.Stdin.Fd())):
		cmd.PrintErr("Passphrase: ")
		raw, err := term.ReadPassword(int(os.Stdin.Fd()))
		cmd.PrintErrln()
		if err != nil {
			return "", err
		}
		text = string(raw)
	}
	if text == "" {
		return "", fmt.Errorf("no passphrase was given: name a file with --passphrase-file, or set %s", passphraseEnv)
	}
	return text, nil
}
