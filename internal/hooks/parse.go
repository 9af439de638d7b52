package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

// A List is a list of hooks in a config.
type List uint8

// The lists, in the order in which their hooks run in each phase.
const (
	BeforeRequest List = iota
	InputGuardrails
	InputMutators
	AfterRequest
	OutputGuardrails
	OutputMutators
	StartHooks // they run before all others, once for a call
	Lists      // how many there are
)

// Keys are the keys of the lists in a config.
var Keys = [Lists]string{
	"before_request_hooks", "input_guardrails", "input_mutators", "after_request_hooks", "output_guardrails", "output_mutators", "start_hooks",
}

// explicit reports whether the elements of a list are hooks, and not names or shorthands.
func (l List) explicit() bool { return l == BeforeRequest || l == AfterRequest }

// A reader reads hooks, and reports faults.
type reader struct {
	report  func(path, message string)
	list    List
	options Options
	saved   bool // the list is not known
	regexes *int // the size of those of the checks so far
	faults  int  // that were reported
}

func newReader(list List, o Options, report func(path, message string)) *reader {
	r := &reader{list: list, options: o, regexes: o.Regexes}
	if r.regexes == nil {
		r.regexes = new(int)
	}
	r.report = func(path, message string) {
		if r.faults++; r.faults <= maxFaults {
			report(path, message)
		}
	}
	return r
}

// maxFaults bounds how many faults of a list are reported.
const maxFaults = 100

// Options say what is a fault of a hook.
type Options struct {
	// Broken: checks that cannot be made, or never judge in their list, are no faults, as in a config that was saved when
	// its checks were right. Such a check is reported when it is to run.
	Broken bool
	// CheckHost checks where checks send something, such as https://checks.example.com. Its error is shown to the user.
	// If it is nil, that is checked before something is sent.
	CheckHost func(host string) error
	// Regexes counts the size of the regular expressions of all lists of a config; nil: those of the list count alone.
	Regexes *int
}

// maxRegexes bounds the regular expressions of the checks of a guardrail, or of a config, in instructions.
const maxRegexes = 30_000

// phases are when the hooks of the lists run.
var phases = [Lists]guardrails.Phase{
	guardrails.Input, guardrails.Input, guardrails.Input, guardrails.Output, guardrails.Output, guardrails.Output, guardrails.Start,
}

// misplaced says that a check never judges in a phase, and where it does; "": it does.
func misplaced(kind *guardrails.Kind, phase guardrails.Phase) string {
	if kind.Phases.Has(phase) {
		return ""
	}
	var lists []string
	for list, key := range Keys {
		if kind.Phases.Has(phases[list]) {
			lists = append(lists, key)
		}
	}
	of := [...]string{guardrails.Input: "calls", guardrails.Output: "answers", guardrails.Start: "the start of a call, without its body"}[phase]
	return fmt.Sprintf("%s cannot judge %s: expected it in %s", kind.ID, of, strings.Join(lists, ", "))
}

// Misplaced says which of the checks of a hook never judges in a phase; "": all do.
func (h *Hook) Misplaced(phase guardrails.Phase) string {
	for i := range h.Checks {
		u := &h.Checks[i]
		if kind := guardrails.Lookup(u.ID); kind != nil && !u.Disabled {
			if why := misplaced(kind, phase); why != "" {
				return why
			}
		}
	}
	return ""
}

// Phase is when the hooks of the list run.
func (l List) Phase() guardrails.Phase { return phases[l] }

func (r *reader) errorf(path, format string, args ...any) {
	r.report(path, fmt.Sprintf(format, args...))
}

