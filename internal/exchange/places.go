package exchange

import (
	"net/textproto"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
)

// placeHeaders are the names, after the prefix, of the headers that say where a call's own
// credential is sent.
var placeHeaders = func() map[string]bool {
	names := map[string]bool{headerNames[HeaderCustomHost]: true}
	for _, key := range routing.PlaceKeys {
		names[textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(key, "_", "-"))] = true
	}
	return names
}()

// admitStored refuses to send a stored credential to a path that was not allowed, or to a place
// that the call gives.
func (c *Call) admitStored(route *credentials.Route) *Error {
	if err := c.admitPath(route); err != nil || !route.Stored {
		return err
	}
	field := ""
	for name, values := range c.request.Header {
		suffix, ok := c.Gateway.Headers.Suffix(name)
		if !ok || !placeHeaders[suffix] || len(values) == 1 && values[0] == "" {
			continue
		}
		if field == "" || name < field {
			field = name
		}
	}
	if field == "" {
		return nil
	}
	field = strings.ToLower(field)
	return CredentialError(&credentials.Error{
		Reason: credentials.StoredSecretElsewhere, Field: field,
		Message: "The call goes with a stored credential, which goes only where its owner said: drop " + field + ", or send your own credential",
	})
}
