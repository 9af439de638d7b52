package inference

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// answered notifies visits that a call has an answer that they do not follow; see [AnsweredHook].
func answered(visits []Visit, attempt *exchange.Attempt, sent bool) {
	for _, v := range visits {
		if hook, ok := v.(AnsweredHook); ok {
			hook.Answered(attempt, sent)
		}
	}
}

// withheld reports whether a response is stored only when the visits have looked at it.
func withheld(visits []Visit) bool {
	for _, v := range visits {
		if hook, ok := v.(WithholdHook); ok && hook.Withholds() {
			return true
		}
	}
	return false
}

// look shows an answer to the visits that look at answers before the commit point. An answer whose
// status they have changed is held if its config names the status for another attempt.
func (rt *roundTrip) look(ctx context.Context, res *http.Response) error {
	status := res.StatusCode
	for _, v := range rt.visits {
		if hook, ok := v.(InspectHook); ok {
			if err := hook.Inspect(ctx, &Response{res, rt.attempt, rt}); err != nil {
				return err
			}
		}
	}
	if err := rt.complete(ctx, res); err != nil {
		return err
	}
	if held, ok := res.Body.(*peeked); ok && res.StatusCode != status && rt.tentative && rt.configTarget.Tries(res.StatusCode, rt.x.Options.Retry) {
		rt.book(membersOf(held.rest()))
		rt.annotate(res)
		answered(rt.visits, rt.attempt, true)
		rt.held = res
		return errStatusChanged
	}
	if rt.storesLater {
		return nil
	}
	if err := rt.storeWithheld(); err != nil {
		res.Body.Close()
		return err
	}
	return nil
}

// errStatusChanged is why an answer is held whose status a hook has changed.
var errStatusChanged = errors.New("a guardrail of the answer failed")

// complete shows an answer in one piece with status 200 to the answer hooks. One that visits may
// annotate is read as well, to know where it ends.
func (rt *roundTrip) complete(ctx context.Context, res *http.Response) error {
	var hooks []AnswerHook
	annotated := false
	for _, v := range rt.visits {
		if hook, ok := v.(AnswerHook); ok {
			hooks = append(hooks, hook)
		}
		_, annotates := v.(AnnotateHook)
		annotated = annotated || annotates
	}
	if len(hooks) == 0 && !annotated || res.StatusCode != http.StatusOK || res.Body == nil {
		return nil
	}
	if media := mediaType(res.Header); !strings.HasSuffix(media, "json") {
		return nil
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" {
		return rt.unreadable(res, "the provider sent "+encoding+", which was not requested")
	}
	body, err := rt.readWhole(res)
	defer rt.call.Memory.Free(cap(body))
	if err != nil {
		return err
	}
	answer := &Answer{Attempt: rt.attempt, Status: res.StatusCode, Body: body}
	for _, hook := range hooks {
		if refusal := hook.Complete(ctx, answer); refusal != nil {
			rt.book(membersOf(body)) // it was used all the same
			res.Body.Close()
			return refusal
		}
	}
	contentType := res.Header["Content-Type"]
	rt.end, rt.bare = endOf(answer.Body)
	if rt.unstored != nil { // what the client gets is stored
		rt.unstored = answer.Body
	}
	err = rt.replaceBody(res, answer.Body)
	res.Header["Content-Type"] = contentType
	res.StatusCode = answer.Status
	return err
}
