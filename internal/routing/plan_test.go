package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// openPaths is a circuit with targets that are out for good; it notes the tries.
type openPaths struct {
	open  map[string]bool
	tried []string
}

func (o *openPaths) Open(t *Target) bool { return o.open[t.Path] }

func (o *openPaths) StartCall(t *Target) { o.tried = append(o.tried, t.Path) }

// walk follows a plan with the outcomes that of says.
func walk(c *Config, f Input, of func(path string) Outcome) (paths []string, err error) {
	p, err := c.Plan(f, seeded())
	if err != nil {
		return nil, err
	}
	for t := p.Target(); t != nil; {
		paths = append(paths, t.Path)
		next, ok := p.Next(of(t.Path))
		if ok != (next != nil) || next != p.Target() {
			panic("Next and Target differ")
		}
		t = next
	}
	return paths, p.Err()
}

func TestPlanOrder(t *testing.T) {
	const (
		flat = `{"strategy":{"mode":"fallback"},"targets":[` + vk + `,` + vk + `,` + vk + `]}`
		only = `{"strategy":{"mode":"fallback","on_status_codes":[429,503]},"targets":[` + vk + `,` + vk + `]}`
		deep = `{"strategy":{"mode":"fallback"},"targets":[{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[` + vk + `,` + vk + `]},{"strategy":{"mode":"single"},"targets":[` + vk + `,` + vk + `]}]}`
		cond = `{"strategy":{"mode":"fallback"},"targets":[` + vk + `,{"strategy":{"mode":"conditional","conditions":[{"query":{"params.a":1},"then":"x"}]},"targets":[{"name":"x","virtual_key":"k"}]},` + vk + `]}`
	)
	for _, c := range []struct {
		name, config string
		statuses     []int // a negative one is a gateway exception
		want         string
		err          bool
	}{
		{"a leaf", vk, []int{500}, "config", false},
		{"single takes the first", `{"strategy":{"mode":"single"},"targets":[` + vk + `,` + vk + `]}`, []int{500}, "config.targets[0]", false},
		{"fallback ends with a success", flat, []int{500, 204}, "config.targets[0] config.targets[1]", false},
		{"fallback moves on from anything but 2xx", flat, []int{400, 302, 199}, "config.targets[0] config.targets[1] config.targets[2]", false},
		{"fallback stops at an exception of the gateway", flat, []int{500, -500}, "config.targets[0] config.targets[1]", false},
		{"fallback of listed statuses moves on from those", only, []int{429, 500}, "config.targets[0] config.targets[1]", false},
		{"fallback of listed statuses stops at others", only, []int{500}, "config.targets[0]", false},
		{"the outcome of an inner fallback is that of its last target", deep, []int{429, 429, 500}, "config.targets[0].targets[0] config.targets[0].targets[1] config.targets[1].targets[0]", false},
		{"an inner fallback that stops still fails for the outer one", deep, []int{500, 500}, "config.targets[0].targets[0] config.targets[1].targets[0]", false},
		{"an exception ends every fallback", deep, []int{-429}, "config.targets[0].targets[0]", false},
		{"a condition that nothing fits ends the plan", cond, []int{500}, "config.targets[0]", true},
		{"a condition that is not reached does not", cond, []int{200}, "config.targets[0]", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := -1
			paths, err := walk(parse(t, c.config), Input{Body: []byte(`{}`)}, func(string) Outcome {
				n++
				status := c.statuses[n]
				return Outcome{Status: max(status, -status), GatewayException: status < 0}
			})
			if got := strings.Join(paths, " "); got != c.want || (err != nil) != c.err {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestPlanRefusesACallThatNoConditionFits(t *testing.T) {
	c := parse(t, `{"strategy":{"mode":"conditional","conditions":[{"query":{"params.a":1},"then":"a"}]},`+two+`}`)
	_, err := c.Plan(Input{Body: []byte(`{"a":2}`)}, seeded())
	var route *RouteError
	if !errors.As(err, &route) || route.Path != "config" {
		t.Errorf("err = %v", err)
	}
}

func TestPlanLeavesOutOpenTargets(t *testing.T) {
	const cb = `"cb_config":{"failure_threshold":1}`
	fallback := `{"strategy":{"mode":"fallback",` + cb + `},"targets":[` + vk + `,{"strategy":{"mode":"fallback"},"targets":[` + vk + `,` + vk + `]},` + vk + `]}`
	for _, c := range []struct {
		name, config, open, want string
	}{
		{"in order", fallback, "", "config.targets[0] config.targets[1].targets[0] config.targets[1].targets[1] config.targets[2]"},
		{"one", fallback, "config.targets[0] config.targets[1].targets[1]", "config.targets[1].targets[0] config.targets[2]"},
		{"a whole node", fallback, "config.targets[1].targets[0] config.targets[1].targets[1]", "config.targets[0] config.targets[2]"},
		{
			"all, and so none", fallback, "config.targets[0] config.targets[1].targets[0] config.targets[1].targets[1] config.targets[2]",
			"config.targets[0] config.targets[1].targets[0] config.targets[1].targets[1] config.targets[2]",
		},
		{"single goes to the next", `{"strategy":{"mode":"single",` + cb + `},"targets":[` + vk + `,` + vk + `]}`, "config.targets[0]", "config.targets[1]"},
		{"load balance", `{"strategy":{"mode":"loadbalance",` + cb + `},"targets":[{"virtual_key":"k","weight":1000},{"virtual_key":"l","weight":0},` + vk + `]}`, "config.targets[0]", "config.targets[2]"},
		{"load balance, all, and so none", `{"strategy":{"mode":"loadbalance",` + cb + `},"targets":[{"virtual_key":"k","weight":0},` + vk + `]}`, "config.targets[1]", "config.targets[1]"},
		{"without cb_config nothing", `{"strategy":{"mode":"fallback"},"targets":[` + vk + `]}`, "config.targets[0]", "config.targets[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			circuit := &openPaths{open: make(map[string]bool)}
			for path := range strings.FieldsSeq(c.open) {
				circuit.open[path] = true
			}
			paths, err := walk(parse(t, c.config), Input{Circuit: circuit}, func(string) Outcome { return Outcome{Status: 500} })
			if got := strings.Join(paths, " "); err != nil || got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			if strings.Contains(c.config, cb) && !slices.Equal(circuit.tried, paths) {
				t.Errorf("tried %s, planned %s", circuit.tried, paths)
			}
		})
	}
}

// A node is a config as the naive interpreter sees it.
type node struct {
	Mode     string
	On       []int
	Breaker  bool
	Chosen   int // by load balance: the only weight above 0
	Then     map[int]int
	Default  int // -1: none
	Children []*node
}

func drawNode(t *rapid.T, depth int) *node {
	n := &node{Default: -1}
	if depth == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
		return n
	}
	n.Mode = rapid.SampledFrom([]string{"single", "fallback", "fallback", "loadbalance", "conditional"}).Draw(t, "mode")
	for range rapid.IntRange(1, 3).Draw(t, "children") {
		n.Children = append(n.Children, drawNode(t, depth-1))
	}
	child := rapid.IntRange(0, len(n.Children)-1)
	n.Chosen = child.Draw(t, "chosen")
	switch n.Mode {
	case "fallback":
		n.On = rapid.SliceOfNDistinct(rapid.SampledFrom([]int{200, 400, 429, 500, 503}), 0, 3, rapid.ID).Draw(t, "on")
	case "conditional":
		n.Then = map[int]int{0: child.Draw(t, "then 0"), 1: child.Draw(t, "then 1")}
		n.Default = rapid.IntRange(-1, len(n.Children)-1).Draw(t, "default")
	}
	n.Breaker = n.Mode != "conditional" && rapid.Bool().Draw(t, "breaker")
	return n
}

func (n *node) config(name string, weight int) map[string]any {
	c := map[string]any{"name": name, "weight": weight}
	if n.Mode == "" {
		c["virtual_key"] = "k"
		return c
	}
	s := map[string]any{"mode": n.Mode}
	if len(n.On) > 0 {
		s["on_status_codes"] = n.On
	}
	if n.Breaker {
		s["cb_config"] = map[string]any{"failure_threshold": 1}
	}
	if n.Mode == "conditional" {
		var list []any
		for k := range 2 {
			list = append(list, map[string]any{"query": map[string]any{"params.k": k}, "then": fmt.Sprint("t", n.Then[k])})
		}
		s["conditions"] = list
		if n.Default >= 0 {
			s["default"] = fmt.Sprint("t", n.Default)
		}
	}
	var targets []any
	for i, child := range n.Children {
		w := 1
		if n.Mode == "loadbalance" && i != n.Chosen {
			w = 0
		}
		targets = append(targets, child.config(fmt.Sprint("t", i), w))
	}
	c["strategy"], c["targets"] = s, targets
	return c
}

// A world is what the naive interpreter runs in.
type planWorld struct {
	k        int
	open     map[string]bool
	outcomes map[string]Outcome
	tried    []string
	lost     bool // in a condition that nothing fits
}

var errStop = Outcome{Status: 1, GatewayException: true}

func (w *planWorld) run(n *node, path string, breaker bool) Outcome {
	if n.Mode == "" {
		w.tried = append(w.tried, path)
		return w.outcomes[path]
	}
	breaker = breaker || n.Breaker
	at := func(i int) string { return fmt.Sprintf("%s.targets[%d]", path, i) }
	var left []int
	for i, child := range n.Children {
		if n.Mode == "loadbalance" && i != n.Chosen {
			continue
		}
		if !breaker || !w.allOpen(child, at(i)) {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		for i := range n.Children {
			if n.Mode != "loadbalance" || i == n.Chosen {
				left = append(left, i)
			}
		}
	}
	switch n.Mode {
	case "conditional":
		then, ok := n.Then[w.k]
		if !ok {
			then = n.Default
		}
		if then < 0 {
			w.lost = true
			return errStop
		}
		return w.run(n.Children[then], at(then), breaker)
	case "fallback":
		var o Outcome
		for _, i := range left {
			o = w.run(n.Children[i], at(i), breaker)
			moves := slices.Contains(n.On, o.Status)
			if len(n.On) == 0 {
				moves = o.Status/100 != 2
			}
			if o.GatewayException || !moves {
				break
			}
		}
		return o
	}
	return w.run(n.Children[left[0]], at(left[0]), breaker)
}

func (w *planWorld) allOpen(n *node, path string) bool {
	if n.Mode == "" {
		return w.open[path]
	}
	for i, child := range n.Children {
		if !w.allOpen(child, fmt.Sprintf("%s.targets[%d]", path, i)) {
			return false
		}
	}
	return true
}

func leaves(t *Target) (list []*Target) {
	if t.Leaf() {
		return []*Target{t}
	}
	for _, child := range t.Targets {
		list = append(list, leaves(child)...)
	}
	return list
}

func TestPlanIsTheNaiveInterpreters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := drawNode(t, 4)
		raw, err := json.Marshal(root.config("root", 1))
		if err != nil {
			t.Fatal(err)
		}
		c, faults := Parse(raw, Options{Saved: true})
		if len(faults) > 0 {
			t.Fatalf("%s: %s", raw, faults.Err())
		}
		w := &planWorld{k: rapid.IntRange(0, 2).Draw(t, "k"), open: make(map[string]bool), outcomes: make(map[string]Outcome)}
		for _, leaf := range leaves(c.Root) {
			w.open[leaf.Path] = rapid.IntRange(0, 2).Draw(t, "open") == 0
			w.outcomes[leaf.Path] = Outcome{
				Status:           rapid.SampledFrom([]int{200, 201, 400, 429, 500, 503}).Draw(t, "status"),
				GatewayException: rapid.IntRange(0, 9).Draw(t, "exception") == 0,
			}
		}
		w.run(root, "config", false)
		got, err := walk(c, Input{Body: fmt.Appendf(nil, `{"k":%d}`, w.k), Circuit: &openPaths{open: w.open}}, func(path string) Outcome { return w.outcomes[path] })
		if !slices.Equal(got, w.tried) || (err != nil) != w.lost {
			t.Fatalf("%s:\n got %s %v\nwant %s %v", raw, got, err, w.tried, w.lost)
		}
	})
}

