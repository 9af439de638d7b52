package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/caddy-gw/gateway/admin"
	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/guardrails"
	_ "github.com/caddy-gw/gateway/guardrails/standard"
	"github.com/caddy-gw/gateway/internal/command"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/roles"
)

const referencePage = "docs/reference.md"

// section is the text of a document below a heading, up to the next one of its level.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %s", file, heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// named are the names in the first column of the tables of a section, sorted.
func named(t *testing.T, file, heading string) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(section(t, file, heading)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

func mustBe(t *testing.T, what string, got, want []string) {
	t.Helper()
	want = slices.Compact(slices.Sorted(slices.Values(want)))
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s: %s is not in the document", what, name)
		}
	}
	for i, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s: the document has %s, which is nowhere in the code", what, name)
		}
		if i > 0 && got[i-1] == name {
			t.Errorf("%s: the document has %s twice", what, name)
		}
	}
}

func TestReferenceOfHeaders(t *testing.T) {
	mustBe(t, "headers", named(t, referencePage, "Headers"), exchange.HeaderNames())
}

// sources calls fn with the text of each file of code in some folders, below them too.
func sources(t *testing.T, fn func(path, text string), folders ...string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			fn(path, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The forms in which code gives an error its code.
var givesCode = regexp.MustCompile(`Code:\s+"([a-z0-9_]+)"` +
	`|badRequest\([^\n"]*"?[^\n"]*"?, "([a-z_]+)"` +
	`|Refusal\{[^\n{}]*?, "([a-z_]+)", ` +
	`|\bcode[A-Z]?\w* :?= "([a-z_]+)"` +
	`|\bcode, message :?= "([a-z_]+)"` +
	`|\.Code = [^\n]*?"([a-z_]+)"\n` +
	`|param, code = "\w+", "([a-z_]+)"` +
	`|Key\("code"\)\.Text\("([a-z_]+)"\)` +
	`|\.fail\([a-z.]*ctx, http\.\w+, "([a-z_]+)"` +
	`|\br\.err = &Error\{"([a-z_]+)", ` +
	`|\.Code == "" .*return "([a-z_]+)"` +
	`|return "(provider_[a-z]+)"\n`)

func TestReferenceOfErrorCodes(t *testing.T) {
	var codes []string
	sources(t, func(path, text string) {
		for _, m := range givesCode.FindAllStringSubmatch(text, -1) {
			for _, code := range m[1:] {
				if code != "" {
					codes = append(codes, code)
				}
			}
		}
		if path == filepath.Join("internal", "validation", "error.go") {
			for _, m := range regexp.MustCompile(`(?m)^\t[A-Z]\w+\s+= "([a-z_]+)"`).FindAllStringSubmatch(text, -1) {
				codes = append(codes, m[1])
			}
		}
	}, "internal/exchange", "internal/inference", "internal/prompts", "internal/sigv4", "internal/turns", "internal/upstream", "internal/validation", "providers", "handlers")
	mustBe(t, "error codes", named(t, referencePage, "Errors of the data plane"), codes)

	field, _ := reflect.TypeFor[admin.ErrorData]().FieldByName("ErrorCode")
	mustBe(t, "error codes", named(t, referencePage, "Errors of the control plane"), strings.Split(field.Tag.Get("enum"), ","))
}

func TestReferenceOfTheEnvironment(t *testing.T) {
	var names []string
	sources(t, func(_, text string) {
		for _, m := range regexp.MustCompile(`os\.Getenv\("([A-Z_]+)"\)|\{"(MAX_[A-Z_]+)", &l|\w+Env += "([A-Z_]+)"`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1]+m[2]+m[3])
		}
	}, "internal", "handlers", "admin", "credentials", "providers", "storage")
	mustBe(t, "environment variables", named(t, referencePage, "Environment"), names)
}

func TestReferenceOfMetrics(t *testing.T) {
	var names []string
	sources(t, func(_, text string) {
		for _, m := range regexp.MustCompile(`(?:counter|histogram)\("([a-z_]+)"|Subsystem: "gw", Name: "([a-z_]+)"|NewDesc\("caddy_gw_([a-z_]+)"`).FindAllStringSubmatch(text, -1) {
			names = append(names, "caddy_gw_"+m[1]+m[2]+m[3])
		}
	}, "internal")
	got := slices.DeleteFunc(named(t, "docs/observability.md", "Metrics"), func(name string) bool { return !strings.HasPrefix(name, "caddy_gw_") })
	mustBe(t, "metrics", got, names)
}

