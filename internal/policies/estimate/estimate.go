// Package estimate says what a call may use before it is sent: an upper bound of its tokens, from
// the bytes of its prompt and the most that it may be answered with, and otherwise from what
// earlier calls to the same model used. It has no HTTP and no store: what was learned is
// forgotten when the process ends.
package estimate

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/fairshare"
	"github.com/caddy-gw/gateway/internal/prices"
)

// Bounds of what is learned.
const (
	maxModels = 4096 // of which each workspace has its share; its own that was unused for longest makes room
	enough    = 16   // calls before what was learned is used
	horizon   = 4096 // calls after which the earlier half counts less

	scale = 1 << 12 // of ratios: tokens of so many bytes

	// Before anything is learned, an answer has so many tokens. An image
	// has no more in any model on the list, and what is not seen of a prompt fills the window of
	// most models.
	unlearnedRatio  = scale // of a batch
	unlearnedAnswer = 4096
	unlearnedImage  = 50_000
	unlearnedUnseen = 128_000

	// More is not believed, whatever a provider says: what a byte has in tokens, what is added to a prompt, what an image has, and
	// what the longest windows hold.
	maxRatio  = 4 * scale
	maxAdded  = 16_384
	maxImage  = unlearnedImage
	maxWindow = 2_000_000

	// Nor is less, as a bound: callers choose what is learned from, and could teach with prompts that
	// have few tokens what is then reserved for many that have more.
	leastRatio  = scale / 3
	leastImage  = usualImage
	leastUnseen = usualUnseen

	// The same for what nobody counted: what is usual, instead of the most.
	usualRatio  = scale / 4
	usualImage  = 2048
	usualUnseen = 16_384
)

// An Estimator learns what calls use. What a workspace's calls teach is only about its own calls. It is
// safe for concurrent use.
type Estimator struct {
	mu     sync.RWMutex
	models map[Model]*learned
	used   list.List             // all *learned; those that were unused for longest first
	usedBy map[string]*list.List // those of each workspace
}

// New returns an estimator that has learned nothing.
func New() *Estimator {
	return &Estimator{models: make(map[Model]*learned), usedBy: make(map[string]*list.List)}
}

// learned is what was learned of a model: of its prompts, tokens for a byte of text, which only batches need, for an image,
// and for what is not seen; of its answers, how long they are, and tokens for a byte.
type learned struct {
	ratio, image, unseen, answer quantity
	added                        quantity // to a prompt by its provider: what it has beyond a token for each of its bytes
	asked, written               average  // of the text of prompts, and of answers

	mu sync.Mutex // of the histograms

	model    Model
	all, own *list.Element // in the lists of the estimator
}

// usualRatio is how many tokens scale bytes of a prompt usually have.
func (l *learned) usualRatio() int64 {
	return estimateOr(&l.asked.ratio, estimateOr(&l.ratio.usual, usualRatio))
}

// unlearned is what is known of a model before anything was learned.
var unlearned learned

// A quantity is something that calls have more or less of.
type quantity struct {
	most, usual atomic.Int64 // estimates; 0: not enough was learned
	seen        *histogram   // nil: nothing was
}

// learn adds a number, up to a bound, of which perMille of a thousand are to be within the estimate, which is
// least at least.
func (q *quantity) learn(n, least, bound int64, perMille uint64) {
	if q.seen == nil {
		q.seen = new(histogram)
	}
	q.seen.add(min(n, bound))
	if q.seen.n >= enough {
		q.most.Store(max(min(q.seen.quantile(perMille), bound), least))
		q.usual.Store(max(min(q.seen.quantile(500), bound), 1))
	}
}

// An average is how many tokens a byte of prompts or answers has, all together. Their lengths differ more than that does.
type average struct {
	ratio atomic.Int64 // tokens of scale bytes; 0: not enough was learned

	calls         int
	tokens, bytes int64
}

// Bounds of an average.
const (
	leastText   = 64       // bytes of a text, of which more is text than what every one has
	mostText    = 64 << 10 // bytes of a text that count
	lastingText = 4 << 20  // bytes after which the earlier half counts less
)

