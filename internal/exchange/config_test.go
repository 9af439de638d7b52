package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/storage"
)

// save stores a config with its versions, oldest first.
func (w *world) save(t testing.TB, c routing.Saved, versions ...string) *routing.Saved {
	t.Helper()
	c.Name = c.Slug
	if c.WorkspaceID == "" {
		c.WorkspaceID = "ws-1"
	}
	for _, text := range versions {
		if err := w.db.Update(context.Background(), func(tx *storage.Txn) error { return w.Configs.Store.(*routing.ConfigStore).Put(tx, &c, text, "key-1") }); err != nil {
			t.Fatal(err)
		}
	}
	return &c
}

// issue makes a key of workspace ws-1.
func (w *world) issue(t testing.TB, id string, a credentials.APIKey) string {
	t.Helper()
	a.Name, a.Kind, a.WorkspaceID, a.Scopes = id, credentials.WorkspaceService, "ws-1", []string{credentials.ScopeCompletions}
	var key credentials.Secret
	if err := w.db.Update(context.Background(), func(tx *storage.Txn) (err error) {
		key, err = w.keyring.Issue(tx, id, "gw-", &a)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return key.Reveal()
}

// of is a config that is known by its timeout in milliseconds.
func of(ms int) string { return `{"provider":"@file","request_timeout":` + strconv.Itoa(ms) + `}` }

func TestAConfigIsFoundByWhatACallNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	saved := w.save(t, routing.Saved{Slug: "pc-a"}, of(1), of(2), of(3))
	w.save(t, routing.Saved{Slug: "pc-other", WorkspaceID: "ws-2"}, of(4))
	w.save(t, routing.Saved{Slug: "pc-old", Archived: true}, of(5))
	w.save(t, routing.Saved{Slug: "pc-owner", WorkspaceID: "ws-default"}, of(6))
	config := func(name string, more ...string) []string {
		return append([]string{"x-gw-api-key", w.key, "x-gw-config", name}, more...)
	}
	for _, c := range []struct {
		name    string
		header  []string
		ms      int // of the config that is found; 0: refused
		version int // of a saved one; 0: inline
		param   string
		message string
	}{
		{"a slug", config("pc-a"), 3, 3, "", ""},
		{"an id", config(saved.ID), 3, 3, "", ""},
		{"a slug and a version", config("pc-a@1"), 1, 1, "", ""},
		{"a slug and the id of a version", config("pc-a@" + saved.Versions[1].ID), 2, 2, "", ""},
		{"a slug and the newest version", config("pc-a@3"), 3, 3, "", ""},
		{"an id and a version", config(saved.ID + "@2"), 2, 2, "", ""},
		{"a version in a header", config("pc-a", "x-gw-config-version", "2"), 2, 2, "", ""},
		{"the id of a version in a header", config("pc-a", "x-gw-config-version", saved.Versions[0].ID), 1, 1, "", ""},
		{"a version in a header under an alias", config("pc-a", "x-acme-config-version", "1"), 1, 1, "", ""},
		{"a config under an alias", []string{"x-gw-api-key", w.key, "x-acme-config", "pc-a"}, 3, 3, "", ""},
		{"two versions, of which the slug's own counts", config("pc-a@1", "x-gw-config-version", "2"), 1, 1, "", ""},
		{"a version that is empty", config("pc-a", "x-gw-config-version", ""), 3, 3, "", ""},
		{"inline", config(of(7)), 7, 0, "", ""},
		{"inline, with space around it", config(" \t" + of(7) + " "), 7, 0, "", ""},
		{"inline, which has no versions", config(of(7), "x-gw-config-version", "9"), 7, 0, "", ""},
		{"the owner's", []string{"x-gw-api-key", adminKey, "x-gw-config", "pc-owner"}, 6, 1, "", ""},

		{"an unknown slug", config("pc-b"), 0, 0, "x-gw-config", "Invalid config id passed: pc-b"},
		{"a slug in another letter case", config("PC-A"), 0, 0, "x-gw-config", "Invalid config id passed: PC-A"},
		{"another workspace's", config("pc-other"), 0, 0, "x-gw-config", "Invalid config id passed: pc-other"},
		{"another workspace's, to the owner", []string{"x-gw-api-key", adminKey, "x-gw-config", "pc-a"}, 0, 0, "x-gw-config", "Invalid config id passed: pc-a"},
		{"an archived one", config("pc-old"), 0, 0, "x-gw-config", "Invalid config id passed: pc-old"},
		{"an unknown version", config("pc-a@4"), 0, 0, "x-gw-config", "Invalid config version passed: the config pc-a has no version 4"},
		{"version 0", config("pc-a@0"), 0, 0, "x-gw-config", "Invalid config version passed: the config pc-a has no version 0"},
		{"an unknown version in a header", config("pc-a", "x-gw-config-version", "x"), 0, 0, "x-gw-config-version", "Invalid config version passed: the config pc-a has no version x"},
		{"no JSON and no slug", config(`["a"]`), 0, 0, "x-gw-config", "Invalid config passed. You need to pass a valid json"},
		{"half a config", config(`{"provider":"@file"`), 0, 0, "x-gw-config", "Invalid config passed"},
		{"a config that says nothing", config(`{}`), 0, 0, "x-gw-config", "Invalid config passed"},
		{"an unknown check", config(`{"provider":"@file","input_guardrails":[{"default.regexMach":{"rule":"x"},"deny":true}]}`), 0, 0, "x-gw-config", "Invalid config passed: input_guardrails[0].default.regexMach: there is no check default.regexMach"},
		{"a deny without checks", config(`{"provider":"@file","before_request_hooks":[{"deny":true}]}`), 0, 0, "x-gw-config", "Invalid config passed: before_request_hooks[0]: expected at least one check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := w.begin(t, w.call(chat, c.header...))
			err := x.Prepare(limits)
			if c.ms == 0 {
				if err == nil || err.Status != 400 || err.Code != "invalid_config" || err.Param != c.param || !strings.Contains(err.Message, c.message) {
					t.Fatalf("got %+v", err)
				}
				mustBeEnvelope(t, err.JSON(Envelope{}))
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if x.Config == nil || x.Config.Root.RequestTimeout != time.Duration(c.ms)*time.Millisecond || x.chosen != nil {
				t.Fatalf("got %+v, chosen %+v", x.Config, x.chosen)
			}
			if x.ConfigSource.Inline != (c.version == 0) || c.version == 0 && (x.ConfigSource.Slug != "" || x.ConfigSource.Version != "") {
				t.Errorf("inline %v, config %q, version %q", x.ConfigSource.Inline, x.ConfigSource.Slug, x.ConfigSource.Version)
			}
			if c.version != 0 && x.Caller.WorkspaceID == "ws-1" && (x.ConfigSource.Slug != "pc-a" || x.ConfigSource.Version != saved.Versions[c.version-1].ID) {
				t.Errorf("config %q, version %q, want version %d", x.ConfigSource.Slug, x.ConfigSource.Version, c.version)
			}
		})
	}
}

// The default config is the key's, or else that of its workspace; a call names
// another unless its key forbids that.
func TestACallThatNamesNoConfigHasADefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes, no := true, false
	ofKey := w.save(t, routing.Saved{Slug: "pc-key"}, of(1), of(2))
	foreign := w.save(t, routing.Saved{Slug: "pc-foreign", WorkspaceID: "ws-2"}, of(3))
	archived := w.save(t, routing.Saved{Slug: "pc-archived", Archived: true}, of(4))
	w.save(t, routing.Saved{Slug: "pc-named"}, of(5))

	plain := w.issue(t, "k-plain", credentials.APIKey{})
	own := w.issue(t, "k-own", credentials.APIKey{ConfigID: ofKey.ID})
	ownAllows := w.issue(t, "k-own-allows", credentials.APIKey{ConfigID: ofKey.ID, AllowOverride: &yes})
	strict := w.issue(t, "k-strict", credentials.APIKey{ConfigID: ofKey.ID, AllowOverride: &no})
	strictWithout := w.issue(t, "k-strict-without", credentials.APIKey{AllowOverride: &no})
	astray := w.issue(t, "k-astray", credentials.APIKey{ConfigID: foreign.ID})
	retired := w.issue(t, "k-retired", credentials.APIKey{ConfigID: archived.ID})
	gone := w.issue(t, "k-gone", credentials.APIKey{ConfigID: "pc-deleted"})

	const none = -1
	check := func(when string, rows []struct {
		name   string
		key    string
		header []string
		ms     int // none: no config; 0: refused
		code   string
	},
	) {
		for _, c := range rows {
			t.Run(when+c.name, func(t *testing.T) {
				x := w.begin(t, w.call(chat, append([]string{"x-gw-api-key", c.key, "x-gw-provider", "file"}, c.header...)...))
				err := x.Prepare(limits)
				switch {
				case c.ms == 0:
					if err == nil || err.Status != 400 || err.Code != c.code || err.Param != "x-gw-config" {
						t.Errorf("got %+v", err)
					}
					if c.code == "config_override_forbidden" && (err == nil || err.Message != "Cannot override default config set for this API key.") {
						t.Errorf("got %v", err)
					}
				case err != nil:
					t.Errorf("refused: %v", err)
				case c.ms == none && (x.Config != nil || x.chosen.Route == nil):
					t.Errorf("got %+v", x.Config)
				case c.ms > 0 && (x.Config == nil || x.Config.Root.RequestTimeout != time.Duration(c.ms)*time.Millisecond):
					t.Errorf("got %+v, want that of %d ms", x.Config, c.ms)
				}
			})
		}
	}
	type row = struct {
		name   string
		key    string
		header []string
		ms     int
		code   string
	}
	named, inline := []string{"x-gw-config", "pc-named"}, []string{"x-gw-config", of(9)}
	rows := []row{
		{"the key's", own, nil, 2, ""},
		{"the key's, which a call may override", own, named, 5, ""},
		{"the key's, which a call may override with an inline one", own, inline, 9, ""},
		{"the key's, with leave to override it", ownAllows, named, 5, ""},
		{"the key's, which no call may override", strict, nil, 2, ""},
		{"the key's, which no call may override by name", strict, named, 0, "config_override_forbidden"},
		{"the key's, which no call may override by its own name", strict, []string{"x-gw-config", "pc-key"}, 0, "config_override_forbidden"},
		{"the key's, which no call may override inline", strict, inline, 0, "config_override_forbidden"},
		{"the key's, which no call may override with nonsense", strict, []string{"x-gw-config", "{"}, 0, "config_override_forbidden"},
		{"the key's of another workspace", astray, nil, 0, "invalid_config"},
		{"the key's that is archived", retired, nil, 0, "invalid_config"},
		{"the key's that is gone", gone, nil, 0, "invalid_config"},
		{"the key's that is gone, overridden", gone, named, 5, ""},
	}
	check("", append(slices.Clone(rows),
		row{"none", plain, nil, none, ""}, row{"none, which no call may override", strictWithout, nil, none, ""}, row{"a named one", plain, named, 5, ""},
		row{"a named one, where there is nothing to override", strictWithout, named, 5, ""},
	))
	w.save(t, routing.Saved{Slug: "pc-workspace", Default: true}, of(7))
	check("with a default of the workspace: ", append(slices.Clone(rows),
		row{"the workspace's", plain, nil, 7, ""}, row{"the workspace's, overridden", plain, named, 5, ""},
		row{"the workspace's, which no call of the key may override", strictWithout, nil, 7, ""},
		row{"the workspace's, which no call of the key may override by name", strictWithout, named, 0, "config_override_forbidden"},
		row{"the workspace's, which no call of the key may override inline", strictWithout, inline, 0, "config_override_forbidden"},
	))
	w.save(t, routing.Saved{Slug: "pc-newer", Default: true}, of(8))
	check("with another one: ", []row{{"the newer", plain, nil, 8, ""}})
}

