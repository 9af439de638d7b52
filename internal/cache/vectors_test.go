package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func randomUnit(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	u, _ := unit(v)
	return u
}

// at returns a vector whose cosine with u is c.
func at(r *rand.Rand, u []float32, c float64) []float32 {
	other := randomUnit(r, len(u))
	along := float32(cosine(u, other))
	for i := range other {
		other[i] -= along * u[i]
	}
	other, _ = unit(other)
	out := make([]float32, len(u))
	for i := range out {
		out[i] = float32(c)*u[i] + float32(math.Sqrt(1-c*c))*other[i]
	}
	out, _ = unit(out)
	return out
}

func scopeKey(i int) (k Key) { copy(k[:], fmt.Sprint("scope", i)); return k }

func TestWhatIsNearEnoughIsFoundAmongThousands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, threshold := range []float64{0.8, 0.95, 0.99} {
		v := newVectors()
		var all [][]float32
		for i := range 2000 {
			u := randomUnit(r, 256)
			all = append(all, u)
			v.add(fmt.Sprint(i), "s", time.Unix(int64(i), 0), u, signatureOf(u))
		}
		for i := range 300 {
			like := all[i*5]
			if ids := v.find("s", at(r, like, threshold+0.0005), threshold); !slices.Contains(ids, fmt.Sprint(i*5)) {
				t.Errorf("%v: %d is not found", threshold, i*5)
			}
			if ids := v.find("s", at(r, like, threshold-0.0005), threshold); len(ids) > 0 {
				t.Errorf("%v: what is not near enough is %v", threshold, ids)
			}
		}
	}
}

// After any additions and removals, find returns what a comparison with all vectors
// returns.
func TestFindIsALookAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(1, 40).Draw(t, "dimensions")
		threshold := rapid.Float64Range(0.5, 1).Draw(t, "threshold")
		v := newVectors()
		model := make(map[string][]float32)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "id"))
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				v.forget(id)
				delete(model, id)
			} else {
				u := randomUnit(r, n)
				v.add(id, "s", time.Unix(1, 0), u, signatureOf(u))
				model[id] = u
			}
			q := randomUnit(r, n)
			ids := v.find("s", q, threshold)
			want := 0
			for _, u := range model {
				if cosine(q, u) >= threshold {
					want++
				}
			}
			if len(ids) != min(want, nearest) {
				t.Fatalf("%d found of %d", len(ids), want)
			}
			for i, id := range ids {
				if u := model[id]; u == nil || cosine(q, u) < threshold || i > 0 && cosine(q, u) > cosine(q, model[ids[i-1]]) {
					t.Fatalf("%s is found, %v", id, ids)
				}
			}
		}
		if len(v.of) != len(model) || len(model) == 0 && len(v.scopes) != 0 {
			t.Fatalf("%d are there, %d expected", len(v.of), len(model))
		}
	})
}

// The cosine of vectors on two sides of a plane may be computed as 1.
func TestTwoVectorsOneRoundingApartAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{2, minDimensions, 256} {
		v, differ := newVectors(), 0
		for i := range 2 * maxCompared {
			u := randomUnit(r, n)
			v.add(fmt.Sprint("other", i), "s", time.Unix(1, 0), u, signatureOf(u))
		}
		for range 500 {
			u := randomUnit(r, n)
			q := at(r, u, 1-1e-8)
			if cosine(u, q) < 1 {
				continue
			}
			a, b := signatureOf(u), signatureOf(q)
			if a.distance(&b) > 0 {
				differ++
			}
			v.add("it", "s", time.Unix(1, 0), u, a)
			if ids := v.find("s", q, 1); !slices.Contains(ids, "it") {
				t.Errorf("%d dimensions: %d bits apart: not found", n, a.distance(&b))
			}
		}
		if differ == 0 {
			t.Errorf("%d dimensions: no signatures differ", n)
		}
	}
}

func TestVectorsWithoutADirectionAreNone(t *testing.T) {
	inf := float32(math.Inf(1))
	for name, v := range map[string][]float32{
		"none": nil, "zeros": {0, 0}, "infinite": {inf, 1}, "not a number": {float32(math.NaN())}, "too many": make([]float32, maxDimensions+1),
	} {
		if name == "too many" {
			v[0] = 1
		}
		if _, ok := unit(v); ok {
			t.Errorf("%s has a direction", name)
		}
	}
	if u, ok := unit([]float32{3, 4}); !ok || u[0] != 0.6 || u[1] != 0.8 {
		t.Errorf("got %v", u)
	}
}

