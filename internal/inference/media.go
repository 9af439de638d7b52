package inference

import (
	"mime"
	"net/http"
	"strings"
)

// mediaType is the media type that a header says of its body, in lower case and without
// parameters; "" where it says none.
func mediaType(h http.Header) string { return mediaTypeOf(h.Get("Content-Type")) }

func mediaTypeOf(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.Trim(media, " \t")
	if isPlainMedia(media) { // as nearly all are: there is nothing to decode
		return media
	}
	media, _, _ = mime.ParseMediaType(contentType)
	return media
}

// isPlainMedia reports whether a media type is spelt as it is compared: in lower case, and
// of two parts.
func isPlainMedia(media string) bool {
	slash := -1
	for i := range len(media) {
		switch c := media[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '+':
		case c == '/' && slash < 0 && i > 0:
			slash = i
		default:
			return false
		}
	}
	return slash > 0 && slash < len(media)-1
}
