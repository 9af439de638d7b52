package standard_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
	_ "github.com/caddy-gw/gateway/providers/standard"
)

// updating reports whether the tables in docs/providers.md are rewritten; the flag is
// that of the golden cases.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

const (
	page  = "../../docs/providers.md"
	begin = "<!-- the table is written by: go test ./providers/standard -update -->\n"
	end   = "<!-- end -->\n"
)

var endpointNames = map[string]string{
	providers.Complete: "completions", providers.Embed: "embeddings", providers.Moderate: "moderations", providers.OCR: "OCR",
	providers.Rerank: "rerank", providers.CreateResponse: "responses",
}

func TestTheTableOfTheDocumentIsTheCodes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| name | base URL | serves in addition to conversations | |\n|---|---|---|---|\n")
	rows := 0
	for _, name := range providers.Names() {
		p, _ := providers.Lookup(name)
		if p.Dialect != nil || p.Encoder != nil || p.Address != nil || p.PassOnly {
			address := p.BaseURL
			if address == "" {
				address = p.Host
			}
			row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| .*\\| `" + regexp.QuoteMeta(address) + "` \\|")
			if !row.Match(text) {
				t.Errorf("%s is not in the document, at %s", name, address)
			}
			continue
		}
		rows++
		base := "`" + p.BaseURL + "`"
		if p.BaseURL == "" {
			base = "a custom host, or `base_url`"
		}
		var serves []string
		for _, e := range p.Serves {
			serves = append(serves, endpointNames[e])
		}
		var notes []string
		for _, n := range []struct {
			note string
			has  bool
		}{
			{"usage of streams is not requested", p.NoStreamUsage},
			{"rejects fields that OpenAI does not have", p.Closed},
			{"rejects fields of messages and tools that OpenAI does not have", p.PlainMessages},
			{"requires its reasoning back", p.ReturnReasoning},
		} {
			if n.has {
				notes = append(notes, n.note)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, base, strings.Join(serves, ", "), strings.Join(notes, "; "))
	}
	if rows < 45 {
		t.Errorf("%d rows", rows)
	}
	compare(t, text, begin, b.String())
}

// compare holds the table behind a mark to what it should be, or updates it.
func compare(t *testing.T, text []byte, begin, table string) {
	t.Helper()
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the document has no place for the table")
	}
	switch {
	case was == table:
	case updating():
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is not that of the code; update it with: go test ./providers/standard -update", page)
	}
}

func TestEveryProviderServesOnlyEndpointsOfTheGateway(t *testing.T) {
	var served []string
	for e := range exchange.Endpoints() {
		served = append(served, e.Name)
	}
	for _, name := range providers.Names() {
		p, _ := providers.Lookup(name)
		for _, e := range p.Serves {
			if !slices.Contains(served, e) || p.Dialect == nil && endpointNames[e] == "" {
				t.Errorf("%s serves %s", name, e)
			}
		}
		for e := range p.Endpoints {
			if !slices.Contains(served, e) {
				t.Errorf("%s translates %s", name, e)
			}
		}
	}
}
