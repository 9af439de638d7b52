package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Options are the parameters of Parse. The zero Options are right for an inline config.
type Options struct {
	// Saved is set if the config is a saved version, which sticky and cb_config require.
	Saved bool
	// Limits bounds the number of targets. Default: DefaultLimits.
	Limits Limits
	// Workspace is the id of the workspace whose config it is.
	Workspace string
	// SavedProvider reports whether a name without @ is that of a saved provider that the
	// workspace may use, which is a complete target. It may be nil.
	SavedProvider func(workspace, name string) bool
	// Missing returns why something that a config refers to is not available, or "" if it
	// is. If it is nil, references are not checked.
	Missing func(Reference) string
	// Semantic is set if the semantic cache is configured.
	Semantic bool
	// CheckHost checks custom_host and the vendors' keys that are addresses. Its error is
	// shown to the user. If it is nil, the hosts must be checked before the target is
	// called.
	CheckHost func(host string) error
	// BrokenChecks is set if unknown checks and wrong parameters of checks are no errors, because the
	// config was saved before they were: such a check is reported when it is to run.
	BrokenChecks bool
	// HeaderPrefixes are the prefixes of the gateway's headers besides x-gw-, in lower
	// case.
	HeaderPrefixes []string
}

// Limits are how many elements a list of targets may have.
type Limits struct {
	Root            int // of the config
	ConditionalRoot int // of the config, where its strategy is conditional
	Nested          int // of a target
}

// DefaultLimits are the limits unless the operator sets others.
var DefaultLimits = Limits{Root: 100, ConditionalRoot: 1000, Nested: 50}

// LimitsFrom reads the limits from the environment: MAX_ROOT_CONFIG_TARGETS,
// MAX_CONDITIONAL_ROOT_CONFIG_TARGETS and MAX_NESTED_CONFIG_TARGETS, each a number from 1
// to 10000. Unset ones keep their defaults.
func LimitsFrom(getenv func(string) string) (Limits, error) {
	l := DefaultLimits
	for _, v := range []struct {
		name string
		to   *int
	}{
		{"MAX_ROOT_CONFIG_TARGETS", &l.Root},
		{"MAX_CONDITIONAL_ROOT_CONFIG_TARGETS", &l.ConditionalRoot},
		{"MAX_NESTED_CONFIG_TARGETS", &l.Nested},
	} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10000 {
			return DefaultLimits, fmt.Errorf("%s: expected a number from 1 to 10000", v.name)
		}
		*v.to = n
	}
	return l, nil
}

const (
	maxConfig = 256 << 10 // bytes
	maxJSON   = 64        // nesting depth of a config, including parameters
	maxNested = 10        // nesting depth of targets
)

// Parse parses a config: all keys must be in snake_case, known, and unique. It returns the
// config, or all errors in it.
func Parse(raw []byte, o Options) (*Config, ConfigErrors) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	p := &parser{options: &o, config: new(Config), fieldOf: make(map[string]int)}
	if p.whole(raw) {
		p.config.Root = p.target("", bytes.Clone(raw[space(raw, 0):]), nil)
	}
	if p.unlisted > 0 {
		p.errors = append(p.errors, ConfigError{"", fmt.Sprintf("%d more errors", p.unlisted)})
	}
	if len(p.errors) > 0 {
		return nil, p.errors
	}
	p.config.Root.inherit()
	return p.config, nil
}

type parser struct {
	options   *Options
	config    *Config
	errors    ConfigErrors
	unlisted  int
	errorSize int            // total bytes of the errors
	fieldOf   map[string]int // index in config.fields
	regexes   int            // instructions of all that were compiled
	checked   int            // size of the regular expressions of checks
}

// whole reports whether raw is one JSON object within the bounds.
func (p *parser) whole(raw []byte) bool {
	if len(raw) > maxConfig {
		p.errorf("", "expected at most %d KiB", maxConfig>>10)
		return false
	}
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		where := ""
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			where = fmt.Sprintf(": it stops being one at byte %d", syntax.Offset)
		}
		p.errorf("", "expected a JSON object%s", where)
		return false
	}
	if !utf8.Valid(raw) {
		p.errorf("", "expected UTF-8")
		return false
	}
	v := raw[space(raw, 0):]
	if v[0] != '{' {
		p.errorf("", "expected a JSON object")
		return false
	}
	return unique(v, 1) || p.findDuplicates("", v, 1)
}

