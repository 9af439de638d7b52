package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// answers are those of operations, by method and path, for the examples of the OpenAPI document.
type answers struct {
	mu  sync.Mutex
	got map[string]json.RawMessage
}

// newAnswers returns answers that are written to answers.json when the test ends, if that is asked for.
func newAnswers(t *testing.T) *answers {
	a := &answers{got: make(map[string]json.RawMessage)}
	t.Cleanup(func() {
		if os.Getenv("UPDATE_EXAMPLES") == "" || t.Failed() || testing.Short() {
			return
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "\t")
		if err := e.Encode(a.got); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile("answers.json", b.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *answers) add(name string, out answer) {
	if !strings.HasPrefix(out.header.Get("Content-Type"), "application/json") {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got[name] = json.RawMessage(exampleOf(out.body))
}

var (
	anyUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anySecret = regexp.MustCompile(`(gw-|token=|#)[A-Za-z0-9_-]{20,}`)
	slugEnd   = regexp.MustCompile(`-[0-9a-f]{6}"`)
)

// exampleOf returns an answer as an example: lists have one element, ids are counted from 1, and secrets
// that are shown once are left out.
func exampleOf(body string) string {
	for _, list := range []string{"data", "records"} {
		if rows := gjson.Get(body, list); rows.IsArray() && len(rows.Array()) > 1 {
			body, _ = sjson.SetRaw(body, list, "["+rows.Get("0").Raw+"]")
		}
	}
	var seen []string
	body = anyUUID.ReplaceAllStringFunc(body, func(id string) string {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
		return fmt.Sprintf("00000000-0000-7000-8000-%012d", slices.Index(seen, id)+1)
	})
	return slugEnd.ReplaceAllString(anySecret.ReplaceAllString(body, "$1…"), `-0a1b2c"`)
}

// Every operation that answers in JSON has an example of its answer, which is as the document says.
func TestExamplesOfAnswersAreAsTheDocumentSays(t *testing.T) {
	a := newAPI(t)
	n := 0
	for path, methods := range a.paths() {
		for method, operation := range methods.Map() {
			name := strings.ToUpper(method) + " " + path
			content := operation.Get("responses.200.content.application/json")
			if !content.Exists() || slices.Contains(keyless, name) || strings.HasSuffix(path, "/render") || strings.HasSuffix(path, "/completions") {
				continue
			}
			example := content.Get("example")
			if !example.Exists() {
				t.Errorf("%s has no example of an answer; write it with UPDATE_EXAMPLES=1 go test -run 'TestExamples|TestEveryOperation' ./admin", name)
				continue
			}
			n++
			r := httptest.NewRequestWithContext(t.Context(), strings.ToUpper(method), strings.NewReplacer("{", "", "}", "").Replace(path), nil)
			for _, fault := range a.handler().Undocumented(r, 200, []byte(example.Raw)) {
				t.Errorf("%s: the example of its answer is unlike the document: %s: %s", name, fault, example.Raw)
			}
			if secret := anySecret.FindString(example.Raw); secret != "" || strings.Contains(example.Raw, operationSecret) {
				t.Errorf("%s: the example has a secret", name)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d examples", n)
	}
}
