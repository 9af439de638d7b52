package echo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBadBodies(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for name, body := range map[string]string{
		"empty":            "",
		"not JSON":         "{",
		"array":            "[]",
		"string":           `"x"`,
		"two values":       "{}{}",
		"deep, no end":     deep,
		"deep in a member": `{"messages":` + deep,
		"deep and valid":   `{"x":` + deep + strings.Repeat("]", len(deep)) + `}`,
		"quote before":     `{"\"[":` + deep,
	} {
		for path := range endpoints {
			if path == "models" {
				continue
			}
			w := do(t, new(Echo), http.MethodPost, "/v1/"+path, body)
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s to %s: status %d", name, path, w.Code)
			}
			checkError(t, w)
		}
	}
}

func TestManyBracketsOfLittleDepth(t *testing.T) {
	text := strings.Repeat("[{", maxDepth)
	got := post(t, "/completions", `{"prompt":"`+text+`","x":[`+strings.Repeat("[],", maxDepth)+`{}]}`)
	if got.Get("choices.0.text").Str != text {
		t.Errorf("%s", got.Raw)
	}
}

// spaces is a body of that many spaces.
func spaces(n int64) io.Reader { return io.LimitReader(spaceReader{}, n) }

type spaceReader struct{}

func (spaceReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestBodyLimit(t *testing.T) {
	announced := httptest.NewRequest(http.MethodPost, "/completions", http.NoBody)
	announced.ContentLength = maxBody + 1
	for name, test := range map[string]struct {
		r      *http.Request
		status int
	}{
		"announced":   {announced, http.StatusRequestEntityTooLarge},
		"unannounced": {httptest.NewRequest(http.MethodPost, "/completions", spaces(maxBody+1)), http.StatusRequestEntityTooLarge},
		"at limit": {httptest.NewRequest(http.MethodPost, "/completions",
			io.MultiReader(strings.NewReader("{}"), spaces(maxBody-2))), http.StatusOK},
	} {
		w := doRequest(t, new(Echo), test.r)
		if w.Code != test.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, test.status)
		}
		if test.status != http.StatusOK {
			checkError(t, w)
		}
	}
}
