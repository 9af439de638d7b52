package main_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-gw/gateway"
	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A block is a fenced block of a document. info is the text after its fence.
type block struct{ file, info, text string }

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	texts := documents(t)
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		for _, m := range fence.FindAllStringSubmatch(texts[file], -1) {
			all = append(all, block{file, m[1], m[2]})
		}
	}
	return all
}

// documents returns the documents by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	all := documents(t)
	for file, text := range all {
		text = fence.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			path, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
				continue
			}
			found := fragment == ""
			for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(all[target], ""), -1) {
				slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
				found = found || slug == fragment
			}
			if !found {
				t.Errorf("%s: link to %s: no such heading", file, m[1])
			}
		}
	}
}

// CI builds with xcaddy as documented in xcaddy.md and done by the Dockerfile.
func TestEveryBuildWithXcaddyIsTheSame(t *testing.T) {
	build := regexp.MustCompile(`xcaddy(?:@latest)? build (v[0-9.]+) --with github\.com/caddy-gw/gateway@v0\.0\.0=(\S+)`)
	versions := make(map[string]string)
	for _, file := range []string{"xcaddy.md", "Dockerfile", "Makefile"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		m := build.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s has no build of a module that is not published", file)
			continue
		}
		versions[string(m[1])] = file
	}
	if len(versions) != 1 {
		t.Errorf("built with different versions of Caddy: %v", versions)
	}
}

// It does not run the commands fmt and validate, as TestExamplesAreFormattedAndValid
// does, because they would take a process for each block.
func TestConfigurationsInTheDocumentsAreFormattedAndValid(t *testing.T) {
	all := blocks(t)
	home := t.TempDir()
	t.Chdir(home)
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, home)
	}
	variable := regexp.MustCompile(`\{env\.(\w+)\}`)
	for _, b := range all {
		for _, m := range variable.FindAllStringSubmatch(b.text, -1) {
			t.Setenv(m[1], strings.Repeat("k", 32))
		}
	}
	seen := 0
	for _, b := range all {
		config := []byte(b.text)
		switch b.info {
		case "caddyfile":
			if formatted := caddyfile.Format(config); !bytes.Equal(formatted, config) {
				t.Errorf("%s: got\n%s\nformatted\n%s", b.file, config, formatted)
			}
			var err error
			if config, err = gatewaytest.Adapt(b.text); err != nil {
				t.Errorf("%s: %v\n%s", b.file, err, b.text)
				continue
			}
		case "json config":
		default:
			continue
		}
		seen++
		var c caddy.Config
		if err := json.Unmarshal(config, &c); err != nil {
			t.Errorf("%s: %v\n%s", b.file, err, b.text)
		} else if err := caddy.Validate(&c); err != nil {
			t.Errorf("%s: %v\n%s", b.file, err, b.text)
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
