package inference

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// mask hides the credentials that a provider gets with a request in what it answers; unless own is
// set, without the caller's own, who may see them.
func (q *request) mask(own bool) *credentials.Mask {
	if q.configTarget == nil {
		return nil
	}
	which := 0
	if own || q.target.Route.Stored { // there are none of the caller's own
		which = 1
	}
	if q.masks[which] == nil {
		m := new(credentials.Mask)
		for _, s := range q.configTarget.Edit().Secrets() {
			m.Add(s)
		}
		if which == 1 {
			q.addCredentials(m)
		}
		q.masks[which] = m
	}
	return q.masks[which]
}

// addCredentials adds the credentials that are sent with the request.
func (q *request) addCredentials(m *credentials.Mask) {
	route := q.target.Route
	m.Add(route.Key)
	if !q.unsigned {
		for _, part := range strings.Fields(q.asked.Token.Reveal()) { // a role's has several
			m.Add(credentials.NewSecret(part))
		}
	}
	for name, s := range route.Settings {
		if routing.IsSecret(name) || route.Mapped(name) {
			m.Add(s)
		}
	}
	m.AddHeader(route.Header)
	if !route.Inline {
		return
	}
	for _, s := range q.configTarget.Vendor {
		if routing.IsSecret(s.Name) {
			m.Add(s.Value)
		}
	}
	for name, values := range q.call.Header() {
		if suffix, ok := q.call.Gateway.Headers.Suffix(name); ok && secretHeaders[suffix] {
			for _, v := range values {
				m.Add(credentials.NewSecret(v))
			}
		}
	}
}

// secretHeaders are the headers of calls, without the prefix, that are credentials.
var secretHeaders = func() map[string]bool {
	names := make(map[string]bool)
	for _, name := range routing.SecretKeys {
		names[textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))] = true
	}
	return names
}()

// maskBody hides credentials in the body of an answer that is passed on as it comes.
func (rt *roundTrip) maskBody(res *http.Response) error {
	m := rt.mask(false)
	if m.Empty() || res.Body == nil || res.Body == http.NoBody {
		return nil
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return rt.unreadable(res, "the provider sent "+encoding+", which was not requested")
	}
	rt.masked = masked{src: res.Body, mask: m}
	res.Body = &rt.masked
	return nil
}

// A masked body is an answer in which credentials are hidden. It holds back only what may be the
// beginning of one.
type masked struct {
	src  io.ReadCloser
	mask *credentials.Mask
	held []byte // what was read and not returned yet
	done int    // bytes of it that can be returned
	err  error  // returned after that
}

func (m *masked) Read(p []byte) (int, error) {
	for m.done == 0 {
		switch {
		case m.err != nil:
			return 0, m.err
		case len(p) == 0:
			return 0, nil
		case len(m.held) > 0:
			if err := m.more(len(p)); err != nil {
				return 0, err
			}
			continue
		}
		n, err := m.src.Read(p)
		if errors.Is(err, errReadTimeout) {
			return 0, err
		}
		passed := n
		if err != nil {
			m.err = err
			m.mask.Hide(p[:n])
		} else if passed = m.mask.Pass(p[:n]); passed < n {
			m.held = append(m.held, p[passed:n]...)
		}
		if passed > 0 || n == 0 {
			return passed, err
		}
	}
	n := copy(p, m.held[:m.done])
	m.held = append(m.held[:0], m.held[n:]...)
	m.done -= n
	return n, nil
}

// more reads more behind what is held back. It returns errReadTimeout if nothing came in time; other errors
// are kept in m.
func (m *masked) more(most int) error {
	from := len(m.held)
	m.held = append(m.held, make([]byte, min(most, leastRead))...)
	n, err := m.src.Read(m.held[from:])
	m.held = m.held[:from+n]
	if errors.Is(err, errReadTimeout) {
		return err
	}
	if m.done = len(m.held); err != nil {
		m.err = err
		m.mask.Hide(m.held)
	} else {
		m.done = m.mask.Pass(m.held)
	}
	return nil
}

func (m *masked) Close() error { return m.src.Close() }
