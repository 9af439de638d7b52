package exchange

import (
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
	"github.com/caddy-gw/gateway/internal/usage"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// A Session counts what an attempt that became a WebSocket of the Realtime API uses. The provider reports it
// for each response that is done, and for each transcription. For a response that is not done when the session
// ends, it is estimated from what was sent and received. A Session is safe for concurrent use: the messages of
// both sides are read at the same time.
type Session struct {
	attempt *Attempt
	holds   []Growing // of the limits that count it

	checking sync.Mutex // held while it is checked, and while it ends

	mu        sync.Mutex
	reported  Usage
	estimated prices.Usage
	ended     bool

	// transcribers are the models that may transcribe; transcriber is the current one: what the provider says in the
	// events of its session, or the latest that the client named if it has not said any.
	transcribers []*transcriber
	transcriber  *transcriber // nil: the session's own model
	told         bool
	transcribes  bool // what the client says is transcribed

	// What is to be transcribed: bytes of base64 that belong to no item yet, and items that are not done.
	unheard int64
	items   map[string]heard

	// The input of the next response, about: the input and output of the latest one, and what was sent since.
	history   prices.Usage
	text      int64 // bytes
	audio     int64 // bytes of base64
	images    int64
	telephone bool // the audio is that of a telephone, at a sixth of the bits
	requested int  // responses that the client asked for, and that have not begun
	open      map[string]*openResponse
}

// An openResponse is a response that has begun.
type openResponse struct{ text, audio int64 } // bytes, of base64 for audio

const (
	maxOpenResponses         = 64 // at the same time; more are taken for one
	maxItems                 = 64 // that are to be transcribed, likewise
	milliPerAudioToken       = 100
	audioTokensPerWord       = 3 // of fast speech, whose words have a token or a little more
	textBytesPerToken        = 4 // of text
	inputAudioBytesPerToken  = 4800 * 4 / 3
	outputAudioBytesPerToken = 2400 * 4 / 3 // of audio of the default format: 24,000 samples a second of 16 bits
	telephoneRatio           = 6
	tokensPerImage           = 2048
)

// telephoneFormats are the names of audio with 8,000 samples a second of 8 bits.
var telephoneFormats = []string{`g711_ulaw"`, `g711_alaw"`, `audio/pcmu"`, `audio/pcma"`}

// Session returns what counts the use of an attempt that became a WebSocket; nil: nothing does.
func (x *Exchange) Session(a *Attempt) *Session {
	if x.Endpoint.Name != realtime {
		return nil
	}
	s := &Session{attempt: a, open: make(map[string]*openResponse)}
	for _, h := range [...][]held{x.callHolds.all, x.targetHolds.all} {
		for _, h := range h {
			if g, ok := h.Hold.(Growing); ok {
				s.holds = append(s.holds, g)
			}
		}
	}
	return s
}

// ClientEvent counts a message of the client, which need not be JSON.
func (s *Session) ClientEvent(message []byte) {
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
	s.unheard += audio
	switch kind {
	case "input_audio_buffer.append":
		return
	case "response.create":
		s.requested = min(s.requested+1, maxOpenResponses)
	case "session.update", "transcription_session.update":
		s.telephone = s.telephone || jsonscan.Mentions(message, telephoneFormats...) // that it ended is what the provider says
		for _, at := range transcribesBy {
			s.transcribes = s.transcribes || gjson.GetBytes(message, at).Type == gjson.String
		}
	}
	c := contentOf(message)
	s.text += max(0, c.text-audio)
	s.images += c.images
}

// audioIn returns how many bytes of audio, in base64, a message has.
func audioIn(message []byte) int64 { return audioOf(jsonscan.NewReader(message)) }

// audioOf returns the bytes of the members named audio of a value, wherever they are in it.
func audioOf(r *jsonscan.Reader) (n int64) {
	switch r.Kind() {
	case jsonscan.Object:
		r.Object(func(key jsonscan.Key) {
			if key.Is("audio") && r.Kind() == jsonscan.String {
				n += max(int64(len(r.String()))-2, 0)
			} else {
				n += audioOf(r)
			}
		})
	case jsonscan.Array:
		r.Array(func() { n += audioOf(r) })
	}
	return n
}

// A serverEvent is what matters of an event of the provider.
type serverEvent struct {
	kind, response, status string // the response's id and its status
	item                   string // its id
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
		case key.Is("item_id"):
			text(&e.item)
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

// ServerEvent counts an event of the provider. It reports whether more was used than before, so that the session should be
// checked.
func (s *Session) ServerEvent(message []byte) (used bool) {
	e := readEvent(message)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case e.kind == "session.created", e.kind == "session.updated", e.kind == "transcription_session.created", e.kind == "transcription_session.updated":
		s.sessionIs(message)
	case e.kind == "input_audio_buffer.committed":
		s.committed(e.item)
	case e.kind == "input_audio_buffer.cleared":
		s.unheard = 0
	case e.kind == "error":
		s.requested = max(0, s.requested-1)
	case e.kind == "response.created":
		s.response(e.response)
	case e.kind == "response.done":
		s.done(&e)
		return true
	case e.kind == "response.audio.delta", e.kind == "response.output_audio.delta":
		s.response(e.response).audio += e.delta
	case strings.HasPrefix(e.kind, "response.") && strings.HasSuffix(e.kind, ".delta"):
		s.response(e.response).text += e.delta
	case e.kind == "conversation.item.input_audio_transcription.completed":
		s.transcribed(e.item).add(e.usage)
		return true
	case e.kind == "conversation.item.input_audio_transcription.failed":
		s.transcribed(e.item)
	}
	return false
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

// response returns the open response with an id, or the only one if there is no id.
func (s *Session) response(id string) *openResponse {
	if id == "" && len(s.open) == 1 {
		for _, only := range s.open {
			return only
		}
	}
	if s.open[id] == nil {
		if len(s.open) >= maxOpenResponses {
			id = ""
		}
		if s.open[id] == nil {
			s.open[strings.Clone(id)] = new(openResponse)
			s.requested = max(0, s.requested-1)
		}
	}
	return s.open[id]
}

// done ends a response. If the provider does not report its usage, it is estimated, unless it failed.
func (s *Session) done(e *serverEvent) {
	used, known := s.reported.add(e.usage)
	if !known && e.status != "failed" {
		used = s.estimate(s.response(e.response))
	}
	switch {
	case s.open[e.response] != nil:
		delete(s.open, e.response)
	case len(s.open) == 0: // the provider does not say that one begins
		s.requested = max(0, s.requested-1)
	default: // nor which one it is
		clear(s.open)
	}
	if known || e.status != "failed" {
		s.history = prices.Usage{Prompt: estimate.Sum(used.Prompt, used.Completion), AudioIn: estimate.Sum(used.AudioIn, used.AudioOut)}
		s.text, s.audio, s.images = 0, 0, 0
	}
}

// nextInput is an estimate of the input of the next response.
func (s *Session) nextInput() prices.Usage {
	audio := s.tokensOf(s.audio, inputAudioBytesPerToken)
	u := prices.Usage{Prompt: estimate.Sum(s.history.Prompt, audio, s.text/textBytesPerToken, estimate.Times(s.images, tokensPerImage)), AudioIn: estimate.Sum(s.history.AudioIn, audio)}
	u.Bound()
	return u
}

func (s *Session) tokensOf(audio, bytesPerToken int64) int64 {
	if s.telephone {
		bytesPerToken /= telephoneRatio
	}
	return (audio + bytesPerToken - 1) / bytesPerToken
}

// estimate counts a response whose usage the provider does not report.
func (s *Session) estimate(r *openResponse) prices.Usage {
	u := s.nextInput()
	u.AudioOut = s.tokensOf(r.audio, outputAudioBytesPerToken)
	u.Completion = u.AudioOut + (r.text+textBytesPerToken-1)/textBytesPerToken
	s.estimated.Add(&u)
	return u
}

// End ends the session, and sets the usage of its attempt. Later events are not counted.
func (s *Session) End() {
	s.checking.Lock()
	defer s.checking.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, r := range s.open {
		s.estimate(r)
	}
	for range s.requested {
		s.estimate(new(openResponse))
	}
	s.estimateUnheard()
	s.attempt.Usage, s.attempt.estimated = s.reported, s.estimated
	for _, t := range s.transcribers {
		t.settle()
		s.attempt.transcribers = append(s.attempt.transcribers, t.Attempt)
	}
}
