package tokens

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestModelsHaveTheEncodingsOfTheirFamilies(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]Encoding{
		"gpt-4o": O200k, "gpt-4o-mini-2024-07-18": O200k, "chatgpt-4o-latest": O200k, "gpt-4.1-nano": O200k, "gpt-4.5-preview": O200k,
		"gpt-5": O200k, "gpt-5.1-codex": O200k, "gpt-5-mini": O200k, "o1": O200k, "o3-mini": O200k, "o4-mini": O200k, "gpt-oss-120b": O200k,
		"gpt-4": Cl100k, "gpt-4-turbo": Cl100k, "gpt-4-0613": Cl100k, "gpt-3.5-turbo": Cl100k, "gpt-35-turbo-16k": Cl100k, "babbage-002": Cl100k,
		"text-embedding-3-small": Cl100k, "text-embedding-ada-002": Cl100k,
		"openai/gpt-4o": O200k, "models/openai/gpt-oss-20b:free": O200k,
		"ft:gpt-4o-mini-2024-07-18:acme::abc": O200k, "ft:gpt-3.5-turbo:acme::abc": Cl100k,
		"": Unknown, "m": Unknown, "claude-sonnet-4-5": Unknown, "gpt": Unknown, "gpt-4omni": Unknown, "gpt-40": Unknown, "o10": Unknown, "openai/": Unknown,
		"mistral-o1": Unknown,
	} {
		if got := EncodingOf(model); got != want {
			t.Errorf("%s: got %d, want %d", model, got, want)
		}
	}
}

// The counts of the first ones are those of OpenAI's tiktoken, in its documentation.
func TestTextsHaveTheTokensOfTiktoken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text          string
		o200k, cl100k int64
	}{
		{"", 0, 0},
		{"antidisestablishmentarianism", 6, 6},
		{"2 + 2 = 4", 7, 7},
		{"お誕生日おめでとう", 8, 9},
		{"tiktoken is great!", 6, 6},
		{"<|endoftext|>", 7, 7}, // text, and not the special token
		{"\xff\xfe", 2, 2},
		{strings.Repeat("a", 1000), 125, 125},
	} {
		for e, want := range map[Encoding]int64{O200k: c.o200k, Cl100k: c.cl100k} {
			if got, ok := Count(e, c.text); got != want || !ok {
				t.Errorf("%.20q: %d tokens of encoding %d (%t), want %d", c.text, got, e, ok, want)
			}
		}
	}
	if n, ok := Count(Unknown, "hello"); n != 0 || ok {
		t.Errorf("text of an unknown encoding has %d tokens", n)
	}
}

func FuzzCount(f *testing.F) {
	f.Add("hello world")
	f.Add(" \n \n")
	f.Add("\xff'S\u0130")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range []Encoding{O200k, Cl100k} {
			if n, ok := Count(e, text); !ok || n > int64(len(text))*3 || (n == 0) != (text == "") {
				t.Errorf("%q has %d tokens (%t)", text, n, ok)
			}
		}
	})
}

func TestAQueueWorksInItsOrderAndWithinItsBound(t *testing.T) {
	t.Parallel()
	var q Queue
	var done []int
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	add := func(n, bytes int) bool {
		return q.Add("a", bytes, func() {
			if n == 0 {
				close(begun)
				<-goOn
			}
			if done = append(done, n); n == 2 {
				close(ended)
			}
		})
	}
	if !add(0, 1<<20-2) {
		t.Fatal("no room in an empty queue")
	}
	<-begun
	if !add(1, 1) || !add(2, 1) || add(3, 1) {
		t.Error("what is under way counts to the bound, and no more than the bound fits")
	}
	close(goOn)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the queue stands still")
	}
	if len(done) != 3 || done[0] != 0 || done[1] != 1 {
		t.Errorf("done in the order %v", done)
	}
	again := make(chan struct{})
	for !q.Add("a", 1<<20, func() { close(again) }) { // until the last is no longer counted
	}
	<-again
}

// Who fills the queue leaves room for others, whose work has its turn before the rest of it.
func TestAHolderHasItsShareOfTheQueue(t *testing.T) {
	t.Parallel()
	var q Queue
	var order []string
	begun, goOn := make(chan struct{}), make(chan struct{})
	if !q.Add("greedy", 1<<10, func() { close(begun); <-goOn }) {
		t.Fatal("no room in an empty queue")
	}
	<-begun
	n := 1
	for q.Add("greedy", 1<<10, func() { order = append(order, "greedy") }) {
		n++
	}
	if n != 1<<10 {
		t.Errorf("one holder has room for %d KiB", n)
	}
	for range 2 {
		for _, name := range []string{"a", "b"} {
			if !q.Add(name, 16<<10, func() { order = append(order, name) }) {
				t.Errorf("no room for %s", name)
			}
		}
	}
	if q.Add("greedy", 1<<10, func() {}) {
		t.Error("the share of one holder has grown")
	}
	close(goOn)
	q.Close()
	if got := strings.Join(order[:7], " "); got != "greedy a b greedy a b greedy" || len(order) != n-1+4 {
		t.Errorf("%d are done, %s first", len(order), got)
	}
	if len(q.holders) != 0 || q.bytes != 0 {
		t.Errorf("%d holders and %d bytes are left", len(q.holders), q.bytes)
	}
}

// What waits is done before the queue is closed, and nothing is lost that comes after.
func TestAQueueIsClosedWhenItsWorkIsDone(t *testing.T) {
	t.Parallel()
	var q Queue
	begin, done := make(chan struct{}), 0
	for range 10 {
		if !q.Add("a", 1, func() { <-begin; done++ }) {
			t.Fatal("there is no room")
		}
	}
	closed := make(chan struct{})
	go func() { q.Close(); close(closed) }()
	for q.Add("a", 0, func() {}) { // until it is closed
		runtime.Gosched()
	}
	close(begin)
	<-closed
	if done < 10 {
		t.Errorf("%d of 10 are done", done)
	}
	if q.Add("a", 1, func() {}) {
		t.Error("work was added to a closed queue")
	}
	q.Close() // again, which waits for nothing
}