// near reports whether count of n is what a share of it should be, within seven
// standard deviations.
func near(count, n int, share float64) bool {
	return math.Abs(float64(count)-float64(n)*share) <= 7*math.Sqrt(float64(n)*share*(1-share))+1e-9
}

func drawWeights(t *rapid.T) (weights []float64, total float64) {
	weights = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.5, 1, 2, 7}), 1, 6).Draw(t, "weights")
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		weights[0], total = 1, 1
	}
	return weights, total
}

func balanced(t *rapid.T, strategy string, weights []float64) *Config {
	targets := make([]string, len(weights))
	for i, w := range weights {
		targets[i] = fmt.Sprintf(`{"virtual_key":"k","weight":%v}`, w)
	}
	c, faults := Parse([]byte(`{"strategy":`+strategy+`,"targets":[`+strings.Join(targets, ",")+`]}`), Options{Saved: true})
	if len(faults) > 0 {
		t.Fatal(faults.Err())
	}
	return c
}

func TestLoadBalanceChoosesByWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights, total := drawWeights(t)
		c := balanced(t, `{"mode":"loadbalance"}`, weights)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		counts := make(map[string]int)
		const n = 3000
		for range n {
			p, err := c.Plan(Input{}, r)
			if err != nil {
				t.Fatal(err)
			}
			counts[p.Target().Path]++
			if next, ok := p.Next(Outcome{Status: 500}); ok {
				t.Fatalf("load balance failed over to %s", next.Path)
			}
		}
		for i, w := range weights {
			if got := counts[fmt.Sprintf("config.targets[%d]", i)]; !near(got, n, w/total) {
				t.Fatalf("weights %v: target %d was chosen %d times of %d", weights, i, got, n)
			}
		}
	})
}

