package main_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/directory"
	"github.com/caddy-gw/gateway/internal/hooks"
	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
	"github.com/caddy-gw/gateway/storage/badger"
)

// A saved is a kind of saved objects, of which each write leaves another number.
type saved struct {
	path, id string // of the collection; the member of the answer by which an object is found
	create   string // the body, whose %s is unique
	update   string // the body, whose %d is the number
	suffix   string // after the path of an object, to read the number
	number   func(gjson.Result) string
	used     bool // it is not deleted, because others refer to it
	// versions is set if each write makes a version, counted from 1.
	versions bool
}

func member(path string) func(gjson.Result) string {
	return func(r gjson.Result) string { return r.Get(path).String() }
}

var kindsOfSaved = []saved{
	{path: "/v1/virtual-keys", id: "data.slug", create: `{"name":"0","slug":"vk-%s","provider":"openai","key":"sk-0123456789"}`, update: `{"name":"%d"}`, number: member("name")},
	{path: "/v1/integrations", id: "slug", create: `{"name":"0","slug":"in-%[1]s","ai_provider_id":"openai","key":"sk-0123456789","workspace_id":"<workspace>","default_provider_slug":"of-in-%[1]s"}`, update: `{"name":"%d"}`, number: member("name"), used: true},
	{path: "/v1/providers", id: "slug", create: `{"name":"0","slug":"pr-%s","integration_id":"base"}`, update: `{"name":"%d"}`, number: member("name")},
	{
		path: "/v1/configs", id: "slug", create: `{"name":"c%s","config":{"provider":"@echo","override_params":{"seed":0}}}`, update: `{"config":{"provider":"@echo","override_params":{"seed":%d}}}`, versions: true,
		number: func(r gjson.Result) string { return gjson.Get(r.Get("config").Str, "override_params.seed").String() },
	},
	{
		path: "/v1/prompts", id: "slug", create: `{"name":"p%s","string":"0","parameters":{},"virtual_key":"@echo"}`, update: `{"patch":true,"string":"%d"}`, suffix: "?version=latest",
		number: member("string"), versions: true,
	},
	{path: "/v1/prompts/partials", id: "slug", create: `{"name":"p%s","string":"0"}`, update: `{"string":"%d"}`, suffix: "?version=latest", number: member("string"), versions: true},
	{path: "/v1/collections", id: "id", create: `{"name":"0","parent_collection_id":"<collection>"}`, update: `{"name":"%d"}`, number: member("name")},
	{path: "/v1/labels", id: "id", create: `{"name":"l-%s-0"}`, update: `{"name":"l-%[2]s-%[1]d"}`, number: func(r gjson.Result) string {
		_, n, _ := strings.Cut(strings.TrimPrefix(r.Get("name").Str, "l-"), "-")
		return n
	}},
}

// An item is a saved object as a writer knows it.
type item struct {
	kind     saved
	unique   string
	path     string // "": it is not there
	answered int    // the number of the last write that was answered
	sent     int    // of the last that was sent
	deleting bool
}

// A crasher writes until the process is killed.
type crasher struct {
	p     *process
	owner string
	items []*item
	made  int
	name  string
}

var errUnexpected = errors.New("unexpected answer")

// write does one write of each item.
func (c *crasher) write(answered chan<- struct{}) error {
	for _, it := range c.items {
		method, path, body := "POST", it.kind.path, ""
		switch {
		case it.path == "":
			c.made++
			it.unique = fmt.Sprint(c.name, c.made)
			it.answered, it.sent, it.deleting = 0, 0, false
			body = it.kind.create
			if strings.Contains(body, "%") {
				body = fmt.Sprintf(body, it.unique)
			}
		case it.answered%7 == 6 && !it.kind.used:
			method, path = "DELETE", it.path
			it.deleting = true
		default:
			it.sent = it.answered + 1
			method, path = "PUT", it.path
			if body = it.kind.update; strings.Contains(body, "[2]") {
				body = fmt.Sprintf(body, it.sent, it.unique)
			} else {
				body = fmt.Sprintf(body, it.sent)
			}
		}
		status, answer, err := c.p.try(method, path, c.owner, body)
		if err != nil {
			return err
		}
		if status != 200 {
			return fmt.Errorf("%w: %s %s: %d %s", errUnexpected, method, path, status, answer)
		}
		switch method {
		case "POST":
			it.path = it.kind.path + "/" + gjson.Get(answer, it.kind.id).Str
		case "DELETE":
			it.path = ""
		default:
			it.answered = it.sent
		}
		answered <- struct{}{}
	}
	return nil
}

