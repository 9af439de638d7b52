package exchange

import (
	"net/http"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// sessionSoFar is what a model of a session has used.
type sessionSoFar struct {
	holds  []Growing
	tokens int64
	cost   prices.Amount
}

// soFar is what the session's models have used.
func (s *Session) soFar() (all []sessionSoFar) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	used := func(a *Attempt, holds []Growing, u prices.Usage, estimated *prices.Usage) {
		u.Add(estimated)
		cost, _ := a.costOf(&Usage{Known: true, Usage: u}, http.StatusSwitchingProtocols)
		all = append(all, sessionSoFar{holds, estimate.Sum(u.Prompt, u.Completion), cost})
	}
	used(s.attempt, s.holds, s.reported.Usage, &s.estimated)
	for _, t := range s.transcribers {
		var holds []Growing
		for _, h := range t.holds {
			if g, ok := h.(Growing); ok {
				holds = append(holds, g)
			}
		}
		used(t.Attempt, holds, t.Usage.Usage, &t.estimated)
	}
	return all
}

// Check refuses that the session goes on if its caller may not call any more, or if what was used so far exceeds its
// limits. It may wait for the store. ended: there is nothing to be checked any more.
func (s *Session) Check() (ended bool, _ *Error) {
	s.checking.Lock()
	defer s.checking.Unlock()
	all := s.soFar()
	if all == nil {
		return true, nil
	}
	if err := s.attempt.call.authenticateAgain(); err != nil {
		return false, err
	}
	for _, used := range all {
		for _, h := range used.holds {
			if err := h.Grow(s.attempt.call.request.Context(), used.tokens, used.cost); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}