// Parse reads a list of a config at a path. raw is valid JSON. Unless [Options] say otherwise, unknown checks,
// what is wrong with the parameters of checks, and checks that never judge in the list are faults.
func Parse(list List, path string, raw []byte, o Options, report func(path, message string)) []*Hook {
	r := newReader(list, o, report)
	v := gjson.ParseBytes(raw)
	if !v.IsArray() {
		r.errorf(path, "expected an array")
		return nil
	}
	hooks := []*Hook{} // an empty list is not the same as none: it is not inherited
	v.ForEach(func(_, v gjson.Result) bool {
		at := fmt.Sprintf("%s[%d]", path, len(hooks))
		if len(hooks) == maxHooks {
			r.errorf(path, "expected at most %d elements", maxHooks)
			return false
		}
		h := &Hook{Mutator: list == InputMutators || list == OutputMutators}
		h.defaults()
		switch {
		case v.IsObject():
			r.object(h, at, v)
			if h.Deny && len(h.Checks) == 0 && h.Slug == "" && !o.Broken {
				r.errorf(at, "expected at least one check in addition to deny, or the id of a saved guardrail without it")
			}
		case v.Type != gjson.String || list.explicit():
			r.errorf(at, "expected an object%s", map[bool]string{false: " or the slug of a guardrail"}[list.explicit()])
		case v.Str == "" || len(v.Str) > 256:
			r.errorf(at, "expected a slug of 1 to 256 bytes")
		default:
			h.Slug = v.Str
		}
		h.Key = key([]byte(v.Raw), []byte(Keys[list]))
		if list == StartHooks && (h.Mutator || h.Async) {
			r.errorf(at, "expected a guardrail that is not async: start hooks decide, and change nothing")
		}
		if h.ID == "" {
			h.ID = h.Slug
		}
		if h.ID == "" {
			h.ID = strings.TrimSuffix(Keys[list], "s") + "_" + strconv.Itoa(len(hooks))
		}
		hooks = append(hooks, h)
		return true
	})
	return hooks
}

// Saved makes a hook of a saved guardrail's checks and actions. Faults are those of the parameters
// of checks, too, of unknown checks, and of checks that never judge in the same phase.
func Saved(checks, actions []byte, o Options, report func(path, message string)) *Hook {
	r := newReader(BeforeRequest, o, report)
	r.saved = true
	h := &Hook{Key: key(checks, actions)}
	h.defaults()
	if v := gjson.ParseBytes(checks); !v.IsArray() || !v.Get("0").Exists() {
		r.errorf("checks", "expected an array of at least one check")
	} else {
		r.checks(h, "checks", v)
		if !o.Broken && h.Misplaced(guardrails.Input) != "" && h.Misplaced(guardrails.Output) != "" && h.Misplaced(guardrails.Start) != "" {
			r.errorf("checks", "expected checks that judge the same: %s; %s", h.Misplaced(guardrails.Input), h.Misplaced(guardrails.Output))
		}
	}
	v := gjson.ParseBytes(actions)
	if len(actions) > 0 && !v.IsObject() {
		r.errorf("actions", "expected an object")
	}
	v.ForEach(func(key, v gjson.Result) bool {
		if at := "actions." + key.Str; !r.action(h, at, key.Str, v) {
			r.errorf(at, "unknown key")
		}
		return true
	})
	return h
}

// key is a digest of what a hook was read from.
func key(parts ...[]byte) string {
	d := sha256.New()
	for _, p := range parts {
		d.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		d.Write([]byte(":"))
		d.Write(p)
	}
	return hex.EncodeToString(d.Sum(nil))
}

func (h *Hook) defaults() {
	h.Timeout = defaultTimeout
	h.Stream = Stream{Buffer: defaultBuffer, Window: defaultWindow, Hold: defaultHold}
}

