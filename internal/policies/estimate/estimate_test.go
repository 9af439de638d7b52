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
		"counted":        {Demand{Bytes: 100, TextTokens: 30, Most: 7}, 30, 7, true},
		"images":         {Demand{Bytes: 100, Images: 2}, 100 + 2*unlearnedImage, 0, false},
		"unseen":         {Demand{Bytes: 100, HasUnseen: true, Most: 7}, 100 + unlearnedUnseen, 7, false},
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
			Bytes: huge.Draw(t, "bytes"), Tokens: huge.Draw(t, "tokens"), Images: huge.Draw(t, "images"), HasUnseen: rapid.Bool().Draw(t, "unseen"),
			Most: rapid.OneOf(rapid.Just(int64(-1)), huge).Draw(t, "most"), Named: huge.Draw(t, "named"), Choices: huge.Draw(t, "choices"),
		}
		for range rapid.IntRange(0, 40).Draw(t, "calls") {
			e.Learn(&d, huge.Draw(t, "prompt"), huge.Draw(t, "answer"), huge.Draw(t, "text"))
		}
		u := e.Most(&d)
		likely := e.Likely(&d, &u, huge.Draw(t, "answered"))
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
	images.Images, unseen.HasUnseen = 2, true
	for range 2 * enough {
		e.Learn(&text, 2000, 10, 0)
		e.Learn(&images, 2000+2*4000, 10, 0)
		e.Learn(&unseen, 2000+30_000, 10, 0)
	}
	likely := func(d *Demand) int64 {
		most := e.Most(d)
		return e.Likely(d, &most, 0).Prompt
	}
	within := func(n, least, most int64) {
		t.Helper()
		if n < least || n > most {
			t.Errorf("%d tokens, want %d to %d", n, least, most)
		}
	}
	within(e.Most(&text).Prompt, 4000, 4000)
	within(e.mostOfLine(&text).Prompt, 2000, 2600)
	within(e.Most(&images).Prompt, 12_000, 15_000)
	within(e.Most(&unseen).Prompt, 34_000, 44_600)
	within(likely(&text), 2000, 2000) // no bucket of a histogram is that exact
	within(likely(&images), 10_000, 13_000)
	within(likely(&unseen), 32_000, 42_600)
}

// Callers choose what is learned from: calls that have next to nothing do not teach that others have as little.
func TestWhatIsLearnedHasABound(t *testing.T) {
	e := New()
	text := Demand{Model: Model{Name: "m"}, Bytes: 8000, Most: 10}
	images, unseen := text, text
	images.Images, unseen.HasUnseen = 1, true
	for range 100 * enough {
		e.Learn(&text, 60, 1, 0)
		e.Learn(&images, 60, 1, 0)
		e.Learn(&unseen, 60, 1, 0)
	}
	prompt := e.Most(&text).Prompt
	if prompt != 8000 || e.mostOfLine(&text).Prompt < 8000/3 || e.Most(&images).Prompt < prompt+leastImage || e.Most(&unseen).Prompt < prompt+leastUnseen {
		t.Errorf("%d, %d and %d tokens", prompt, e.Most(&images).Prompt, e.Most(&unseen).Prompt)
	}
}

// What a provider adds to prompts is added to what their text has.
func TestWhatIsAddedToPromptsIsLearned(t *testing.T) {
	e := New()
	short := Demand{Model: Model{Name: "m"}, Bytes: 80, Most: 10}
	teach(e, short, 400, 10)
	long := short
	long.Bytes, long.TextTokens = 8000, 2500
	for d, want := range map[*Demand]int64{&short: 80 + 320, &long: 2500 + 320} {
		if n := e.Most(d).Prompt; n < want || n > want+80 {
			t.Errorf("%d tokens of %d bytes, want %d", n, d.Bytes, want)
		}
	}
}

// What answers of the model had for a byte is what text has of which nobody says it, whatever else is learned of it.
func TestTextIsCountedAsAnswersOfTheModel(t *testing.T) {
	e, random := New(), rand.New(rand.NewPCG(1, 2))
	d := Demand{Model: Model{Name: "m"}, Bytes: 100, Most: 100_000}
	completion := func() int64 {
		most := e.Most(&d)
		return e.Likely(&d, &most, 8000).Completion
	}
	for range enough {
		if n := completion(); n != 2000 {
			t.Fatalf("%d tokens before enough was learned", n)
		}
		e.Learn(&d, 25, 1000, leastText-1) // too short to tell
		length := 500 + random.Int64N(500)
		e.Learn(&d, 25, length*5/16, length)
	}
	if n := completion(); n < 2450 || n > 2500 {
		t.Errorf("%d tokens, want 2500", n)
	}
	e.Learn(&d, 25, math.MaxInt64, math.MaxInt64) // one answer counts as 64 KiB at most
	for range 200 {
		e.Learn(&d, 25, mostText/8, mostText)
	}
	if n := completion(); n < 1000 || n > 1100 {
		t.Errorf("%d tokens, want 1000", n)
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
		most := e.Most(&d)
		if i >= 100 {
			if answer > most.Completion {
				longer++
			}
			if prompt > e.mostOfLine(&d).Prompt {
				dearer++
			}
		}
		e.Learn(&d, max(prompt, 1), answer, 0)
	}
	if share := float64(longer) / float64(calls); share > 0.013 {
		t.Errorf("%.2f %% of the answers were longer than the bound", 100*share)
	}
	if share := float64(dearer) / float64(calls); share > 0.002 {
		t.Errorf("%.2f %% of the prompts had more tokens than the bound", 100*share)
	}
	d.Bytes = 4000
	most := e.Most(&d)
	if line := e.mostOfLine(&d); line.Prompt > 2000 {
		t.Errorf("4000 bytes of a line are taken for %d tokens", line.Prompt)
	}
	if u := e.Likely(&d, &most, 400); u.Prompt < 800 || u.Prompt > 1100 || u.Completion != 100 {
		t.Errorf("likely %+v", u)
	}
}