func TestStickyChoosesByWeightAndKeepsTheChoice(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	rapid.Check(t, func(t *rapid.T) {
		weights, total := drawWeights(t)
		c := balanced(t, `{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.user"],"ttl":60}}`, weights)
		version := fmt.Sprint(rapid.Uint64().Draw(t, "version"))
		counts := make(map[string]int)
		const n = 2000
		for i := range n {
			f := Input{KeyID: "key", Version: version, Now: now, Metadata: func(string) json.RawMessage { return fmt.Appendf(nil, `"u%d"`, i) }}
			first, _ := c.Plan(f, nil) // no randomness is asked for
			again, _ := c.Plan(f, nil)
			if first.Target() != again.Target() {
				t.Fatal("the same call went elsewhere")
			}
			counts[first.Target().Path]++
		}
		for i, w := range weights {
			if got := counts[fmt.Sprintf("config.targets[%d]", i)]; !near(got, n, w/total) {
				t.Fatalf("weights %v: target %d was chosen %d times of %d", weights, i, got, n)
			}
		}
	})
}

func TestStickyLastsForItsTimeAndMovesOnlyWhoMust(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	c := parse(t, `{"strategy":{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["headers.x-user"],"ttl":60},"cb_config":{"failure_threshold":1}},
		"targets":[`+vk+`,`+vk+`,`+vk+`,`+vk+`]}`)
	choose := func(user, key, version string, at time.Time, open ...string) string {
		circuit := &openPaths{open: make(map[string]bool)}
		for _, path := range open {
			circuit.open[path] = true
		}
		p, err := c.Plan(Input{KeyID: key, Version: version, Now: at, Header: map[string][]string{"X-User": {user}}, Circuit: circuit}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.Target().Path
	}
	changes, periods, byKey, byVersion := 0, 0, 0, 0
	for i := range 200 {
		user := fmt.Sprint("u", i)
		before := choose(user, "k", "1", now)
		if before != choose(user, "other", "1", now) {
			byKey++
		}
		if before != choose(user, "k", "2", now) {
			byVersion++
		}
		// One target goes: nobody else moves.
		if after := choose(user, "k", "1", now, "config.targets[2]"); before != "config.targets[2]" && after != before || after == "config.targets[2]" {
			t.Fatalf("%s moved from %s to %s", user, before, after)
		}
		// Within two periods of a minute, a choice changes at most twice.
		last, n := before, 0
		for s := range 120 {
			if next := choose(user, "k", "1", now.Add(time.Duration(s)*time.Second)); next != last {
				last, n = next, n+1
			}
		}
		if n > 2 {
			t.Fatalf("%s moved %d times in two minutes", user, n)
		}
		changes += n
		periods += 2
	}
	if changes == 0 || byKey == 0 || byVersion == 0 {
		t.Errorf("changes in time: %d of %d, by key: %d, by version: %d", changes, periods, byKey, byVersion)
	}
}

// A target that does not serve the endpoint is no failure that a strategy could leave out.
func TestAFallbackGoesOnWhereATargetDoesNotServeTheEndpoint(t *testing.T) {
	c, faults := Parse([]byte(`{"strategy":{"mode":"fallback","on_status_codes":[503]},"targets":[`+vk+`,`+vk+`,`+vk+`]}`), Options{Saved: true})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	paths, err := walk(c, Input{}, func(path string) Outcome {
		return Outcome{Status: 400, Unserved: strings.HasSuffix(path, "[0]")}
	})
	if want := []string{"config.targets[0]", "config.targets[1]"}; err != nil || !slices.Equal(paths, want) {
		t.Errorf("got %v, %v, want %v", paths, err, want)
	}
}
