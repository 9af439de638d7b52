package exchange

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/routing"
	"github.com/caddy-gw/gateway/internal/validation"
)

// otherModels returns the member of the body that names other models, of which some providers and
// proxies let one answer; "" if there is none.
func (c *Call) otherModels() (member string) {
	body := c.Params()
	if body == nil || !c.report.MayHave(validation.OtherModels) {
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

// modelsSet returns the parameter with which the attempt's edit sets other models than the one of the
// attempt; "" if there is none.
func (a *Attempt) modelsSet() string {
	if a.Edit == nil {
		return ""
	}
	for _, list := range [][]routing.Param{a.Edit.Default, a.Edit.Override} {
		for i := range list {
			p := &list[i]
			first := p.Path[0].Name
			switch {
			case string(p.Value) == "null":
			case strings.EqualFold(first, "models"), validation.NamesModels(first):
				return p.Key
			case strings.EqualFold(first, "model") && (len(p.Path) != 1 || first != "model"):
				return p.Key // which is not the one that was read
			case !slices.ContainsFunc(a.call.Endpoint.Models, func(one string) bool { return strings.EqualFold(one, first) }):
			case len(p.Path) > 1 && strings.Contains(strings.ToLower(p.Key), "model"), len(p.Path) > 1 && mayNameModel(string(p.Value)),
				len(p.Path) == 1 && hasModel(strings.ToLower(first), gjson.ParseBytes(p.Value)):
				return p.Key
			}
		}
	}
	return ""
}

// RefuseUnread refuses an attempt whose model has to be known, and is not; why completes the message.
func (a *Attempt) RefuseUnread(why string) *Error {
	key := a.modelsSet()
	if key == "" || a.call.mayHaveOther(a.Model) {
		return a.call.RefuseUnread(why)
	}
	e := badRequest("model", "model_unread", "The config sets "+credentials.Clip(key)+", in which are other models that the provider may choose, and "+why)
	e.Caller = true
	return e
}
