package gateway

import (
	"fmt"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const modulePath = "github.com/caddy-gw/gateway"

// publicPackages returns the packages whose exported API others may use: all that are not below
// internal/, without commands and examples, and without those of which the table of
// docs/architecture.md says that their Go API is not promised.
func publicPackages(t *testing.T) (paths []string) {
	t.Helper()
	page, err := os.ReadFile(layersTable)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \|[^|]+\|[^|]*, not their Go API \|$`).FindSubmatch(page)
	if row == nil {
		t.Fatalf("%s has no row of packages whose Go API is not promised", layersTable)
	}
	var apart []string
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
		apart = append(apart, string(name[1]))
	}
	for _, layer := range packagesByLayer(t) {
		for _, p := range layer {
			root, _, _ := strings.Cut(p, "/")
			if !slices.Contains([]string{".", "internal", "cmd", "docs", "bench"}, root) && !slices.Contains(apart, p) {
				paths = append(paths, modulePath+"/"+p)
			}
		}
	}
	return paths
}

// Types of internal packages in the API of others could not be named, and their documentation is
// not shown.
func TestPublicPackagesHaveNoInternalTypes(t *testing.T) {
	t.Parallel()
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports | packages.NeedDeps}, publicPackages(t)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		if p.Types == nil || p.PkgPath == "" {
			t.Fatalf("%s has no types", p.ID)
		}
		for _, found := range internalTypes(p.Types) {
			t.Errorf("%s: %s", p.PkgPath, found)
		}
	}
}

// internalTypes lists the places in the exported API of a package where types of internal packages
// are.
func internalTypes(p *types.Package) []string {
	w := &apiWalker{of: p, seen: make(map[types.Type]bool)}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			w.walk(name, o.Type())
		}
	}
	return w.found
}

type apiWalker struct {
	of    *types.Package
	seen  map[types.Type]bool
	found []string
}

// named notes a name that is of an internal package, and reports whether it is one of the package
// that is walked.
func (w *apiWalker) named(at string, o *types.TypeName) bool {
	if o.Pkg() == nil { // error, any
		return false
	}
	if strings.HasPrefix(o.Pkg().Path(), modulePath+"/internal/") {
		w.found = append(w.found, fmt.Sprintf("%s is %s.%s", at, o.Pkg().Path(), o.Name()))
	}
	return o.Pkg() == w.of
}

func (w *apiWalker) walk(at string, t types.Type) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		w.named(at, t.Obj())
		w.walk(at, t.Rhs())
	case *types.Named:
		for a := range t.TypeArgs().Types() {
			w.walk(at, a)
		}
		if !w.named(at, t.Obj()) {
			return // its own package is looked at for itself
		}
		w.walk(at, t.Underlying())
		methods := types.NewMethodSet(types.NewPointer(t))
		for m := range methods.Methods() {
			if m.Obj().Exported() {
				w.walk(at+"."+m.Obj().Name(), m.Type())
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.walk(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.walk(at+"."+m.Name(), m.Type())
			}
		}
		for e := range t.EmbeddedTypes() {
			w.walk(at, e)
		}
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			w.walk(at, p.Constraint())
		}
		for v := range t.Params().Variables() {
			w.walk(at, v.Type())
		}
		for v := range t.Results().Variables() {
			w.walk(at, v.Type())
		}
	case *types.Union:
		for term := range t.Terms() {
			w.walk(at, term.Type())
		}
	case *types.Map:
		w.walk(at, t.Key())
		w.walk(at, t.Elem())
	case *types.TypeParam:
		w.walk(at, t.Constraint())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.walk(at, t.Elem())
	}
}

// What the walk finds, and what it does not.
func TestInternalTypesAreFound(t *testing.T) {
	t.Parallel()
	internal := types.NewPackage(modulePath+"/internal/secret", "secret")
	hidden := types.NewNamed(types.NewTypeName(0, internal, "Hidden", nil), types.NewStruct(nil, nil), nil)
	field := func(name string, t types.Type) types.Type {
		return types.NewStruct([]*types.Var{types.NewField(0, nil, name, t, false)}, nil)
	}
	result := func(t types.Type) types.Type {
		return types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(types.NewVar(0, nil, "", t)), false)
	}
	for name, c := range map[string]struct {
		of    types.Type
		finds bool
	}{
		"a field":            {field("Field", types.NewPointer(hidden)), true},
		"a field of its own": {field("field", hidden), false},
		"a result":           {result(types.NewSlice(hidden)), true},
		"a map":              {types.NewMap(types.Typ[types.String], hidden), true},
		"a function of one":  {field("Visit", result(field("Inner", hidden))), true},
		"an alias":           {types.NewAlias(types.NewTypeName(0, internal, "Alias", nil), types.Typ[types.Int]), true},
		"none":               {field("Field", result(types.Universe.Lookup("error").Type())), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := types.NewPackage(modulePath+"/open", "open")
			exported := types.NewTypeName(0, p, "Exported", nil)
			types.NewNamed(exported, types.NewStruct([]*types.Var{types.NewField(0, p, "It", c.of, false)}, nil), nil)
			p.Scope().Insert(exported)
			if found := internalTypes(p); len(found) > 0 != c.finds {
				t.Errorf("found %q", found)
			}
		})
	}
}
