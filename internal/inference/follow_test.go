package inference

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/providers"
)

// answers is a pool that answers one request after the other.
type answers struct {
	statuses []int
	sent     []string
}

func (p *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status := 200
	if len(p.statuses) > 0 {
		status, p.statuses = p.statuses[0], p.statuses[1:]
	}
	body, _ := io.ReadAll(r.Body)
	p.sent = append(p.sent, r.Method+" "+r.URL.Path+" "+string(body)+r.Header.Get("X-Own")+r.Header.Get("X-Common"))
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("answer to " + r.URL.Path))}, nil
}

func TestRequestsThatFollowAreSentUntilOneIsTheLast(t *testing.T) {
	t.Parallel()
	why := &providers.RequestError{Message: "no more"}
	for name, c := range map[string]struct {
		most     int // of the row
		statuses []int
		end      error
		sent     int
		body     string
	}{
		"a row":          {3, nil, nil, 2, "answer to /2"},
		"its answer":     {1, nil, nil, 0, "first"},
		"a failure ends": {3, []int{500}, nil, 1, "answer to /1"},
		"a refusal":      {2, nil, why, 1, ""},
		"an error":       {2, nil, errors.New("no answer"), 1, ""},
		"no end":         {1 << 20, nil, nil, maxFollowing, ""},
	} {
		n := 0
		var then func(time.Time, []byte, http.Header) (*providers.Request, error)
		then = func(_ time.Time, body []byte, _ http.Header) (*providers.Request, error) {
			if n++; n == c.most {
				return nil, c.end
			}
			if n > 1 && !strings.HasPrefix(string(body), "answer to /") {
				t.Errorf("%s: made of %q", name, body)
			}
			return &providers.Request{Method: "PUT", URL: &url.URL{Path: "/" + string(rune('0'+n%10))}, Header: http.Header{"X-Own": {"own"}}, Answer: &providers.Answer{Then: then}}, nil
		}
		q := &request{
			call: &exchange.Call{Gateway: &exchange.Gateway{Now: time.Now}}, target: &exchange.Attempt{Route: new(credentials.Route)},
			answer: &providers.Answer{Then: then}, common: http.Header{"X-Common": {"common"}}, header: http.Header{"X-Old": {"old"}},
		}
		pool := &answers{statuses: c.statuses}
		first := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("first"))}
		res, err := q.follow(pool, new(http.Request).WithContext(t.Context()), first, nil)
		q.close()
		if len(pool.sent) != c.sent || c.sent > 0 && pool.sent[0] != "PUT /1 owncommon" {
			t.Errorf("%s: sent %d, first %q", name, len(pool.sent), pool.sent[:min(1, len(pool.sent))])
		}
		if c.body == "" {
			var bad answerError
			if !errors.Is(err, c.end) && !errors.As(err, &bad) || errors.Is(c.end, why) && !errors.Is(err, why) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if body, _ := io.ReadAll(res.Body); string(body) != c.body {
			t.Errorf("%s: got %q", name, body)
		}
	}
}
