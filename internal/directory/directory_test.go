package directory

import (
	"crypto/rand"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

var (
	founded = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	uuidV7  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

func openDB(t *testing.T) *storage.DB {
	t.Helper()
	db := storetest.OpenDB(t)
	return db
}

func open(t *testing.T, db *storage.DB) *Directory {
	t.Helper()
	d, err := Open(t.Context(), db, func() time.Time { return founded }, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEmptyDirectoryHasNobody(t *testing.T) {
	d := open(t, openDB(t))
	if d.Organisation() != nil || d.DefaultWorkspace() != nil || len(d.Workspaces()) != 0 {
		t.Error("somebody is there")
	}
	if w, ok := d.Workspace(""); ok {
		t.Errorf("got %v", w)
	}
}

func TestFoundMakesTheOrganisationAndItsDefaultWorkspaceToStay(t *testing.T) {
	db := openDB(t)
	d := open(t, db)
	var o *Organisation
	var w *Workspace
	err := db.Update(t.Context(), func(tx *storage.Txn) (err error) {
		o, w, err = d.Create(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !uuidV7.MatchString(o.ID) || !uuidV7.MatchString(w.ID) || o.ID == w.ID {
		t.Errorf("ids %q, %q", o.ID, w.ID)
	}
	if !regexp.MustCompile(`^ws-default-[0-9a-f]{6}$`).MatchString(w.Slug) {
		t.Errorf("slug %q", w.Slug)
	}
	for name, d := range map[string]*Directory{"at once": d, "after a restart": open(t, db)} {
		if got := d.Organisation(); got == nil || !reflect.DeepEqual(got, o) || !got.CreatedAt.Equal(founded) {
			t.Errorf("%s: organisation %+v", name, got)
		}
		got := d.DefaultWorkspace()
		if got == nil || got.ID != w.ID || got.OrganisationID != o.ID || !got.Default || len(d.Workspaces()) != 1 {
			t.Fatalf("%s: workspace %+v", name, got)
		}
		for _, key := range []string{w.ID, strings.ToUpper(w.ID), w.Slug} {
			if got, ok := d.Workspace(key); !ok || got.ID != w.ID {
				t.Errorf("%s: %q is not found", name, key)
			}
		}
		for _, key := range []string{"", "default", w.Slug[1:], w.ID[1:], o.ID, strings.ToUpper(w.Slug)} {
			if got, ok := d.Workspace(key); ok {
				t.Errorf("%s: %q is %+v", name, key, got)
			}
		}
	}
}

func TestFoundLeavesNothingWhenItsTransactionFails(t *testing.T) {
	db := openDB(t)
	d := open(t, db)
	failed := errors.New("failed")
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		if _, _, err := d.Create(tx); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	for _, d := range []*Directory{d, open(t, db)} {
		if d.Organisation() != nil || d.DefaultWorkspace() != nil {
			t.Error("something was left")
		}
	}
}

func TestBlockInlineConfigIsOnForOrganisationsMadeSinceItsDay(t *testing.T) {
	for _, c := range []struct {
		created time.Time
		want    bool
	}{
		{time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{time.Date(2026, 6, 18, 23, 59, 59, 999999999, time.UTC), false},
		{time.Date(2026, 6, 19, 0, 0, 0, 0, time.UTC), true},
		{time.Date(2026, 6, 19, 1, 0, 0, 0, time.FixedZone("east", 2*3600)), false},
		{time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), true},
	} {
		if got := (&Organisation{CreatedAt: c.created}).BlocksInline(DataPlane{}, nil); got != c.want {
			t.Errorf("made at %s: got %v", c.created, got)
		}
	}
	// What the operator turns on is on; what the operator turns off, settings may turn on.
	on, off := new(bool), new(bool)
	*on = true
	for _, c := range []struct {
		operator, setting *bool
		want              bool
	}{{on, off, true}, {on, nil, true}, {off, nil, false}, {off, on, true}, {off, off, false}, {nil, off, false}, {nil, on, true}, {nil, nil, true}} {
		if got := (&Organisation{CreatedAt: BlockInlineConfigSince}).BlocksInline(DataPlane{c.setting}, c.operator); got != c.want {
			t.Errorf("%v %v: got %v", c.operator, c.setting, got)
		}
	}
}

func TestKebab(t *testing.T) {
	for name, want := range map[string]string{
		"":                     "",
		"Default workspace":    "default-workspace",
		"  A  b_c.D/e ":        "a-b-c-d-e",
		"---":                  "",
		"Übung für Éva":        "bung-f-r-va",
		"🚀 Launch":             "launch",
		"UPPER-lower--123":     "upper-lower-123",
		"KELVIN \u212a sign":   "kelvin-k-sign",
		"a\x00b\nc":            "a-b-c",
		"already-kebab-1":      "already-kebab-1",
		"\xff\xfe broken \x80": "broken",
	} {
		if got := Kebab(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestNewSlugIsPrefixNameAndSixHexDigits(t *testing.T) {
	for _, c := range []struct{ prefix, name, want string }{
		{"ws", "default", "ws-default-"},
		{"ws", "A very long name", "ws-a-very-lon-"},
		{"ws", "nine char x", "ws-nine-char-"}, // the cut leaves no hyphen at the end
		{"", "Open AI", "open-ai-"},
		{"ws", "", "ws-"},
		{"ws", "日本", "ws-"},
		{"", "", ""},
	} {
		got := NewSlug(rand.Reader, c.prefix, c.name)
		rest, ok := strings.CutPrefix(got, c.want)
		if !ok || !regexp.MustCompile(`^[0-9a-f]{6}$`).MatchString(rest) {
			t.Errorf("%q, %q: got %q", c.prefix, c.name, got)
		}
	}
}

func TestNewSlugIsAlwaysASlug(t *testing.T) {
	form := regexp.MustCompile(`^([a-z0-9]+-)*[0-9a-f]{6}$`)
	rapid.Check(t, func(t *rapid.T) {
		slug := NewSlug(rand.Reader, rapid.SampledFrom([]string{"", "ws", "pc"}).Draw(t, "prefix"), rapid.String().Draw(t, "name"))
		if !form.MatchString(slug) || len(slug) > 2+1+slugName+1+6 {
			t.Fatalf("got %q", slug)
		}
	})
}
