package providers

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// modelFromList returns one model of a provider with a list in its own form, by searching
// the list. It returns nil if the list passes as it is.
func (p *Provider) modelFromList(c *Call, list Endpoint) (*Request, error) {
	r, err := list(c)
	if r == nil || err != nil {
		return nil, requestError(err)
	}
	id := strings.TrimPrefix(c.Path, "/models/")
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	whole := r.Answer.Body
	r.Answer.Body = func(dst, body []byte, h http.Header) ([]byte, error) {
		all, err := whole(nil, body, h)
		if err != nil {
			return dst, err
		}
		found := false
		gjson.GetBytes(all, "data").ForEach(func(_, m gjson.Result) bool {
			if found = m.Get("id").Str == id; found {
				dst = append(dst, m.Raw...)
			}
			return !found
		})
		if !found {
			return dst, &Failure{Status: http.StatusNotFound, Type: "invalid_request_error", Param: "model", Code: "model_not_found", Message: "The model '" + id + "' does not exist"}
		}
		return dst, nil
	}
	return r, nil
}
