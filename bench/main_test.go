package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestQuickRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Caddy and runs it for some seconds")
	}
	var out, progress strings.Builder
	if err := command(t.Context(), []string{"-quick", "-json", "-connections", "2"}, &out, &progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var report Report
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatal(err, out.String())
	}
	if len(report.Results) != len(cases) {
		t.Fatalf("%d results; want %d", len(report.Results), len(cases))
	}
	if runtime.GOOS == "linux" && (report.Idle.Plain == 0 || report.Idle.Gateway == 0) {
		t.Errorf("%+v", report.Idle)
	}
	for _, r := range report.Results {
		if runtime.GOOS == "linux" && (r.Plain.PeakBytes == 0 || r.Gateway.PeakBytes == 0) {
			t.Errorf("no peak of memory: %+v", r)
		}
		if r.Plain.Requests == 0 || r.Gateway.Requests == 0 || r.Ratio.PerSecond == 0 || r.Ratio.P50 == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestFaultsOfTheCommandLine(t *testing.T) {
	for _, test := range []struct{ args, fault string }{
		{"-cases 3KB", `unknown case "3KB"`},
		{"-rest -1s", "must not be negative"},
		{"-rounds 0", "must be positive"},
		{"twice", `unexpected argument "twice"`},
		{"-caddy " + filepath.Join(t.TempDir(), "none"), "starting echo"},
	} {
		err := command(t.Context(), strings.Fields(test.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: got %v; want %q", test.args, err, test.fault)
		}
	}
}
