package standard_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/dialecttest"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// ownDialects are the columns of the table: the providers whose API is not OpenAI's.
var ownDialects = []string{"anthropic", "bedrock", "cohere", "google", "vertex-ai"}

const beginSupport = "<!-- the table of endpoints is written by: go test ./providers/standard -update -->\n"

// supports says in the table how an endpoint is served.
var supports = map[providers.Support]string{
	providers.Refused: "refused", providers.PassedOn: "its own", providers.TranslatedCall: "translated", providers.Estimated: "estimated",
}

func TestTheTableOfEndpointsIsTheCodes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b, line strings.Builder
	fmt.Fprintf(&b, "| below `/v1` | %s | OpenAI's API |\n|---|%s---|\n", strings.Join(ownDialects, " | "), strings.Repeat("---|", len(ownDialects)))
	var cells []string
	paths := make(map[string][]string)
	seen := make(map[string]bool)
	for e := range exchange.Endpoints() {
		if seen[e.Name] && e.Name != "createBatch" {
			continue
		}
		seen[e.Name] = true
		line.Reset()
		for _, name := range ownDialects {
			p, _ := providers.Lookup(name)
			line.WriteString(" " + supports[p.Support(e.Name)] + " |")
		}
		switch {
		case e.Name == providers.ChatComplete:
			line.WriteString(" passed on |")
		case e.Name == providers.Messages || e.Name == providers.CreateResponse:
			line.WriteString(" translated, or passed on |")
		case e.Name == providers.CountTokens:
			line.WriteString(" estimated |")
		case slices.Contains(providers.Translated, e.Name):
			line.WriteString(" if it has it |")
		default:
			line.WriteString(" passed on |")
		}
		row := line.String()
		if paths[row] == nil {
			cells = append(cells, row)
		}
		paths[row] = append(paths[row], "`"+e.Method+" "+strings.TrimPrefix(e.Path, "/v1/")+"`")
	}
	for _, row := range cells {
		fmt.Fprintf(&b, "| %s |%s\n", strings.Join(paths[row], ", "), row)
	}
	compare(t, text, beginSupport, b.String())
}

// A call that a dialect does not translate would be answered by the provider with a 404 that says
// nothing to its caller.
func TestNoEndpointGoesToADialectUntranslated(t *testing.T) {
	own := map[string][]string{"anthropic": {"uploadFile", "listFiles", "retrieveFile", "retrieveFileContent", "deleteFile", "skills", "models", "messages", "messagesCountTokens"}}
	refused := 0
	for _, name := range providers.Names() {
		p, _ := providers.Lookup(name)
		if (p.Dialect != nil) != slices.Contains(ownDialects, name) {
			t.Errorf("%s belongs into the table, or does not", name)
		}
		if p.Dialect == nil {
			continue
		}
		for e := range exchange.Endpoints() {
			support := p.Support(e.Name)
			if (support == providers.PassedOn) != slices.Contains(own[name], e.Name) {
				t.Errorf("%s %s: %v", name, e.Name, support)
			}
			c := (&dialecttest.Case{Endpoint: e.Name, Path: strings.TrimPrefix(e.Path, "/v1"), Key: "KEY"}).Call(name)
			c.Name, c.Method = "mine", e.Method
			if support != providers.Refused {
				if err := p.Check(c); err != nil {
					t.Errorf("%s %s: %v", name, e.Name, err)
				}
				continue
			}
			refused++
			_, err := p.Prepare(c)
			for _, err := range []error{p.Check(c), err} {
				var refusal *providers.RequestError
				if !errors.As(err, &refusal) || refusal.Code != providers.NotSupported {
					t.Errorf("%s %s: %v", name, e.Name, err)
					continue
				}
				if text := refusal.Message; !strings.HasPrefix(text, "Provider mine ("+name+") does not serve "+e.Method+" "+e.Path+"; it is served by ") || len(text) > 400 {
					t.Errorf("%s %s: %q", name, e.Name, text)
				}
			}
		}
		if p.Support(providers.Proxy) != providers.PassedOn {
			t.Errorf("%s: paths of its own are not passed on", name)
		}
	}
	if refused < 200 {
		t.Errorf("%d refusals", refused)
	}
}
