// Package estimate says what a call may use before it is sent: an upper bound of its tokens, from
// the bytes of its prompt and the most that it may be answered with, and otherwise from what
// earlier calls to the same model used. It has no HTTP and no store: what was learned is
// forgotten when the process ends.
package estimate

import (
	"sync"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/prices"
)

// A Model is what answers calls: a model of a provider at an endpoint.
type Model struct{ Provider, Name, Endpoint string }

// A Demand is what a call asks for, as far as it is known before it is sent.
type Demand struct {
	Model   Model
	Free    bool          // no model answers it: it uses no tokens and costs nothing
	Bytes   int64         // of the prompt's text, as it is sent
	Media   int64         // tokens that images and files of the prompt may be
	Most    int64         // tokens that each choice of its answer has at most; negative: there is no bound
	Choices int64         // of its answer; 0 is 1
	Audio   bool          // it is answered with audio, or has some
	Price   *prices.Price // of its model; nil: unknown
}

// Bounded reports whether the call says how long its answer is at most.
func (d *Demand) Bounded() bool { return d.Free || d.Most >= 0 }

// Bounds of what is learned.
const (
	maxModels = 1024 // those beyond share what they learn
	enough    = 16   // calls before what was learned is used
	horizon   = 4096 // calls after which the earlier half counts less

	// Before anything is learned, a byte is a token at most, and an answer has so many.
	unlearnedRatio  = scale
	unlearnedAnswer = 4096

	scale = 1 << 12 // of ratios: tokens of so many bytes

	// What a call says of itself is taken for at most so much.
	most       = 1 << 50
	maxChoices = 1 << 10
)

// An Estimator learns what calls use. It is safe for concurrent use.
type Estimator struct {
	mu     sync.RWMutex
	models map[Model]*learned
	others learned
}

// New returns an estimator that has learned nothing.
func New() *Estimator { return &Estimator{models: make(map[Model]*learned)} }

// learned is what was learned of a model.
type learned struct {
	ratio, answer atomic.Int64 // the estimates; 0: not enough was learned

	// usual is the ratio that half of the calls do not exceed, for what nobody counted.
	usual atomic.Int64

	mu              sync.Mutex
	ratios, answers histogram
}

func (e *Estimator) of(m Model) *learned {
	e.mu.RLock()
	l := e.models[m]
	e.mu.RUnlock()
	if l == nil {
		return &e.others
	}
	return l
}

// Tokens returns the tokens of the prompt and of the answer that a call may use. The prompt is
// what 999 of 1000 earlier calls with as many bytes did not exceed, and the answer is what the
// call bounds it by, or else what 99 of 100 earlier ones did not exceed.
func (e *Estimator) Tokens(d *Demand) (prompt, answer int64) {
	if d.Free {
		return 0, 0
	}
	l := e.of(d.Model)
	ratio, answer := l.ratio.Load(), d.Most
	if ratio == 0 {
		ratio = unlearnedRatio
	}
	if answer < 0 {
		if answer = l.answer.Load(); answer == 0 {
			answer = unlearnedAnswer
		}
	}
	answer = min(answer, most) * min(max(d.Choices, 1), maxChoices)
	return (min(d.Bytes, most)*ratio+scale-1)/scale + min(d.Media, most), answer
}

// Likely returns the tokens that a call used of which the provider said nothing: those of its
// prompt, and of so many bytes of text that were its answer.
func (e *Estimator) Likely(d *Demand, answered int64) (prompt, answer int64) {
	if d.Free {
		return 0, 0
	}
	ratio := e.of(d.Model).usual.Load()
	if ratio == 0 {
		ratio = scale / 4
	}
	prompt, answer = (min(d.Bytes, most)*ratio+scale-1)/scale+min(d.Media, most)/2, (max(answered, 0)+3)/4
	if d.Most >= 0 {
		answer = min(answer, min(d.Most, most)*min(max(d.Choices, 1), maxChoices))
	}
	return prompt, answer
}

// Cost returns what a call may cost that uses so many tokens; known: it has a price.
func (d *Demand) Cost(prompt, answer int64) (cost prices.Amount, known bool) {
	if d.Free {
		return 0, true
	}
	if d.Price == nil {
		return 0, false
	}
	return d.Price.Bound(prompt, answer, d.Audio), true
}

// Learn learns from a call that used so many tokens, according to its provider.
func (e *Estimator) Learn(d *Demand, prompt, answer int64) {
	if d.Free || prompt < 0 || answer < 0 {
		return
	}
	l := e.learner(d.Model)
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := prompt - d.Media; d.Bytes > 0 && text > 0 {
		l.ratios.add(text * scale / d.Bytes)
	}
	l.answers.add(answer / max(d.Choices, 1))
	if l.ratios.n >= enough {
		l.ratio.Store(min(l.ratios.quantile(999), 4*scale))
		l.usual.Store(l.ratios.quantile(500))
	}
	if l.answers.n >= enough {
		l.answer.Store(l.answers.quantile(990))
	}
}

// learner is where a model's calls are learned from.
func (e *Estimator) learner(m Model) *learned {
	if l := e.of(m); l != &e.others {
		return l
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.models[m]
	if l == nil {
		if len(e.models) >= maxModels {
			return &e.others
		}
		l = new(learned)
		e.models[m] = l
	}
	return l
}
