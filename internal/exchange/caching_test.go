package exchange

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/routing"
)

// How long an answer is kept is set by x-gw-cache-ttl, or else by Cache-Control, or else by the
// config; what is out of range in Cache-Control counts as not set.
func TestHowLongAnAnswerIsKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		ttl, control string
		config       time.Duration
		want         time.Duration
	}{
		{"", "", 0, 7 * day},
		{"60", "", 0, time.Minute},
		{"7776000", "", 0, 90 * day},
		{"", "max-age=120", 0, 2 * time.Minute},
		{"", "no-transform, MAX-AGE=120", 0, 2 * time.Minute},
		{"", "max-age=0", time.Hour, time.Hour},
		{"180", "max-age=120", time.Hour, 3 * time.Minute},
		{"", "max-age=7776001", time.Hour, time.Hour},
		{"", "", time.Hour, time.Hour},
	} {
		x := &Call{Gateway: &Gateway{Headers: headersOf(t)}, Endpoint: &Endpoint{Cacheable: true}, Body: RequestBody{buffer: &Buffer{b: []byte("{}")}}}
		h := http.Header{"X-Gw-Cache": {"simple"}}
		if c.ttl != "" {
			h.Set("X-Gw-Cache-Ttl", c.ttl)
		}
		if c.control != "" {
			h.Set("Cache-Control", c.control)
		}
		if err := (&preparation{Call: x}).readCaching(h); err != nil {
			t.Fatal(err)
		}
		target := new(routing.Target)
		if c.config > 0 {
			target.Cache = &routing.Cache{Mode: "simple", MaxAge: c.config}
		}
		if got, ok := x.Cached(target); got != c.want || !ok {
			t.Errorf("%+v: %v %v", c, got, ok)
		}
	}
	if cache.DefaultMaxAge != 7*day {
		t.Error(cache.DefaultMaxAge)
	}
}

// What a caller wanted is not guessed.
func TestHeadersOfTheCacheThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"X-Gw-Cache-Ttl":           {"1h", "abc", "-60", "1e3", "60.5", "5", "0", "59", "7776001", "99999999999999999999", "9223372036854775807"},
		"X-Gw-Cache-Force-Refresh": {"yes", "1", "on"},
		"X-Gw-Debug":               {"no", "0", "off"},
		"X-Gw-Cache":               {"exact"},
	} {
		for _, value := range values {
			x := &Call{Gateway: &Gateway{Headers: headersOf(t)}}
			if err := (&preparation{Call: x}).readCaching(http.Header{name: {value}}); err == nil || err.Status != 400 || !strings.EqualFold(err.Param, name) || !strings.Contains(err.Message, "expected") {
				t.Errorf("%s: %s: %v", name, value, err)
			}
		}
	}
	x := &Call{Gateway: &Gateway{Headers: headersOf(t)}}
	if err := (&preparation{Call: x}).readCaching(http.Header{"X-Gw-Debug": {"False"}, "X-Gw-Cache-Force-Refresh": {"TRUE"}}); err != nil || !x.Options.Caching.Off || !x.Options.Caching.Refresh {
		t.Errorf("%+v %v", x.Options.Caching, err)
	}
}

// Only these endpoints' answers are kept: no batch, file, fine-tuning job or audio.
func TestWhatMayBeKept(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"ocr": true, "chatComplete": true, "complete": true, "moderate": true, "embed": true, CreateResponse: true, "imageGenerate": true, "rerank": true, "messages": true}
	for _, e := range endpoints {
		if e.Cacheable != want[e.Name] {
			t.Errorf("%s %s %s: %v", e.Name, e.Method, e.Path, e.Cacheable)
		}
	}
}
