package inference

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/policies"
	"github.com/caddy-gw/gateway/internal/policies/estimate"
	"github.com/caddy-gw/gateway/internal/prices"
)

// outputLines reads the lines of a file as they pass.
type outputLines struct {
	src  io.ReadCloser
	call *exchange.Call
	each func(line []byte)
	done func(unread bool) // is called once, when all of the file has passed; unread: some of it was not read

	partial []byte // the beginning of a line
	skips   bool   // to the end of a line that is too long
	unread  bool
	over    bool
}

func (l *outputLines) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	if !l.over {
		l.write(p[:n])
		if errors.Is(err, io.EOF) {
			l.over = true
			l.line(nil)
			l.done(l.unread)
		}
	}
	return n, err
}

func (l *outputLines) write(b []byte) {
	for {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		if !ended {
			l.keep(line)
			return
		}
		l.line(line)
		b = rest
	}
}

// keep keeps the beginning of a line.
func (l *outputLines) keep(b []byte) {
	need, has := len(l.partial)+len(b), cap(l.partial)
	switch {
	case l.skips || len(b) == 0:
		return
	case need > maxFileLine, need > has && l.call.Memory.Reserve(2*need-has) != nil:
		l.skips, l.unread = true, true
		return
	case need > has:
		l.partial = append(make([]byte, 0, 2*need), l.partial...)
	}
	l.partial = append(l.partial, b...)
}

// line reads a line, of which this is the end.
func (l *outputLines) line(end []byte) {
	line := end
	if len(l.partial) > 0 {
		l.keep(end)
		line = l.partial
	}
	if line = bytes.TrimSpace(line); len(line) > 0 && !l.skips {
		l.each(line)
	}
	l.partial, l.skips = l.partial[:0], false
}

func (l *outputLines) Close() error {
	l.call.Memory.Free(cap(l.partial))
	l.partial, l.over = nil, true
	return l.src.Close()
}

// batchSum is what the calls of a batch used, by the lines of its output.
type batchSum struct {
	costOf func(u *prices.Usage, models ...string) (prices.Amount, bool) // by the first of the models that has a price
	models []string                                                      // of the calls, as they were asked for; none: they are not known

	of       map[string]*policies.Used // of each model, if there are several
	usage    prices.Usage
	cost     prices.Amount
	priced   bool // some call has a price
	unpriced bool // some call has none
	unknown  bool // a line cannot be read, or does not say what was used
}

// add adds the call that a line answers. One that failed used nothing.
func (s *batchSum) add(line []byte) {
	answer := gjson.ParseBytes(line)
	if !answer.IsObject() || !gjson.ValidBytes(line) {
		s.unknown = true
		return
	}
	status, body := answer.Get("response.status_code"), answer.Get("response.body")
	switch {
	case status.Type == gjson.Number && (status.Int() < 200 || status.Int() >= 300), !answer.Get("response").IsObject() && answer.Get("error").IsObject():
		return
	case status.Type != gjson.Number: // it may have used something
		s.unknown = true
		return
	}
	m := membersOf([]byte(body.Raw))
	var u exchange.Usage
	if readUsage(&u, "", m.usage); !u.Known {
		s.unknown = true
		return
	}
	if body.Get("object").Str == "response" { // whose usage does not say it
		found := hostedIn(m.output)
		u.WebSearches, u.FileSearches = found.web, found.files
	}
	answered := text(m.model)
	model := s.askedFor(answered)
	s.usage.Add(&u.Usage)
	cost, known := s.costOf(&u.Usage, model, answered)
	s.cost = s.cost.Plus(cost)
	s.priced, s.unpriced = s.priced || known, s.unpriced || !known
	if len(s.models) < 2 {
		return
	}
	if s.of == nil {
		s.of = make(map[string]*policies.Used)
		for _, name := range s.models {
			s.of[name] = new(policies.Used)
		}
	}
	of := s.of[model]
	if of == nil { // it may be any
		for _, of := range s.of {
			of.Unknown = true
		}
		return
	}
	of.Tokens = estimate.Sum(of.Tokens, u.Prompt+u.Completion)
	of.Cost, of.CostUnknown = of.Cost.Plus(cost), of.CostUnknown || !known
}

// askedFor returns the model of the batch that has answered, by the name in the answer, which may be that of a version of it; "": that
// is not known.
func (s *batchSum) askedFor(answered string) (model string) {
	if len(s.models) == 1 {
		return s.models[0]
	}
	for _, name := range s.models {
		if version, ok := strings.CutPrefix(answered, name); ok && (version == "" || version[0] == '-' && strings.Trim(version, "-0123456789") == "") {
			if len(name) > len(model) {
				model = name
			}
		}
	}
	return model
}
