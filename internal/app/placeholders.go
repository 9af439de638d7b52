package app

import (
	"errors"
	"regexp"

	"github.com/caddyserver/caddy/v2"
)

// unresolved matches Caddy's errors about placeholders with a name such as env.KEY.
var unresolved = regexp.MustCompile(`^[a-z ]+ \{[\w.:/$@-]+\}[a-z ]*$`)

// resolve replaces the placeholders in a value that may be a secret. Caddy's error quotes what is
// between the braces, and that is the secret if it is JSON, such as the key of a service account.
func resolve(value string) (string, error) {
	resolved, err := caddy.NewReplacer().ReplaceOrErr(value, true, true)
	if err != nil && !unresolved.MatchString(err.Error()) {
		err = errors.New("text in braces is a placeholder; a key in JSON must be read from elsewhere, such as {env.NAME} or {file./path}")
	}
	return resolved, err
}
