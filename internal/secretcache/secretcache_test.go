package secretcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/secrets"
)

// A source is a secret manager with one secret.
type source struct {
	mu      sync.Mutex
	value   string
	err     error
	fetches int
	delay   time.Duration
}

func (s *source) set(value string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.err = value, err
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

func (s *source) fetch(ctx context.Context, _ *credentials.SecretReference) (credentials.Secret, error) {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return credentials.Secret{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	return credentials.NewSecret(s.value), s.err
}

func start(s *source) (*Cache, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.InfoLevel)
	c := New(time.Now, zap.New(core))
	c.Use(s.fetch)
	return c, logs
}

func value(t *testing.T, c *Cache, r *credentials.SecretReference) string {
	t.Helper()
	v, err := c.Secret(t.Context(), r)
	if err != nil {
		return "error: " + err.Error()
	}
	return v.Text.Reveal()
}

// A refresh fetches what is kept at once, and keeps it where the manager does not answer.
func TestARefreshFetchesAnewWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one"}
		c, _ := start(s)
		defer c.Close()
		c.Refresh() // nothing is kept yet
		r := &credentials.SecretReference{ID: "r", Slug: "slug"}
		for _, step := range []struct {
			value string
			err   error
			want  string
		}{{"one", nil, "one"}, {"two", nil, "two"}, {"", errors.New("down"), "two"}, {"three", nil, "three"}} {
			s.set(step.value, step.err)
			c.Refresh()
			synctest.Wait()
			if got := value(t, c, r); got != step.want {
				t.Errorf("got %s, want %s", got, step.want)
			}
			if step.err != nil {
				c.Refresh() // too soon: it would be asked as often as somebody asks for that
				synctest.Wait()
				time.Sleep(retry)
			}
		}
		if s.count() != 4 {
			t.Errorf("%d fetches", s.count())
		}
	})
}

// Whoever calls all the time never waits, and sees a rotation within the TTL.
func TestARotationArrivesInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one", delay: time.Second}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r", Slug: "slug"}
		if got := value(t, c, r); got != "one" || s.count() != 1 {
			t.Fatalf("got %s after %d fetches", got, s.count())
		}
		s.set("two", nil)
		began, seen := time.Now(), time.Duration(0)
		for seen == 0 {
			before := time.Now()
			if value(t, c, r) == "two" {
				seen = time.Since(began)
			}
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("waited %v", waited)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if seen > TTL || s.count() != 2 {
			t.Errorf("the new value came after %v and %d fetches", seen, s.count())
		}
	})
}

// A secret that nobody used for long is fetched before it is used again.
func TestAnOldValueIsNotUsedWhileItsManagerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one"}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r"}
		value(t, c, r)
		s.set("two", nil)
		time.Sleep(TTL)
		if got := value(t, c, r); got != "two" {
			t.Errorf("got %s", got)
		}
	})
}

func TestAnOutageServesTheLastValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one", delay: time.Second}
		c, logs := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r", Slug: "slug", Manager: "m"}
		value(t, c, r)
		s.set("", &secrets.Error{What: "secret", Status: 503})
		time.Sleep(2 * TTL)
		if got := value(t, c, r); got != "one" || c.Stale() != 1 {
			t.Errorf("got %s, %d are stale", got, c.Stale())
		}
		// No call waits for a manager that is known to fail, and it is asked now and then only.
		for range 100 {
			before := time.Now()
			if got := value(t, c, r); got != "one" || time.Since(before) > 0 {
				t.Fatalf("got %s after %v", got, time.Since(before))
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := s.count(); n < 8 || n > 12 {
			t.Errorf("%d fetches in 100 seconds", n)
		}
		if n := logs.FilterMessageSnippet("its last value is used").Len(); n != 1 {
			t.Errorf("%d lines about the outage: %v", n, logs.All())
		}
		s.set("two", nil)
		for value(t, c, r) != "two" {
			time.Sleep(time.Second)
		}
		if c.Stale() != 0 || logs.FilterMessageSnippet("can be fetched again").Len() != 1 {
			t.Errorf("%d are stale, logged %v", c.Stale(), logs.All())
		}
	})
}

