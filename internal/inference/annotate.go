package inference

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// annotate has the visits add to an answer what they have to say: to one in JSON a member, to a
// stream its first event. What the cache keeps is without that.
func (rt *roundTrip) annotate(res *http.Response) {
	if !exchange.Succeeded(res.StatusCode) || res.Header.Get("Content-Encoding") != "" || res.Body == nil {
		return
	}
	media := mediaType(res.Header)
	stream := media == "text/event-stream"
	if !stream && (rt.end == 0 || !strings.HasSuffix(media, "json")) {
		return
	}
	for _, v := range rt.visits {
		hook, ok := v.(AnnotateHook)
		if !ok {
			continue
		}
		a := hook.Annotate(stream)
		switch {
		case stream:
			res.StatusCode = cmp.Or(a.Status, res.StatusCode)
			if a.Event != nil {
				res.Body = &peeked{seen: a.Event, src: res.Body}
			}
		case a.Member != nil:
			member := memberAfter(rt.bare, a.Member)
			rt.bare = false
			res.Body = &inserted{src: res.Body, left: rt.end, insert: member}
			if res.ContentLength >= 0 {
				res.ContentLength += int64(len(member))
				res.Header["Content-Length"] = []string{strconv.FormatInt(res.ContentLength, 10)}
			}
		}
	}
}

// annotateReply does the same with an answer that a hook gives, and returns its body and status.
func annotateReply(visits []Visit, r *Reply) (body []byte, status int) {
	stream := r.Type == "text/event-stream"
	body, status = r.Body, http.StatusOK
	for _, v := range visits {
		hook, ok := v.(AnnotateHook)
		if !ok {
			continue
		}
		a := hook.Annotate(stream)
		status = cmp.Or(a.Status, status)
		switch end, bare := endOf(body); {
		case stream:
			body = append(bytes.Clone(a.Event), body...)
		case a.Member != nil && end > 0:
			body = bytes.Join([][]byte{body[:end], memberAfter(bare, a.Member), body[end:]}, nil)
		}
	}
	return body, status
}

// memberAfter is a member with a comma in front of it, unless the object is bare.
func memberAfter(bare bool, member []byte) []byte {
	if bare {
		return member
	}
	return append([]byte{','}, member...)
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

// Interface guards
var _ io.ReadCloser = (*inserted)(nil)
