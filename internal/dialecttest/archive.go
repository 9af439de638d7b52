package dialecttest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/caddy-gw/gateway/providers"
)

// An Archive is a file in testdata with a case. See the package's comment.
type Archive struct {
	Name    string // of the file, without .txtar
	file    string
	members *txtar.Archive
	seen    map[string]bool
}

// Archives returns the cases in testdata, by name. Other files there fail the test, except
// in folders, where Go keeps seeds of fuzz tests.
func Archives(t testing.TB) []*Archive {
	t.Helper()
	return ArchivesIn(t, "testdata")
}

// ArchivesIn is like [Archives], for the cases in another folder.
func ArchivesIn(t testing.TB, dir string) (all []*Archive) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() == "fuzz" {
			continue
		}
		all = append(all, openIn(t, dir, e.Name()))
	}
	if len(all) == 0 {
		t.Fatalf("no cases in %s", dir)
	}
	return all
}

// Open reads the case in a file of testdata.
func Open(t testing.TB, file string) *Archive {
	t.Helper()
	return openIn(t, "testdata", file)
}

func openIn(t testing.TB, dir, file string) *Archive {
	t.Helper()
	name, ok := strings.CutSuffix(file, ".txtar")
	if !ok {
		t.Fatalf("%s/%s is not a case: expected a file NAME.txtar", dir, file)
	}
	a := &Archive{Name: name, file: filepath.Join(dir, file), seen: make(map[string]bool)}
	var err error
	if a.members, err = txtar.ParseFile(a.file); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, m := range a.members.Files {
		if names[m.Name] {
			t.Fatalf("%s: %s is there twice", a.file, m.Name)
		}
		names[m.Name] = true
	}
	return a
}

// Each runs do as a subtest for each case in testdata. A member that is neither read nor
// checked fails the test, because it is unknown or misspelt.
func Each(t *testing.T, do func(t *testing.T, a *Archive)) {
	t.Helper()
	for _, a := range Archives(t) {
		t.Run(a.Name, func(t *testing.T) {
			do(t, a)
			a.checkSeen(t)
		})
	}
}

func (a *Archive) checkSeen(t testing.TB) {
	t.Helper()
	for _, m := range a.members.Files {
		if !a.seen[m.Name] {
			t.Errorf("%s: nothing reads the member %s", a.file, m.Name)
		}
	}
}

func (a *Archive) index(name string) int {
	a.seen[name] = true
	return slices.IndexFunc(a.members.Files, func(m txtar.File) bool { return m.Name == name })
}

// Read returns a member, or nil if the case does not have it.
func (a *Archive) Read(name string) []byte {
	if i := a.index(name); i >= 0 {
		return a.members.Files[i].Data
	}
	return nil
}

// Case returns the contents of call.json.
func (a *Archive) Case(t testing.TB) *Case {
	t.Helper()
	c := &Case{Endpoint: providers.ChatComplete, Key: "KEY"}
	d := json.NewDecoder(bytes.NewReader(a.Read("call.json")))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		t.Fatalf("%s: call.json: %v", a.file, err)
	}
	return c
}

// Check compares got with a member, or updates the member.
func (a *Archive) Check(t testing.TB, name string, got []byte) {
	t.Helper()
	i := a.index(name)
	switch {
	case *update:
		if i < 0 {
			i = len(a.members.Files)
			a.members.Files = append(a.members.Files, txtar.File{Name: name})
		}
		a.members.Files[i].Data = got
		if err := os.WriteFile(a.file, txtar.Format(a.members), 0o600); err != nil {
			t.Fatal(err)
		}
	case i < 0:
		t.Errorf("%s: there is no %s, got\n%s", a.file, name, got)
	case !bytes.Equal(got, a.members.Files[i].Data):
		t.Errorf("%s: %s: got\n%s\nwant\n%s", a.file, name, got, a.members.Files[i].Data)
	}
}
