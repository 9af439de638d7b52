package credentials

import (
	"slices"
	"strings"
)

// notConfigurable are headers that frame a request or belong to a connection.
var notConfigurable = []string{"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "keep-alive"}

// Configurable reports whether the requests to a saved provider may be given a header.
func Configurable(name string) bool {
	token := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
	return token && !slices.Contains(notConfigurable, strings.ToLower(name))
}
