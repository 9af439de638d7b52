package exchange

import (
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/validation"
)

// otherModels returns the member of the body that names other models, of which some providers and
// proxies let one answer; "" if there is none.
func (c *Call) otherModels() (member string) {
	body := c.Body.Params()
	if body == nil || !c.Body.report.MayHave(validation.OtherModels) {
		return ""
	}
	gjson.ParseBytes(body).ForEach(func(name, value gjson.Result) bool {
		if value.Type != gjson.Null && validation.NamesModels(name.Str) {
			member = name.Str
		}
		return member == ""
	})
	return member
}

// RefuseUnread refuses an attempt whose model has to be known, and is not; why completes the message.
func (a *Attempt) RefuseUnread(why string) *Error {
	if a.batch != nil && a.batch.was && a.batch.calls.Unnamed != "" {
		e := badRequest("input_file_id", "model_unread", "It is not known which models the lines of the batch's file call, and "+why+": "+a.batch.calls.Unnamed+
			"; name one in each line, and at most "+strconv.Itoa(estimate.MaxModels)+" in a file")
		e.Caller = true
		return e
	}
	key := a.Payload().modelsSet()
	if key == "" || a.call.mayHaveOther(a.Model) {
		return a.call.RefuseUnread(why)
	}
	e := badRequest("model", "model_unread", "The config sets "+credentials.Clip(key)+", in which are other models that the provider may choose, and "+why)
	e.Caller = true
	return e
}