// cell is a text as a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}

// A property is what the tables print of a property of a JSON schema.
type property struct {
	Ref         string               `json:"$ref"`
	Type        any                  `json:"type"`
	Format      string               `json:"format"`
	Description string               `json:"description"`
	Default     any                  `json:"default"`
	Enum        []any                `json:"enum"`
	Minimum     *float64             `json:"minimum"`
	Above       *float64             `json:"exclusiveMinimum"`
	Maximum     *float64             `json:"maximum"`
	MaxLength   int                  `json:"maxLength"`
	MinItems    int                  `json:"minItems"`
	MaxItems    int                  `json:"maxItems"`
	AnyOf       []property           `json:"anyOf"`
	Examples    []json.RawMessage    `json:"examples"`
	Properties  map[string]*property `json:"properties"`
	Defs        map[string]*property `json:"$defs"`
	Required    []string             `json:"required"`
}

// types says what a property may be.
func (p *property) types() string {
	var all []string
	switch v := p.Type.(type) {
	case string:
		all = append(all, v)
	case []any:
		for _, one := range v {
			all = append(all, fmt.Sprint(one))
		}
	}
	for _, e := range p.Enum {
		all = append(all, fmt.Sprintf("`%v`", e))
	}
	if p.Ref != "" {
		all = append(all, "object")
	}
	for i := range p.AnyOf {
		all = append(all, p.AnyOf[i].types())
	}
	s := strings.Join(all, " or ")
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case p.Above != nil && p.Maximum != nil:
		s += ", above " + number(*p.Above) + " and up to " + number(*p.Maximum)
	case p.Minimum != nil && p.Maximum != nil:
		s += ", " + number(*p.Minimum) + " to " + number(*p.Maximum)
	}
	switch {
	case p.MaxLength > 0:
		s += fmt.Sprintf(", up to %d characters", p.MaxLength)
	case p.MaxItems > 0:
		s += fmt.Sprintf(", %d to %d elements", p.MinItems, p.MaxItems)
	}
	if p.Format != "" {
		s += " (" + p.Format + ")"
	}
	return s
}

