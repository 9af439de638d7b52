package handlers_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/gatewaytest"
)

// A client that sends all of its body before it reads gets the answer to a call that is
// refused before that.
func TestARefusalIsReadAfterTheBody(t *testing.T) {
	l := newLab(t, "", "gw_admin\ngw_ratelimit\ngw_inference {\n\tmax_body 1MiB\n}")
	body := prompt(12 << 20) // more than sockets hold
	head := func(key, more string) string {
		return "POST /v1/chat/completions HTTP/1.1\r\nHost: " + strings.TrimPrefix(l.URL, "http://") + "\r\nContent-Type: application/json\r\nX-Gw-Provider: bad\r\nX-Gw-Api-Key: " + key + "\r\n" + more + "\r\n"
	}
	length := "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	for name, c := range map[string]struct {
		head, body string
		status     int
	}{
		"too large":                  {head(l.key, length), body, 413},
		"too large, chunked":         {head(l.key, "Transfer-Encoding: chunked\r\n"), strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n", 413},
		"too large, of any type":     {strings.Replace(head(l.key, length), "application/json", "text/plain", 1), body, 400},
		"of a key that is not known": {head("nobody", length), body, 401},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(l.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.head+c.body); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if res.StatusCode != c.status || gjson.GetBytes(b, "status").Str != "failure" || err != nil {
				t.Errorf("got %d %s, %v", res.StatusCode, b, err)
			}
		})
	}
	for name, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2": http2Client(t)} {
		for _, expect := range []string{"", "100-continue"} {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", l.URL+"/v1/chat/completions", strings.NewReader(body))
			r.Header = http.Header{"Content-Type": {"application/json"}, "X-Gw-Api-Key": {l.key}, "X-Gw-Provider": {"bad"}}
			if expect != "" {
				r.Header.Set("Expect", expect)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Errorf("%s, %q: %v", name, expect, err)
				continue
			}
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 413 || err != nil {
				t.Errorf("%s, %q: got %d %s, %v", name, expect, res.StatusCode, b, err)
			}
		}
	}
	if a := l.chat(gatewaytest.Chat, `{"provider":"@good"}`); a.Status != 200 {
		t.Errorf("a call afterwards: %d %s", a.Status, a.Body)
	}
}
