package routing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// A Fault is one thing that is wrong with a config. It repeats no value of it.
type Fault struct {
	Path    string // targets[1].retry.attempts; "" is the config itself
	Message string
}

func (f Fault) String() string {
	if f.Path == "" {
		return "config: " + f.Message
	}
	return f.Path + ": " + f.Message
}

// Faults are all that is wrong with a config: keys that are given twice, then the
// rest in the order of the text. Where they are too many, the last says how many
// more there are.
type Faults []Fault

const (
	maxFaults    = 1000
	maxFaultText = 256 << 10 // bytes of all
)

// Strings are the faults as text, one each.
func (f Faults) Strings() []string {
	out := make([]string, len(f))
	for i := range f {
		out[i] = f[i].String()
	}
	return out
}

// Err is the faults as one error, nil where there is none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(strings.Join(f.Strings(), "; "))
}

func (p *parser) fault(path, format string, args ...any) {
	f := Fault{path, fmt.Sprintf(format, args...)}
	if p.said += len(f.Path) + len(f.Message); p.said > maxFaultText || len(p.faults) >= maxFaults {
		p.unlisted++
		return
	}
	p.faults = append(p.faults, f)
}

// in is the path of a member of what stands at path.
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

// item is the path of an element of what stands at path.
func item(path string, n int) string { return fmt.Sprintf("%s[%d]", path, n) }
