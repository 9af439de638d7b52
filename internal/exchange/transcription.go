package exchange

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// heard is audio of an item that is to be transcribed.
type heard struct {
	bytes int64        // of base64
	by    *transcriber // nil: the session's own model
}

// A transcriber is a model that transcribes what the client of a session says.
type transcriber struct {
	*Attempt
	holds []Hold // of its limits
}

// settle books what the model used.
func (t *transcriber) settle() {
	t.book()
	for _, h := range t.holds {
		h.Settle([]*Attempt{t.Attempt})
	}
}

// release ends the holds of a model that was refused.
func (t *transcriber) release() {
	for _, h := range t.holds {
		h.Release()
	}
}

// startTranscriber says that a model transcribes from now on. Without a session its usage is not known, and
// it counts as a call.
func (s *Session) startTranscriber(t *transcriber) {
	t.ProviderStatus = http.StatusSwitchingProtocols
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ended {
			if s.transcribers = append(s.transcribers, t); !s.told {
				s.transcriber = t
			}
			return
		}
	}
	t.settle()
}

// resumeTranscriber makes a model that was started the current one again. s may be nil.
func (s *Session) resumeTranscriber(model string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.transcribers {
		if t.Model == model && !s.told {
			s.transcriber = t
		}
	}
}

// sessionIs notes what the provider says of the session: its audio, and the model that transcribes. Without one, nothing is
// transcribed.
func (s *Session) sessionIs(message []byte) {
	s.telephone, s.transcribes = jsonscan.Mentions(message, telephoneFormats...), false
	for _, at := range transcribesBy {
		named := gjson.GetBytes(message, at)
		if named.Type != gjson.String {
			continue
		}
		s.transcribes = true
		for _, t := range s.transcribers {
			if named.Str == t.Model || strings.HasPrefix(named.Str, t.Model+"-") {
				s.transcriber, s.told = t, true
			}
		}
		if named.Str == s.attempt.Model {
			s.transcriber, s.told = nil, true
		}
	}
}

// committed notes that what was said since the item before is an item, which is to be transcribed.
func (s *Session) committed(item string) {
	if !s.transcribes {
		s.unheard = 0
		return
	}
	if s.items == nil {
		s.items = make(map[string]heard)
	}
	if len(s.items) >= maxItems { // they are as one
		item = ""
	}
	h := s.items[item]
	s.items[strings.Clone(item)] = heard{bytes: h.bytes + s.unheard, by: s.transcriber}
	s.unheard = 0
}

// transcribed notes that an item is done, and returns what is said of it: of the model that it was for.
func (s *Session) transcribed(item string) *Usage {
	by := s.transcriber
	if h, known := s.items[item]; known {
		by = h.by
		delete(s.items, item)
	} else if len(s.items) == 0 { // the provider does not say which audio is an item
		s.unheard = 0
	}
	if by == nil {
		return &s.reported
	}
	return &by.Usage
}

// estimateUnheard counts audio that was to be transcribed, as far as nothing was said of it.
func (s *Session) estimateUnheard() {
	s.committed("")
	for _, h := range s.items {
		if h.bytes == 0 {
			continue
		}
		tokens := s.tokensOf(h.bytes, inputAudioBytesPerToken)
		to := &s.estimated
		if h.by != nil {
			to = &h.by.estimated
		}
		to.Add(&prices.Usage{
			Prompt: tokens, AudioIn: tokens, Completion: (tokens + audioTokensPerWord - 1) / audioTokensPerWord, Milliseconds: tokens * milliPerAudioToken,
		})
	}
	s.items = nil
}