// teach has a model's calls use so many tokens, often enough.
func teach(e *Estimator, d Demand, prompt, answer int64) {
	for range 2 * enough {
		e.Learn(&d, prompt, answer, 0)
	}
}

// Whatever one workspace's providers say is nothing to the calls of another, of the same slug and model.
func TestWorkspacesLearnOnlyFromTheirOwnCalls(t *testing.T) {
	asked := func(workspace string) Demand {
		return Demand{Model: Model{Workspace: workspace, Provider: "main", Name: "m", Endpoint: "chat"}, Bytes: 4000, Images: 1, HasUnseen: true, Most: -1}
	}
	e, fresh, victim := New(), New(), asked("blue")
	for _, says := range []int64{0, 1, math.MaxInt64} {
		for _, unseen := range []bool{true, false} {
			d := asked("red")
			d.HasUnseen = unseen
			teach(e, d, says, says)
			d.Images = 0
			teach(e, d, says, says)
		}
		most, want := e.Most(&victim), fresh.Most(&victim)
		if likely := e.Likely(&victim, &most, 400); most != want || likely != fresh.Likely(&victim, &want, 400) {
			t.Errorf("after another workspace used %d: at most %+v, likely %+v", says, most, likely)
		}
	}
}

// A provider that reports absurd numbers is believed up to what models can do.
func TestWhatIsLearnedIsBounded(t *testing.T) {
	const absurd = 1 << 50
	for name, c := range map[string]struct {
		d              Demand
		prompt, answer int64
	}{
		"text":     {Demand{Bytes: 100, Most: -1}, 100 + maxAdded, maxWindow},
		"an image": {Demand{Bytes: 100, Images: 3, Most: 5}, 100 + 3*maxImage, 5},
		"unseen":   {Demand{Bytes: 100, HasUnseen: true, Most: 5}, 100 + maxWindow, 5},
	} {
		e := New()
		teach(e, c.d, absurd, absurd)
		if u := e.Most(&c.d); u.Prompt != c.prompt || u.Completion != c.answer {
			t.Errorf("%s: %+v, want %d and %d", name, u, c.prompt, c.answer)
		}
	}
}

// What was learned while a call was under way does not make its prompt longer than what was reserved.
func TestWhatIsLikelyIsNoMoreThanWasReserved(t *testing.T) {
	e, d := New(), Demand{Bytes: 100, HasUnseen: true, Most: -1}
	reserved := e.Most(&d)
	teach(e, d, maxWindow, 10)
	if u := e.Likely(&d, &reserved, 4000); u.Prompt != reserved.Prompt || u.Completion != 1000 {
		t.Errorf("likely %+v of %+v", u, reserved)
	}
}

// A workspace that calls ever new models has its share of what is remembered; it forgets its own that
// it did not use for longest.
func TestAWorkspaceHasItsShareOfTheModels(t *testing.T) {
	e := New()
	learn := func(workspace string, n int) Demand {
		d := Demand{Model: Model{Workspace: workspace, Name: fmt.Sprint(n)}, Bytes: 100, Most: -1}
		teach(e, d, 25, 10)
		return d
	}
	knows := func(d Demand) bool { return e.Most(&d).Completion < unlearnedAnswer }
	blue := learn("blue", 0)
	first, second := learn("red", 0), learn("red", 1)
	for n := range 2 * maxModels {
		learn("red", n+2)
		e.Learn(&second, 25, 10, 0)
	}
	if !knows(blue) || knows(first) || !knows(second) {
		t.Errorf("known: another's %v, unused %v, used %v", knows(blue), knows(first), knows(second))
	}
	green := learn("green", 0)
	if held := e.usedBy["red"].Len(); !knows(green) || held > maxModels*3/4 || len(e.models) != held+2 {
		t.Errorf("%d models, %d of one workspace; another's is known: %v", len(e.models), held, knows(green))
	}
}

// However many workspaces there are, the bound holds, and each has the models that it used last.
func TestModelsAreBounded(t *testing.T) {
	e := New()
	var wg sync.WaitGroup
	for i := range 2 * maxModels {
		wg.Go(func() {
			d := Demand{Model: Model{Workspace: fmt.Sprint(i), Name: "m"}, Bytes: 100, Most: -1}
			e.Learn(&d, 25, 10, 0)
			e.Most(&d)
		})
	}
	wg.Wait()
	if len(e.models) > maxModels || e.used.Len() != len(e.models) || len(e.usedBy) != len(e.models) {
		t.Errorf("%d models, %d in order, of %d workspaces", len(e.models), e.used.Len(), len(e.usedBy))
	}
	d := Demand{Model: Model{Workspace: "new"}, Bytes: 100, Most: -1}
	if teach(e, d, 25, 10); e.Most(&d).Completion > 12 {
		t.Error("a new workspace learns nothing")
	}
}
