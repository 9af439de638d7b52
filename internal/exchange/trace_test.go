package exchange

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

const (
	aTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	aParent = "00f067aa0ba902b7"
)

func TestATraceparentIsReadAsW3CSays(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"00-" + aTrace + "-" + aParent + "-01":                  true,
		"00-" + aTrace + "-" + aParent + "-00":                  true,
		"cc-" + aTrace + "-" + aParent + "-01":                  true,
		"cc-" + aTrace + "-" + aParent + "-01-what-comes-later": true,
		"cc-" + aTrace + "-" + aParent + "-01.what-comes-later": false,
		"00-" + aTrace + "-" + aParent + "-01-what-comes-later": false,
		"ff-" + aTrace + "-" + aParent + "-01":                  false,
		"00-" + strings.ToUpper(aTrace) + "-" + aParent + "-01": false,
		"00-" + strings.Repeat("0", 32) + "-" + aParent + "-01": false,
		"00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01":  false,
		"00-" + aTrace + "-" + aParent + "-0x":                  false,
		"00-" + aTrace + "-" + aParent + "-0":                   false,
		"00_" + aTrace + "_" + aParent + "_01":                  false,
		"00-" + strings.Repeat("-", 32) + "-" + aParent + "-01": false,
		"00-" + aTrace[1:] + "-" + aParent + "-011":             false,
		"":  false,
		"-": false,
	} {
		trace, parent, ok := traceparent(map[string][]string{"Traceparent": {value}})
		if ok != want || ok && (trace != aTrace || parent != aParent) {
			t.Errorf("%q: got %q, %q, %v", value, trace, parent, ok)
		}
	}
	value := "00-" + aTrace + "-" + aParent + "-01"
	if _, _, ok := traceparent(map[string][]string{"Traceparent": {value, value}}); ok {
		t.Error("two headers were taken for one")
	}
}

func BenchmarkTraceparent(b *testing.B) {
	h := map[string][]string{"Traceparent": {"00-" + aTrace + "-" + aParent + "-01"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := traceparent(h); !ok {
			b.Fatal("not read")
		}
	}
}

func TestSpansAreTheCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const tp = "00-" + aTrace + "-" + aParent + "-01"
	long := strings.Repeat("a", maxTraceID+1)
	made := regexp.MustCompile(`^[0-9a-f]{16}$`)
	for _, c := range []struct {
		name   string
		header []string
		want   Span // an ID of "?" is a new one
	}{
		{"none", nil, Span{}},
		{"its own", []string{"x-gw-span-id", "s", "x-gw-parent-span-id", "p", "x-gw-span-name", "the name"}, Span{"s", "p", "the name"}},
		{"of a traceparent", []string{"traceparent", tp}, Span{"?", aParent, "POST /v1/chat/completions"}},
		{"its own before a traceparent", []string{"traceparent", tp, "x-gw-span-id", "s", "x-gw-parent-span-id", "p", "x-acme-span-name", "n"}, Span{"s", "p", "n"}},
		{"out of bounds", []string{"x-gw-span-id", long, "x-gw-parent-span-id", "ä", "x-gw-span-name", "a\tb"}, Span{}},
		{"said twice", []string{"x-gw-span-id", "a", "x-gw-span-id", "b"}, Span{}},
		{"out of bounds, with a traceparent", []string{"traceparent", tp, "x-gw-span-id", long}, Span{"?", aParent, "POST /v1/chat/completions"}},
	} {
		r := w.call(`{}`, c.header...)
		x := w.Begin(httptest.NewRecorder(), r, endpointOf(r))
		x.Close()
		got := x.Trace.Span
		if c.want.ID == "?" && made.MatchString(got.ID) {
			got.ID = "?"
		}
		if got != c.want {
			t.Errorf("%s: got %+v", c.name, x.Trace.Span)
		}
	}
}

func TestBeginNamesTheTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	made := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, c := range []struct {
		name   string
		header []string
		want   string // "": a new one
	}{
		{"none", nil, ""},
		{"the caller's", []string{"x-gw-trace-id", "mine 1"}, "mine 1"},
		{"the caller's under an alias", []string{"x-acme-trace-id", "mine"}, "mine"},
		{"the caller's before the traceparent", []string{"x-gw-trace-id", "mine", "traceparent", parent}, "mine"},
		{"the traceparent", []string{"traceparent", parent}, "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"no traceparent", []string{"traceparent", "00-xyz-00f067aa0ba902b7-01"}, ""},
		{"a traceparent that is not a number", []string{"traceparent", "00-" + strings.Repeat("x", 32) + "-00f067aa0ba902b7-01"}, ""},
		{"two", []string{"x-gw-trace-id", "a", "x-gw-trace-id", "b"}, ""},
		{"one that is too long", []string{"x-gw-trace-id", strings.Repeat("a", maxTraceID+1)}, ""},
		{"the longest one", []string{"x-gw-trace-id", strings.Repeat("a", maxTraceID)}, strings.Repeat("a", maxTraceID)},
		{"one with control characters", []string{"x-gw-trace-id", "a\tb"}, ""},
		{"one outside ASCII", []string{"x-gw-trace-id", "ä"}, ""},
	} {
		r := w.call(`{}`, c.header...)
		answer := httptest.NewRecorder()
		x := w.Begin(answer, r, endpointOf(r))
		x.Close()
		if c.want == "" && !made.MatchString(x.Trace.ID) || c.want != "" && x.Trace.ID != c.want {
			t.Errorf("%s: got %q", c.name, x.Trace.ID)
		}
		if answer.Header().Get("X-Gw-Trace-Id") != x.Trace.ID || answer.Header().Get("X-Acme-Trace-Id") != x.Trace.ID {
			t.Errorf("%s: answered with %v", c.name, answer.Header())
		}
	}
}
