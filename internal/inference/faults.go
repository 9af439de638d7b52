package inference

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/routing"
)

const (
	maxMessage = 512      // bytes of a provider's message in an error of the gateway's
	maxFaults  = 16 << 10 // bytes of what an error says of all targets
)

// faults says of the targets of a call why each of them failed, in order.
type faults struct {
	list    []string
	size    int
	omitted int // targets for which there was no room
}

func (f *faults) add(text string) {
	if f.omitted > 0 || f.size+len(text) > maxFaults {
		f.omitted++
		return
	}
	f.list, f.size = append(f.list, text), f.size+len(text)
}

// all are the faults, if there are several: the error itself is one.
func (f *faults) all() []string {
	switch {
	case len(f.list)+f.omitted < 2:
		return nil
	case f.omitted == 0:
		return f.list
	}
	return append(slices.Clip(f.list), "and "+strconv.Itoa(f.omitted)+" more")
}

// noteFault notes why a target failed, after its last attempt.
func (e *engine) noteFault(t *routing.Target) {
	var b strings.Builder
	b.WriteString(t.Path)
	b.WriteString(": ")
	switch {
	case e.err != nil:
		b.WriteString(clip(e.last.conceal(e.err.Message)))
	default:
		b.WriteString(e.last.answeredWith())
		if message := e.last.message(); message != "" {
			b.WriteString(" (" + clip(e.last.conceal(message)) + ")")
		}
	}
	n := 0
	for _, a := range e.x.Attempts {
		if a.Target == t.Path {
			n++
		}
	}
	if n > 1 {
		b.WriteString("; it was tried " + strconv.Itoa(n) + " times")
	}
	e.faults.add(b.String())
}

// conceal masks, in what is reported of an attempt, the credentials of the call and the address of an
// operator's provider. rt may be nil: nothing was sent.
func (rt *roundTrip) conceal(text string) string {
	if rt == nil {
		return text
	}
	text = rt.mask(true).Text(text)
	if rt.url == nil || rt.target.Route.CustomHost {
		return text
	}
	for _, name := range []string{rt.url.Host, rt.url.Hostname()} {
		if name != "" {
			text = strings.ReplaceAll(text, name, "[host]")
		}
	}
	return text
}

// answeredWith says with what status a provider answered.
func (rt *roundTrip) answeredWith() string {
	provider, status := "Provider "+rt.target.Route.Provider, rt.held.StatusCode
	if status == http.StatusOK {
		return provider + " answered with an error and status 200"
	}
	return provider + " answered " + statusOf(status)
}

// statusOf is a status with its name, whatever the provider itself calls it.
func statusOf(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// withFaults adds what became of all targets to an error of the gateway's own, which may be shared.
func (e *engine) withFaults(err *exchange.Error) *exchange.Error {
	all := e.faults.all()
	if all == nil || err.Errors != nil {
		return err
	}
	copied := *err
	copied.Errors = all
	return &copied
}

// addFaults adds what became of all targets to the answer of a provider, if it is an error in the
// API's own envelope. If there is no memory for it, the answer stays as it is.
func (e *engine) addFaults(res *http.Response) {
	all := e.faults.all()
	held, ok := res.Body.(*peeked)
	if all == nil || !ok || e.x.Endpoint.Passes || res.Header.Get("Content-Encoding") != "" || !isEnvelope(held.rest()) {
		return
	}
	out, err := sjson.SetBytes(slices.Clone(held.rest()), "errors", all)
	if err != nil || e.x.Memory.Reserve(cap(out)) != nil {
		return
	}
	held.drop()
	held.call, held.seen = e.x.Call, out
	res.ContentLength = int64(len(out))
	res.Header["Content-Length"] = []string{strconv.Itoa(len(out))}
	withoutDigests(res.Header)
}

// clip bounds a message.
func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