// An answer to a bad config lists each of its faults with its path.
func TestEveryFaultOfAConfigIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := `{"strategy":{"mode":"fallback","on_status_codes":[429,999]},"retry":{"attempts":9},"surprise":1,"start_hooks":"g",
		"targets":[{"provider":"openai"},{"provider":"@file","request_timeout":0,"requestTimeout":5},{"provider":"@file","cache":{"mode":"semantic"},"options":[]}]}`
	want := []string{
		"strategy.on_status_codes[1]: ", "retry.attempts: ", "surprise: ", "start_hooks: ", "targets[0]: ", "targets[1].request_timeout: ", "targets[1].requestTimeout: ",
		"targets[2].cache.mode: ", "targets[2].options: ",
	}
	x := w.begin(t, w.good(chat, "x-gw-config", strings.ReplaceAll(bad, "\n", " ")))
	err := x.Prepare(limits)
	if err == nil || err.Status != http.StatusBadRequest || err.Code != "invalid_config" || err.Param != "x-gw-config" {
		t.Fatalf("got %+v", err)
	}
	mustBeEnvelope(t, err.JSON(Envelope{}))
	var answer struct {
		Message string
		Errors  []string
	}
	if err := json.Unmarshal(err.JSON(Envelope{}), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Errors) != len(want) {
		t.Errorf("%d faults are listed, want %d: %q", len(answer.Errors), len(want), answer.Errors)
	}
	for _, path := range want {
		if !slices.ContainsFunc(answer.Errors, func(e string) bool { return strings.HasPrefix(e, path) && len(e) > len(path) }) {
			t.Errorf("no fault at %q in %q", path, answer.Errors)
		}
	}
	if !strings.HasPrefix(answer.Message, "Invalid config passed") {
		t.Errorf("message %q", answer.Message)
	}
	if x.Config != nil || x.ConfigSource.Inline {
		t.Errorf("the call has the config %+v", x.Config)
	}
	for _, valid := range []string{"x-gw-config", "unknown", chat} {
		if e := badRequest("", "x", valid); strings.Contains(string(e.JSON(Envelope{})), `"errors"`) {
			t.Errorf("an answer without faults lists some: %s", e.JSON(Envelope{}))
		}
	}
}