// check reads what the writer has written, and continues from there.
func (c *crasher) check(t *testing.T) {
	t.Helper()
	for _, it := range c.items {
		if it.path == "" {
			continue
		}
		status, answer := c.p.do("GET", it.path+it.kind.suffix, c.owner, "")
		if status == 404 && it.deleting {
			it.path = ""
			continue
		}
		n, err := strconv.Atoi(it.kind.number(gjson.Parse(answer)))
		if status != 200 || err != nil || n != it.answered && n != it.sent {
			t.Errorf("%s: %d %s, expected the number %d or %d (%v)", it.path, status, answer, it.answered, it.sent, err)
			continue
		}
		if it.kind.versions {
			if _, list := c.p.do("GET", it.path+"/versions", c.owner, ""); gjson.Get(list, "total").Int() != int64(n)+1 {
				t.Errorf("%s has the number %d and the versions %s", it.path, n, list)
			}
		}
		it.answered, it.sent, it.deleting = n, n, false
		if it.kind.path == "/v1/integrations" {
			if status, provider := c.p.do("GET", "/v1/providers/of-in-"+it.unique, c.owner, ""); status != 200 {
				t.Errorf("%s has no provider: %d %s", it.path, status, provider)
			}
		}
	}
}

// checkStore holds every index of the store of a process that was killed against its rows.
func (p *process) checkStore(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	dir := filepath.Join(p.home, "caddy", "gw")
	master, err := os.ReadFile(dir + ".encryption-key")
	if err != nil {
		t.Fatal(err)
	}
	store, err := badger.Open(dir, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := storage.NewDB(store)
	keyring, err := credentials.OpenKeyring(ctx, db, credentials.NewSecret(strings.TrimSpace(string(master))), time.Now, rand.Reader)
	open := func(fn func(context.Context, *storage.DB) error) {
		if err == nil {
			err = fn(ctx, db)
		}
	}
	open(func(ctx context.Context, db *storage.DB) error {
		_, err := directory.Open(ctx, db, time.Now, rand.Reader)
		return err
	})
	open(func(ctx context.Context, db *storage.DB) error {
		_, err := routing.OpenConfigStore(ctx, db, keyring, time.Now, rand.Reader)
		return err
	})
	open(func(ctx context.Context, db *storage.DB) error {
		_, err := routing.OpenAliases(ctx, db, time.Now, rand.Reader)
		return err
	})
	open(func(ctx context.Context, db *storage.DB) error {
		_, err := prompts.Open(ctx, db, time.Now, rand.Reader)
		return err
	})
	open(func(ctx context.Context, db *storage.DB) error {
		_, err := hooks.OpenStore(ctx, db, keyring, time.Now, rand.Reader)
		return err
	})
	open(func(ctx context.Context, db *storage.DB) error { return db.Check(ctx) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A process that writes saved objects of all kinds is killed again and again. Each write that was
// answered is there, none is there by half, and every index is right.
func TestSavedObjectsSurviveKill9InALoopOfWrites(t *testing.T) {
	const writers, kills, between = 3, 6, 70
	p := newProcess(t)
	p.start()
	owner := p.key()
	made := func(method, path, body, member string) string {
		t.Helper()
		status, answer := p.do(method, path, owner, body)
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
		return gjson.Get(answer, member).Str
	}
	workspace := made("GET", "/v1/admin/workspaces", "", "data.0.id")
	made("POST", "/v1/integrations", `{"name":"base","slug":"base","ai_provider_id":"openai","key":"sk-0123456789","workspace_id":"`+workspace+`"}`, "slug")
	fill := strings.NewReplacer("<workspace>", workspace, "<collection>", made("POST", "/v1/collections", `{"name":"base"}`, "id"))
	all := make([]*crasher, writers)
	for i := range all {
		all[i] = &crasher{p: p, owner: owner, name: string(rune('a' + i))}
		for _, kind := range kindsOfSaved {
			kind.create = fill.Replace(kind.create)
			all[i].items = append(all[i].items, &item{kind: kind})
		}
	}
	for round := range kills {
		answered, failed := make(chan struct{}), make(chan error, writers)
		var writing sync.WaitGroup
		for _, c := range all {
			writing.Go(func() {
				for {
					if err := c.write(answered); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { writing.Wait(); close(ended) }()
		for n := 0; ; n++ {
			if n == between+round {
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-answered:
				continue
			case <-ended:
			}
			break
		}
		p.kill()
		for range all {
			if err := <-failed; errors.Is(err, errUnexpected) {
				t.Fatal(err)
			}
		}
		if round%2 == 1 || round == kills-1 { // otherwise the process repairs the store itself
			p.checkStore(t)
		}
		p.start()
		for _, c := range all {
			c.check(t)
		}
	}
}
