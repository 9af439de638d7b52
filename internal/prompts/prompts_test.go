package prompts_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/prompts"
	"github.com/caddy-gw/gateway/internal/prompts/template"
	"github.com/caddy-gw/gateway/internal/storetest"
	"github.com/caddy-gw/gateway/storage"
)

func open(t testing.TB) (*prompts.Store, *storage.DB) {
	t.Helper()
	db := storetest.OpenDB(t)
	s, err := prompts.Open(t.Context(), db, time.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// add stores a prompt or partial in workspace w.
func add(t testing.TB, s *prompts.Store, db *storage.DB, p prompts.Prompt, versions ...prompts.Content) {
	t.Helper()
	p.WorkspaceID = "w"
	for i := range versions {
		err := db.Update(t.Context(), func(tx *storage.Txn) error {
			if i == 0 {
				return s.Add(tx, &p, &versions[0])
			}
			return s.Put(tx, &p, &versions[i])
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func render(ctx context.Context, s *prompts.Store, reference, body string) (string, error) {
	p, v, ok := s.Find("w", reference, false)
	if !ok {
		return "", errors.New("not found")
	}
	c, err := s.Compiled(ctx, p, v)
	if err != nil {
		return "", err
	}
	out, err := s.Render(ctx, nil, "w", c, []byte(body))
	return string(out), err
}

func TestAPromptRendersTheBodyOfACall(t *testing.T) {
	s, db := open(t)
	add(t, s, db, prompts.Prompt{Slug: "part", Partial: true}, prompts.Content{String: "{{c}}!"}, prompts.Content{String: "{{c}}?"})
	add(
		t, s, db, prompts.Prompt{Slug: "chat"},
		prompts.Content{
			String: `[{"role":"user","content":"{{a}} {{>part}} {{>part@2}}"}]`, Model: "m", Tools: []byte(`[{"function":{"description":"{{a}}"}}]`),
			Parameters: []byte(`{"stream":true,"temperature":0.5,"model":"of the parameters","response_format":{"name":"{{c}}"},"variables":{"c":"c"}}`),
		},
		prompts.Content{String: "Say {{a}}"},
		prompts.Content{String: `[{{#a}}{"role":"user","content":"{{.}}"},{{/a}}{"role":"user","content":"{{c}}"}]`, Raw: true},
	)
	for _, c := range []struct{ reference, body, want, fault string }{
		{
			"chat", `{"variables":{"a":"x\"y"}}`,
			`{"temperature":0.5,"model":"m","response_format":{"name":"c"},"tools":[{"function":{"description":"x\"y"}}],"messages":[{"role":"user","content":"x\"y c! c?"}]}`, "",
		},
		{
			"chat@1", `{"variables":{"c":"d"},"temperature":1,"tools":null,"stream":false,"prompt_id":"chat"}`,
			`{"temperature":1,"tools":null,"stream":false,"model":"m","response_format":{"name":"d"},"messages":[{"role":"user","content":" d! d?"}]}`, "",
		},
		{"chat@2", `{"variables":{"a":1}}`, `{"prompt":"Say 1"}`, ""},
		{"chat@latest", `{"variables":{"a":["1"],"c":"\n"}}`, `{"messages":[{"role":"user","content":"1"},{"role":"user","content":"\n"}]}`, ""},
		{"chat@latest", `{"variables":{},"messages":[]}`, `{"messages":[]}`, ""},
		{"chat", `{}`, "", "variables: required"},
		{"chat", `{"variables":[]}`, "", "variables: expected an object"},
		{"chat@9", `{"variables":{}}`, "", "not found"},
		{"chat@production", `{"variables":{}}`, "", "not found"},
		{"part", `{"variables":{}}`, "", "not found"},
	} {
		got, err := render(t.Context(), s, c.reference, c.body)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s over %s: %s (%v)\nexpected %s%s", c.reference, c.body, got, err, c.want, c.fault)
		}
	}
}

func TestARawTemplateThatIsNoJSONIsRefused(t *testing.T) {
	s, db := open(t)
	add(t, s, db, prompts.Prompt{Slug: "raw"}, prompts.Content{String: `[{"role":"user","content":{{a}}}]`, Raw: true})
	for variables, ok := range map[string]bool{`{"a":"x"}`: true, `{"a":["x","y"]}`: false, `{}`: false} {
		_, err := render(t.Context(), s, "raw", `{"variables":`+variables+`}`)
		var e *template.Error
		if ok != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != "invalid_json") {
			t.Errorf("%s: %v", variables, err)
		}
	}
}

// A new version replaces the oldest one that is neither published nor labelled.
func TestVersionsAreBounded(t *testing.T) {
	s, db := open(t)
	versions := make([]prompts.Content, prompts.MaxVersions+2)
	for i := range versions {
		versions[i].String = fmt.Sprint("text ", i+1)
	}
	add(t, s, db, prompts.Prompt{Slug: "many"}, versions...)
	p, _ := s.Get("many")
	if len(p.Versions) != prompts.MaxVersions || p.Versions[0].Number != 1 || p.Versions[1].Number != 4 || p.Latest().Number != prompts.MaxVersions+2 {
		t.Errorf("%d versions, from %d and %d to %d", len(p.Versions), p.Versions[0].Number, p.Versions[1].Number, p.Latest().Number)
	}
	if got, err := render(t.Context(), s, "many", `{"variables":{}}`); got != `{"prompt":"text 1"}` {
		t.Errorf("%s, %v", got, err)
	}
	if err := db.Check(t.Context()); err != nil { // the content of the others is gone
		t.Error(err)
	}
}

// A label is deleted in a transaction of bounded size, even if many prompts have it.
func TestALabelOfManyPromptsIsDeleted(t *testing.T) {
	s, db := open(t)
	label := &prompts.Label{Name: "canary", WorkspaceID: "w"}
	update := func(change func(tx *storage.Txn) error) {
		t.Helper()
		if err := db.Update(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *storage.Txn) error { return s.PutLabel(tx, label) })
	const many, atOnce = 4000, 250
	for i := 0; i < many; i += atOnce {
		update(func(tx *storage.Txn) error {
			for n := range atOnce {
				p := &prompts.Prompt{Slug: fmt.Sprint("p", i+n), WorkspaceID: "w", Labels: map[string]int{label.ID: 1}}
				if err := s.Add(tx, p, &prompts.Content{String: "x"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if _, _, ok := s.Find("w", "p7@canary", false); !ok {
		t.Fatal("the label names nothing")
	}
	update(func(tx *storage.Txn) error { return s.DeleteLabel(tx, label) })
	p, _ := s.Get("p7")
	if _, _, ok := s.Find("w", "p7@canary", false); ok || len(s.LabelsOf(p, p.Latest())) != 0 {
		t.Error("the label is still there")
	}
	update(func(tx *storage.Txn) error { return s.PutLabel(tx, &prompts.Label{Name: "canary", WorkspaceID: "w"}) })
	if _, _, ok := s.Find("w", "p7@canary", false); ok {
		t.Error("a new label of the name has the versions of the old one")
	}
}
