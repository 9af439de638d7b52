package inference

import (
	"net/http"

	"github.com/tidwall/sjson"

	"github.com/caddy-gw/gateway/providers"
)

// renameModel gives a model the id by which the call asked about it: that of the unified list.
func (rt *roundTrip) renameModel() {
	asked := rt.target.AskedModel()
	if asked == "" {
		return
	}
	answer := providers.Answer{}
	if rt.answer != nil {
		answer = *rt.answer
	}
	whole := answer.Body
	answer.Body = func(dst, body []byte, h http.Header) ([]byte, error) {
		if whole != nil {
			out, err := whole(nil, body, h)
			if err != nil {
				return dst, err
			}
			body = out
		}
		out, err := sjson.SetBytes(body, "id", asked)
		return append(dst, out...), err
	}
	rt.answer = &answer
}
