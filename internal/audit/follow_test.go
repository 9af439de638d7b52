package audit

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A sink keeps lines, unless it fails.
type sink struct {
	bytes.Buffer
	fails error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.fails != nil {
		return 0, s.fails
	}
	return s.Buffer.Write(p)
}

func (s *sink) rows() (numbers []int64) {
	for line := range strings.Lines(s.String()) {
		numbers = append(numbers, gjson.Get(line, "number").Int())
	}
	return numbers
}

func TestTheSinkGetsEachRowOnceItIsThere(t *testing.T) {
	trail, db, c := openTrail(t)
	trail.some(t, 2) // before there was a sink
	s := new(sink)
	trail.Configure(Settings{Sink: s})
	send := func(want error) {
		t.Helper()
		if err := trail.send(t.Context()); !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	send(nil)
	trail.some(t, sendBatch+3)
	send(nil)
	if got := s.rows(); len(got) != sendBatch+3 || got[0] != 3 || got[len(got)-1] != sendBatch+5 {
		t.Errorf("%v", got)
	}
	// What it refuses, it gets later, also after a restart.
	s.Reset()
	s.fails = errors.New("full")
	trail.some(t, 2)
	send(s.fails)
	send(errSinkFails)
	s.fails = nil
	again := reopen(t, db, c, "the key")
	again.Configure(Settings{Sink: s})
	if err := again.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.rows(); len(got) != 2 || got[0] != sendBatch+6 {
		t.Errorf("%v", got)
	}
}

func TestCloseSendsWhatIsLeft(t *testing.T) {
	trail, _, _ := openTrail(t)
	s := new(sink)
	trail.Configure(Settings{Sink: s})
	if err := trail.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	trail.Start()
	trail.some(t, 3)
	trail.Close()
	if got := s.rows(); len(got) != 3 {
		t.Errorf("%v", got)
	}
	trail.Close()
}
