package validation

import (
	"bytes"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxHead bounds what is looked at of a data URI before its data, which may be long.
const maxHead = 256

// isDocument reports whether the string that literal is, quotes included, is an HTTPS
// URL or a base64 data URI (OCR request). The data itself is left to the provider.
func isDocument(literal []byte) bool {
	s := literal[1 : len(literal)-1]
	if head := s[:min(len(s), maxHead)]; bytes.IndexByte(head, '\\') >= 0 { // PHP escapes slashes
		s = []byte(jsonscan.Unquote(literal))
	}
	if host, ok := cutPrefixFold(s, "https://"); ok {
		return len(host) > 0 && bytes.IndexByte([]byte("/?#: "), host[0]) < 0
	}
	data, ok := cutPrefixFold(s, "data:")
	if !ok {
		return false
	}
	media, _, ok := bytes.Cut(data[:min(len(data), maxHead)], []byte(","))
	const base64 = ";base64"
	return ok && len(media) >= len(base64) && bytes.EqualFold(media[len(media)-len(base64):], []byte(base64))
}

func cutPrefixFold(s []byte, prefix string) ([]byte, bool) {
	if len(s) < len(prefix) || !bytes.EqualFold(s[:len(prefix)], []byte(prefix)) {
		return nil, false
	}
	return s[len(prefix):], true
}
