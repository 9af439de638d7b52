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

// Options are what Parse cannot know by itself. The zero Options suit an inline
// config.
type Options struct {
	// Saved: the config has a saved version; sticky and cb_config need one.
	Saved bool
	// Limits of the number of targets; zero: DefaultLimits.
	Limits Limits
	// SavedProvider reports whether a name without @ is a saved provider, which is
	// a complete target. nil: none is.
	SavedProvider func(name string) bool
	// Missing says why something that a config names is not there, "" where it is; nil: nobody
	// looks.
	Missing func(Reference) string
	// Semantic: answers may be found by the meaning of a question.
	Semantic bool
	// CheckHost guards custom_host and the vendors' keys that are addresses; its
	// error says what is wrong with the host, and is shown. nil: whoever calls the
	// target checks them.
	CheckHost func(host string) error
	// HeaderPrefixes start the gateway's headers besides x-gw-, in lower case.
	HeaderPrefixes []string
}

// Limits are how many elements a list of targets may have.
type Limits struct {
	Root            int // of the config
	ConditionalRoot int // of the config, where its strategy is conditional
	Nested          int // of a target
}

// DefaultLimits are the limits of an operator who says nothing else.
var DefaultLimits = Limits{Root: 100, ConditionalRoot: 1000, Nested: 50}

// LimitsFrom reads the limits from the environment: MAX_ROOT_CONFIG_TARGETS,
// MAX_CONDITIONAL_ROOT_CONFIG_TARGETS and MAX_NESTED_CONFIG_TARGETS, each a number
// from 1 to 10000; one that is not set keeps its default.
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
	maxJSON   = 64        // how deep a config nests, values of parameters included
	maxNested = 10        // how deep targets nest
)

// Parse reads a config: snake_case keys only, each known and given once. It returns
// the config, or every fault in it.
func Parse(raw []byte, o Options) (*Config, Faults) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	p := &parser{options: &o, config: new(Config), fieldOf: make(map[string]int)}
	if p.whole(raw) {
		p.config.Root = p.target("", bytes.Clone(raw[space(raw, 0):]), nil)
	}
	if p.unlisted > 0 {
		p.faults = append(p.faults, Fault{"", fmt.Sprintf("%d more faults", p.unlisted)})
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	p.config.Root.inherit()
	return p.config, nil
}

type parser struct {
	options  *Options
	config   *Config
	faults   Faults
	unlisted int
	said     int            // bytes of the faults
	fieldOf  map[string]int // index in config.fields
	regexes  int            // instructions of all that were compiled
}

// whole reports whether raw is one JSON object, within the bounds.
func (p *parser) whole(raw []byte) bool {
	if len(raw) > maxConfig {
		p.fault("", "expected at most %d KiB", maxConfig>>10)
		return false
	}
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		where := ""
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			where = fmt.Sprintf(": it stops being one at byte %d", syntax.Offset)
		}
		p.fault("", "expected a JSON object%s", where)
		return false
	}
	if !utf8.Valid(raw) {
		p.fault("", "expected UTF-8")
		return false
	}
	v := raw[space(raw, 0):]
	if v[0] != '{' {
		p.fault("", "expected a JSON object")
		return false
	}
	return unique(v, 1) || p.once("", v, 1)
}

// unique reports whether every key in v is given once and v is not too deep.
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

// once lists the keys in v that are given more than once, and reports whether v is
// not too deep to be read.
func (p *parser) once(path string, v []byte, depth int) bool {
	if v[0] != '{' && v[0] != '[' {
		return true
	}
	if depth > maxJSON {
		p.fault(path, "nested more than %d deep", maxJSON)
		return false
	}
	ok := true
	if v[0] == '[' {
		mustScan(eachElement(v, func(n, start, end int) {
			if !unique(v[start:end], depth+1) {
				ok = p.once(item(path, n), v[start:end], depth+1) && ok
			}
		}))
		return ok
	}
	seen := make(map[string]bool)
	_, err := eachMember(v, func(m member) {
		name := m.name()
		if seen[name] {
			p.fault(in(path, name), "given more than once")
		}
		seen[name] = true
		if !unique(v[m.start:m.end], depth+1) {
			ok = p.once(in(path, name), v[m.start:m.end], depth+1) && ok
		}
	})
	mustScan(err)
	return ok
}

// mustScan is for JSON that whole has seen.
func mustScan(err error) {
	if err != nil {
		panic("routing: scanning a valid config: " + err.Error())
	}
}

// object visits the members of the object v.
func (p *parser) object(path string, v []byte, visit func(path, name string, v []byte)) bool {
	if v[0] != '{' {
		p.fault(path, "expected an object")
		return false
	}
	_, err := eachMember(v, func(m member) {
		name := m.name()
		visit(in(path, name), name, v[m.start:m.end])
	})
	mustScan(err)
	return true
}

// list visits the elements of the array v, of which there must be least to most.
func (p *parser) list(path string, v []byte, least, most int, visit func(path string, v []byte)) bool {
	if v[0] != '[' {
		p.fault(path, "expected an array")
		return false
	}
	n := 0
	mustScan(eachElement(v, func(i, start, end int) {
		if n++; i < most {
			visit(item(path, i), v[start:end])
		}
	}))
	if n < least || n > most {
		p.fault(path, "expected %d to %d elements", least, most)
		return false
	}
	return true
}

// text reads a string of 1 to most bytes, free of control characters.
func (p *parser) text(path string, v []byte, most int) string {
	if v[0] != '"' {
		p.fault(path, "expected a string")
		return ""
	}
	s := text(v)
	if s == "" || len(s) > most {
		p.fault(path, "expected a string of 1 to %d bytes", most)
		return ""
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			p.fault(path, "expected a string without control characters")
			return ""
		}
	}
	return s
}

func (p *parser) boolean(path string, v []byte) bool {
	if v[0] != 't' && v[0] != 'f' {
		p.fault(path, "expected true or false")
	}
	return v[0] == 't'
}

// integer reads a number without fraction; 30000.0 and 3e4 are ones too.
func (p *parser) integer(path string, v []byte, least, most int) int {
	f, ok := number(v)
	if !ok || f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		p.fault(path, "expected an integer from %d to %d", least, most)
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
