package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
)

const (
	fetchTimeout = 5 * time.Second
	refreshAfter = 15 * time.Minute // of use
	// minInterval is the least time between two requests for one key set, whoever asks.
	minInterval = 10 * time.Second
	// maxAge is how long keys are used that cannot be fetched again. After that, a key that was
	// withdrawn could still be used.
	maxAge = 24 * time.Hour
	// maxWaiting bounds the requests that wait for a key set at once.
	maxWaiting = 256
)

// remoteKeys are the keys at a URL. They do not use singleflight: those who wait are bounded, and leave
// when their own call ends, while the request goes on.
type remoteKeys struct {
	url    string
	client *http.Client
	now    func() time.Time
	logger *zap.Logger

	mu       sync.Mutex
	set      *KeySet
	digest   [sha256.Size]byte // of the answer that set is
	fetched  time.Time         // when set was fetched
	asked    time.Time         // when a request was last begun
	waiting  int
	fetching chan struct{} // closed when the request ends; nil: there is none
}

// current returns the keys that are known, or nil, and fetches them in the background if it is
// time to.
func (r *remoteKeys) current() *KeySet {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if age := now.Sub(r.fetched); r.set == nil || age >= refreshAfter || age < 0 { // the clock was put back
		r.begin(now)
	}
	if r.set != nil && now.Sub(r.fetched) >= maxAge {
		return nil
	}
	return r.set
}

// refresh fetches the keys again, unless they were fetched just now, and waits for it. It
// reports whether a request has ended meanwhile.
func (r *remoteKeys) refresh() bool {
	r.mu.Lock()
	r.begin(r.now())
	done := r.fetching
	if done == nil || r.waiting >= maxWaiting {
		r.mu.Unlock()
		return false
	}
	r.waiting++
	r.mu.Unlock()
	<-done // it has a timeout
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
	return true
}

// begin begins a request if there is none, and none was made just now. The caller holds the lock.
func (r *remoteKeys) begin(now time.Time) {
	if r.fetching != nil || !r.asked.IsZero() && now.Sub(r.asked) < minInterval && !now.Before(r.asked) {
		return
	}
	done := make(chan struct{})
	r.asked, r.fetching = now, done
	go func() {
		set, digest, err := r.fetch()
		r.mu.Lock()
		switch {
		case err != nil:
			shown, _ := credentials.MaskQuery(r.url)
			r.logger.Error("fetching the keys of JWTs; the ones before are used for a day", zap.String("jwks_url", shown), zap.Error(err))
		case r.set == nil || digest != r.digest: // tokens that were verified with the same set stay so
			r.set, r.digest = set, digest
		}
		if err == nil {
			r.fetched = r.now()
		}
		r.fetching = nil
		r.mu.Unlock()
		close(done)
	}()
}

func (r *remoteKeys) fetch() (set *KeySet, digest [sha256.Size]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, digest, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := r.client.Do(req)
	if failed := new(url.Error); errors.As(err, &failed) {
		err = failed.Err // without the URL, whose query may be a credential
	}
	if err != nil {
		return nil, digest, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, digest, fmt.Errorf("the answer has the status %d, expected 200", res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxKeySet+1))
	if err != nil {
		return nil, digest, err
	}
	if set, err = ParseKeySet(raw, false); err == nil && len(set.keys) == 0 {
		err = errors.New("the key set has no public key for signatures")
	}
	return set, sha256.Sum256(raw), err
}
