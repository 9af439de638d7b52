package exchange_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// preparing are the functions that make a call.
var preparing = []string{
	"Begin", "prepare", "readTrace", "readMetadata", "readForm", "readBody", "readModel", "locate", "locateInQuery", "recall", "config", "savedConfig",
	"readOptions", "readCaching", "takeBody", "startSpan",
}

// Once a call is prepared, nothing writes to it: what becomes of it is in its exchange and
// in its attempts.
func TestACallIsFrozen(t *testing.T) {
	t.Parallel()
	writes := 0
	for _, p := range load(t, "./internal/exchange", "./internal/inference", "./internal/app", "./handlers") {
		for _, file := range p.files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					for _, to := range written(n) {
						if field := callField(p.info, to); field != "" {
							writes++
							if !slices.Contains(preparing, f.Name.Name) || !strings.HasSuffix(p.path, "/exchange") {
								at := p.fset.Position(to.Pos())
								t.Errorf("%s:%d: %s writes to the call's %s", filepath.Base(at.Filename), at.Line, f.Name.Name, field)
							}
						}
					}
					return true
				})
			}
		}
	}
	if writes < 20 {
		t.Errorf("found %d writes to calls; those that prepare them are more", writes)
	}
}

// A checked package is its syntax with the types in it.
type checked struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// load checks packages of the module; go list says where the types of what they import are.
func load(t *testing.T, patterns ...string) (all []*checked) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}, patterns...)...)
	list.Dir, list.Stderr = "../..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
		DepOnly                 bool
	}
	exports := make(map[string]string)
	var wanted []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			wanted = append(wanted, l)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, l := range wanted {
		p := &checked{path: l.ImportPath, fset: fset, info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Selections: make(map[*ast.SelectorExpr]*types.Selection)}}
		for _, name := range l.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		if _, err := (&types.Config{Importer: imports}).Check(l.ImportPath, fset, p.files, p.info); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// written is what a statement or an expression writes to, or lets others write to.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		return []ast.Expr{n.Key, n.Value}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	}
	return nil
}

// callField is the field of a call that an expression is of or within; "": it is of none.
// What calls hold and use up, their body and their memory, is not frozen.
func callField(info *types.Info, e ast.Expr) string {
	for e != nil {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if s := info.Selections[x]; s != nil && s.Kind() == types.FieldVal {
				if field := fieldOfCall(s); field != "" {
					if field == "lease" || field == "body" {
						return ""
					}
					return field
				}
				if _, pointer := info.Types[x.X].Type.Underlying().(*types.Pointer); pointer {
					return "" // what a call points to is not its own
				}
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
	return ""
}

// fieldOfCall is the first field of a call on the way of a selection.
func fieldOfCall(s *types.Selection) string {
	at := s.Recv()
	for _, i := range s.Index() {
		if p, ok := at.Underlying().(*types.Pointer); ok {
			at = p.Elem()
		}
		named, _ := types.Unalias(at).(*types.Named)
		of, ok := at.Underlying().(*types.Struct)
		if !ok {
			return ""
		}
		if named != nil && named.Obj().Name() == "Call" && strings.HasSuffix(named.Obj().Pkg().Path(), "/exchange") {
			return of.Field(i).Name()
		}
		at = of.Field(i).Type()
	}
	return ""
}
