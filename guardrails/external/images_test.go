package external

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/guardrails"
)

var png = []byte("\x89PNG\r\n\x1a\nrest")

// An imageHost has images, by their addresses.
type imageHost struct {
	standIn
	mu     sync.Mutex
	images map[string][]byte
	moved  map[string]string
	asks   []string
	held   int // answers that are not released
}

func (h *imageHost) Send(ctx context.Context, q *guardrails.Request) (*guardrails.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asks = append(h.asks, q.URL.String())
	if q.Method != http.MethodGet || !q.Public || len(q.Header) != 1 || q.Body != nil || ctx.Err() != nil {
		return nil, errors.New("wrong request")
	}
	h.held++
	release := func() { h.mu.Lock(); h.held--; h.mu.Unlock() }
	if to := h.moved[q.URL.String()]; to != "" {
		a := guardrails.NewAnswer(302, nil, release)
		a.Location = to
		return a, nil
	}
	body, ok := h.images[q.URL.String()]
	if !ok {
		return guardrails.NewAnswer(404, nil, release), nil
	}
	if len(body) > q.MaxAnswer {
		h.held--
		return nil, errors.New("too long")
	}
	return guardrails.NewAnswer(200, body, release), nil
}

func TestImagesAreInlined(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(png)
	uri := "data:image/png;base64," + data
	const at = "https://img.example.com/a.png"
	host := func() *imageHost {
		return &imageHost{
			standIn: standIn{t: t},
			images:  map[string][]byte{at: png, "https://img.example.com/b": []byte("GIF89a..."), "https://img.example.com/text": []byte("<html>")},
			moved: map[string]string{
				"https://img.example.com/old": "/a.png", "https://img.example.com/loop": "/loop", "https://img.example.com/ftp": "ftp://x/y",
			},
		}
	}
	for name, c := range map[string]struct{ parameters, body, want, err string }{
		"chat": {
			`{}`, `{ "messages" : [{"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":{"detail":"low","url":"` + at + `"}}]}],"n":1}`,
			`{ "messages" : [{"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":{"detail":"low","url":"` + uri + `"}}]}],"n":1}`, "",
		},
		"responses": {
			`{}`, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + at + `"}]},{"type":"function_call_output","output":[{"type":"input_image","image_url":"` + at + `#x"}]}]}`,
			`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + uri + `"}]},{"type":"function_call_output","output":[{"type":"input_image","image_url":"` + uri + `"}]}]}`, "",
		},
		"messages": {
			`{}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"` + at + `"}}]},{"type":"image","source":{"url":"https://img.example.com/b","type":"url"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]},{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlhLi4u"}}]}]}`, "",
		},
		"what has none":     {`{}`, `{"messages":[{"content":"` + at + `"},{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"input_image","file_id":"f"}]}]}`, "", ""},
		"what a tool got":   {`{}`, `{"messages":[{"content":[{"type":"tool_use","input":{"type":"image","source":{"type":"url","url":"` + at + `"}}}]}]}`, "", ""},
		"another provider":  {`{"providers":["bedrock"]}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"` + at + `"}}]}]}`, "", ""},
		"redirect":          {`{"providers":["acme"]}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://img.example.com/old"}}]}]}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"` + uri + `"}}]}]}`, ""},
		"endless redirects": {`{}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://img.example.com/loop"}}]}]}`, "", "status 302"},
		"redirect elsewhere": {
			`{}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://img.example.com/ftp"}}]}]}`, "", "none that it can be fetched from",
		},
		"credentials in it": {`{}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://a:b@img.example.com/"}}]}]}`, "", "none that it can be fetched from"},
		"missing":           {`{}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://img.example.com/none"}},{"type":"image_url","image_url":{"url":"` + at + `"}}]}]}`, "", "status 404"},
		"no image":          {`{}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://img.example.com/text"}}]}]}`, "", "what is no image"},
		"too large":         {`{"maxSizeBytes":11}`, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"` + at + `"}}]}]}`, "", "too long"},
	} {
		h := host()
		of := subject(&h.standIn, false)
		of.Services, of.Request = h, []byte(c.body)
		r, err := made(t, "default.inlineImageUrls", c.parameters, "").Judge(t.Context(), of)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || r.Body != nil {
				t.Errorf("%s: %v, %s, want the error %q", name, err, r.Body, c.err)
			}
		} else if err != nil || !r.Verdict || string(r.Body) != c.want {
			t.Errorf("%s: %v, %s\nwant %s", name, err, r.Body, c.want)
		}
		if h.held != 0 || h.reserved != 0 {
			t.Errorf("%s: %d answers and %d bytes were not released", name, h.held, h.reserved)
		}
	}
	// The body is not made where there is no room for it.
	full := host()
	full.most = 100
	filling := subject(&full.standIn, false)
	filling.Services, filling.Request = full, []byte(`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"`+at+`"}}]}]}`)
	if r, err := made(t, "default.inlineImageUrls", `{}`, "").Judge(t.Context(), filling); err == nil || err.Error() != "there is no room" || r.Body != nil || full.held != 0 || full.reserved != 0 {
		t.Errorf("without room: %v, %d held", err, full.held)
	}
	many := `{"messages":[{"content":[` + strings.Repeat(`{"type":"image_url","image_url":{"url":"`+at+`"}},`, maxImages) + `{"type":"image_url","image_url":{"url":"` + at + `"}}]}]}`
	h := host()
	of := subject(&h.standIn, false)
	of.Services, of.Request = h, []byte(many)
	if _, err := made(t, "default.inlineImageUrls", `{}`, "").Judge(t.Context(), of); !errors.Is(err, guardrails.ErrUnreadable) || len(h.asks) != 0 {
		t.Errorf("too many images: %v, %d requests", err, len(h.asks))
	}
	h.images[at] = append(bytes.Clone(png), make([]byte, 18<<20)...)
	of.Request = []byte(strings.Replace(many, strings.Repeat(`{"type":"image_url","image_url":{"url":"`+at+`"}},`, maxImages-1), "", 1))
	if _, err := made(t, "default.inlineImageUrls", `{}`, "").Judge(t.Context(), of); !errors.Is(err, guardrails.ErrUnreadable) || h.held != 0 {
		t.Errorf("images that are too large together: %v, %d held", err, h.held)
	}
	if len(h.asks) != 1 {
		t.Errorf("the same image was fetched %d times", len(h.asks))
	}
	// Once they are too large together, no more are fetched.
	h = host()
	parts := make([]string, maxImages)
	for i := range parts {
		at := "https://img.example.com/" + strconv.Itoa(i)
		h.images[at] = append(bytes.Clone(png), make([]byte, 12<<20)...)
		parts[i] = `{"type":"input_image","image_url":"` + at + `"}`
	}
	of = subject(&h.standIn, false)
	of.Services, of.Request = h, []byte(`{"input":[{"content":[`+strings.Join(parts, ",")+`]}]}`)
	if _, err := made(t, "default.inlineImageUrls", `{}`, "").Judge(t.Context(), of); !errors.Is(err, guardrails.ErrUnreadable) || h.held != 0 || len(h.asks) > 3+imagesAtOnce {
		t.Errorf("many images: %v, %d fetched, %d held", err, len(h.asks), h.held)
	}
	// What is nested deeper than parts are is not looked at, so that a body is read a few times at most.
	deep := strings.Repeat(`{"a":`, maxImageDepth) + `{"type":"input_image","image_url":"` + at + `"}` + strings.Repeat(`}`, maxImageDepth)
	if places := imagesOf([]byte(`{"input":[` + deep + `]}`)); len(places) != 0 {
		t.Errorf("%d places of what is too deep", len(places))
	}
}

// Whatever a body is, what is replaced in it is the URL of an image, and the rest stays.
func FuzzImagePlaces(f *testing.F) {
	f.Add([]byte(`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://a"}}]}]}`))
	f.Add([]byte(`{"input":[{"content":[{"type":"input_image","image_url":"http://\u0061"}]}],"messages":[{"type":"image","source":{"type":"url","url":"https://b"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) || !gjson.ParseBytes(body).IsObject() {
			return
		}
		at := 0
		for i, p := range imagesOf(body) {
			if p.start < at || p.end <= p.start || p.end > len(body) {
				t.Fatalf("place %d is %d to %d after %d, of %d bytes", i, p.start, p.end, at, len(body))
			}
			what := gjson.ParseBytes(body[p.start:p.end])
			if p.source {
				what = what.Get("url")
			}
			if what.Str != p.url {
				t.Fatalf("place %d has %s, not %s", i, strconv.Quote(what.Raw), p.url)
			}
			at = p.end
		}
	})
}