// learn adds a prompt or an answer.
func (a *average) learn(tokens, bytes int64) {
	if bytes < leastText {
		return
	}
	bytes = min(bytes, MaxTokens/maxRatio)
	if tokens = min(tokens, bytes*(maxRatio/scale)); bytes > mostText {
		tokens, bytes = tokens*mostText/bytes, mostText
	}
	a.tokens, a.bytes, a.calls = a.tokens+tokens, a.bytes+bytes, a.calls+1
	if a.calls >= enough {
		a.ratio.Store(max(a.tokens*scale/a.bytes, 1))
	}
	if a.bytes > lastingText {
		a.tokens, a.bytes = a.tokens/2, a.bytes/2
	}
}

func estimateOr(learned *atomic.Int64, unlearned int64) int64 {
	if n := learned.Load(); n > 0 {
		return n
	}
	return unlearned
}

func (e *Estimator) of(m Model) *learned {
	e.mu.RLock()
	l := e.models[m]
	e.mu.RUnlock()
	if l == nil {
		return &unlearned
	}
	return l
}

// Most returns what a call may use. The text of the prompt has a token for each byte at most, if it was not counted; what else is in it is what 999 of 1000
// earlier calls with as much did not exceed. The answer is what the call bounds it by, or else what 99 of 100 earlier ones
// did not exceed.
func (e *Estimator) Most(d *Demand) prices.Usage {
	switch {
	case d.Free:
		return prices.Usage{}
	case d.Lines != nil:
		return d.Lines.Most
	}
	l := e.of(d.Model)
	text := d.Bytes
	if d.TextTokens > 0 {
		text = min(text, d.TextTokens)
	}
	return l.most(d, Sum(text, l.added.most.Load()))
}

// Known returns the part of what a call may use at most, according to [Estimator.Most], that is bounded by the call or was
// learned. guess: there is more, of which nothing is known yet.
func (e *Estimator) Known(d *Demand, most *prices.Usage) (known prices.Usage, guess bool) {
	known = *most
	if d.Bounded() {
		return known, false
	}
	l := e.of(d.Model)
	var guessed int64 // of the prompt
	if d.Images > 0 && l.image.most.Load() == 0 {
		guessed = Times(d.Images, unlearnedImage)
	}
	if d.HasUnseen && l.unseen.most.Load() == 0 {
		guessed = Sum(guessed, unlearnedUnseen)
	}
	known.Prompt = max(known.Prompt-guessed, 0)
	if d.Most < 0 && l.answer.most.Load() == 0 {
		known.Completion, guess = 0, true
	}
	return known, guess || guessed > 0
}

// mostOfLine returns what a call of a batch may use, whose text has the tokens for a byte that 999 of 1000 earlier prompts did not exceed: the lines of
// a file are too many to be counted, and most of them are as usual.
func (e *Estimator) mostOfLine(d *Demand) prices.Usage {
	if d.Free {
		return prices.Usage{}
	}
	l := e.of(d.Model)
	return l.most(d, text(d, estimateOr(&l.ratio.most, unlearnedRatio)))
}

// most is what a call may use whose text has so many tokens.
func (l *learned) most(d *Demand, text int64) (most prices.Usage) {
	most.Prompt = Sum(text, min(d.Tokens, MaxTokens), Times(d.Images, estimateOr(&l.image.most, unlearnedImage)))
	if d.HasUnseen {
		most.Prompt = Sum(most.Prompt, estimateOr(&l.unseen.most, unlearnedUnseen))
	}
	if d.Epochs > 0 {
		most.Prompt = Times(most.Prompt, d.Epochs)
		most.Trained = most.Prompt
		return most
	}
	answer := d.Most
	if answer < 0 {
		answer = estimateOr(&l.answer.most, unlearnedAnswer)
	}
	most.Completion = Times(max(answer, d.Named), max(d.Choices, 1))
	most.Pages, most.Milliseconds = d.Pages, d.Milliseconds
	most.WebSearches, most.FileSearches = d.WebSearches, d.FileSearches
	return most
}

// text returns the tokens of the text of a prompt.
func text(d *Demand, ratio int64) int64 { return tokensOf(d.Bytes, ratio) }

