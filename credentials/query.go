package credentials

import "strings"

// MaskQuery returns a URL of HTTP as the control plane shows it: without user information and the
// values of its query, which may be credentials. ok: it has some.
func MaskQuery(raw string) (shown string, ok bool) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return raw, false
	}
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, `/\`); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority, ok = Masked+authority[i:], true
	}
	shown = scheme + "://" + authority + path
	between := byte('?')
	for query != "" {
		end := strings.IndexAny(query, "&;")
		pair, next := query, ""
		if end >= 0 {
			pair, next = query[:end], query[end+1:]
		}
		switch name, value, named := strings.Cut(pair, "="); {
		case named && value != "":
			pair, ok = name+"="+Masked, true
		case !named && pair != "":
			pair, ok = Masked, true
		}
		shown += string(between) + pair
		if end >= 0 {
			between = query[end]
			if next == "" {
				shown += string(between)
			}
		}
		query = next
	}
	if hasFragment && fragment != "" {
		shown, ok = shown+"#"+Masked, true
	}
	if !ok {
		return raw, false
	}
	return shown, true
}
