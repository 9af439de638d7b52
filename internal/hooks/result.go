package hooks

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Result is what a hook says of a call or an answer.
type Result struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	Skipped       bool            `json:"skipped,omitempty"`
	Verdict       bool            `json:"verdict"`
	State         State           `json:"state"`
	Deny          bool            `json:"deny"`
	Async         bool            `json:"async"`
	Transformed   bool            `json:"transformed"`
	Checks        []CheckResult   `json:"checks"`
	Feedback      *FeedbackResult `json:"feedback"`
	ExecutionTime int64           `json:"execution_time"` // ms
	CreatedAt     time.Time       `json:"created_at"`
	VersionID     string          `json:"guardrail_version_id,omitempty"`
	EventType     string          `json:"event_type,omitempty"`
}

// A State says how a verdict came about.
type State string

// The states.
const (
	Passed        State = "passed"
	Failed        State = "failed"
	ErroredPassed State = "errored_passed" // a check could not judge, and the hook lets that pass
	Dropped       State = "dropped"        // it was to run after the answer, and there was no room for it, or nothing to read
)

// DroppedResults are those of hooks, async or not, that were to run in a phase after the answer and
// did not.
func DroppedResults(list []*Hook, phase guardrails.Phase, async bool, at time.Time) (results []Result) {
	for _, h := range list {
		if h.Async == async && (!h.Mutator || !async) {
			r := newResult(h, phase, at)
			r.Skipped, r.State = true, Dropped
			results = append(results, r)
		}
	}
	return results
}

// newResult is the result of a hook that has not run yet.
func newResult(h *Hook, phase guardrails.Phase, at time.Time) Result {
	r := Result{
		ID: h.ID, Type: "guardrail", Async: h.Async, VersionID: h.VersionID, EventType: phase.Event(), CreatedAt: at.UTC(),
		Verdict: true, State: Passed, Checks: []CheckResult{},
	}
	if h.Mutator {
		r.Type = "mutator"
	}
	return r
}

// Counted is the state that metrics count: of a hook that refuses, denied.
func (r *Result) Counted() string {
	if r.Deny {
		return "denied"
	}
	return string(r.State)
}

// add adds what a check says.
func (r *Result) add(c *CheckResult) {
	switch {
	case c.Verdict:
	case c.Error != nil && !c.FailOnError && !c.Error.fails:
		if r.State == Passed {
			r.State = ErroredPassed
		}
	default:
		r.Verdict, r.State = false, Failed
	}
	r.Checks = append(r.Checks, *c)
}

// A CheckResult is what one check says.
type CheckResult struct {
	ID            string      `json:"id"`
	Verdict       bool        `json:"verdict"`
	Error         *CheckError `json:"error"`
	Data          any         `json:"data"`
	Transformed   bool        `json:"transformed"`
	ExecutionTime int64       `json:"execution_time"` // ms
	CreatedAt     time.Time   `json:"created_at"`
	FailOnError   bool        `json:"fail_on_error"`
}

// A CheckError says why a check could not judge.
type CheckError struct {
	Name    string `json:"name"` // Error, TimeoutError or UnreadableError
	Message string `json:"message"`

	fails bool // whatever fail_on_error says: see [checkError]
}

// Worse merges the results of hooks about several bodies: of each hook, those about the body that it
// objects to most, and of equal ones the first. Both lists are of the same hooks; the first may be
// nil. The execution times are added.
func Worse(before, now []Result) []Result {
	if before == nil {
		return now
	}
	for i := range before {
		took := before[i].ExecutionTime + now[i].ExecutionTime
		if now[i].severity() > before[i].severity() {
			before[i] = now[i]
		}
		before[i].ExecutionTime = took
	}
	return before
}

// severity is the greater the more a hook objects.
func (r *Result) severity() int {
	switch {
	case r.Deny:
		return 3
	case !r.Verdict:
		return 2
	case r.State == ErroredPassed:
		return 1
	}
	return 0
}

// A FeedbackResult is the grade that a call gets.
type FeedbackResult struct {
	Value    float64         `json:"value"`
	Weight   float64         `json:"weight"`
	Metadata json.RawMessage `json:"metadata"`
}

// grade sets the feedback of a result, according to its checks.
func (r *Result) grade(h *Hook) {
	var passed, failed, errored []string
	for _, c := range r.Checks {
		switch {
		case c.Error != nil:
			errored = append(errored, c.ID)
		case c.Verdict:
			passed = append(passed, c.ID)
		default:
			failed = append(failed, c.ID)
		}
	}
	f := h.OnSuccess
	if len(failed) > 0 {
		f = h.OnFail
	}
	if f == nil {
		return
	}
	var b jsonscan.Builder
	b.Open('{')
	if f.Metadata != nil {
		_ = jsonscan.Members(f.Metadata, func(m jsonscan.Member) error { // it is an object
			b.Key(m.Key.String()).Raw(f.Metadata[m.Start:m.End])
			return nil
		})
	}
	b.Key("successfulChecks").Text(strings.Join(passed, ","))
	b.Key("failedChecks").Text(strings.Join(failed, ","))
	b.Key("erroredChecks").Text(strings.Join(errored, ","))
	b.Close('}')
	r.Feedback = &FeedbackResult{Value: f.Value, Weight: f.Weight, Metadata: json.RawMessage(b)}
}

// conceal leaves of the data of checks only their explanations: the rest may repeat a text that
// was replaced, or that nobody is to get.
func conceal(results []Result) {
	for i := range results {
		for j := range results[i].Checks {
			c := &results[i].Checks[j]
			encoded, err := json.Marshal(c.Data)
			var kept struct {
				Explanation string `json:"explanation,omitempty"`
			}
			if err != nil || json.Unmarshal(encoded, &kept) != nil || kept.Explanation == "" {
				c.Data = nil
				continue
			}
			c.Data = kept
		}
	}
}

// Explanations returns results without what checks say of the texts, apart from their explanations.
func Explanations(results []Result) []Result {
	bare := slices.Clone(results)
	for i := range bare {
		bare[i].Checks = slices.Clone(bare[i].Checks)
	}
	conceal(bare)
	return bare
}

// JSON is what answers have as hook_results.
func JSON(before, after []Result) json.RawMessage {
	if before == nil {
		before = []Result{}
	}
	if after == nil {
		after = []Result{}
	}
	encoded, err := json.Marshal(struct {
		Before []Result `json:"before_request_hooks"`
		After  []Result `json:"after_request_hooks"`
	}{before, after})
	if err != nil { // the data of some check cannot be encoded
		conceal(before)
		conceal(after)
		return JSON(before, after)
	}
	return encoded
}
