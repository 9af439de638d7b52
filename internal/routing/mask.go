package routing

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// Mask returns the text of a config with every credential in it masked.
func Mask(text string) string {
	masked, _ := rewrite(text, nil, func(s *span) (string, error) { return s.hint(), nil })
	return masked
}

// Unmask returns text with its masked credentials replaced by those of old, so that sending
// back a config as it was shown changes no credential. If a credential's destination
// changes, it has to be sent in clear; the error, a *credentials.BindingError, names the
// field that changed.
func Unmask(text, old string) (string, error) {
	stored := Secrets(old, nil)
	return Receive(text, &stored, nil)
}

// Secrets returns the credentials in a config, or in settings whose credentials go to the
// destination at.
func Secrets(text string, at credentials.Destination) (b credentials.Binding) {
	_, _ = rewrite(text, at, func(s *span) (string, error) {
		b.Add(credentials.Bound{Field: s.path, Name: s.name, Secret: credentials.NewSecret(s.value), For: s.to, Shown: s.shown})
		return s.value, nil
	})
	return b
}

// Receive returns a received text with its masked credentials replaced by the stored ones;
// at is as for [Secrets].
func Receive(text string, stored *credentials.Binding, at credentials.Destination) (string, error) {
	return rewrite(text, at, func(s *span) (string, error) {
		kept, err := stored.Take(s.path, s.name, s.value, s.to)
		return kept.Reveal(), err
	})
}

// ReplaceSecrets returns the text of a config, or of settings, with each credential in it replaced
// by what value returns for it, by its path and its value. All other bytes are kept.
func ReplaceSecrets(text string, value func(path, value string) (string, error)) (string, error) {
	return rewrite(text, nil, func(s *span) (string, error) { return value(s.path, s.value) })
}

// A span is a credential in the text of a config.
type span struct {
	start, end int
	path, name string
	value      string // a string, or JSON
	to         credentials.Destination
	shown      string // how it is shown, if it is a URL with a query
}

// hint returns the masked form of the credential.
func (s *span) hint() string { return cmp.Or(s.shown, credentials.NewSecret(s.value).Hint()) }

// rewrite replaces the credentials of a config and keeps all other bytes. If the text is
// not JSON, the result is empty.
func rewrite(text string, at credentials.Destination, value func(*span) (string, error)) (string, error) {
	b := []byte(text)
	if !json.Valid(b) {
		return "", nil
	}
	var w walker
	w.target("", b, space(b, 0), at)
	var out strings.Builder
	from := 0
	for i := range w.found {
		s := &w.found[i]
		v, err := value(s)
		if err != nil {
			return "", err
		}
		out.WriteString(text[from:s.start])
		if v == s.value {
			out.WriteString(text[s.start:s.end])
		} else {
			out.Write(quote(v))
		}
		from = s.end
	}
	out.WriteString(text[from:])
	return out.String(), nil
}

// A walker finds the credentials of a config, in the order of the text.
type walker struct{ found []span }

// target visits a config object. The credentials of its parents go to above.
func (w *walker) target(path string, b []byte, start int, above credentials.Destination) {
	if at(b, start) != '{' {
		return
	}
	to := destination(b[start:], above)
	inherited := inherited(to, above)
	mustScan(second(eachMember(b[start:], func(m member) {
		name := m.name()
		from, end, at := start+m.start, start+m.end, in(path, name)
		v := b[from:end]
		switch {
		case name == "api_key", IsSecret(name):
			if v[0] != 'n' {
				w.found = append(w.found, span{start: from, end: end, path: at, name: name, value: valueText(v), to: to})
			}
		case name == credentials.CustomHeaders && v[0] == '{': // of settings: all are taken for credentials
			mustScan(second(eachMember(v, func(m member) {
				if v := v[m.start:m.end]; v[0] == '"' {
					w.found = append(w.found, span{start: from + m.start, end: from + m.end, path: in(at, m.name()), name: m.name(), value: text(v), to: to})
				}
			})))
		case vendorKeys[name].use != 0:
		case name == "targets" && v[0] == '[':
			mustScan(eachElement(v, func(n, start, _ int) { w.target(item(at, n), b, from+start, inherited) }))
		default:
			w.free(at, name, b, from, end, func() credentials.Destination { return spread(b[start:], to, above) })
		}
	})))
}

const customHost = "custom_host"

