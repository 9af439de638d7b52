package manifest

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/prices"
)

// costs are the members of budgets that are US dollars where their type is cost: decimal texts in documents, pico-dollars in rows.
var costs = []string{"limit", "alert_threshold"}

// writeCosts writes the costs of a budget, whose members' names begin with inside.
func writeCosts(inside string, f *form) {
	if f.get(inside+"type").Str != policies.Cost {
		return
	}
	for _, name := range costs {
		if v := f.get(inside + name); v.Exists() {
			f.set(inside+name, dollars(v.Int()))
		}
	}
}

// readCosts reads what writeCosts writes.
func readCosts(inside string, f *form, at string) error {
	if f.get(inside+"type").Str != policies.Cost {
		return nil
	}
	for _, name := range costs {
		v := f.get(inside + name)
		if !v.Exists() {
			continue
		}
		amount, err := prices.ParseAmount(v.Str)
		if v.Type != gjson.String || err != nil {
			return wrong(at+"."+inside+name, `expected US dollars as a text, such as "12.50"`)
		}
		f.set(inside+name, int64(amount))
	}
	return nil
}

// dollars writes pico-dollars as dollars, exactly, with two decimals at least.
func dollars(pico int64) string {
	whole, rest := pico/int64(prices.Dollar), strconv.FormatInt(pico%int64(prices.Dollar)+int64(prices.Dollar), 10)[1:]
	rest = strings.TrimRight(rest, "0")
	return strconv.FormatInt(whole, 10) + "." + rest + strings.Repeat("0", max(0, 2-len(rest)))
}