func TestMeaningsCountAndGoWithTheirAnswers(t *testing.T) {
	k := &clock{time.Now()}
	dir := t.TempDir()
	c, closeIt := open(t, dir, k.now)
	r := rand.New(rand.NewPCG(1, 2))
	vectors := make([][]float32, 20)
	learn := func(i int, m *Meaning) {
		t.Helper()
		k.t = k.t.Add(time.Second)
		if err := c.Put(t.Context(), key(i), &Entry{At: k.t, Type: "application/json", Body: []byte("{}")}, m, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	similar := func(i, scope int) bool {
		t.Helper()
		e, err := c.Similar(t.Context(), &Meaning{scopeKey(scope), vectors[i]}, 0.95, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return e != nil
	}
	learn(0, nil)
	bare := c.Used()
	for i := range vectors {
		vectors[i] = randomUnit(r, 1536)
	}
	learn(0, &Meaning{scopeKey(0), vectors[0]})
	one := c.Used()
	if one-bare < 8192 || one-bare > 9000 {
		t.Fatalf("a meaning counts %d bytes", one-bare)
	}
	learn(0, nil) // an answer without an embedding
	if c.Used() != bare || similar(0, 0) {
		t.Errorf("%d bytes, %d without a meaning; or it is still found", c.Used(), bare)
	}
	c.Resize(5 * one)
	for i := range vectors {
		learn(i, &Meaning{scopeKey(i % 2), vectors[i]})
		if c.Used() > 5*one {
			t.Fatalf("%d bytes, of %d", c.Used(), 5*one)
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range vectors {
			if got := similar(i, i%2); got != (i >= 15) {
				t.Errorf("%s: %d is found: %v", when, i, got)
			}
			if similar(i, 1-i%2) {
				t.Errorf("%s: %d is found in another scope", when, i)
			}
		}
		if len(c.vectors.of) != 5 {
			t.Errorf("%s: %d meanings", when, len(c.vectors.of))
		}
	}
	check("before a restart")
	used := c.Used()
	closeIt()
	c, closeIt = open(t, dir, k.now)
	defer closeIt()
	check("after a restart")
	c.Resize(5 * one)
	if c.Used() != used {
		t.Errorf("%d bytes before a restart, %d after", used, c.Used())
	}
	learn(20, nil) // the oldest is removed after a restart, too
	if similar(15, 1) || !similar(19, 1) {
		t.Error("another than the oldest made room")
	}
	c.Resize(100)
	learn(21, nil)
	if get(t, c, 21, time.Hour) != "" || get(t, c, 20, time.Hour) == "" {
		t.Error("what is larger than the whole cache was kept")
	}
	if _, err := c.Similar(t.Context(), &Meaning{scopeKey(0), []float32{0}}, 0.95, time.Hour); err == nil || !strings.Contains(err.Error(), "cannot be compared") {
		t.Errorf("got %v", err)
	}
}

func TestTheOldestOfAFullScopeMakesRoom(t *testing.T) {
	k := &clock{time.Now()}
	c, closeIt := open(t, t.TempDir(), k.now)
	defer closeIt()
	c.Resize(1 << 30)
	put(t, c, -1, "{}", time.Hour) // in no scope
	r := rand.New(rand.NewPCG(1, 2))
	for i := range maxInScope {
		u := randomUnit(r, 4)
		c.vectors.add(fmt.Sprint(i), strings.Repeat("0", 2*len(Key{})), k.t.Add(time.Duration(i-maxInScope)), u, signature{})
		c.byID[fmt.Sprint(i)] = &place{ID: fmt.Sprint(i)}
	}
	for i := range 3 {
		if err := c.Put(t.Context(), key(i), &Entry{At: k.t, Body: []byte("{}")}, &Meaning{Vector: randomUnit(r, 4)}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := len(c.vectors.of); n != maxInScope || c.byID[fmt.Sprint(i)] != nil || c.byID[fmt.Sprint(i+1)] == nil {
			t.Fatalf("%d meanings after %d more; the oldest is still there, or another went", n, i+1)
		}
	}
	if get(t, c, -1, time.Hour) == "" {
		t.Error("an answer of no scope went")
	}
}

func BenchmarkSimilar(b *testing.B) {
	for _, kind := range []string{"unrelated", "alike"} {
		b.Run(kind, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			v := newVectors()
			first := randomUnit(r, 1536)
			for i := range maxInScope {
				u := randomUnit(r, 1536)
				if kind == "alike" {
					u = at(r, first, 0.9)
				}
				v.add(fmt.Sprint(i), "s", time.Unix(1, 0), u, signatureOf(u))
			}
			q := at(r, first, 0.94)
			for b.Loop() {
				if q, ok := unit(q); ok {
					v.find("s", q, DefaultThreshold)
				}
			}
		})
	}
}
