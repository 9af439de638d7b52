package inference

import (
	"bytes"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
)

// matchStreaming converts an answer with status 200 that streams and should not, or the other way
// around. An error in it becomes an HTTP error.
func (rt *roundTrip) matchStreaming(res *http.Response) error {
	endpoint, asked := rt.x.Endpoint.Name, rt.attempt.Payload().Streams()
	if res.StatusCode != http.StatusOK || res.Body == nil || rt.x.Endpoint.Passes {
		return nil
	}
	switch media := mediaType(res.Header); {
	case asked && media == "application/json", !asked && media == "text/event-stream" && cache.Streams(endpoint):
	default:
		return nil
	}
	body, err := rt.readWhole(res)
	defer func() { rt.x.Memory.Free(cap(body)) }()
	if err != nil {
		return err
	}
	if asked {
		if membersOf(body).onlyError() {
			rt.fail(failureIn200)
			rt.mask(true).Hide(body)
			return rt.refuse(res, providers.ReadEvent(body), body)
		}
	} else {
		var look streamSummary
		err := look.read(body)
		switch {
		case look.failed != nil:
			rt.fail(failureInStream)
			rt.mask(true).Hide(look.failed)
			return rt.refuse(res, providers.ReadEvent(look.failed), look.failed)
		case err != nil, !look.ended:
			return rt.unreadable(res, "the provider sent a stream that was not requested, and that broke off")
		}
	}
	entry := cache.Entry{Stream: !asked, Body: body}
	out, err := entry.As(endpoint, asked)
	switch {
	case err != nil && asked: // it is not an answer that could be written as a stream
		return rt.replaceBody(res, bytes.Clone(body))
	case err != nil:
		return rt.unreadable(res, "the provider sent a stream that was not requested, and that cannot be converted: "+err.Error())
	}
	if err := rt.replaceBody(res, out); err != nil {
		return err
	}
	if asked {
		res.Header["Content-Type"] = []string{"text/event-stream"}
		res.ContentLength = -1
		delete(res.Header, "Content-Length")
	}
	return nil
}

// A streamSummary is what a stream that was read to its end comes to.
type streamSummary struct {
	failed []byte // an event that is an error
	ended  bool   // it came to its end, or at least to that of its answer
}

func (w *streamSummary) read(body []byte) error {
	var frames chat.SSE
	if err := frames.Push(body, w.event); err != nil {
		return err
	}
	if err := frames.Rest(w.event); err != nil {
		return err
	}
	w.ended = w.ended || frames.Done()
	return nil
}

func (w *streamSummary) event(_ string, data []byte) error {
	if kind(data) == failure && w.failed == nil {
		w.failed = bytes.Clone(data)
	}
	members := gjson.ParseBytes(data)
	w.ended = w.ended || lastEvents[members.Get("type").Raw] || finishes([]byte(members.Get("choices").Raw))
	return nil
}