// object reads a hook, or the shorthand for one: an object whose keys are checks.
func (r *reader) object(h *Hook, at string, v gjson.Result) {
	named, checked, settings := false, false, ""
	v.ForEach(func(key, v gjson.Result) bool {
		name, path := key.Str, at+"."+key.Str
		switch {
		case name == "id":
			h.ID = r.text(path, v)
			named = true
		case name == "type":
			switch v.Str {
			case "guardrail":
			case "mutator":
				h.Mutator = true
			default:
				r.errorf(path, "expected guardrail or mutator")
			}
		case name == "guardrail_version_id":
			h.VersionID = r.text(path, v)
		case name == "checks" && v.IsArray():
			r.checks(h, path, v)
			checked = true
		case r.action(h, path, name, v):
			settings = path
		case r.list.explicit():
			r.errorf(path, "unknown key")
		case !v.IsObject():
			r.errorf(path, "expected an object of parameters")
		case len(h.Checks) == maxChecks:
			r.errorf(at, "expected at most %d checks", maxChecks)
		default:
			id := name
			if given := v.Get("id"); given.Type == gjson.String && given.Str != "" {
				id = given.Str
			}
			h.Checks = append(h.Checks, r.use(path, path, id, []byte(v.Raw), v.Get("is_enabled"), v))
			checked = true
		}
		return true
	})
	if named && !checked { // it names a saved guardrail
		if h.Slug = h.ID; settings != "" {
			r.errorf(settings, "a saved guardrail has settings of its own: expected only id, type and guardrail_version_id where there are no checks")
		}
	}
}

// checks reads a list of checks.
func (r *reader) checks(h *Hook, at string, v gjson.Result) {
	v.ForEach(func(_, v gjson.Result) bool {
		if r.faults >= maxFaults {
			return false
		}
		path := fmt.Sprintf("%s[%d]", at, len(h.Checks))
		if len(h.Checks) == maxChecks {
			r.errorf(at, "expected at most %d checks", maxChecks)
			return false
		}
		if !v.IsObject() {
			r.errorf(path, "expected an object")
			h.Checks = append(h.Checks, Use{Disabled: true})
			return true
		}
		id, parameters := v.Get("id"), v.Get("parameters")
		enabled := v.Get("is_enabled")
		switch {
		case id.Type != gjson.String || id.Str == "":
			r.errorf(path+".id", "required: the id of a check")
			h.Checks = append(h.Checks, Use{Disabled: true})
		case parameters.Exists() && parameters.Type != gjson.Null && !parameters.IsObject():
			r.errorf(path+".parameters", "expected an object")
			h.Checks = append(h.Checks, Use{Disabled: true})
		default:
			h.Checks = append(h.Checks, r.use(path+".id", path+".parameters", id.Str, []byte(parameters.Raw), enabled, parameters))
		}
		return true
	})
}

// use makes a check of what stands at two paths. A name without a vendor is one of the default
// checks.
func (r *reader) use(atID, at, id string, parameters json.RawMessage, enabled, options gjson.Result) Use {
	if !strings.Contains(id, ".") {
		id = "default." + id
	}
	u := Use{ID: id, Disabled: enabled.Type == gjson.False, FailOnErr: options.Get("failOnError").Bool()}
	kind := guardrails.Lookup(id)
	if kind == nil {
		u.Err = fmt.Errorf("there is no check %s", guardrails.Excerpt(id))
		if !r.options.Broken {
			r.report(atID, u.Err.Error())
		}
		return u
	}
	var faults []*guardrails.ParameterError
	u.Check, faults = kind.Try(parameters)
	for _, fault := range faults {
		if u.Check == nil && u.Err == nil && !fault.Unknown {
			u.Err = fault
		}
		if !r.options.Broken {
			r.report(strings.TrimSuffix(at+"."+fault.Name, "."), fault.Message)
		}
	}
	if sized, ok := u.Check.(guardrails.Sized); ok {
		if *r.regexes += sized.Size(); *r.regexes > maxRegexes {
			u.Check, u.Err = nil, fmt.Errorf("the regular expressions of the checks are too long together: expected at most %d characters once their repetitions are written out", maxRegexes)
			if !r.options.Broken {
				r.report(at, u.Err.Error())
			}
		}
	}
	if !r.options.Broken {
		r.place(atID, at, kind, parameters, u.Disabled)
	}
	return u
}

// place reports a check that never judges in the list, or sends something to a host that it may not.
func (r *reader) place(atID, at string, kind *guardrails.Kind, parameters json.RawMessage, disabled bool) {
	if why := misplaced(kind, r.list.Phase()); why != "" && !r.saved && !disabled {
		r.report(atID, why)
	}
	if r.options.CheckHost == nil {
		return
	}
	for _, a := range kind.Addresses(parameters) {
		if err := r.options.CheckHost(a.Host); err != nil {
			r.report(at+"."+a.Name, err.Error())
		}
	}
}

