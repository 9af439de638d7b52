package prompts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/prompts/template"
	"github.com/caddy-gw/gateway/internal/validation"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Check compiles the content of a new version, and holds what it comes to against the rules of the calls that it is for, as
// far as they do not depend on the variables. The error is a *[FieldError]. Versions that are stored may be of before
// a rule, and are only compiled.
func Check(c *Content) (*Compiled, error) {
	if !c.isChat() && isOtherJSON(c.String) {
		return nil, &FieldError{"string", "expected messages, as an array of at least one object, or a text; this is other JSON"}
	}
	if c.Raw && !mayBeArray(strings.TrimSpace(c.String)) {
		return nil, &FieldError{"string", "expected an array of messages once it is rendered, from [ to ]; a text without messages is no raw template: set is_raw_template to 0"}
	}
	compiled, err := Compile(c)
	if err != nil {
		return nil, err
	}
	if v := gjson.GetBytes(c.Parameters, "variables"); v.Exists() && v.Type != gjson.Null && !v.IsObject() {
		return nil, &FieldError{"parameters.variables", "expected an object"}
	}
	parts, _, err := c.parts()
	if err != nil {
		return nil, err
	}
	for i := range parts {
		if p := &parts[i]; !p.raw {
			if name := templateName(jsonscan.NewReader(p.json)); name != "" {
				return nil, &FieldError{p.field, fmt.Sprintf("the name %q has a tag; only values are rendered, since two names could come to the same", credentials.Clip(name))}
			}
		}
	}
	table := validation.Completion
	switch {
	case c.Raw: // messages are known once it is rendered
		table = validation.PromptedChat
	case compiled.Chat:
		table = validation.Chat
	}
	var body jsonscan.Builder
	body.Open('{')
	for i := range parts {
		if p := &parts[i]; !p.raw {
			body.Key(p.name).Raw(p.json)
		}
	}
	body.Close('}')
	err = validation.CheckTemplate(table, body)
	var fault *validation.Error
	switch {
	case errors.As(err, &fault):
		return nil, faultOf(parts, fault)
	case err != nil:
		return nil, &FieldError{"parameters", err.Error()}
	}
	return compiled, nil
}

// mayBeArray reports whether a raw template may come to an array: it begins and ends as one, or with a tag.
func mayBeArray(text string) bool {
	begins := strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{{")
	ends := strings.HasSuffix(text, "]") || strings.HasSuffix(text, "}}")
	return begins && ends
}

// isOtherJSON reports whether a text is an object or an array, or a string that holds messages: it was meant to be
// something else than the prompt of a text completion.
func isOtherJSON(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || !gjson.Valid(text) {
		return false
	}
	v := gjson.Parse(text)
	return v.IsObject() || v.IsArray() || v.Type == gjson.String && isMessages([]byte(strings.TrimSpace(v.Str)))
}

// templateName returns the name of a member in a JSON value that has a tag of a template, or "".
func templateName(r *jsonscan.Reader) (found string) {
	switch r.Kind() {
	case jsonscan.Object:
		r.Object(func(key jsonscan.Key) {
			if name := key.String(); found == "" && template.HasTags(name) {
				found = name
			}
			if inner := templateName(r); found == "" {
				found = inner
			}
		})
	case jsonscan.Array:
		r.Array(func() {
			if inner := templateName(r); found == "" {
				found = inner
			}
		})
	default:
		r.Raw()
	}
	return found
}

// faultOf returns the field of the content that a fault of the body is in.
func faultOf(parts []part, fault *validation.Error) *FieldError {
	for i := range parts {
		p := &parts[i]
		below, ok := strings.CutPrefix(fault.Param, p.name)
		if !ok || below != "" && below[0] != '.' && below[0] != '[' {
			continue
		}
		if p.field == "string" { // a text, which has no members
			below = ""
		}
		return &FieldError{p.field + below, fault.Message}
	}
	return &FieldError{"parameters", fault.Message}
}

// CheckPartials returns an error if a version inserts a partial by name that its workspace does not have, or the version is
// one of a partial and would insert itself. The error is a *[FieldError].
func (s *Store) CheckPartials(ctx context.Context, p *Prompt, c *Compiled) error {
	seen := map[string]bool{}
	var reaches func(c *Compiled, path []string) error
	reaches = func(c *Compiled, path []string) error {
		for _, u := range c.Inserted() {
			partial, v, ok := s.Find(p.WorkspaceID, u.Name, true)
			switch {
			case !ok && len(path) == 0:
				return &FieldError{u.Field, fmt.Sprintf("the workspace has no partial %q, or no such version of it", credentials.Clip(u.Name))}
			case !ok:
				continue // of another that was saved before
			}
			way := slices.Concat(path, []string{partial.Slug})
			_, which, _ := strings.Cut(u.Name, "@")
			if partial.ID == p.ID && (which == "" || which == "latest") {
				return &FieldError{"string", "the partial inserts itself: " + strings.Join(append([]string{p.Slug}, way...), " → ")}
			}
			if seen[v.ID] {
				continue
			}
			seen[v.ID] = true
			inner, err := s.Compiled(ctx, partial, v)
			if err == nil {
				err = reaches(inner, way)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return reaches(c, nil)
}

// An Insertion is a partial that a field of a version inserts by name, which may end with @version.
type Insertion struct{ Field, Name string }

// Inserted returns the partials that a version inserts by name.
func (c *Compiled) Inserted() (all []Insertion) {
	if c.Partial != nil {
		for _, name := range c.Partial.Uses().Partials {
			all = append(all, Insertion{"string", strings.TrimSpace(name)})
		}
		return all
	}
	for i := range c.members {
		for _, name := range c.members[i].value.Uses().Partials {
			all = append(all, Insertion{c.members[i].field, strings.TrimSpace(name)})
		}
	}
	return all
}
