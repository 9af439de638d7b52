package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
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
	chart := filepath.Join(t.TempDir(), "chart.svg")
	if err := command(t.Context(), []string{"-quick", "-json", "-connections", "2", "-chart", chart}, &out, &progress); err != nil {
		t.Fatal(err, progress.String())
	}
	var report Report
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatal(err, out.String())
	}
	if len(report.Results) != len(cases) {
		t.Fatalf("%d results; want %d", len(report.Results), len(cases))
	}
	if runtime.GOOS == "linux" && (len(report.Idle) != 2 || report.Idle[0].Bytes == 0 || report.Idle[1].Bytes == 0) {
		t.Errorf("%+v", report.Idle)
	}
	for _, r := range report.Results {
		if len(r.Proxies) != 2 || r.Proxies[0].Proxy != plainName || r.Proxies[1].Proxy != gatewayName {
			t.Fatalf("%+v", r)
		}
		for _, p := range r.Proxies {
			if p.Requests == 0 || runtime.GOOS == "linux" && p.PeakBytes == 0 {
				t.Errorf("%s of %s: %+v", p.Proxy, r.Case, p)
			}
		}
		if of := r.Proxies[1].Ratio; of == nil || of.PerSecond == 0 || of.P50 == 0 {
			t.Errorf("%s: %+v", r.Case, of)
		}
	}
	drawn, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(drawn, new(struct{})); err != nil || runtime.GOOS == "linux" && strings.Count(string(drawn), "<rect") != 1+len(cases) {
		t.Errorf("the chart: %v\n%s", err, drawn)
	}
}

func TestFaultsOfTheCommandLine(t *testing.T) {
	for _, test := range []struct{ args, fault string }{
		{"-cases 3KB", `unknown case "3KB"`},
		{"-proxies plain,apache", `unknown proxy "apache"`},
		{"-proxies plain,plain", "named twice"},
		{"-proxies plain", "two proxies or more"},
		{"-proxies plain,other", "need each other"},
		{"-other caddy", "need each other"},
		{"-proxies plain,rate_limit", "need each other"},
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