func configsTable(t *testing.T) string {
	b, err := os.ReadFile("docs/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	schema := new(property)
	if err := json.Unmarshal(b, schema); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	table := func(title string, properties map[string]*property, required []string) {
		fmt.Fprintf(&out, "%s\n\n| key | value | default | example | what it is |\n|---|---|---|---|---|\n", title)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p := properties[name]
			if strings.HasPrefix(p.Description, "A setting of a provider") {
				continue
			}
			described := p
			if def := schema.Defs[strings.TrimPrefix(p.Ref, "#/$defs/")]; p.Ref != "" && def != nil {
				described = def
			}
			fallback := ""
			if slices.Contains(required, name) {
				fallback = "required"
			} else if p.Default != nil {
				v, _ := json.Marshal(p.Default)
				fallback = "`" + string(v) + "`"
			}
			example := ""
			if len(described.Examples) > 0 {
				var b bytes.Buffer
				if err := json.Compact(&b, described.Examples[0]); err != nil {
					t.Fatal(err)
				}
				example = "`" + b.String() + "`"
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", name, cell(p.types()), fallback, cell(example), cell(described.Description))
		}
		out.WriteString("\n")
	}
	table("A config, and each of its targets:", schema.Defs["settings"].Properties, nil)
	table("A config alone:", schema.Properties, nil)
	for _, def := range []string{"strategy", "condition", "sticky", "cb_config", "retry", "cache"} {
		table("`"+def+"`:", schema.Defs[def].Properties, schema.Defs[def].Required)
	}
	out.WriteString("Settings of providers stand next to these, such as `\"aws_region\": \"us-east-1\"`.\n")
	return out.String()
}

func fieldsTable(t *testing.T) string {
	w := httptest.NewRecorder()
	admin.New(admin.Services{Now: time.Now}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/openapi.json", nil))
	var document struct {
		Components struct {
			Schemas map[string]*property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, s := range []struct{ title, name string }{
		{"An API key, `POST /v1/api-keys/workspace/service` and its like:", "CreateAPIKey"},
		{"A virtual key, `POST /v1/virtual-keys`:", "CreateVirtualKey"},
	} {
		schema := document.Components.Schemas[s.name]
		if schema == nil {
			t.Fatalf("there is no schema %s", s.name)
		}
		fmt.Fprintf(&out, "%s\n\n| field | value | |\n|---|---|---|\n", s.title)
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			p := schema.Properties[name]
			note := p.Description
			if slices.Contains(schema.Required, name) {
				note = strings.TrimSpace("required. " + note)
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, cell(p.types()), cell(note))
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func scopesTable(*testing.T) string {
	kinds := []credentials.Kind{credentials.OrganisationService, credentials.WorkspaceService, credentials.WorkspaceUser}
	actions := make(map[string]map[string][]string) // of a resource, by the kinds that may hold them
	for _, scope := range allScopes(kinds) {
		resource, action, _ := strings.Cut(scope, ".")
		var holders []string
		for _, k := range kinds {
			if k.MayHold(scope) {
				holders = append(holders, "`"+string(k)+"`")
			}
		}
		if actions[resource] == nil {
			actions[resource] = make(map[string][]string)
		}
		who := strings.Join(holders, ", ")
		actions[resource][who] = append(actions[resource][who], "`"+resource+"."+action+"`")
	}
	var out strings.Builder
	out.WriteString("| scopes | keys that may hold them |\n|---|---|\n")
	for _, resource := range slices.Sorted(maps.Keys(actions)) {
		for _, who := range slices.Sorted(maps.Keys(actions[resource])) {
			fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(actions[resource][who], ", "), who)
		}
	}
	return out.String()
}

// settingsTable lists the security settings.
func settingsTable(*testing.T) string {
	var out strings.Builder
	out.WriteString("| setting | default | section | scopes |\n|---|---|---|---|\n")
	for _, s := range roles.Settings {
		initial := "on"
		if s.Off {
			initial = "off"
		}
		scopes := make([]string, len(s.Scopes))
		for i, scope := range s.Scopes {
			scopes[i] = "`" + scope + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | `%s` | %s |\n", s.Name, initial, s.Section, strings.Join(scopes, ", "))
	}
	return out.String()
}

func allScopes(kinds []credentials.Kind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Scopes()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// parsed is a file of code, with its comments.
func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// syntaxes are the Caddyfile syntaxes that the unmarshalers document.
func syntaxes(t *testing.T) string {
	var out strings.Builder
	for _, file := range []string{"internal/app/caddyfile.go", "handlers/caddyfile.go", "internal/echo/caddyfile.go"} {
		for _, decl := range parsed(t, file).Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "UnmarshalCaddyfile" {
				continue
			}
			_, syntax, ok := strings.Cut(fn.Doc.Text(), "Syntax:\n\n")
			if !ok {
				t.Errorf("%s: an unmarshaler has no syntax", file)
			}
			var lines []string
			for line := range strings.Lines(syntax) {
				if strings.HasPrefix(line, "\t") || strings.TrimSpace(line) == "" {
					lines = append(lines, strings.ReplaceAll(strings.TrimPrefix(strings.TrimRight(line, "\n"), "\t"), "\t", "    "))
				}
			}
			fmt.Fprintf(&out, "```\n%s\n```\n\n", strings.TrimSpace(strings.Join(lines, "\n")))
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// optionsTable are the fields of the modules' configurations, with what their comments say.
func optionsTable(t *testing.T) string {
	var out strings.Builder
	for _, s := range []struct{ title, file, name string }{
		{"The app `gw`:", "internal/app/app.go", "App"},
		{"A provider, in `providers`:", "internal/app/app.go", "Provider"},
		{"`semantic_cache`:", "internal/app/app.go", "SemanticCache"},
		{"`logs`:", "internal/app/logs.go", "Logs"},
		{"A price, in `prices`:", "internal/app/prices.go", "Price"},
		{"`gw_inference`:", "handlers/inference.go", "Inference"},
		{"`gw_echo`:", "internal/echo/echo.go", "Echo"},
	} {
		fmt.Fprintf(&out, "%s\n\n| field | |\n|---|---|\n", s.title)
		rows := 0
		for _, decl := range parsed(t, s.file).Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok || typ.Name.Name != s.name {
					continue
				}
				for _, field := range typ.Type.(*ast.StructType).Fields.List {
					if field.Tag == nil {
						continue
					}
					tag, _ := strconv.Unquote(field.Tag.Value)
					name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
					if field.Doc.Text() == "" {
						t.Errorf("%s: %s.%s has no comment", s.file, s.name, name)
					}
					rows++
					fmt.Fprintf(&out, "| `%s` | %s |\n", name, cell(field.Doc.Text()))
				}
			}
		}
		if rows == 0 {
			t.Errorf("%s has no options of %s", s.file, s.name)
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func TestReferenceIsMadeFromTheCode(t *testing.T) {
	for page, tables := range map[string]map[string]func(*testing.T) string{
		referencePage: {
			"configs": configsTable, "fields": fieldsTable, "scopes": scopesTable, "settings": settingsTable, "syntax": syntaxes, "options": optionsTable,
			"commands": commandsTable, "outcomes": outcomesTable,
		},
		"docs/guardrails.md": {"checks": checksTable},
	} {
		old, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(old)
		for name, generate := range tables {
			begin := "<!-- generated: " + name + " -->\n"
			before, rest, ok := strings.Cut(text, begin)
			got, after, ended := strings.Cut(rest, "<!-- end -->\n")
			if !ok || !ended {
				t.Fatalf("%s has no place for %s", page, name)
			}
			if want := generate(t); got != want {
				if os.Getenv("UPDATE_REFERENCE") == "" {
					t.Errorf("%s: %s is not what the code says; run UPDATE_REFERENCE=1 go test -run TestReference .", page, name)
				}
				text = before + begin + want + "<!-- end -->\n" + after
			}
		}
		if os.Getenv("UPDATE_REFERENCE") != "" && text != string(old) {
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checksTable has the checks of guardrails that are built in, and their parameters.
func checksTable(*testing.T) string {
	var out strings.Builder
	out.WriteString("| check | its verdict is true if | parameters |\n|---|---|---|\n")
	for _, k := range guardrails.Kinds() {
		var parameters []string
		for _, p := range k.Parameters {
			text := "`" + p.Name + "` (" + p.Type.String()
			if p.OneOf != nil && len(p.OneOf) < 5 {
				text = "`" + p.Name + "` (" + strings.Join(p.OneOf, ", ")
			}
			switch {
			case p.Required:
				text += ", required"
			case p.Default != "":
				text += ", default `" + p.Default + "`"
			}
			text += "): " + p.Doc
			if len(p.OneOf) >= 5 {
				text += ", one of " + strings.Join(p.OneOf, ", ")
			}
			parameters = append(parameters, text)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", k.ID, cell(k.Doc), cell(strings.Join(parameters, "; ")))
	}
	return out.String()
}

// outcomesTable has the exit codes of the commands of caddy gw.
func outcomesTable(*testing.T) string {
	var out strings.Builder
	out.WriteString("| exit code | when |\n|---|---|\n")
	for _, o := range command.Outcomes {
		fmt.Fprintf(&out, "| %d | %s |\n", o.Code, cell(o.When))
	}
	return out.String()
}

// commandsTable has the commands of caddy gw and their flags. Each says what it does, and prints JSON;
// those that use a server take its address or its configuration.
func commandsTable(t *testing.T) string {
	var out strings.Builder
	out.WriteString("| command | what it does | flags |\n|---|---|---|\n")
	root := &cobra.Command{Use: "gw"}
	caddycmd.Commands()["gw"].CobraFunc(root)
	ofServer := []string{"adapter", "address", "config"}
	withoutServer := []string{"caddy gw restore", "caddy gw salvage", "caddy gw verify"}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		path := "caddy " + cmd.CommandPath()
		if cmd.Short == "" {
			t.Errorf("%s does not say what it does", path)
		}
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				add(sub)
			}
			return
		}
		var names, flags []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			names = append(names, f.Name)
			if f.Usage == "" {
				t.Errorf("%s does not say what --%s is", path, f.Name)
			}
			if f.Name == "json" || f.Name == "help" || slices.Contains(ofServer, f.Name) {
				return
			}
			text := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				text = "`-" + f.Shorthand + "`, " + text
			}
			flags = append(flags, text+": "+strings.ToLower(f.Usage[:1])+f.Usage[1:])
		})
		if !slices.Contains(names, "json") {
			t.Errorf("%s has no --json", path)
		}
		for _, name := range ofServer {
			if slices.Contains(names, name) == slices.Contains(withoutServer, path) {
				t.Errorf("%s: --%s is there although it uses no server, or is not", path, name)
			}
		}
		use := strings.TrimSuffix(path, cmd.Name()) + cmd.Use
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", use, cell(cmd.Short), cell(strings.Join(flags, "; ")))
	}
	for _, cmd := range root.Commands() {
		add(cmd)
	}
	return out.String()
}
