package credentials

import (
	"errors"
	"strings"
)

const maxAlias = 255 // bytes

// CheckAlias returns an error if a name cannot be an alias for a model.
func CheckAlias(name string) error {
	if name == "" || len(name) > maxAlias || name[0] == '@' || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("expected a name of 1 to 255 bytes without white space that does not begin with @")
	}
	return nil
}

// ParseModel splits the name of a saved provider's model: @slug/name.
func ParseModel(model string) (slug, name string, err error) {
	slug, name, ok := slugOf(model)
	if !ok || slug == "" || name == "" || len(model) > 2*maxAlias {
		return "", "", errors.New("expected a model of a saved provider: @<provider>/<model>, of at most 510 bytes")
	}
	return slug, name, nil
}
