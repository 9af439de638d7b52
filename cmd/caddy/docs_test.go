package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A block is a fenced block of a document; info is what follows its fence.
type block struct{ file, info, text string }

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
				all = append(all, block{file, m[1], m[2]})
			}
		}
	}
	return all
}

func TestConfigurationsInTheDocumentsAreFormattedAndValid(t *testing.T) {
	p := newProcess(t)
	for _, name := range []string{"GW_ADMIN_KEY", "GW_ENCRYPTION_KEY", "OPENAI_API_KEY", "LOCAL_KEY"} {
		t.Setenv(name, strings.Repeat("k", 32))
	}
	seen := 0
	for _, b := range blocks(t) {
		var steps [][]string
		switch b.info {
		case "caddyfile":
			steps = [][]string{{"fmt", "--diff"}, {"validate", "--adapter", "caddyfile", "--config"}}
		case "json config":
			steps = [][]string{{"validate", "--config"}}
		default:
			continue
		}
		seen++
		file := filepath.Join(p.home, "config")
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range steps {
			if out, err := p.command(append(args, file)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s\n%s", b.file, args[0], err, b.text, out)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d configurations found", seen)
	}
}

func TestCommandsInTheDocumentsWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	p := newProcess(t)
	p.start()
	seen := 0
	for _, b := range blocks(t) {
		if b.info != "sh run" {
			continue
		}
		seen++
		cmd := exec.Command("sh", "-euc", strings.ReplaceAll(b.text, "curl ", "curl --fail-with-body "))
		cmd.Env = append(os.Environ(), "GW="+p.url, "KEY="+p.key())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", b.file, err, b.text, out)
		}
	}
	if seen < 3 {
		t.Errorf("only %d commands found", seen)
	}
}
