package exchange_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// prepares reports whether a function makes a call: it begins one, or is a method of its preparation.
func prepares(f *ast.FuncDecl) bool {
	if f.Name.Name == "Begin" || f.Name.Name == "attach" {
		return true
	}
	if f.Recv == nil {
		return false
	}
	pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.Ident)
	return ok && of.Name == "preparation"
}

// Once a call is prepared, nothing writes to it: what becomes of it is in its exchange and
// in its attempts.
func TestACallIsFrozen(t *testing.T) {
	t.Parallel()
	writes := 0
	for _, p := range load(t, "internal/exchange", "internal/inference", "internal/app", "handlers") {
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
							if !prepares(f) || !strings.HasSuffix(p.path, "/exchange") {
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

// load checks packages of the module, by their directories. Of what they import, only the
// first of them is known: what is not of its types may stay unknown.
func load(t *testing.T, dirs ...string) (all []*checked) {
	t.Helper()
	const module = "github.com/caddy-gw/gateway/"
	fset, known := token.NewFileSet(), imported{}
	for _, dir := range dirs {
		p := &checked{path: module + dir, fset: fset, info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Selections: make(map[*ast.SelectorExpr]*types.Selection)}}
		names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		config := &types.Config{Importer: known, Error: func(error) {}}
		checked, _ := config.Check(p.path, fset, p.files, p.info) // what is unknown is an error
		if len(all) == 0 {
			known[p.path] = checked
		}
		all = append(all, p)
	}
	return all
}

// imported are the packages that are known; the others have nothing in them.
type imported map[string]*types.Package

func (i imported) Import(name string) (*types.Package, error) {
	if p := i[name]; p != nil {
		return p, nil
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
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
// What calls hold and use up is not frozen: their body, their connection and their memory.
func callField(info *types.Info, e ast.Expr) string {
	for e != nil {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if s := info.Selections[x]; s != nil && s.Kind() == types.FieldVal {
				if field := fieldOfCall(s); field != "" {
					if field == "Body" || field == "Client" || field == "Memory" {
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
