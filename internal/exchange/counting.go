package exchange

import (
	"bytes"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/tokens"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// maxSample bounds the text of a stream that is kept to be counted; it is a size of a [Buffer]. The rest counts at
// the ratio of what was kept.
const maxSample = 16 << 10

// A sample is the beginning of the text of a stream, as the insides of JSON strings. It is kept until the provider says what
// was used: if it never does, the tokens of the text are counted.
type sample struct {
	buffer *Buffer
	full   bool // no more is kept

	tokens, bytes int64 // of the text that was counted; 0: none was
}

// Samples reports whether the text of a stream is to be passed to [Attempt.Sample], because limits count
// its tokens, and the encoding of the model may be known. Of several choices, the texts come mixed.
func (a *Attempt) Samples() bool {
	if a.meter == nil || a.meter.demand.Choices > 1 || a.call.Gateway.Texts == nil {
		return false
	}
	return tokens.EncodingOf(a.Model) != tokens.Unknown || a.namesDeployment()
}

// namesDeployment reports whether the model is that of a deployment with a name of the tenant's, so that only the
// answer says which model it is.
func (a *Attempt) namesDeployment() bool { return a.Route.Dialect == "azure-openai" }

// NameModel notes the model that a stream with a sample names, a JSON value, if only that says which one it is.
func (a *Attempt) NameModel(value []byte) {
	if a.answerModel == "" && a.namesDeployment() && value[0] == '"' {
		a.SetAnswerModel(jsonscan.Unquote(value))
	}
}

// Sample adds the inside of a JSON string to the text that may be counted.
func (a *Attempt) Sample(part []byte) {
	s := &a.sample
	if s.full || len(part) == 0 {
		return
	}
	if s.buffer == nil {
		first, err := newBuffer(len(part), &a.call.Memory.lease)
		if s.buffer = first; err != nil {
			s.full = true
			return
		}
	}
	if room := maxSample - len(s.buffer.b); len(part) > room {
		s.full = true
		if part = part[:max(0, bytes.LastIndexByte(part[:room], ' '))]; len(part) == 0 { // a blank is no part of an escape
			return
		}
	}
	for len(s.buffer.b)+len(part) > cap(s.buffer.b) {
		larger, err := s.buffer.grown(0)
		if s.buffer = larger; err != nil { // what was kept is gone with it
			s.full = true
			return
		}
	}
	s.buffer.b = append(s.buffer.b, part...)
}

func (s *sample) release() {
	if s.buffer != nil {
		s.buffer.Release()
		s.buffer = nil
	}
}

// encoding is that of the model that answered.
func (a *Attempt) encoding() tokens.Encoding {
	if e := tokens.EncodingOf(a.Model); e != tokens.Unknown {
		return e
	}
	return tokens.EncodingOf(a.answerModel)
}

// uncounted reports whether the tokens of the attempt's text have to be counted, because the provider did not say what
// was used.
func (a *Attempt) uncounted() bool {
	if a.sample.buffer == nil {
		return false
	}
	a.doubtUsage()
	return !a.usageComplete() && a.encoding() != tokens.Unknown
}

// countSample counts the text that was kept.
func (a *Attempt) countSample() {
	raw := a.sample.buffer.b
	literal := append(append(append(make([]byte, 0, len(raw)+2), '"'), raw...), '"')
	if n, ok := tokens.Count(a.encoding(), jsonscan.Unquote(literal)); ok {
		a.sample.tokens, a.sample.bytes = n, int64(len(raw))
		return
	}
	a.call.Gateway.Texts.Uncounted()
}

// written is how many tokens the text has that came, as far as it was counted; known: some of it was.
func (a *Attempt) written() (n int64, known bool) {
	s := &a.sample
	if s.bytes == 0 {
		return 0, false
	}
	rest := min(max(0, a.TextBytes-s.bytes), estimate.MaxTokens/maxSample)
	return estimate.Sum(s.tokens, (rest*s.tokens+s.bytes-1)/s.bytes), true
}

// counts reports whether the text of the call's answer has to be counted before it is known what was used.
func (x *Exchange) counts() bool {
	n := len(x.Attempts)
	return n > 0 && x.Attempts[n-1].uncounted()
}

// Booked calls done when it is decided what the attempts of the call used: at once, or after the call if text has to be
// counted for that. The record of the call and what counts it say the same.
func (x *Exchange) Booked(done func()) {
	x.whenBooked(func() {
		x.Book()
		done()
	})
}

// whenBooked calls a function at once, or once the text of the answer was counted.
func (x *Exchange) whenBooked(do func()) {
	if !x.counts() {
		do()
		return
	}
	x.afterwards = append(x.afterwards, do)
}

// countText has the text counted and does what waits for that, in the background. If too much text waits, its tokens are
// estimated as those of other models are.
func (x *Exchange) countText() {
	a := x.Attempts[len(x.Attempts)-1]
	end := func() {
		for _, do := range x.afterwards {
			do()
		}
	}
	if !x.Gateway.Texts.Add(x.Caller.WorkspaceID, len(a.sample.buffer.b), func() {
		a.countSample()
		end()
	}) {
		x.Gateway.Texts.Uncounted()
		end()
	}
}
