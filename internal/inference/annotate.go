package inference

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// annotate adds hook_results to an answer that hooks have judged: to one in JSON as a member, to a
// stream as its first event. What the cache keeps is without them.
func (rt *roundTrip) annotate(res *http.Response) {
	x, g := rt.x, rt.guard()
	if g == nil || g.annotated || !exchange.Succeeded(res.StatusCode) || res.Header.Get("Content-Encoding") != "" || res.Body == nil {
		return
	}
	g.annotated = true
	switch media := mediaType(res.Header); {
	case media == "text/event-stream":
		if x.Judged.Failed {
			res.StatusCode = exchange.StatusHooksFailed
		}
		if event := resultsEvent(x); event != nil {
			res.Body = &peeked{seen: event, src: res.Body}
		}
	case strings.HasSuffix(media, "json") && g.end > 0:
		member := append([]byte(`,"hook_results":`), x.Judged.JSON()...)
		if g.bare {
			member = member[1:]
		}
		res.Body = &inserted{src: res.Body, left: g.end, insert: member}
		if res.ContentLength >= 0 {
			res.ContentLength += int64(len(member))
			res.Header["Content-Length"] = []string{strconv.FormatInt(res.ContentLength, 10)}
		}
	}
}

// endOf returns where an object ends, before its bracket, and whether it has no members; 0: it is
// no object.
func endOf(body []byte) (end int, bare bool) {
	end = bytes.LastIndexByte(body, '}')
	if end <= 0 {
		return 0, false
	}
	return end, bytes.HasSuffix(bytes.TrimSpace(body[:end]), []byte("{"))
}

// resultsEvent is the first event of a stream that hooks have judged. Clients that ask for no more
// than OpenAI's own do not get it.
func resultsEvent(x *exchange.Exchange) []byte {
	if x.Judged == nil {
		return nil
	}
	if x.Judged.Strict {
		return nil
	}
	var b []byte
	if x.Endpoint.Name != "chatComplete" && x.Endpoint.Name != "complete" {
		b = append(b, "event: hook_results\n"...)
	}
	b = append(b, `data: {"type":"hook_results","hook_results":`...)
	b = append(b, x.Judged.JSON()...)
	return append(b, "}\n\n"...)
}

// An inserted body has something inserted after a number of bytes.
type inserted struct {
	src    io.ReadCloser
	left   int // bytes before it
	insert []byte
}

func (i *inserted) Read(p []byte) (int, error) {
	switch {
	case i.left > 0:
		n, err := i.src.Read(p[:min(len(p), i.left)])
		i.left -= n
		return n, err
	case len(i.insert) > 0:
		n := copy(p, i.insert)
		i.insert = i.insert[n:]
		return n, nil
	}
	return i.src.Read(p)
}

func (i *inserted) Close() error { return i.src.Close() }
