package exchange

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/usage"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Session is what an attempt that became a WebSocket of the Realtime API uses. The provider says it of
// each response that is done, and of each transcription. Of a response that is not done when the session
// ends, what came counts, and what it had to read. It is safe for concurrent use: the messages of both sides
// are read at the same time.
type Session struct {
	attempt *Attempt

	mu     sync.Mutex
	said   Usage
	unsaid prices.Usage
	ended  bool

	// others are the models that transcribe, the latest of which is at.
	others []*transcriber
	at     *transcriber

	// What the next response reads, about: what the provider said that the latest one read and
	// answered, and what came after it.
	before   prices.Usage
	text     int64 // bytes
	audio    int64 // bytes of base64
	images   int64
	narrow   bool // the audio is that of a telephone, at a sixth of the bits
	awaited  int  // responses that the client asked for, and that have not begun
	speaking map[string]*speech
}

// A speech is a response that has begun.
type speech struct{ text, audio int64 } // bytes, of base64 for audio

const (
	maxSpeeches      = 64 // at the same time; more are taken for one
	bytesOfToken     = 4  // of text
	bytesOfHeard     = 4800 * 4 / 3
	bytesOfSaid      = 2400 * 4 / 3 // of audio of the default format: 24,000 samples a second of 16 bits
	narrower         = 6
	tokensOfAnyImage = 2048
)

// narrowFormats are the names of audio with 8,000 samples a second of 8 bits.
var narrowFormats = []string{`g711_ulaw"`, `g711_alaw"`, `audio/pcmu"`, `audio/pcma"`}

// Session returns what counts the use of an attempt that became a WebSocket; nil: nothing does.
func (x *Exchange) Session(a *Attempt) *Session {
	if x.Endpoint.Name != realtime {
		return nil
	}
	return &Session{attempt: a, speaking: make(map[string]*speech)}
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

// begins says that a model transcribes from now on. Without a session, nobody says what it uses, and it
// counts as a call.
func (s *Session) begins(t *transcriber) {
	t.ProviderStatus = http.StatusSwitchingProtocols
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.ended {
			s.others, s.at = append(s.others, t), t
			return
		}
	}
	t.settle()
}

// transcribes says that a model which began does so again. s may be nil.
func (s *Session) transcribes(model string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.others {
		if t.Model == model {
			s.at = t
		}
	}
}

