package hooks

import "github.com/caddy-gw/gateway/internal/jsonscan"

func (w *walker) object(at int, visit func(key string, at int)) {
	if w.s.Kind(at) != jsonscan.Object {
		return
	}
	_, _ = w.s.Object(at, 0, func(key jsonscan.Key, at int) (int, error) {
		visit(key.String(), at)
		return w.s.Value(at, 1)
	})
}

func (w *walker) array(at int, visit func(at int)) {
	if w.s.Kind(at) != jsonscan.Array {
		return
	}
	_, _ = w.s.Array(at, 0, func(_, at int) (int, error) {
		visit(at)
		return w.s.Value(at, 1)
	})
}

// text adds the string at a position, if there is one.
func (w *walker) text(at int) {
	if w.s.Kind(at) == jsonscan.String {
		if end, _, err := w.s.String(at); err == nil {
			w.spans = append(w.spans, Span{at, end})
		}
	}
}

// string is the string at a position, or "".
func (w *walker) string(at int) string {
	if w.s.Kind(at) != jsonscan.String {
		return ""
	}
	end, _, err := w.s.String(at)
	if err != nil {
		return ""
	}
	return jsonscan.Unquote(w.s[at:end])
}

// textOrList adds the value of a member: a text or a list of texts. Numbers of tokens, or lists of
// them, are noted.
func (w *walker) textOrList(key string, at int) {
	w.text(at)
	w.array(at, func(at int) {
		if w.s.Kind(at) == jsonscan.String {
			w.text(at)
		} else {
			w.tokens = key
		}
	})
}

// strings adds all strings in a value, apart from keys.
func (w *walker) strings(at int) {
	w.text(at)
	w.array(at, w.strings)
	w.object(at, func(_ string, at int) { w.strings(at) })
}
