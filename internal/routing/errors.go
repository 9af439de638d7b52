package routing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// A ConfigError is an error in a config. It does not repeat any value, which may be secret.
type ConfigError struct {
	Path    string // targets[1].retry.attempts; "" is the config itself
	Message string
}

func (f ConfigError) String() string {
	if f.Path == "" {
		return "config: " + f.Message
	}
	return f.Path + ": " + f.Message
}

// ConfigErrors are all errors in a config: first keys that occur twice, then the rest in
// the order of the text. If there are too many, the last one says how many more there are.
type ConfigErrors []ConfigError

const (
	maxErrors    = 1000
	maxErrorText = 256 << 10 // bytes in total
)

// Strings returns the errors as strings.
func (f ConfigErrors) Strings() []string {
	out := make([]string, len(f))
	for i := range f {
		out[i] = f[i].String()
	}
	return out
}

// Err returns the errors as a single error, or nil if there are none.
func (f ConfigErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(strings.Join(f.Strings(), "; "))
}

func (p *parser) errorf(path, format string, args ...any) {
	f := ConfigError{path, fmt.Sprintf(format, args...)}
	if p.errorSize += len(f.Path) + len(f.Message); p.errorSize > maxErrorText || len(p.errors) >= maxErrors {
		p.unlisted++
		return
	}
	p.errors = append(p.errors, f)
}

// PathIn returns the path of a member of an object at a path, as faults and [ReplaceSecrets] have it.
func PathIn(path, name string) string { return in(path, name) }

// in returns the path of a member of the value at path.
func in(path, name string) string {
	name = credentials.Clip(name)
	switch {
	case name == "" || strings.ContainsFunc(name, unusual):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

func unusual(r rune) bool {
	return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// item returns the path of an element of the value at path.
func item(path string, n int) string { return fmt.Sprintf("%s[%d]", path, n) }
