package secrets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxTokenFile bounds the files with tokens, in bytes.
const maxTokenFile = 64 << 10

// ReadToken reads the token of a workload from a file, which the platform replaces regularly.
func ReadToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading the token of the service account: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("reading the token of the service account: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || len(b) > maxTokenFile {
		return "", errors.New("reading the token of the service account: the file has none")
	}
	return token, nil
}

// Environment returns environment variables by which a platform gives a workload its identity.
// All are required.
func Environment(names ...string) (map[string]string, error) {
	values := make(map[string]string, len(names))
	for _, name := range names {
		if values[name] = os.Getenv(name); values[name] == "" {
			return nil, fmt.Errorf("the environment variable %s is not set", name)
		}
	}
	return values, nil
}
