package estimate

import "github.com/caddy-gw/gateway/internal/prices"

// A Model is what answers the calls of a workspace: a model of a provider at an endpoint. Host is that of a
// provider whose credential the caller sent, which need not be the provider's own.
type Model struct{ Workspace, Provider, Host, Name, Endpoint string }

// A Demand is what a call asks for, as far as it is known before it is sent.
type Demand struct {
	Model Model
	Free  bool // no model answers it: it uses no tokens and costs nothing

	// Unmetered is why it is not known what the call uses, or why no bound of it is known; "": that is
	// known. Unreported: no answer says it, so that all that was reserved counts.
	Unmetered  string
	Unreported bool

	// The prompt: bytes of text, as they are sent; tokens that are not text, at most; images; and
	// whether it refers to content that the call does not have, such as files and earlier turns.
	Bytes, Tokens, Images int64
	HasUnseen             bool

	// TextTokens is how many tokens the text has at most, which were counted; 0: they were not, and each byte may be one.
	TextTokens int64

	// Pages of a document and milliseconds of audio, at most; UsualMilliseconds is what is likely.
	Pages, Milliseconds, UsualMilliseconds int64

	// WebSearches and FileSearches are how often the provider may search, at most. Searches: it searches the web once at
	// least, also if its answer does not say so.
	WebSearches, FileSearches int64
	Searches                  bool

	// Unpriced is what of the call costs something of which no price is known, besides the tokens of its model; "": nothing.
	Unpriced string

	// Most is how many tokens each choice of the answer has at most; negative: there is no bound.
	// Named is what it may be allowed to have in words that not every provider reads, and Choices
	// how many there are; 0 is 1.
	Most, Named, Choices int64

	// Epochs is how often a model is trained on the prompt, which is not answered then; 0: it is answered.
	Epochs int64

	// Lines is what a batch or a fine-tuning job may use, by the lines of its file; nil: the call makes none. Failed is why
	// the file cannot be had now.
	Lines  *Lines
	Failed error

	Media bool          // prices of audio and images may apply
	Price *prices.Price // of its model; nil: unknown
}

// MaxTokens bounds what a call is taken to ask for. It is more than any limit, so that a call that
// asks for so much is refused.
const MaxTokens = 1 << 53

// Times multiplies numbers of tokens, neither of which is negative, up to MaxTokens.
func Times(a, b int64) int64 {
	if a > 0 && b > MaxTokens/a {
		return MaxTokens
	}
	return min(a*b, MaxTokens)
}

// Sum adds numbers of tokens, none of which is negative, up to MaxTokens.
func Sum(all ...int64) (sum int64) {
	for _, n := range all {
		sum += min(n, MaxTokens-sum)
	}
	return sum
}

// Bounded reports whether the call can use no more than [Estimator.Most] says.
func (d *Demand) Bounded() bool {
	if d.Lines != nil { // what is learned of one call says little, but that of thousands is near it
		return true
	}
	return d.Free || d.Most >= 0 && !d.HasUnseen && d.Images == 0
}

// Cost returns what a call may cost at most that uses so much, without what is unpriced; known: it has a price.
func (d *Demand) Cost(most *prices.Usage) (cost prices.Amount, known bool) {
	if d.Free {
		return 0, true
	}
	if d.Lines != nil {
		return d.Lines.Cost, !d.Lines.Unpriced
	}
	if d.Price == nil {
		return 0, false
	}
	return d.Price.Bound(most, d.Media)
}
