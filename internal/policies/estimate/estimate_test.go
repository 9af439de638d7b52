package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestBucketsHoldTheirNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 1<<40)).Draw(t, "x")
		b := bucket(x)
		if x > upper(b) || b > 0 && x <= upper(b-1) {
			t.Fatalf("%d is in bucket %d, up to %d", x, b, upper(b))
		}
		if most := x + x/4; upper(b) > max(most, x) {
			t.Fatalf("%d is taken for %d", x, upper(b))
		}
	})
}

func TestBeforeAnythingIsLearnedAByteIsAToken(t *testing.T) {
	e := New()
	for name, c := range map[string]struct {
		d              Demand
		prompt, answer int64
		bounded        bool
	}{
		"bounded":        {Demand{Bytes: 100, Most: 7}, 100, 7, true},
		"no answer":      {Demand{Bytes: 100}, 100, 0, true},
		"choices":        {Demand{Bytes: 100, Most: 7, Choices: 3}, 100, 21, true},
		"unbounded":      {Demand{Bytes: 100, Most: -1}, 100, unlearnedAnswer, false},
		"other names":    {Demand{Bytes: 100, Most: -1, Named: 9000}, 100, 9000, false},
		"larger names":   {Demand{Bytes: 100, Most: 7, Named: 9000}, 100, 9000, true},
		"in tokens":      {Demand{Bytes: 100, Tokens: 50}, 150, 0, true},
		"images":         {Demand{Bytes: 100, Images: 2}, 100 + 2*unlearnedImage, 0, false},
		"unseen":         {Demand{Bytes: 100, Unseen: true, Most: 7}, 100 + unlearnedUnseen, 7, false},
		"without models": {Demand{Bytes: 100, Most: -1, Free: true}, 0, 0, true},
		"absurd":         {Demand{Bytes: math.MaxInt64, Most: math.MaxInt64, Choices: math.MaxInt64, Images: math.MaxInt64, Tokens: math.MaxInt64}, MaxTokens, MaxTokens, false},
	} {
		if u := e.Most(&c.d); u.Prompt != c.prompt || u.Completion != c.answer || c.d.Bounded() != c.bounded {
			t.Errorf("%s: %d and %d, bounded: %v; want %d and %d", name, u.Prompt, u.Completion, c.d.Bounded(), c.prompt, c.answer)
		}
	}
}

// What is likely is never more than what was reserved, nor negative.
func TestSumsNeverOverflow(t *testing.T) {
	huge := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		e := New()
		d := Demand{
			Bytes: huge.Draw(t, "bytes"), Tokens: huge.Draw(t, "tokens"), Images: huge.Draw(t, "images"), Unseen: rapid.Bool().Draw(t, "unseen"),
			Most: rapid.OneOf(rapid.Just(int64(-1)), huge).Draw(t, "most"), Named: huge.Draw(t, "named"), Choices: huge.Draw(t, "choices"),
		}
		for range rapid.IntRange(0, 40).Draw(t, "calls") {
			e.Learn(&d, huge.Draw(t, "prompt"), huge.Draw(t, "answer"))
		}
		u, likely := e.Most(&d), e.Likely(&d, huge.Draw(t, "answered"))
		for _, n := range []int64{u.Prompt, u.Completion, Sum(u.Prompt, u.Completion), likely.Prompt} {
			if n < 0 || n > MaxTokens {
				t.Fatalf("%d tokens", n)
			}
		}
		if likely.Prompt > u.Prompt || d.Most >= 0 && likely.Completion > u.Completion || d.Most > u.Completion && d.Most <= MaxTokens {
			t.Fatalf("likely %+v, at most %+v", likely, u)
		}
	})
}

// Of what bytes do not tell, calls with as much teach.
func TestImagesAndWhatIsNotSeenAreLearned(t *testing.T) {
	e := New()
	text := Demand{Model: Model{Name: "m"}, Bytes: 4000, Most: 10}
	images, unseen := text, text
	images.Images, unseen.Unseen = 2, true
	for range 2 * enough {
		e.Learn(&text, 1000, 10)
		e.Learn(&images, 1000+2*800, 10)
		e.Learn(&unseen, 1000+30_000, 10)
	}
	within := func(n, least, most int64) {
		t.Helper()
		if n < least || n > most {
			t.Errorf("%d tokens, want %d to %d", n, least, most)
		}
	}
	within(e.Most(&text).Prompt, 1000, 1300)
	within(e.Most(&images).Prompt, 2600, 3400)
	within(e.Most(&unseen).Prompt, 30_000, 40_000)
	within(e.Likely(&images, 0).Prompt, 2600, 3400)
	within(e.Likely(&unseen, 0).Prompt, 30_000, 40_000)
}

// Answers of lognormal lengths, whose mean drifts: about 1 of 100 is longer than the learned
// bound, and 1 of 1000 prompts has more tokens.
func TestLearnedBoundsHoldAsOftenAsTheySay(t *testing.T) {
	e, random := New(), rand.New(rand.NewPCG(1, 2))
	d := Demand{Model: Model{Name: "m"}, Most: -1}
	longer, dearer, calls := 0, 0, 20_000
	for i := range calls {
		drift := 1 + 0.3*math.Sin(float64(i)/3000)
		d.Bytes = 200 + random.Int64N(20_000)
		answer := int64(300 * drift * math.Exp(random.NormFloat64()))
		prompt := int64(float64(d.Bytes) * (0.22 + 0.05*random.NormFloat64()))
		most := e.Most(&d)
		if i >= 100 {
			if answer > most.Completion {
				longer++
			}
			if prompt > most.Prompt {
				dearer++
			}
		}
		e.Learn(&d, max(prompt, 1), answer)
	}
	if share := float64(longer) / float64(calls); share > 0.013 {
		t.Errorf("%.2f %% of the answers were longer than the bound", 100*share)
	}
	if share := float64(dearer) / float64(calls); share > 0.002 {
		t.Errorf("%.2f %% of the prompts had more tokens than the bound", 100*share)
	}
	d.Bytes = 4000
	if prompt := e.Most(&d).Prompt; prompt > 2000 {
		t.Errorf("4000 bytes are taken for %d tokens", prompt)
	}
	if u := e.Likely(&d, 400); u.Prompt < 800 || u.Prompt > 1100 || u.Completion != 100 {
		t.Errorf("likely %+v", u)
	}
}

func TestModelsBeyondTheBoundLearnTogether(t *testing.T) {
	e := New()
	var wg sync.WaitGroup
	for i := range 2 * maxModels {
		wg.Go(func() {
			d := Demand{Model: Model{Name: fmt.Sprint(i)}, Bytes: 100, Most: -1}
			e.Learn(&d, 25, 10)
			e.Most(&d)
		})
	}
	wg.Wait()
	if len(e.models) != maxModels {
		t.Errorf("%d models", len(e.models))
	}
	if answer := e.Most(&Demand{Model: Model{Name: "new"}, Most: -1}).Completion; answer > 12 {
		t.Errorf("others answer with %d tokens", answer)
	}
}