// A secret that is gone, or that the gateway may no longer read, is not used any longer; one answer
// does not say so.
func TestARefusalEndsTheUseOfTheLastValue(t *testing.T) {
	for name, err := range map[string]error{
		"deleted":              &secrets.Error{What: "secret", Status: 404},
		"not allowed":          &secrets.Error{What: "secret", Status: 403},
		"login refused":        &secrets.Error{What: "login", Status: 400},
		"deleted at AWS":       &secrets.Error{What: "secret", Status: 400, Code: "ResourceNotFoundException"},
		"file removed":         fmt.Errorf("reading the file: %w", fs.ErrNotExist),
		"no longer listed":     &secrets.FieldError{Field: secrets.FieldPath, Message: "not listed"},
		"unavailable":          &secrets.Error{What: "secret", Status: 503},
		"throttled":            &secrets.Error{What: "secret", Status: 429},
		"throttled by AWS":     &secrets.Error{What: "secret", Status: 400, Code: "ThrottlingException"},
		"login not available":  &secrets.Error{What: "login", Status: 500},
		"it cannot be reached": errors.New("connection refused"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{value: "one"}
			c, logs := start(s)
			defer c.Close()
			r := &credentials.SecretReference{ID: "r", Slug: "slug"}
			value(t, c, r)
			time.Sleep(refresh)
			s.set("", err)
			value(t, c, r)
			synctest.Wait()
			s.set("one", nil) // once is not enough
			time.Sleep(retry)
			value(t, c, r)
			synctest.Wait()
			if got := value(t, c, r); got != "one" || c.Stale() != 0 {
				t.Errorf("%s, once: got %s, %d are stale", name, got, c.Stale())
			}
			s.set("", err)
			time.Sleep(refresh)
			for range refusals {
				value(t, c, r)
				synctest.Wait()
				time.Sleep(retry)
			}
			got, refused := value(t, c, r), secrets.Refusal(err)
			if refused != strings.HasPrefix(got, "error: ") || refused != (logs.FilterMessageSnippet("no longer used").Len() == 1) {
				t.Errorf("%s: got %s, logged %v", name, got, logs.All())
			}
			s.set("two", nil)
			time.Sleep(retry)
			value(t, c, r)
			synctest.Wait()
			if got := value(t, c, r); got != "two" {
				t.Errorf("%s, back again: got %s", name, got)
			}
		})
	}
}

// A secret that was deleted while nobody used it is not used again.
func TestAnOldValueEndsWithOneRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one"}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r"}
		value(t, c, r)
		s.set("", &secrets.Error{What: "secret", Status: 404})
		time.Sleep(TTL)
		if got := value(t, c, r); !strings.HasPrefix(got, "error: ") {
			t.Errorf("got %s", got)
		}
	})
}

// An outage that lasts ends the use of a value, also if nobody asked for it meanwhile.
func TestALongOutageEndsTheUseOfTheLastValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one"}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r"}
		value(t, c, r)
		s.set("", &secrets.Error{What: "secret", Status: 503})
		time.Sleep(MaxStale - time.Minute)
		value(t, c, r)
		synctest.Wait()
		if got := value(t, c, r); got != "one" {
			t.Errorf("before: %s", got)
		}
		time.Sleep(time.Minute)
		if got := value(t, c, r); !strings.HasPrefix(got, "error: ") {
			t.Errorf("after: %s", got)
		}
	})
}

func TestAFirstFetchThatFailsSaysWhy(t *testing.T) {
	for want, err := range map[string]error{
		"answered with 403":      &secrets.Error{What: "secret", Status: 403},
		"private":                &credentials.HostError{Why: "it is a private or reserved address"},
		"did not answer in time": context.DeadlineExceeded,
		"cannot be reached":      errors.New("dial tcp 10.1.2.3:8200: connection refused"),
		"too large":              secrets.ErrTooLarge,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{err: err}
			c, _ := start(s)
			defer c.Close()
			r := &credentials.SecretReference{ID: "r"}
			for range 5 {
				if got := value(t, c, r); !strings.Contains(got, want) || strings.Contains(got, "10.1.2.3") {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			if s.count() != 1 {
				t.Errorf("%d fetches of a secret that just failed", s.count())
			}
			s.set("one", nil)
			time.Sleep(retry)
			if got := value(t, c, r); got != "one" {
				t.Errorf("later: %s", got)
			}
		})
	}
}

// A changed reference may mean another secret, so that the value before is not used for it,
// whatever its manager says.
func TestAChangedReferenceIsFetchedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one"}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r", UpdatedAt: time.Now()}
		value(t, c, r)
		changed := *r
		changed.UpdatedAt = r.UpdatedAt.Add(time.Second)
		s.set("", errors.New("gone"))
		if got := value(t, c, &changed); !strings.HasPrefix(got, "error") {
			t.Errorf("got %s", got)
		}
	})
}

func TestCallersShareAFetchAndLeaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one", delay: 5 * time.Second}
		c, _ := start(s)
		defer c.Close()
		r := &credentials.SecretReference{ID: "r"}
		var got atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if v, err := c.Secret(t.Context(), r); err == nil && v.Text.Reveal() == "one" {
					got.Add(1)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Secret(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wg.Wait()
		if got.Load() != 50 || s.count() != 1 {
			t.Errorf("%d got it, by %d fetches", got.Load(), s.count())
		}
	})
}

func TestClosingEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: "one", delay: time.Hour}
		c, _ := start(s)
		r := &credentials.SecretReference{ID: "r"}
		done := make(chan string, 1)
		go func() { done <- value(t, c, r) }()
		synctest.Wait()
		c.Close()
		if got := <-done; got != "error: the gateway is stopping" {
			t.Errorf("got %s", got)
		}
		time.Sleep(retry)
		if got := value(t, c, r); got != "error: the gateway is stopping" {
			t.Errorf("afterwards: got %s", got)
		}
	})
}

func BenchmarkSecret(b *testing.B) {
	c, _ := start(&source{value: "one"})
	defer c.Close()
	r := &credentials.SecretReference{ID: "r"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Secret(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
