package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GW_CASES is a folder with translation cases and a runner for them, run.mjs, which
// plays the providers and checks the requests and the answers. The answers are sent at
// once, and in pieces of one byte and of seven bytes.
func TestTranslationCases(t *testing.T) {
	runner := filepath.Join(os.Getenv("GW_CASES"), "run.mjs")
	if _, err := os.Stat(runner); os.Getenv("GW_CASES") == "" || err != nil {
		t.Skip("GW_CASES names no translation cases")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node")
	}
	p := newProcess(t)
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Replace(string(text), "\tgw {\n", "\tgw {\n\t\tblock_inline_config off\n\t\ttrusted_custom_hosts 127.0.0.1\n", 1)
	if err := os.WriteFile(p.file, []byte(open), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	for _, split := range []string{"0", "1", "7"} {
		out, err := exec.Command("node", runner, p.url+"/v1/chat/completions", "--key", p.key(), "--split", split, "--verbose").CombinedOutput()
		if err != nil {
			t.Errorf("split %s: %v\n%s", split, err, out)
		}
	}
}
