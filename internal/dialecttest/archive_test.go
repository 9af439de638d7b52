package dialecttest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/providers"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// fails is what a test that reads cases and checks a member a fails with, if files are
// all that testdata has.
func fails(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		for _, a := range Archives(r) {
			a.Case(r)
			a.Check(r, "out.json", []byte("1\n"))
			a.checkSeen(r)
		}
	}()
	<-done
	return strings.Join(r.failures, "\n")
}

func TestACaseThatDoesNotHoldWhatItSaysFails(t *testing.T) {
	const call = "-- call.json --\n{\"body\":{}}\n"
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"as it should be":       {"a.txtar", call + "-- out.json --\n1\n", ""},
		"a changed byte":        {"a.txtar", call + "-- out.json --\n2\n", "a.txtar: out.json: got\n1\n"},
		"nothing expected":      {"a.txtar", call, "a.txtar: there is no out.json"},
		"an unknown member":     {"a.txtar", call + "-- out.json --\n1\n-- notes --\n", "nothing reads the member notes"},
		"a misspelt member":     {"a.txtar", call + "-- out.jsn --\n1\n", "nothing reads the member out.jsn"},
		"a member that is none": {"a.txtar", call + "-- out.json--\n1\n", "there is no out.json"},
		"a member twice":        {"a.txtar", call + "-- out.json --\n1\n-- out.json --\n1\n", "out.json is there twice"},
		"no call":               {"a.txtar", "-- out.json --\n1\n", "call.json: EOF"},
		"an unknown field":      {"a.txtar", "-- call.json --\n{\"strcit\":true}\n-- out.json --\n1\n", `unknown field "strcit"`},
		"a misspelt file":       {"a.txtr", call + "-- out.json --\n1\n", "testdata/a.txtr is not a case"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fails(t, map[string]string{c.file: c.text}); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := fails(t, nil); !strings.Contains(got, "no cases in testdata") {
		t.Errorf("of no cases: got %q", got)
	}
}

func TestACaseIsWrittenAsItWasRead(t *testing.T) {
	const text = "What it shows.\n-- call.json --\n{\"body\":{}}\n-- out.json --\n1\n-- out.sse --\ndata: a\r\n\n"
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "a.txtar")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	*update = true
	t.Cleanup(func() { *update = false })
	a := Open(t, "a.txtar")
	if c := a.Case(t); c.Endpoint != providers.ChatComplete || !slices.Equal(c.Body, []byte("{}")) {
		t.Errorf("got %+v", c)
	}
	a.Check(t, "out.json", []byte("2\n"))
	got, err := os.ReadFile(file)
	if want := strings.Replace(text, "\n1\n", "\n2\n", 1); err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
