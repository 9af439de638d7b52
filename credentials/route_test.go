package credentials

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/alloctest"
	"github.com/caddy-gw/gateway/storage"
)

func mustURL(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// newRouter is a router in a world of two workspaces, ws-1 (slug one) and ws-2
// (slug two), some virtual keys and some providers of the operator's file.
func newRouter(t testing.TB) (*Router, *storage.DB, *clock) {
	t.Helper()
	db, c := openDB(t), newClock()
	k := openKeyring(t, db, c)
	for _, v := range []VirtualKey{
		{Credential: Credential{ID: "vk-1", Provider: "openai"}, Slug: "mine", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-2", Provider: "openai"}, Slug: "theirs", WorkspaceID: "ws-2"},
		{Credential: Credential{ID: "vk-3", Provider: "openai"}, Slug: "old", WorkspaceID: "ws-1", ExpiresAt: after(c, time.Hour)},
		{Credential: Credential{ID: "vk-4", Provider: "groq", CustomHost: "https://models.example.com/v1"}, Slug: "hosted", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-5", Provider: "groq", CustomHost: "http://10.0.0.1/v1"}, Slug: "inside", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-6", Provider: "ollama", CustomHost: "http://10.1.1.1:11434/v1"}, Slug: "trusted", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-7", Provider: "ollama"}, Slug: "homeless", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-8", Provider: "groq"}, Slug: "echo", WorkspaceID: "ws-1"},
		{Credential: Credential{ID: "vk-9", Provider: "groq"}, Slug: "cf", WorkspaceID: "ws-1"},
	} {
		addVirtualKey(t, db, k, v, "stored-secret-of-"+v.Slug)
	}
	file := func(slug string, workspaces ...string) *Provider {
		return &Provider{
			Slug: slug, Dialect: "openai", BaseURL: mustURL(t, "http://127.0.0.1:9000/"+slug), Key: NewSecret("file-secret-of-" + slug),
			Header: http.Header{"X-Team": {slug}}, Workspaces: workspaces,
		}
	}
	return &Router{
		Keyring: k,
		Providers: map[string]*Provider{
			"echo": file("echo"), "groq": file("groq"), "by-id": file("by-id", "ws-1"), "by-slug": file("by-slug", "other", "one"), "not-mine": file("not-mine", "ws-2", "two"),
		},
		BuiltIn: func(name string) (*url.URL, bool, bool) {
			switch name {
			case "openai", "groq":
				return mustURL(t, "https://api."+name+".com/v1"), false, true
			case "ollama":
				return nil, false, true
			}
			return nil, false, false
		},
		Alias: func(workspace, model string) string {
			return map[string]string{
				"ws-1/fast": "@mine/gpt/small", "ws-1/openai/fast": "@echo/m", "ws-1/stolen": "@theirs/m", "ws-1/faster": "fast", "ws-2/fast": "@theirs/m",
			}[workspace+"/"+model]
		},
		Guard:  guardOf(t, "10.1.1.1"),
		SlugOf: func(id string) string { return map[string]string{"ws-1": "one", "ws-2": "two"}[id] },
	}, db, c
}

// A wanted route is written as "provider (virtual key) secret url", then the marks
// of an inline route and of a caller's host, then the model.
func spell(r *Route) string {
	text := r.Provider
	if r.VirtualKey != "" {
		text += " (" + r.VirtualKey + ")"
	}
	text += " " + r.Key.Reveal() + " " + r.BaseURL.String()
	if r.Inline {
		text += " inline"
	}
	if r.CustomHost {
		text += " caller's-host"
	}
	if r.Model != "" {
		text += " model=" + r.Model
	}
	return text
}

const own = "the-callers-own"

func TestRouteTakesEveryCombinationOfCredentials(t *testing.T) {
	router, _, _ := newRouter(t)
	bearer := NewSecret(own)
	const (
		mine   = "openai (mine) stored-secret-of-mine https://api.openai.com/v1"
		echo   = "echo file-secret-of-echo http://127.0.0.1:9000/echo"
		openai = "openai the-callers-own https://api.openai.com/v1 inline"
	)
	for _, c := range []struct {
		name string
		s    Selection
		want string
	}{
		{"a virtual key", Selection{VirtualKey: "mine", Model: "gpt"}, mine},
		{"a virtual key by its id", Selection{VirtualKey: "vk-1"}, mine},
		{"a virtual key with a bearer, which is dropped", Selection{VirtualKey: "mine", Bearer: bearer}, mine},
		{"a virtual key with its owner's host", Selection{VirtualKey: "hosted"}, "groq (hosted) stored-secret-of-hosted https://models.example.com/v1 caller's-host"},
		{"a virtual key with a host that the operator trusts", Selection{VirtualKey: "trusted"}, "ollama (trusted) stored-secret-of-trusted http://10.1.1.1:11434/v1 caller's-host"},
		{"a virtual key before its expiry", Selection{VirtualKey: "old"}, "openai (old) stored-secret-of-old https://api.openai.com/v1"},
		{"bearer and provider", Selection{Bearer: bearer, Provider: "openai", Model: "gpt"}, openai},
		{"a custom host without a bearer", Selection{Provider: "openai", CustomHost: "http://10.1.1.1:11434/v1"}, "openai  http://10.1.1.1:11434/v1 inline caller's-host"},
		{"bearer, provider and custom host", Selection{Bearer: bearer, Provider: "openai", CustomHost: "https://x.example.com:8443/base/v2"}, "openai the-callers-own https://x.example.com:8443/base/v2 inline caller's-host"},
		{"a provider without an address and a custom host", Selection{Bearer: bearer, Provider: "ollama", CustomHost: "http://10.1.1.1:11434/v1"}, "ollama the-callers-own http://10.1.1.1:11434/v1 inline caller's-host"},
		{"a provider of the file", Selection{Provider: "echo", Model: "m"}, echo},
		{"a provider of the file with a bearer, which is dropped", Selection{Provider: "echo", Bearer: bearer}, echo},
		{"a provider of the file with @", Selection{Provider: "@echo"}, echo},
		{"a provider of the file that shadows a built-in one", Selection{Provider: "groq", Bearer: bearer}, "groq file-secret-of-groq http://127.0.0.1:9000/groq"},
		{"a provider of the file with @ and more", Selection{Provider: "@echo/anything/else"}, echo},
		{"a provider of the file for this workspace by id", Selection{Provider: "by-id"}, "by-id file-secret-of-by-id http://127.0.0.1:9000/by-id"},
		{"a provider of the file for this workspace by slug", Selection{Provider: "@by-slug"}, "by-slug file-secret-of-by-slug http://127.0.0.1:9000/by-slug"},
		{"a virtual key with @", Selection{Provider: "@mine"}, mine},
		{"@slug in the model", Selection{Model: "@mine/gpt"}, mine + " model=gpt"},
		{"@slug in the model, of the file", Selection{Model: "@echo/m"}, echo + " model=m"},
		{"@slug in the model, whose name has slashes", Selection{Model: "@mine/a/b"}, mine + " model=a/b"},
		{"@slug in the model, whose name has an @", Selection{Model: "@mine/@cf/meta/llama"}, mine + " model=@cf/meta/llama"},
		{"@slug in the model with a bearer, which is dropped", Selection{Model: "@mine/gpt", Bearer: bearer}, mine + " model=gpt"},
		{"a slug of the file before the same of a virtual key", Selection{Provider: "@echo"}, echo},
		{"a virtual key's header before a provider of the file", Selection{VirtualKey: "echo"}, "groq (echo) stored-secret-of-echo https://api.groq.com/v1"},

		{"@slug before the virtual key's header", Selection{Provider: "@echo", VirtualKey: "mine"}, echo},
		{"@slug before @slug in the model", Selection{Provider: "@echo", Model: "@mine/gpt"}, echo},
		{"the virtual key's header before @slug in the model", Selection{VirtualKey: "mine", Model: "@echo/m"}, mine},
		{"the virtual key's header before a provider's name", Selection{VirtualKey: "mine", Provider: "openai", Bearer: bearer}, mine},
		{"a provider's name before @slug in the model", Selection{Model: "@mine/gpt", Provider: "openai", Bearer: bearer}, openai},
		{"a virtual key without @", Selection{Provider: "mine", Model: "m"}, mine},
		{"a virtual key without @ with a bearer, which is dropped", Selection{Provider: "mine", Bearer: bearer}, mine},
		{"the same slug without @", Selection{Provider: "mine", Model: "@mine/gpt"}, mine + " model=gpt"},

		{"a virtual key as the model's prefix", Selection{Model: "mine/gpt"}, mine + " model=gpt"},
		{"a provider of the file as the model's prefix", Selection{Model: "echo/a/b"}, echo + " model=a/b"},
		{"a provider of the file that shadows a built-in one, as the model's prefix", Selection{Model: "groq/llama", Bearer: bearer}, "groq file-secret-of-groq http://127.0.0.1:9000/groq model=llama"},
		{"a built-in provider as the model's prefix", Selection{Model: "openai/gpt", Bearer: bearer}, openai + " model=gpt"},
		{"a header before the model's prefix", Selection{Provider: "openai", Bearer: bearer, Model: "mine/gpt"}, openai},
		{"a virtual key's header before the model's prefix", Selection{VirtualKey: "mine", Model: "echo/gpt"}, mine},
		{"the header's own name as the model's prefix", Selection{Provider: "@mine", Model: "mine/gpt"}, mine},

		{"an alias", Selection{Model: "fast"}, mine + " model=gpt/small"},
		{"an alias with a bearer, which is dropped", Selection{Model: "fast", Bearer: bearer}, mine + " model=gpt/small"},
		{"an alias that looks like a provider's model", Selection{Model: "openai/fast", Bearer: bearer}, echo + " model=m"},
		{"an alias where a header names a provider", Selection{Provider: "openai", Bearer: bearer, Model: "fast"}, openai},
		{"an alias where a virtual key is named", Selection{VirtualKey: "mine", Model: "fast"}, mine},
		{"a provider of the file before @slug in the model", Selection{Model: "@mine/gpt", Provider: "echo"}, echo},
		{"the same slug twice", Selection{Provider: "@mine", Model: "@mine/a/b"}, mine + " model=a/b"},
		{"the same slug in the virtual key's header", Selection{VirtualKey: "mine", Model: "@mine/gpt"}, mine + " model=gpt"},
		{"the same provider of the file in header and model", Selection{Provider: "echo", Model: "@echo/gpt"}, echo + " model=gpt"},
		{"the same slug in the model as the virtual key's id", Selection{VirtualKey: "vk-1", Model: "@mine/gpt"}, mine + " model=gpt"},

		{"a model of Workers AI", Selection{VirtualKey: "mine", Model: "@cf/meta/llama"}, mine},
		{"a model of Hugging Face", Selection{Provider: "openai", Bearer: bearer, Model: "@hf/google/gemma"}, openai},
		{"a model of Workers AI with a virtual key of that slug", Selection{Provider: "@cf", Model: "@cf/meta/llama"}, "groq (cf) stored-secret-of-cf https://api.groq.com/v1"},
		{"a model with @ and no slash", Selection{Provider: "openai", Bearer: bearer, Model: "@mine"}, openai},
		{"a model with slashes", Selection{Provider: "openai", Bearer: bearer, Model: "meta/llama"}, openai},
		{"a model with @ further on", Selection{Provider: "openai", Bearer: bearer, Model: "llama@mine/x"}, openai},
	} {
		t.Run(c.name, func(t *testing.T) {
			route, refusal := router.Route(&Caller{WorkspaceID: "ws-1"}, c.s)
			if refusal != nil {
				t.Fatalf("refused (%d, %s): %v", refusal.Reason, refusal.Field, refusal)
			}
			if got := spell(route); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if _, _, known := router.BuiltIn(route.Dialect); !known {
				t.Errorf("the dialect %q is unknown", route.Dialect)
			}
			if fromFile := strings.HasPrefix(route.Key.Reveal(), "file-"); fromFile != (route.Header != nil) {
				t.Errorf("headers %v", route.Header)
			}
			if !route.Inline && route.Key.Equal(bearer) {
				t.Error("the caller's credential goes where a stored one should")
			}
		})
	}
}

func TestRouteRefuses(t *testing.T) {
	router, _, clock := newRouter(t)
	clock.add(2 * time.Hour)
	bearer := NewSecret(own)
	const host = "https://x.example.com/v1"
	for _, c := range []struct {
		name   string
		s      Selection
		reason Reason
		field  string
	}{
		{"nothing", Selection{}, NoProvider, "x-gw-provider"},
		{"a bearer alone", Selection{Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"a model alone", Selection{Model: "gpt"}, NoProvider, "x-gw-provider"},
		{"a model of Workers AI alone", Selection{Model: "@cf/meta/llama"}, NoProvider, "x-gw-provider"},
		{"a model of Hugging Face alone", Selection{Model: "@hf/google/gemma"}, NoProvider, "x-gw-provider"},
		{"a model that is only a slug", Selection{Model: "@mine"}, NoProvider, "x-gw-provider"},
		{"a custom host alone", Selection{Bearer: bearer, CustomHost: host}, NoProvider, "x-gw-provider"},
		{"an unknown provider", Selection{Bearer: bearer, Provider: "nonsense"}, UnknownProvider, "x-gw-provider"},
		{"a provider in another letter case", Selection{Bearer: bearer, Provider: "OpenAI"}, UnknownProvider, "x-gw-provider"},
		{"a provider of only an @", Selection{Bearer: bearer, Provider: "@"}, UnknownProvider, "x-gw-provider"},
		{"an unknown virtual key", Selection{VirtualKey: "nonsense"}, UnknownVirtualKey, "x-gw-virtual-key"},
		{"an unknown @slug", Selection{Provider: "@nonsense"}, UnknownVirtualKey, "x-gw-provider"},
		{"an unknown @slug with a bearer", Selection{Provider: "@openai", Bearer: bearer}, UnknownVirtualKey, "x-gw-provider"},
		{"an unknown @slug in the model", Selection{Model: "@nonsense/gpt"}, UnknownVirtualKey, "model"},
		{"an empty @slug in the model", Selection{Model: "@/gpt"}, NoProvider, "x-gw-provider"},
		{"a provider of the file as a virtual key", Selection{VirtualKey: "by-id"}, UnknownVirtualKey, "x-gw-virtual-key"},
		{"another workspace's virtual key", Selection{VirtualKey: "theirs"}, UnknownVirtualKey, "x-gw-virtual-key"},
		{"another workspace's virtual key by id", Selection{VirtualKey: "vk-2"}, UnknownVirtualKey, "x-gw-virtual-key"},
		{"another workspace's virtual key with @", Selection{Provider: "@theirs"}, UnknownVirtualKey, "x-gw-provider"},
		{"another workspace's virtual key in the model", Selection{Model: "@theirs/gpt"}, UnknownVirtualKey, "model"},
		{"another workspace's provider of the file", Selection{Provider: "not-mine"}, UnknownProvider, "x-gw-provider"},
		{"another workspace's provider of the file with @", Selection{Provider: "@not-mine"}, UnknownVirtualKey, "x-gw-provider"},
		{"another workspace's provider of the file in the model", Selection{Model: "@not-mine/gpt"}, UnknownVirtualKey, "model"},
		{"an expired virtual key", Selection{VirtualKey: "old"}, ExpiredVirtualKey, "x-gw-virtual-key"},
		{"an expired virtual key with @", Selection{Provider: "@old"}, ExpiredVirtualKey, "x-gw-provider"},
		{"an expired virtual key in the model", Selection{Model: "@old/gpt"}, ExpiredVirtualKey, "model"},
		{"a virtual key whose owner's host is private", Selection{VirtualKey: "inside"}, BadCustomHost, "x-gw-custom-host"},
		{"a virtual key of a provider without an address", Selection{VirtualKey: "homeless"}, BadCustomHost, "x-gw-custom-host"},
		{"a provider without an address", Selection{Bearer: bearer, Provider: "ollama"}, BadCustomHost, "x-gw-custom-host"},
		{"a private custom host", Selection{Bearer: bearer, Provider: "openai", CustomHost: "http://10.0.0.1/v1"}, BadCustomHost, "x-gw-custom-host"},
		{"a custom host that is not a URL", Selection{Bearer: bearer, Provider: "openai", CustomHost: "example.com"}, BadCustomHost, "x-gw-custom-host"},
		{"a custom host of metadata", Selection{Bearer: bearer, Provider: "openai", CustomHost: "http://169.254.169.254"}, BadCustomHost, "x-gw-custom-host"},
		{"a custom host of an unknown provider", Selection{Bearer: bearer, Provider: "nonsense", CustomHost: host}, UnknownProvider, "x-gw-provider"},
		{"a custom host with a virtual key", Selection{VirtualKey: "mine", CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with a virtual key and a bearer", Selection{VirtualKey: "mine", Bearer: bearer, Provider: "openai", CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a trusted custom host with a virtual key", Selection{VirtualKey: "mine", CustomHost: "http://10.1.1.1"}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with a virtual key that has one", Selection{VirtualKey: "hosted", CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with @slug", Selection{Provider: "@mine", CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with @slug in the model", Selection{Model: "@mine/gpt", Bearer: bearer, CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with a provider of the file", Selection{Provider: "echo", Bearer: bearer, CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with @ of the file", Selection{Provider: "@echo", CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with a provider of the file that shadows", Selection{Provider: "groq", Bearer: bearer, CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a provider without a bearer", Selection{Provider: "openai"}, NoProvider, "authorization"},
		{"an unknown provider with a virtual key", Selection{VirtualKey: "mine", Provider: "nonsense"}, UnknownProvider, "x-gw-provider"},
		{"an unknown provider with @slug in the model", Selection{Provider: "nonsense", Model: "@mine/gpt"}, UnknownProvider, "x-gw-provider"},
		{"another workspace's virtual key without @", Selection{Provider: "theirs", Bearer: bearer}, UnknownProvider, "x-gw-provider"},
		{"another workspace's virtual key as the model's prefix", Selection{Model: "theirs/gpt", Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"another workspace's provider of the file as the model's prefix", Selection{Model: "not-mine/gpt", Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"an unknown provider as the model's prefix", Selection{Model: "nonsense/gpt", Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"a prefix without a model", Selection{Model: "mine/", Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"an expired virtual key as the model's prefix", Selection{Model: "old/gpt"}, ExpiredVirtualKey, "model"},
		{"a built-in provider as the model's prefix without a bearer", Selection{Model: "openai/gpt"}, NoProvider, "authorization"},
		{"a custom host with a prefix that is a virtual key", Selection{Model: "mine/gpt", Bearer: bearer, CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"a custom host with an alias", Selection{Model: "fast", Bearer: bearer, CustomHost: host}, StoredSecretElsewhere, "x-gw-custom-host"},
		{"an alias of another workspace's provider", Selection{Model: "stolen"}, UnknownVirtualKey, "model"},
		{"an alias of an alias", Selection{Model: "faster"}, NoProvider, "x-gw-provider"},
	} {
		t.Run(c.name, func(t *testing.T) {
			route, refusal := router.Route(&Caller{WorkspaceID: "ws-1"}, c.s)
			if refusal == nil {
				t.Fatalf("routed to %s", spell(route))
			}
			if route != nil {
				t.Error("a route with the refusal")
			}
			if refusal.Reason != c.reason || refusal.Field != c.field {
				t.Errorf("got reason %d of %q, want %d of %q: %v", refusal.Reason, refusal.Field, c.reason, c.field, refusal)
			}
			for _, secret := range []string{own, "stored-secret", "file-secret"} {
				if strings.Contains(refusal.Error(), secret) {
					t.Errorf("the refusal shows a secret: %v", refusal)
				}
			}
		})
	}
}

// What another workspace has is no more than a name that nobody has, however a call names it.
func TestRouteSaysTheSameOfAnUnknownSlugAndOfAnotherWorkspaces(t *testing.T) {
	router, db, _ := newRouter(t)
	caller := &Caller{WorkspaceID: "ws-1"}
	ways := map[string]func(slug string) Selection{
		"a provider":                         func(slug string) Selection { return Selection{Provider: slug} },
		"a provider with a bearer":           func(slug string) Selection { return Selection{Provider: slug, Bearer: NewSecret(own)} },
		"a provider with a host":             func(slug string) Selection { return Selection{Provider: slug, CustomHost: "https://x.example.com/v1"} },
		"a provider and its model":           func(slug string) Selection { return Selection{Provider: slug, Model: "@" + slug + "/m"} },
		"a provider with a virtual key":      func(slug string) Selection { return Selection{Provider: slug, VirtualKey: "mine"} },
		"@slug":                              func(slug string) Selection { return Selection{Provider: "@" + slug} },
		"@slug and a model":                  func(slug string) Selection { return Selection{Provider: "@" + slug + "/m"} },
		"a virtual key":                      func(slug string) Selection { return Selection{VirtualKey: slug} },
		"@slug in the model":                 func(slug string) Selection { return Selection{Model: "@" + slug + "/m"} },
		"the model's prefix":                 func(slug string) Selection { return Selection{Model: slug + "/m"} },
		"the model's prefix with a bearer":   func(slug string) Selection { return Selection{Model: slug + "/m", Bearer: NewSecret(own)} },
		"a model with a virtual key":         func(slug string) Selection { return Selection{VirtualKey: "mine", Model: "@" + slug + "/m"} },
		"an alias":                           func(slug string) Selection { return Selection{Model: "to-" + slug} },
		"a name that is almost the provider": func(slug string) Selection { return Selection{Provider: "@" + slug + "s"} },
	}
	router.Alias = func(_, model string) string {
		if slug, ok := strings.CutPrefix(model, "to-"); ok {
			return "@" + slug + "/m"
		}
		return ""
	}
	answer := func(s Selection, slug string) string {
		var text string
		if refusal := router.Inline("ws-1", s); refusal != nil {
			text = refusal.Field + ": " + refusal.Message + "; "
		}
		route, refusal := router.Route(caller, s)
		if refusal != nil {
			text += fmt.Sprint(refusal.Reason, " ", refusal.Field, " ", refusal.Message)
		} else {
			text += spell(route)
		}
		return strings.ReplaceAll(text, slug, "absent")
	}
	compare := func(when string) {
		t.Helper()
		for name, way := range ways {
			for _, slug := range []string{"theirs", "not-mine"} {
				if got, want := answer(way(slug), slug), answer(way("absent"), "absent"); got != want {
					t.Errorf("%s, %s: %q of %s, but %q of one that there is not", when, name, got, slug, want)
				}
			}
		}
	}
	compare("for all")
	router.BlockInline = true
	compare("where inline is blocked")
	router.BlockInline = false

	// A built-in provider, and a virtual key of the workspace's own, keep their names.
	router.Providers["openai"] = &Provider{Slug: "openai", Dialect: "openai", BaseURL: mustURL(t, "http://127.0.0.1:9000"), Key: NewSecret("theirs"), Workspaces: []string{"ws-2"}}
	with := make(map[string]string)
	for name, way := range ways {
		with[name] = answer(way("openai"), "openai")
	}
	delete(router.Providers, "openai")
	for name, way := range ways {
		if want := answer(way("openai"), "openai"); with[name] != want {
			t.Errorf("%s: %q of a built-in one with another workspace's, else %q", name, with[name], want)
		}
	}
	for _, slug := range []string{"theirs", "not-mine", "absent"} {
		addVirtualKey(t, db, router.Keyring, VirtualKey{Credential: Credential{ID: "own-" + slug, Provider: "openai"}, Slug: slug, WorkspaceID: "ws-1"}, "s")
	}
	compare("where the workspace has its own")
	if saved := router.Saved(caller); !slices.Contains(saved, "not-mine") {
		t.Errorf("the workspace's own is not among %v", saved)
	}
}

func TestRouteBoundsWhatItRepeatsOfTheRequest(t *testing.T) {
	router, _, _ := newRouter(t)
	long := strings.Repeat("x", 10_000)
	for _, s := range []Selection{{VirtualKey: long}, {Provider: "@" + long}, {Provider: long}, {Model: "@" + long + "/m"}} {
		if _, refusal := router.Route(&Caller{WorkspaceID: "ws-1"}, s); len(refusal.Error()) > 200 {
			t.Errorf("a message of %d bytes", len(refusal.Error()))
		}
	}
}

func TestBlockInlineConfigNamesTheFirstViolation(t *testing.T) {
	router, _, _ := newRouter(t)
	router.BlockInline = true
	bearer := NewSecret(own)
	const (
		host   = "https://x.example.com/v1"
		inline = ` {"provider":"openai"}`
	)
	for _, c := range []struct {
		name   string
		s      Selection
		reason Reason // 0: allowed
		field  string
	}{
		{"an inline config", Selection{Config: inline}, InlineConfigBlocked, "x-gw-config"},
		{"an inline config before all else", Selection{Config: inline, Provider: "openai", Bearer: bearer, CustomHost: host}, InlineConfigBlocked, "x-gw-config"},
		{"an inline config with a virtual key", Selection{Config: inline, VirtualKey: "mine"}, InlineConfigBlocked, "x-gw-config"},
		{"bearer and provider", Selection{Bearer: bearer, Provider: "openai"}, InlineProviderBlocked, "x-gw-provider"},
		{"provider without a bearer", Selection{Provider: "openai"}, InlineProviderBlocked, "x-gw-provider"},
		{"an unknown provider", Selection{Bearer: bearer, Provider: "nonsense"}, UnknownProvider, "x-gw-provider"},
		{"a provider before a custom host", Selection{Bearer: bearer, Provider: "openai", CustomHost: host}, InlineProviderBlocked, "x-gw-provider"},
		{"a custom host with a virtual key", Selection{VirtualKey: "mine", CustomHost: host}, InlineHostBlocked, "x-gw-custom-host"},
		{"a custom host with a provider of the file", Selection{Provider: "echo", CustomHost: host}, InlineHostBlocked, "x-gw-custom-host"},
		{"a custom host alone", Selection{Bearer: bearer, CustomHost: host}, InlineHostBlocked, "x-gw-custom-host"},
		{"a virtual key", Selection{VirtualKey: "mine"}, 0, ""},
		{"a virtual key with a bearer", Selection{VirtualKey: "mine", Bearer: bearer}, 0, ""},
		{"a virtual key with a provider's name, which decides nothing", Selection{VirtualKey: "mine", Provider: "openai"}, 0, ""},
		{"a virtual key with its owner's host", Selection{VirtualKey: "hosted"}, 0, ""},
		{"@slug", Selection{Provider: "@mine"}, 0, ""},
		{"@slug in the model", Selection{Model: "@mine/gpt"}, 0, ""},
		{"a provider of the file", Selection{Provider: "echo", Bearer: bearer}, 0, ""},
		{"a provider of the file that shadows a built-in one", Selection{Provider: "groq", Bearer: bearer}, 0, ""},
		{"a bearer alone", Selection{Bearer: bearer}, NoProvider, "x-gw-provider"},
		{"a built-in provider as the model's prefix", Selection{Model: "openai/gpt", Bearer: bearer}, InlineProviderBlocked, "model"},
		{"a virtual key as the model's prefix", Selection{Model: "mine/gpt"}, 0, ""},
		{"an alias", Selection{Model: "fast"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var route *Route
			refusal := router.Inline("ws-1", c.s)
			if refusal == nil {
				route, refusal = router.Route(&Caller{WorkspaceID: "ws-1"}, c.s)
			}
			switch {
			case c.reason == 0 && refusal != nil:
				t.Errorf("refused: %v", refusal)
			case c.reason != 0 && refusal == nil:
				t.Errorf("routed to %s", spell(route))
			case c.reason != 0 && (refusal.Reason != c.reason || refusal.Field != c.field):
				t.Errorf("got reason %d of %q: %v", refusal.Reason, refusal.Field, refusal)
			}
		})
	}
}

func TestRouteFollowsTheVirtualKeysAsTheyChange(t *testing.T) {
	router, db, _ := newRouter(t)
	caller := &Caller{WorkspaceID: "ws-1"}
	k := router.Keyring
	old, _ := k.VirtualKey("ws-1", "mine")
	changed := *old
	changed.CustomHost = "https://new.example.com"
	update(t, db, func(tx *storage.Txn) error { return k.ReplaceVirtualKey(tx, &changed, NewSecret("the new secret")) })
	route, refusal := router.Route(caller, Selection{VirtualKey: "mine"})
	if refusal != nil || spell(route) != "openai (mine) the new secret https://new.example.com caller's-host" {
		t.Fatalf("got %v, %v", route, refusal)
	}
	update(t, db, func(tx *storage.Txn) error { return k.RemoveVirtualKey(tx, "vk-1") })
	if _, refusal = router.Route(caller, Selection{VirtualKey: "mine"}); refusal == nil || refusal.Reason != UnknownVirtualKey {
		t.Errorf("a removed key: got %v", refusal)
	}
}

func TestRouteRefusesACredentialThatCannotBeOpened(t *testing.T) {
	router, db, _ := newRouter(t)
	k := router.Keyring
	old, _ := k.VirtualKey("ws-1", "mine")
	broken := *old
	broken.Sealed = append([]byte{1}, old.Sealed...)
	update(t, db, func(tx *storage.Txn) error { return k.ReplaceVirtualKey(tx, &broken, Secret{}) })
	_, refusal := router.Route(&Caller{WorkspaceID: "ws-1"}, Selection{VirtualKey: "mine"})
	if refusal == nil || refusal.Reason != SecretUnavailable || !errors.Is(refusal, ErrWrongKey) {
		t.Errorf("got %v", refusal)
	}
}

func TestRefuseHostSaysWhichRuleRefused(t *testing.T) {
	_, err := guardOf(t).Check("http://10.0.0.1")
	refusal := CustomHostError(err)
	if refusal.Reason != BadCustomHost || !strings.HasPrefix(refusal.Message, "Invalid custom host: ") || !errors.Is(refusal, err) {
		t.Errorf("got %+v", refusal)
	}
	if refusal = CustomHostError(errors.New("dial tcp 10.1.2.3:80")); refusal.Message != "Invalid custom host" {
		t.Errorf("another error's words reach the caller: %q", refusal.Message)
	}
}

// What is made of a virtual key for a call is kept until it changes, or the guard does.
func TestAVirtualKeyIsOpenedOnce(t *testing.T) {
	router, db, _ := newRouter(t)
	caller := &Caller{WorkspaceID: "ws-1"}
	route := func(slug string) *Route {
		t.Helper()
		r, refusal := router.Route(caller, Selection{VirtualKey: slug})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return r
	}
	first := route("hosted")
	if again := route("hosted"); again.BaseURL != first.BaseURL || again == first {
		t.Errorf("it was opened again: %v", again)
	}
	alloctest.AtMost(t, 2, 100, func() { route("hosted") })

	stored, _ := router.Keyring.VirtualKey("ws-1", "hosted")
	changed := *stored
	changed.CustomHost = "https://other.example.com/v1"
	if o, refusal := router.open(&changed.Credential, nil, changed.Slug, ""); refusal != nil || o.base.String() != changed.CustomHost {
		t.Errorf("a changed copy is %v, %v", o, refusal)
	}
	err := db.Update(t.Context(), func(tx *storage.Txn) error {
		return router.Keyring.ReplaceVirtualKey(tx, &changed, NewSecret("another-secret"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := spell(route("hosted")); got != "groq (hosted) another-secret https://other.example.com/v1 caller's-host" {
		t.Errorf("after its change it is %s", got)
	}

	route("trusted")
	other := *router
	other.Guard = guardOf(t)
	if r, refusal := other.Route(caller, Selection{VirtualKey: "trusted"}); refusal == nil {
		t.Errorf("another guard let pass %s", spell(r))
	}
}

func BenchmarkRouteOfAVirtualKey(b *testing.B) {
	router, _, _ := newRouter(b)
	caller := &Caller{WorkspaceID: "ws-1"}
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := router.Route(caller, Selection{VirtualKey: "hosted"}); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
