package upstream

import (
	"context"
	"net/http"
	"time"
)

// reach is the operation of a request that only asks whether a host answers.
var reach = Operation{Name: "doctor", Timeout: 5 * time.Second, MaxAnswer: 1}

// Reach asks whether a host answers, with a request that has no credential: any answer will do. It
// returns the time that the host says it is; zero: it says none. public is for hosts that the
// operator did not choose.
func (c *Client) Reach(ctx context.Context, url string, public bool) (date time.Time, err error) {
	ctx, cancel := context.WithTimeout(WithVars(ctx), reach.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return date, err
	}
	res, err := (&carrier{client: c, ctx: ctx, op: &reach, provider: "doctor", pool: c.pools.of(public)}).RoundTrip(r)
	if err != nil {
		return date, err
	}
	_ = res.Body.Close() // an answer to HEAD has none
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		date = at
	}
	return date, nil
}