// tokensOf returns the tokens of text of so many bytes.
func tokensOf(bytes, ratio int64) int64 {
	if bytes >= MaxTokens/ratio {
		return MaxTokens
	}
	return (bytes*ratio + scale - 1) / scale
}

// Likely returns what a call used without a reported usage, of whose answer so many bytes
// of text came, at what a byte of the model's answers usually has, or a quarter of a token. most is what it might use, according to [Estimator.Most] before it was sent: its prompt
// is no more, nor is an answer that has a bound.
func (e *Estimator) Likely(d *Demand, most *prices.Usage, answered int64) (u prices.Usage) {
	if d.Free {
		return u
	}
	l := e.of(d.Model)
	u.Prompt = Sum(text(d, l.usualRatio()),
		min(d.Tokens, MaxTokens), Times(d.Images, estimateOr(&l.image.usual, usualImage)))
	if d.HasUnseen {
		u.Prompt = Sum(u.Prompt, estimateOr(&l.unseen.usual, usualUnseen))
	}
	u.Prompt = min(u.Prompt, most.Prompt)
	if u.Completion = tokensOf(max(answered, 0), estimateOr(&l.written.ratio, usualRatio)); d.Most >= 0 {
		u.Completion = min(u.Completion, most.Completion)
	}
	u.Pages, u.Milliseconds = d.Pages, d.UsualMilliseconds
	return u
}

// Learn learns from a call that used so many tokens, according to its provider. The answer is that of so many bytes of text; 0: there is
// more in it, or that is not known.
func (e *Estimator) Learn(d *Demand, prompt, answer, text int64) {
	if d.Free || prompt < 0 || answer < 0 {
		return
	}
	l := e.learner(d.Model)
	l.mu.Lock()
	defer l.mu.Unlock()
	const most, mostOfAnswers = 999, 990
	rest := max(0, prompt-min(d.Tokens, MaxTokens))
	switch usual := l.usualRatio(); {
	case d.HasUnseen:
		l.unseen.learn(max(0, rest-tokensOf(d.Bytes, usual)), leastUnseen, maxWindow, most)
	case d.Images > 0:
		l.image.learn((max(0, rest-tokensOf(d.Bytes, usual))+d.Images-1)/d.Images, leastImage, maxImage, most)
	case d.Bytes > 0 && d.Tokens == 0 && rest > 0:
		l.ratio.learn(min(rest, MaxTokens/scale)*scale/d.Bytes, leastRatio, maxRatio, most)
		l.added.learn(max(0, rest-d.Bytes), 0, maxAdded, most)
		l.asked.learn(rest, d.Bytes)
	}
	l.answer.learn(answer/max(d.Choices, 1), 1, maxWindow, mostOfAnswers)
	l.written.learn(answer, text)
}

// learner is where a model's calls are learned from.
func (e *Estimator) learner(m Model) *learned {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.models[m]; l != nil {
		e.used.MoveToBack(l.all)
		e.usedBy[m.Workspace].MoveToBack(l.own)
		return l
	}
	e.makeRoom(m.Workspace)
	m = Model{strings.Clone(m.Workspace), strings.Clone(m.Provider), strings.Clone(m.Host), strings.Clone(m.Name), strings.Clone(m.Endpoint)}
	own := e.usedBy[m.Workspace]
	if own == nil {
		own = list.New()
		e.usedBy[m.Workspace] = own
	}
	l := &learned{model: m}
	l.all, l.own = e.used.PushBack(l), own.PushBack(l)
	e.models[m] = l
	return l
}

// makeRoom makes room for another model of a workspace. One that has some gives up one of its own, and
// a workspace that has none gets the place of any that was unused for longest.
func (e *Estimator) makeRoom(workspace string) {
	held, oldest := 0, e.used.Front()
	if own := e.usedBy[workspace]; own != nil {
		held, oldest = own.Len(), own.Front()
	}
	if oldest == nil || fairshare.Left(int64(held+1), int64(maxModels-len(e.models)-1)) >= 0 {
		return
	}
	l := oldest.Value.(*learned)
	e.used.Remove(l.all)
	own := e.usedBy[l.model.Workspace]
	if own.Remove(l.own); own.Len() == 0 {
		delete(e.usedBy, l.model.Workspace)
	}
	delete(e.models, l.model)
}