// inherited returns the destination that the targets of a config object inherit, given the
// object's own destination and that of its parents.
func inherited(to, above credentials.Destination) credentials.Destination {
	host := to[customHost]
	if host == "" {
		return above
	}
	out := make(credentials.Destination, len(above)+1)
	maps.Copy(out, above)
	out[customHost] = host
	return out
}

// spread returns the destination of the parameters of a config object: its own or, if it
// has targets, all of theirs.
func spread(object []byte, to, above credentials.Destination) credentials.Destination {
	var all []string
	var walk func(object []byte, to, above credentials.Destination)
	walk = func(object []byte, to, above credentials.Destination) {
		leaf := true
		mustScan(second(eachMember(object, func(m member) {
			if v := object[m.start:m.end]; m.name() == "targets" && v[0] == '[' {
				leaf = false
				below := inherited(to, above)
				mustScan(eachElement(v, func(_, start, end int) {
					if v[start] == '{' {
						walk(v[start:end], destination(v[start:], below), below)
					}
				}))
			}
		})))
		if leaf {
			all = append(all, to.Key())
		}
	}
	walk(object, to, above)
	slices.Sort(all)
	out := maps.Clone(to)
	out["targets"] = strings.Join(slices.Compact(all), ";")
	return out
}

// destination returns the destination of the credentials of a config object, given that of
// its parents.
func destination(object []byte, above credentials.Destination) credentials.Destination {
	to := make(credentials.Destination, len(above)+4)
	maps.Copy(to, above)
	mustScan(second(eachMember(object, func(m member) {
		switch name := m.name(); {
		case object[m.start] == 'n': // null is absent
		case name == "provider", name == "virtual_key", name == customHost, IsPlace(name):
			if v := valueText(object[m.start:m.end]); v != "" { // an empty string counts as absent, too
				to[name] = v
			}
		}
	})))
	return to
}

// Destination returns the destination of the credentials of a config, or of similar
// settings; at is as for [Secrets].
func Destination(text string, at credentials.Destination) credentials.Destination {
	b := []byte(text)
	if start := space(b, 0); json.Valid(b) && b[start] == '{' {
		return destination(b[start:], at)
	}
	return at
}

// free visits values whose names are not the gateway's, such as parameters of a body.
// Credentials among them are recognised by their names, and URLs that may have some by what
// they are. Such a credential is bound to the
// values around it, too, because they may contain an address.
func (w *walker) free(path, name string, b []byte, start, end int, to func() credentials.Destination) {
	first := len(w.found)
	w.texts(path, name, b, start, end)
	if len(w.found) == first {
		return
	}
	var around strings.Builder
	from := start
	for _, s := range w.found[first:] {
		around.Write(b[from:s.start])
		around.WriteString(s.shown) // of a URL, where it leads
		from = s.end
	}
	around.Write(b[from:end])
	bound := to()
	bound[name] = around.String()
	for i := range w.found[first:] {
		w.found[first+i].to = bound
	}
}

func (w *walker) texts(path, name string, b []byte, start, end int) {
	switch v := b[start:end]; v[0] {
	case '{':
		all := strings.EqualFold(name, "headers") // such as those of a webhook, whatever their names are
		mustScan(second(eachMember(v, func(m member) {
			if v := v[m.start:m.end]; all && v[0] == '"' {
				w.found = append(w.found, span{start: start + m.start, end: start + m.end, path: in(path, m.name()), name: m.name(), value: text(v)})
				return
			}
			w.texts(in(path, m.name()), m.name(), b, start+m.start, start+m.end)
		})))
	case '[':
		mustScan(eachElement(v, func(n, from, to int) { w.texts(item(path, n), "", b, start+from, start+to) }))
	case '"':
		s := span{start: start, end: end, path: path, name: name, value: text(v)}
		secret := soundsSecret(name) || strings.EqualFold(name, "headers")
		if !secret { // a URL, whatever its name is
			s.shown, secret = credentials.MaskQuery(s.value)
		}
		if secret {
			w.found = append(w.found, s)
		}
	}
}

func second(_ int, err error) error { return err }

// valueText returns a string's text, or the JSON of any other value.
func valueText(v []byte) string {
	if v[0] == '"' {
		return text(v)
	}
	return string(v)
}

// soundsSecret reports whether a name that is not the gateway's suggests a credential.
func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"api_key", "apikey", "api-key", "secret", "token", "password", "passphrase", "private_key", "credential", "authorization", "access_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
