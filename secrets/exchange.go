package secrets

import (
	"errors"
	"io"
	"net/http"
)

// ErrTooLarge means that an answer has more than [MaxValue] bytes.
var ErrTooLarge = errors.New("the answer of the secret manager is too large")

// Do sends a request and reads its answer.
func Do(c *http.Client, r *http.Request) (status int, body []byte, err error) {
	r.Header.Set("User-Agent", "") // no header instead of Go's
	res, err := c.Do(r)            //nolint:gosec // the address was checked, and is again when it is dialed
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, MaxValue+1))
	if err == nil && len(body) > MaxValue {
		err = ErrTooLarge
	}
	return res.StatusCode, body, err
}
