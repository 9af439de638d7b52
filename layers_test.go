package gateway

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	layersTable = "docs/architecture.md"
	layersRules = ".golangci.yml"
	layersBegin = "    # begin layers: UPDATE_LAYERS=1 go test -run TestLayers . makes this from docs/architecture.md\n"
	layersEnd   = "    # end layers\n"
)

// packagesByLayer returns the packages of each layer, by the table of docs/architecture.md.
func packagesByLayer(t *testing.T) map[int][]string {
	t.Helper()
	page, err := os.ReadFile(layersTable)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|`)
	name := regexp.MustCompile("`([^`]+)`")
	all := make(map[int][]string)
	for _, m := range row.FindAllSubmatch(page, -1) {
		layer, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range name.FindAllSubmatch(m[2], -1) {
			all[layer] = append(all[layer], string(n[1]))
		}
	}
	return all
}

// layers returns the rules of depguard: a package imports only from the layers below.
func layers(all map[int][]string) []byte {
	const module = "github.com/caddy-gw/gateway"
	var b bytes.Buffer
	b.WriteString("    depguard:\n      rules:\n")
	var below []string
	for layer := 1; len(all[layer]) > 0; layer++ {
		packages := slices.Sorted(slices.Values(all[layer]))
		fmt.Fprintf(&b, "        layer-%d:\n          list-mode: lax\n          files:\n            - \"!$test\"\n", layer)
		for _, p := range packages {
			files := p + "/*.go"
			if p == "." {
				files = "module.go" // the files of all packages end like those of this one
			}
			fmt.Fprintf(&b, "            - \"**/%s\"\n", files)
		}
		fmt.Fprintf(&b, "          deny:\n            - pkg: %s\n              desc: a package imports only from the layers below its own, see %s\n", module, layersTable)
		if len(below) > 0 {
			b.WriteString("          allow:\n")
		}
		for _, p := range below {
			fmt.Fprintf(&b, "            - %s$\n", strings.TrimSuffix(module+"/"+p, "/."))
		}
		below = append(below, packages...)
	}
	return b.Bytes()
}

func TestLayers(t *testing.T) {
	config, err := os.ReadFile(layersRules)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(config, []byte(layersBegin))
	got, after, ended := bytes.Cut(rest, []byte(layersEnd))
	if !found || !ended {
		t.Fatalf("%s has no place for the layers", layersRules)
	}
	want := layers(packagesByLayer(t))
	switch {
	case bytes.Equal(got, want):
	case os.Getenv("UPDATE_LAYERS") != "":
		config = slices.Concat(before, []byte(layersBegin), want, []byte(layersEnd), after)
		if err := os.WriteFile(layersRules, config, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say what the table of %s does; run UPDATE_LAYERS=1 go test -run TestLayers .", layersRules, layersTable)
	}
}

// A package that is not in the table is checked by no rule.
func TestEveryPackageHasALayer(t *testing.T) {
	layerOf := make(map[string]int)
	for layer, packages := range packagesByLayer(t) {
		for _, p := range packages {
			if layerOf[p] != 0 {
				t.Errorf("%s is in the table twice", p)
			}
			layerOf[p] = layer
		}
	}
	here := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" {
				return fs.SkipDir
			}
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			here[filepath.ToSlash(filepath.Dir(path))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for p := range here {
		if layerOf[p] == 0 {
			t.Errorf("%s is not in the table of %s", p, layersTable)
		}
	}
	for p := range layerOf {
		if !here[p] {
			t.Errorf("%s is in the table of %s, and is not a package", p, layersTable)
		}
	}
}
