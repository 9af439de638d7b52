package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/audit"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

func TestServicesAreClosedInTheReverseOrderWhateverFails(t *testing.T) {
	s := new(Services)
	var closed []string
	failed := errors.New("failed")
	for _, name := range []string{"store", "ledger", "records"} {
		s.onClose(func() error { closed = append(closed, name); return failed })
	}
	if err := s.Close(); !errors.Is(err, failed) {
		t.Errorf("Close returned %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close returned %v", err)
	}
	if want := []string{"records", "ledger", "store"}; !slices.Equal(closed, want) {
		t.Errorf("closed %q, want %q", closed, want)
	}
}

// A service that cannot be opened leaves nothing open.
func TestTheStoreIsClosedWhereAServiceCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	for n, key := range []string{"0123456789abcdef0123456789abcdef", "another6789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"} {
		store, err := badger.Open(dir, badger.Options{})
		if err != nil {
			t.Fatalf("start %d: %v", n, err)
		}
		s, err := openServices(t.Context(), store, credentials.NewSecret(key), audit.Key{}, zap.NewNop())
		if wrong := n == 1; wrong != errors.Is(err, credentials.ErrWrongKey) {
			t.Fatalf("start %d: %v", n, err)
		}
		if err == nil {
			err = s.Close()
			if err != nil {
				t.Fatalf("start %d: %v", n, err)
			}
		}
	}
}

// Two processes that start with one empty store found one organisation with one owner's key.
func TestAnEmptyStoreIsFoundedOnce(t *testing.T) {
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := credentials.NewSecret("0123456789abcdef0123456789abcdef")
	var nodes []*Services
	for range 2 {
		s, err := openServices(t.Context(), struct{ storage.Store }{store}, key, audit.Key{}, zap.NewNop()) // none is told of the other's writes
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, s)
	}
	issued := 0
	for _, s := range nodes {
		key, err := new(App).bootstrap(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !key.Empty() {
			issued++
		}
	}
	if issued != 1 {
		t.Errorf("%d owner's keys were issued", issued)
	}
	db := storage.NewDB(store)
	d, err := directory.Open(t.Context(), db, time.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(d.Workspaces()); n != 1 {
		t.Errorf("%d default workspaces", n)
	}
	for _, s := range nodes {
		_ = s.Close() // the second finds the store closed
	}
}

func TestAnAliasStandsForAModelOrAConfig(t *testing.T) {
	for _, c := range []struct{ name, to, want string }{
		{"gpt-4o", "@openai/gpt-4o-mini", ""},
		{"openai/gpt-4o", "@azure/a/b", ""},
		{"router", "pc-router-1a2b3c", ""},
		{"router", "pc-router-1a2b3c@3", ""},
		{"@a/b", "@openai/gpt-4o", `alias "@a/b": expected a name`},
		{"", "@openai/gpt-4o", `alias "": expected a name`},
		{"a", "@openai", "alias a: expected a model of a saved provider"},
		{"a", "@openai/", "alias a: expected a model of a saved provider"},
		{"a", "@cf/meta/llama", "alias a: expected a model of a saved provider"},
		{"a", "openai/gpt", "alias a: expected @<provider>/<model> or the slug of a config"},
		{"a", "", "alias a: expected @<provider>/<model> or the slug of a config"},
	} {
		err := (&App{Aliases: map[string]string{c.name: c.to}}).checkAliases()
		switch {
		case err == nil && c.want != "":
			t.Errorf("%s %s was accepted", c.name, c.to)
		case err != nil && (c.want == "" || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s %s: %v", c.name, c.to, err)
		}
	}
}

// An alias that nothing in the configuration can serve is named when it is read.
func TestAliasesOfWhatIsNotThereAreWarnedOf(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	(&App{
		Aliases:   map[string]string{"lost": "@nope/gpt-4o", "bare": "gpt-4o", "fine": "@openai/gpt-4o", "config": "pc-router-1a2b3c"},
		providers: map[string]*credentials.Provider{"openai": {}}, logger: zap.New(core),
	}).warnOfAliases()
	var warned []string
	for _, entry := range logs.All() {
		warned = append(warned, fmt.Sprint(entry.ContextMap()["alias"]))
	}
	if !slices.Equal(warned, []string{"bare", "lost"}) {
		t.Errorf("warned of %q", warned)
	}
}