// unique reports whether every key in v is unique and v is not too deep.
func unique(v []byte, depth int) bool {
	if v[0] != '{' && v[0] != '[' {
		return true
	}
	ok := depth <= maxJSON
	if !ok {
		return false
	}
	if v[0] == '[' {
		mustScan(eachElement(v, func(_, start, end int) {
			ok = ok && unique(v[start:end], depth+1)
		}))
		return ok
	}
	var few [16]string
	keys := few[:0]
	_, err := eachMember(v, func(m member) {
		keys = append(keys, m.name())
		ok = ok && unique(v[m.start:m.end], depth+1)
	})
	mustScan(err)
	slices.Sort(keys)
	return ok && len(slices.Compact(keys)) == len(keys)
}

// findDuplicates reports the keys in v that occur more than once, and returns whether v is not too
// deep to be parsed.
func (p *parser) findDuplicates(path string, v []byte, depth int) bool {
	if v[0] != '{' && v[0] != '[' {
		return true
	}
	if depth > maxJSON {
		p.errorf(path, "nested more than %d deep", maxJSON)
		return false
	}
	ok := true
	if v[0] == '[' {
		mustScan(eachElement(v, func(n, start, end int) {
			if !unique(v[start:end], depth+1) {
				ok = p.findDuplicates(item(path, n), v[start:end], depth+1) && ok
			}
		}))
		return ok
	}
	seen := make(map[string]bool)
	_, err := eachMember(v, func(m member) {
		name := m.name()
		if seen[name] {
			p.errorf(in(path, name), "given more than once")
		}
		seen[name] = true
		if !unique(v[m.start:m.end], depth+1) {
			ok = p.findDuplicates(in(path, name), v[m.start:m.end], depth+1) && ok
		}
	})
	mustScan(err)
	return ok
}

// mustScan is for JSON that has been validated.
func mustScan(err error) {
	if err != nil {
		panic("routing: scanning a valid config: " + err.Error())
	}
}

// object visits the members of the object v.
func (p *parser) object(path string, v []byte, visit func(path, name string, v []byte)) bool {
	if v[0] != '{' {
		p.errorf(path, "expected an object")
		return false
	}
	_, err := eachMember(v, func(m member) {
		name := m.name()
		visit(in(path, name), name, v[m.start:m.end])
	})
	mustScan(err)
	return true
}

// list visits the elements of the array v, which must have least to most elements.
func (p *parser) list(path string, v []byte, least, most int, visit func(path string, v []byte)) bool {
	if v[0] != '[' {
		p.errorf(path, "expected an array")
		return false
	}
	n := 0
	mustScan(eachElement(v, func(i, start, end int) {
		if n++; i < most {
			visit(item(path, i), v[start:end])
		}
	}))
	if n < least || n > most {
		p.errorf(path, "expected %d to %d elements", least, most)
		return false
	}
	return true
}

// text reads a string of 1 to most bytes, free of control characters.
func (p *parser) text(path string, v []byte, most int) string {
	if v[0] != '"' {
		p.errorf(path, "expected a string")
		return ""
	}
	s := text(v)
	if s == "" || len(s) > most {
		p.errorf(path, "expected a string of 1 to %d bytes", most)
		return ""
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			p.errorf(path, "expected a string without control characters")
			return ""
		}
	}
	return s
}

func (p *parser) boolean(path string, v []byte) bool {
	if v[0] != 't' && v[0] != 'f' {
		p.errorf(path, "expected true or false")
	}
	return v[0] == 't'
}

// integer reads a number without a fraction; 30000.0 and 3e4 are valid.
func (p *parser) integer(path string, v []byte, least, most int) int {
	f, ok := number(v)
	if !ok || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		p.errorf(path, "expected an integer from %d to %d", least, most)
		return least
	}
	return int(f)
}

// number reads a JSON number.
func number(v []byte) (float64, bool) {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil
}

// statuses reads a list of HTTP status codes.
func (p *parser) statuses(path string, v []byte) *StatusSet {
	s := new(StatusSet)
	p.list(path, v, 1, 500, func(path string, v []byte) {
		code := p.integer(path, v, 100, 599)
		s[code/64] |= 1 << (code % 64)
	})
	return s
}
