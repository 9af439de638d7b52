package secrets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/caddy-gw/gateway/credentials"
)

// Tokens keeps the tokens of logins until they expire. The zero value is ready to use.
type Tokens struct {
	mu   sync.Mutex
	kept map[TokenKey]Token
}

// A TokenKey identifies a login.
type TokenKey [sha256.Size]byte

// A Token is the result of a login.
type Token struct {
	Secret credentials.Secret
	Until  time.Time // when it must not be used any more; zero: it is used once
}

const (
	maxTokens = 1000
	margin    = time.Minute // tokens are not used in the last part of their lifetime
)

// KeyOf returns the key of a login with the given parts.
func KeyOf(parts ...string) (k TokenKey) {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(k[:0])
	return k
}

// Use calls do with the token of a login, which is obtained by login if there is none. If the
// manager refuses a token that was kept, do is called again with a new one.
func (t *Tokens) Use(ctx context.Context, key TokenKey, now time.Time, login func(context.Context) (Token, error), do func(token string) (credentials.Secret, error)) (credentials.Secret, error) {
	t.mu.Lock()
	token, kept := t.kept[key]
	t.mu.Unlock()
	if kept && now.Before(token.Until) {
		value, err := do(token.Secret.Reveal())
		if refused := new(Error); !errors.As(err, &refused) || !refused.Refused() {
			return value, err
		}
	}
	token, err := login(ctx)
	if err != nil {
		return credentials.Secret{}, err
	}
	t.mu.Lock()
	delete(t.kept, key)
	if lifetime := token.Until.Sub(now); lifetime > 0 {
		token.Until = token.Until.Add(-min(margin, lifetime/5))
		if len(t.kept) >= maxTokens {
			maps.DeleteFunc(t.kept, func(_ TokenKey, old Token) bool { return !now.Before(old.Until) })
		}
		if t.kept == nil {
			t.kept = make(map[TokenKey]Token)
		}
		if len(t.kept) < maxTokens {
			t.kept[key] = token
		}
	}
	t.mu.Unlock()
	return do(token.Secret.Reveal())
}
