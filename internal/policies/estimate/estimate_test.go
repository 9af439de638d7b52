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
	}{
		"bounded":        {Demand{Bytes: 100, Most: 7}, 100, 7},
		"no answer":      {Demand{Bytes: 100}, 100, 0},
		"choices":        {Demand{Bytes: 100, Most: 7, Choices: 3}, 100, 21},
		"unbounded":      {Demand{Bytes: 100, Most: -1}, 100, unlearnedAnswer},
		"media":          {Demand{Bytes: 100, Media: 50}, 150, 0},
		"without models": {Demand{Bytes: 100, Most: -1, Free: true}, 0, 0},
		"absurd":         {Demand{Bytes: math.MaxInt64, Most: math.MaxInt64, Choices: math.MaxInt64}, 1 << 50, 1 << 60},
	} {
		if prompt, answer := e.Tokens(&c.d); prompt != c.prompt || answer != c.answer {
			t.Errorf("%s: %d and %d, want %d and %d", name, prompt, answer, c.prompt, c.answer)
		}
	}
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
		mostPrompt, mostAnswer := e.Tokens(&d)
		if i >= 100 {
			if answer > mostAnswer {
				longer++
			}
			if prompt > mostPrompt {
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
	if prompt, _ := e.Tokens(&d); prompt > 2000 {
		t.Errorf("4000 bytes are taken for %d tokens", prompt)
	}
	if prompt, answer := e.Likely(&d, 400); prompt < 800 || prompt > 1100 || answer != 100 {
		t.Errorf("likely %d and %d tokens", prompt, answer)
	}
}

func TestModelsBeyondTheBoundLearnTogether(t *testing.T) {
	e := New()
	var wg sync.WaitGroup
	for i := range 2 * maxModels {
		wg.Go(func() {
			d := Demand{Model: Model{Name: fmt.Sprint(i)}, Bytes: 100, Most: -1}
			e.Learn(&d, 25, 10)
			e.Tokens(&d)
		})
	}
	wg.Wait()
	if len(e.models) != maxModels {
		t.Errorf("%d models", len(e.models))
	}
	if _, answer := e.Tokens(&Demand{Model: Model{Name: "new"}, Most: -1}); answer > 12 {
		t.Errorf("others answer with %d tokens", answer)
	}
}