// Heard counts a message of the client, which is valid JSON or none.
func (s *Session) Heard(message []byte) {
	var kind string
	r := jsonscan.NewReader(message)
	r.Object(func(key jsonscan.Key) {
		if key.Is("type") && r.Kind() == jsonscan.String {
			kind = jsonscan.Unquote(r.String())
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	audio := audioIn(message)
	s.audio += audio
	switch kind {
	case "input_audio_buffer.append":
		return
	case "response.create":
		s.awaited = min(s.awaited+1, maxSpeeches)
	case "session.update":
		s.narrow = jsonscan.Mentions(message, narrowFormats...)
	}
	c := contentOf(message)
	s.text += max(0, c.text-audio)
	s.images += c.images
}

// audioIn returns how many bytes of audio, in base64, a message has.
func audioIn(message []byte) (n int64) {
	for _, mark := range [...]string{`"audio":"`, `"audio": "`} {
		for rest := message; ; {
			i := bytes.Index(rest, []byte(mark))
			if i < 0 {
				break
			}
			rest = rest[i+len(mark):]
			end := max(bytes.IndexByte(rest, '"'), 0)
			n += int64(end)
			rest = rest[end:]
		}
	}
	return n
}

// A serverEvent is what matters of an event of the provider.
type serverEvent struct {
	kind, response, status string // the response's id and its status
	delta                  int64  // bytes
	usage                  []byte
}

func readEvent(message []byte) (e serverEvent) {
	r := jsonscan.NewReader(message)
	text := func(to *string) {
		if r.Kind() == jsonscan.String {
			*to = jsonscan.Unquote(r.String())
		}
	}
	r.Object(func(key jsonscan.Key) {
		switch {
		case key.Is("type"):
			text(&e.kind)
		case key.Is("response_id"):
			text(&e.response)
		case key.Is("delta"):
			e.delta = int64(len(r.Raw()))
		case key.Is("usage"):
			e.usage = r.Raw()
		case key.Is("response") && r.Kind() == jsonscan.Object:
			r.Object(func(key jsonscan.Key) {
				switch {
				case key.Is("id"):
					text(&e.response)
				case key.Is("status"):
					text(&e.status)
				case key.Is("usage"):
					e.usage = r.Raw()
				}
			})
		}
	})
	return e
}

// Said counts an event of the provider.
func (s *Session) Said(message []byte) {
	e := readEvent(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case e.kind == "session.created", e.kind == "session.updated":
		s.narrow = jsonscan.Mentions(message, narrowFormats...)
	case e.kind == "error":
		s.awaited = max(0, s.awaited-1)
	case e.kind == "response.created":
		s.speech(e.response)
	case e.kind == "response.done":
		s.done(&e)
	case e.kind == "response.audio.delta", e.kind == "response.output_audio.delta":
		s.speech(e.response).audio += e.delta
	case strings.HasPrefix(e.kind, "response.") && strings.HasSuffix(e.kind, ".delta"):
		s.speech(e.response).text += e.delta
	case e.kind == "conversation.item.input_audio_transcription.completed":
		to := &s.said
		if s.at != nil {
			to = &s.at.Usage
		}
		to.add(e.usage)
	}
}

// add adds what an event says, if it says anything, and returns it.
func (u *Usage) add(object []byte) (more prices.Usage, known bool) {
	if len(object) > 0 && object[0] == '{' {
		known = usage.Read(&more, object, false, false)
	}
	u.Add(&more)
	u.Known = u.Known || known
	return more, known
}

// speech is the response with an id, which has begun. Without an id, it is the one that has begun.
func (s *Session) speech(id string) *speech {
	if id == "" && len(s.speaking) == 1 {
		for _, only := range s.speaking {
			return only
		}
	}
	if s.speaking[id] == nil {
		if len(s.speaking) >= maxSpeeches {
			id = ""
		}
		if s.speaking[id] == nil {
			s.speaking[strings.Clone(id)] = new(speech)
			s.awaited = max(0, s.awaited-1)
		}
	}
	return s.speaking[id]
}

// done ends a response. If nobody says what it used, it is estimated, unless it failed.
func (s *Session) done(e *serverEvent) {
	used, told := s.said.add(e.usage)
	if !told && e.status != "failed" {
		used = s.broke(s.speech(e.response))
	}
	switch {
	case s.speaking[e.response] != nil:
		delete(s.speaking, e.response)
	case len(s.speaking) == 0: // the provider does not say that one begins
		s.awaited = max(0, s.awaited-1)
	default: // nor which one it is
		clear(s.speaking)
	}
	if told || e.status != "failed" {
		s.before = prices.Usage{Prompt: estimate.Sum(used.Prompt, used.Completion), AudioIn: estimate.Sum(used.AudioIn, used.AudioOut)}
		s.text, s.audio, s.images = 0, 0, 0
	}
}

// reads is what the next response reads.
func (s *Session) reads() prices.Usage {
	heard := s.tokensOf(s.audio, bytesOfHeard)
	u := prices.Usage{Prompt: estimate.Sum(s.before.Prompt, heard, s.text/bytesOfToken, estimate.Times(s.images, tokensOfAnyImage)), AudioIn: estimate.Sum(s.before.AudioIn, heard)}
	u.Bound()
	return u
}

func (s *Session) tokensOf(audio, wide int64) int64 {
	if s.narrow {
		wide /= narrower
	}
	return (audio + wide - 1) / wide
}

// broke counts a response of which nobody says what it used.
func (s *Session) broke(r *speech) prices.Usage {
	u := s.reads()
	u.AudioOut = s.tokensOf(r.audio, bytesOfSaid)
	u.Completion = u.AudioOut + (r.text+bytesOfToken-1)/bytesOfToken
	s.unsaid.Add(&u)
	return u
}

// End ends the session: its attempt has used what was counted. What comes later does not count.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, r := range s.speaking {
		s.broke(r)
	}
	for range s.awaited {
		s.broke(new(speech))
	}
	s.attempt.Usage, s.attempt.unsaid = s.said, s.unsaid
	for _, t := range s.others {
		t.settle()
		s.attempt.beside = append(s.attempt.beside, t.Attempt)
	}
}