// What a saved config may say and an inline one may not.
func TestSomeSettingsNeedASavedConfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{
		"sticky":    `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"]}},"targets":[{"provider":"@file"}]}`,
		"cb_config": `{"strategy":{"mode":"fallback","cb_config":{"failure_threshold":1}},"targets":[{"provider":"@file"}]}`,
	} {
		if err := w.begin(t, w.good(chat, "x-gw-config", text)).Prepare(limits); err == nil || err.Code != "invalid_config" || len(err.Errors) != 1 || !strings.Contains(err.Errors[0], name) {
			t.Errorf("%s inline: got %+v", name, err)
		}
		w.save(t, routing.Saved{Slug: "pc-" + name}, text)
		if err := w.begin(t, w.good(chat, "x-gw-config", "pc-"+name)).Prepare(limits); err != nil {
			t.Errorf("%s saved: refused: %v, %q", name, err, err.Errors)
		}
	}
}

func TestASavedConfigThatIsNoLongerGoodIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.save(t, routing.Saved{Slug: "pc-hooks"}, `{"provider":"@file","start_hooks":"g"}`)
	err := w.begin(t, w.good(chat, "x-gw-config", "pc-hooks")).Prepare(limits)
	if err == nil || err.Status != 400 || err.Code != "invalid_config" || err.Err == nil || !strings.Contains(err.Message, "pc-hooks") {
		t.Errorf("got %+v", err)
	}
}

func TestABatchOrAFileHasOneTargetOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@file"},{"provider":"@own"}]}`
	for i := range endpoints {
		e := &endpoints[i]
		r := at(w.good("", "x-gw-config", two), e.Method, placeholder.ReplaceAllLiteralString(e.Path, "id-1"))
		r.Body, r.ContentLength = http.NoBody, 0
		if e.Body == Stream {
			r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		}
		if e.Body == JSON {
			body := map[string]string{
				"createBatch": `{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "createFinetune": `{"model":"m","training_file":"f"}`,
			}[e.Name]
			if body == "" {
				continue
			}
			fresh := w.good(body, "x-gw-config", two)
			r.Body, r.ContentLength = fresh.Body, fresh.ContentLength
		}
		err := w.begin(t, r).Prepare(limits)
		switch {
		case e.Single && (err == nil || err.Status != 400 || err.Code != "invalid_config" || !strings.Contains(err.Message, "Maximum one target is allowed")):
			t.Errorf("%s: got %+v", e.Name, err)
		case !e.Single && err != nil:
			t.Errorf("%s: refused: %v", e.Name, err)
		}
	}
}

// The body that a target gets: the client's with defaults, overrides and drops.
func TestBodyIsEditedAsATargetSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, config, path, body, want, missing string }{
		{"nothing", `{"provider":"@file"}`, "", chat, chat, ""},
		{"a model in the body and one in the config", `{"provider":"@file","override_params":{"model":"n"}}`, "", chat, `{"model":"n",` + messages + `}`, ""},
		{"a model in the config alone", `{"provider":"@file","override_params":{"model":"n"}}`, "", `{` + messages + `}`, `{` + messages + `,"model":"n"}`, ""},
		{"a default model", `{"provider":"@file","default_params":{"model":"n"}}`, "", `{` + messages + `}`, `{` + messages + `,"model":"n"}`, ""},
		{"a default model for null", `{"provider":"@file","default_params":{"model":"n"}}`, "", `{"model":null,` + messages + `}`, `{"model":"n",` + messages + `}`, ""},
		{"a default that is given", `{"provider":"@file","default_params":{"model":"n","top_p":0.5}}`, "", with(`"top_p":1`), with(`"top_p":1`), ""},
		{"a default, an override and a drop", `{"provider":"@file","default_params":{"a":1,"b":1},"override_params":{"b":2},"drop_params":["c"]}`, "", with(`"c":3,"d":4`), with(`"d":4,"a":1,"b":2`), ""},
		{"no model at all", `{"provider":"@file","override_params":{"top_p":0.5}}`, "", `{` + messages + `}`, "", "model"},
		{"a prompt", `{"provider":"@file"}`, "/v1/completions", `{"model":"m"}`, `{"model":"m","prompt":"<|endoftext|>"}`, ""},
		{"a prompt for null", `{"provider":"@file"}`, "/v1/completions", `{"prompt":null,"model":"m"}`, `{"prompt":"<|endoftext|>","model":"m"}`, ""},
		{"a prompt that is given", `{"provider":"@file"}`, "/v1/completions", `{"model":"m","prompt":""}`, `{"model":"m","prompt":""}`, ""},
		{"a prompt that the config gives", `{"provider":"@file","default_params":{"prompt":"p"}}`, "/v1/completions", `{"model":"m"}`, `{"model":"m","prompt":"p"}`, ""},
		{"a prompt and a model that the config gives", `{"provider":"@file","override_params":{"model":"n"}}`, "/v1/completions", `{}`, `{"prompt":"<|endoftext|>","model":"n"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.call(c.body, "x-gw-api-key", w.key, "x-gw-config", c.config)
			if c.path != "" {
				r = at(r, "POST", c.path)
			}
			x := w.begin(t, r)
			if err := x.Prepare(limits); err != nil {
				t.Fatalf("refused: %v", err)
			}
			plan, err := x.Config.Plan(routing.Input{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if refusal := x.Choose(plan.Target()); refusal != nil {
				t.Fatalf("refused: %v", refusal)
			}
			b, _, err := x.chosen.Payload().JSON(false)
			if c.missing != "" {
				var e *Error
				if !errors.As(err, &e) || e.Status != 400 || e.Code != "missing_required_parameter" || e.Param != c.missing || b != nil {
					t.Errorf("got %v, %v", b, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Release()
			var got, want any
			if err := errors.Join(json.Unmarshal(b.Bytes(), &got), json.Unmarshal([]byte(c.want), &want)); err != nil {
				t.Fatalf("%s: %v", b.Bytes(), err)
			}
			if !reflect.DeepEqual(got, want) || c.want == c.body && string(b.Bytes()) != c.body {
				t.Errorf("got %s, want %s", b.Bytes(), c.want)
			}
		})
	}
}

// With passthrough the call goes on as it came, whatever the endpoint's tables say;
// what the gateway itself reads of it is still checked.
func TestPassthroughSwitchesTheTablesOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, method, path, body string
		fault, still             string // code without passthrough, and with it
		stream                   bool
	}{
		{"a number that is too high", "POST", "/v1/chat/completions", with(`"temperature":3,"stream":true`), "decimal_above_max_value", "", true},
		{"another type", "POST", "/v1/chat/completions", with(`"stop":7`), "invalid_type", "", false},
		{"a required field", "POST", "/v1/chat/completions", `{"model":"m"}`, "missing_required_parameter", "", false},
		{"a field twice that only the table reads", "POST", "/v1/chat/completions", with(`"top_p":1,"top_p":0`), "duplicate_field", "", false},
		{"a document that is none", "POST", "/v1/ocr", `{"model":"m","document":{"type":"document_url"}}`, "missing_required_parameter", "", false},
		{"a query", "GET", "/v1/batches?limit=1000", "", "integer_above_max_value", "", false},
		{"nothing", "POST", "/v1/chat/completions", chat, "", "", false},
		{"half an object", "POST", "/v1/chat/completions", `{"model":"m"`, "invalid_json", "invalid_json", false},
		{"model twice", "POST", "/v1/chat/completions", with(`"model":"n"`), "duplicate_field", "duplicate_field", false},
		{"model twice and another fault", "POST", "/v1/chat/completions", with(`"temperature":3,"model":"n"`), "decimal_above_max_value", "decimal_above_max_value", false},
		{"stream in capitals", "POST", "/v1/chat/completions", with(`"STREAM":true`), "duplicate_field", "duplicate_field", false},
		{"a number as model", "POST", "/v1/chat/completions", `{"model":1,` + messages + `}`, "invalid_type", "invalid_type", false},
	} {
		for config, want := range map[string]string{
			`{"provider":"@file","cache":"simple"}`: c.fault, `{"provider":"@file","passthrough":false}`: c.fault, `{"provider":"@file","passthrough":true}`: c.still,
		} {
			path, query, _ := strings.Cut(c.path, "?")
			r := at(w.call(c.body, "x-gw-api-key", w.key, "x-gw-config", config), c.method, path)
			r.URL.RawQuery = query
			x := w.begin(t, r)
			err := x.Prepare(limits)
			if err != nil || want != "" {
				if err == nil || err.Status != 400 || err.Code != want {
					t.Errorf("%s, %s: got %v, want %q", c.name, config, err, want)
				}
				continue
			}
			b, _, failed := x.NewAttempt("config", new(credentials.Route), x.Config.Root.Edit()).Payload().JSON(true)
			if failed != nil {
				t.Errorf("%s, %s: %v", c.name, config, failed)
				continue
			}
			if c.body != "" {
				if string(b.Bytes()) != c.body || x.Model != "m" || x.Stream != c.stream {
					t.Errorf("%s, %s: got %s, model %q, stream %v", c.name, config, b.Bytes(), x.Model, x.Stream)
				}
				b.Release()
			}
		}
	}
	// Nothing is added either.
	x := w.begin(t, at(w.call(`{"stream":false}`, "x-gw-api-key", w.key, "x-gw-config", `{"provider":"@file","passthrough":true}`), "POST", "/v1/completions"))
	if err := x.Prepare(limits); err != nil {
		t.Fatal(err)
	}
	b, _, err := x.NewAttempt("config", new(credentials.Route), x.Config.Root.Edit()).Payload().JSON(true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if string(b.Bytes()) != `{"stream":false}` {
		t.Errorf("got %s", b.Bytes())
	}
	if err := w.begin(t, w.good(with(`"n":0`))).Prepare(limits); err == nil || err.Code != "integer_below_min_value" {
		t.Errorf("without a config: %v", err)
	}
}

func TestTheHeadersThatSetWhatAConfigCould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := strings.TrimSuffix(strings.Repeat("x-a,", 51), ",")
	for _, c := range []struct {
		name, header, value string
		timeout             time.Duration
		forward             string
		ok                  bool
	}{
		{"a timeout", "x-gw-request-timeout", "1500", 1500 * time.Millisecond, "", true},
		{"a timeout under an alias", "x-acme-request-timeout", "1", time.Millisecond, "", true},
		{"the longest timeout", "x-gw-request-timeout", "86400000", 24 * time.Hour, "", true},
		{"a longer timeout", "x-gw-request-timeout", "86400001", 0, "", false},
		{"no timeout", "x-gw-request-timeout", "0", 0, "", false},
		{"a negative timeout", "x-gw-request-timeout", "-1", 0, "", false},
		{"a timeout with a unit", "x-gw-request-timeout", "5s", 0, "", false},
		{"a timeout with a fraction", "x-gw-request-timeout", "1.5", 0, "", false},
		{"a timeout that overflows", "x-gw-request-timeout", "99999999999999999999", 0, "", false},
		{"headers", "x-gw-forward-headers", "x-a, X-B ,,x_c", 0, "X-A,X-B,X_c", true},
		{"nothing", "x-gw-forward-headers", " , ", 0, "", true},
		{"the gateway's own header", "x-gw-forward-headers", "x-gw-api-key", 0, "", false},
		{"itself", "x-gw-forward-headers", "x-gw-forward-headers", 0, "", false},
		{"the credential", "x-gw-forward-headers", "authorization", 0, "", false},
		{"a cookie", "x-gw-forward-headers", "cookie", 0, "", false},
		{"the host", "x-gw-forward-headers", "host", 0, "", false},
		{"the length", "x-gw-forward-headers", "content-length", 0, "", false},
		{"what a metadata service wants", "x-gw-forward-headers", "Metadata-Flavor", 0, "", false},
		{"another method", "x-gw-forward-headers", "X-HTTP-Method-Override", 0, "", false},
		{"another host", "x-gw-forward-headers", "x_forwarded_host", 0, "", false},
		{"another account", "x-gw-forward-headers", "openai-organization", 0, "", false},
		{"no header's name", "x-gw-forward-headers", "a b", 0, "", false},
		{"too many", "x-gw-forward-headers", many, 0, "", false},
		{"as many as may be", "x-gw-forward-headers", strings.TrimSuffix(many, ",x-a"), 0, strings.TrimSuffix(strings.Repeat("X-A,", 50), ","), true},
	} {
		x := w.begin(t, w.good(chat, c.header, c.value))
		err := x.Prepare(limits)
		if !c.ok {
			if err == nil || err.Status != 400 || err.Code != "invalid_value" || err.Param != strings.Replace(c.header, "acme", "gw", 1) || len(err.Message) > 300 {
				t.Errorf("%s: got %+v", c.name, err)
			}
			continue
		}
		if err != nil || x.Options.RequestTimeout != c.timeout || strings.Join(x.Options.ForwardHeaders, ",") != c.forward {
			t.Errorf("%s: got %v, %q, %v", c.name, x.Options.RequestTimeout, x.Options.ForwardHeaders, err)
		}
	}
	w.Router.BlockInline = true
	err := w.begin(t, w.good(chat, "x-gw-forward-headers", "x-a")).Prepare(limits)
	if err == nil || err.Code != "inline_forward_headers_blocked" || err.Field != "x-gw-forward-headers" {
		t.Errorf("blocked: got %+v", err)
	}
	if err := w.begin(t, w.good(chat, "x-gw-request-timeout", "5")).Prepare(limits); err != nil {
		t.Errorf("a timeout is not blocked: got %v", err)
	}
}

// A model that names no provider is repeated, with what the client may have meant.
func TestAModelWithoutAProviderIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const asks = `{"model":"gpt-99","messages":[{"role":"user","content":"hi"}]}`
	for alias, want := range map[string]string{"": "did you mean @file/gpt-99?", "gpt-90": "did you mean gpt-90?"} {
		w.Aliases = func(string) []string { return []string{alias} }
		err := w.begin(t, w.call(asks, "x-gw-api-key", w.key)).Prepare(limits)
		if err == nil || err.Status != 400 || !strings.Contains(err.Message, "the model gpt-99 names no provider") || !strings.HasSuffix(err.Message, want) {
			t.Errorf("%s: %+v", alias, err)
		}
	}
	w.Router.Alias = func(string, string) string { return "gpt-4o" }
	err := w.begin(t, w.call(asks, "x-gw-api-key", w.key)).Prepare(limits)
	if err == nil || err.Param != "model" || !strings.Contains(err.Message, "The model gpt-99 is an alias of the config gpt-4o: ") {
		t.Errorf("an alias of what is not there: %+v", err)
	}
}
