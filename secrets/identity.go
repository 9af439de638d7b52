package secrets

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
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

// IdentityEndpointVariable is the environment variable by which Azure's App Service and Container Apps name the endpoint
// that gives an app its identity.
const IdentityEndpointVariable = "IDENTITY_ENDPOINT"

// IdentityEndpoint returns that endpoint, which is on the machine: at localhost, or at a loopback or link-local address.
func IdentityEndpoint() (*url.URL, error) {
	u, err := url.Parse(os.Getenv(IdentityEndpointVariable))
	if err == nil && u.Scheme == "http" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		addr, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && (addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
			return u, nil
		}
	}
	return nil, errors.New(IdentityEndpointVariable + ": expected a URL with http of localhost, or of a loopback or link-local address")
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