// action reads what follows from verdicts, and how they are made. It reports whether it knows
// the key.
func (r *reader) action(h *Hook, at, name string, v gjson.Result) bool {
	switch name {
	case "deny":
		h.Deny = r.boolean(at, v)
	case "soft_deny_200":
		h.SoftDeny = r.boolean(at, v)
	case "async":
		h.Async = r.boolean(at, v)
	case "sequential":
		h.Sequential = r.boolean(at, v)
	case "fail_on_error", "failOnError":
		h.FailOnErr = r.boolean(at, v)
	case "on_success":
		h.OnSuccess = r.feedback(at, v)
	case "on_fail":
		h.OnFail = r.feedback(at, v)
	case "all_turns":
		h.Scope.AllTurns = r.boolean(at, v)
	case "system":
		h.Scope.System = r.boolean(at, v)
	case "tool_arguments":
		h.Scope.ToolArguments = r.boolean(at, v)
	case "tool_results":
		h.Scope.ToolResults = r.boolean(at, v)
	case "choices":
		h.Scope.Choices = r.boolean(at, v)
	case "instructions":
		h.Scope.Instructions = r.boolean(at, v)
	case "stream_mode":
		h.Stream.Mode = StreamMode(v.Str)
		if m := h.Stream.Mode; m != Buffer && m != Window && m != After {
			r.errorf(at, "expected buffer, window or after")
		}
	case "max_buffer_bytes":
		h.Stream.Buffer = r.integer(at, v, 1, maxBuffer)
	case "window_bytes":
		h.Stream.Window = r.integer(at, v, minHold, maxWindow)
	case "overlap_bytes":
		h.Stream.Hold = r.integer(at, v, minHold, maxWindow)
	case "timeout":
		h.Timeout = time.Duration(r.integer(at, v, 1, int(maxTimeout/time.Millisecond))) * time.Millisecond
	default:
		return false
	}
	return true
}

func (r *reader) text(at string, v gjson.Result) string {
	if v.Type != gjson.String || v.Str == "" || len(v.Str) > 256 {
		r.errorf(at, "expected a string of 1 to 256 bytes")
	}
	return v.Str
}

func (r *reader) boolean(at string, v gjson.Result) bool {
	if v.Type != gjson.True && v.Type != gjson.False {
		r.errorf(at, "expected true or false")
	}
	return v.Type == gjson.True
}

func (r *reader) integer(at string, v gjson.Result, least, most int) int {
	if n := v.Num; v.Type != gjson.Number || n != math.Trunc(n) || n < float64(least) || n > float64(most) {
		r.errorf(at, "expected an integer from %d to %d", least, most)
		return least
	}
	return int(v.Num)
}

// feedback reads on_success or on_fail.
func (r *reader) feedback(at string, v gjson.Result) *Feedback {
	given := v.Get("feedback")
	switch {
	case !v.IsObject():
		r.errorf(at, "expected an object")
		return nil
	case !given.Exists() || given.Type == gjson.Null:
		return nil
	case !given.IsObject():
		r.errorf(at+".feedback", "expected an object")
		return nil
	}
	f := &Feedback{Weight: 1}
	for name, to := range map[string]*float64{"value": &f.Value, "weight": &f.Weight} {
		switch n := given.Get(name); n.Type {
		case gjson.Null:
		case gjson.Number:
			*to = n.Num
		default:
			r.errorf(at+".feedback."+name, "expected a number")
		}
	}
	switch m := given.Get("metadata"); {
	case m.IsObject():
		f.Metadata = json.RawMessage(m.Raw)
	case m.Type == gjson.String && gjson.Valid(m.Str) && gjson.Parse(m.Str).IsObject():
		f.Metadata = json.RawMessage(m.Str)
	case m.Type != gjson.Null && m.Type != gjson.String:
		r.errorf(at+".feedback.metadata", "expected an object")
	}
	return f
}
