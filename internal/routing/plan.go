package routing

import "crypto/sha256"

// A Rand gives numbers in [0, 1); *rand.Rand of math/rand/v2 is one.
type Rand interface{ Float64() float64 }

// A Circuit knows which targets are out of the choices for now.
type Circuit interface {
	Open(t *Target) bool // whether t is left out
	Try(t *Target)       // t was chosen and will be reported on
}

// An Outcome is what became of a leaf, retries included.
type Outcome struct {
	Status int // of the answer, or of the error in its place (408, 500, 503)
	// GatewayException: the fault is the gateway's own, so no other target is tried.
	GatewayException bool
}

// A RouteError is a call that no condition fits; the answer is a 400.
type RouteError struct{ Path string } // of the strategy's node

func (e *RouteError) Error() string {
	return "no condition of the conditional strategy at " + e.Path + " matches this call, and it has no default"
}

// An UnreadError is a call whose way depends on a parameter of a body that was not read;
// the answer is a 400.
type UnreadError struct{ Path, Field string } // of the strategy's node; what a condition reads

func (e *UnreadError) Error() string {
	return "a condition of the conditional strategy at " + e.Path + " reads " + e.Field + ", and the body of this call is not read"
}

// A Plan hands out the leaves of a config for one call, one at a time. It is not
// safe for concurrent use.
type Plan struct {
	facts   facts
	rand    Rand
	target  *Target
	err     error
	frames  []frame
	storage [4]frame // of frames, unless strategies nest deeper
}

// A frame is a fallback that is under way.
type frame struct {
	node   *Target
	next   int  // the target after the one that is tried
	bypass bool // every breaker is open, so none counts
}

// Plan starts the plan of a call: Target is its first leaf. The error is a
// *RouteError or an *UnreadError.
func (c *Config) Plan(f Facts, r Rand) (*Plan, error) {
	p := &Plan{facts: facts{Facts: f, fields: c.fields}, rand: r}
	p.frames = p.storage[:0]
	p.descend(c.Root)
	return p, p.err
}

// Target is the leaf to call now, nil when the plan is over.
func (p *Plan) Target() *Target { return p.target }

// Next takes what became of the leaf and moves on to the next one; false when
// there is none, and then the last outcome is the call's, or Err says that the way
// led to a conditional strategy that nothing fits.
func (p *Plan) Next(o Outcome) (*Target, bool) {
	p.target = nil
	for len(p.frames) > 0 && !o.GatewayException {
		f := &p.frames[len(p.frames)-1]
		if f.node.Strategy.moves(o.Status) {
			if i := p.choice(f.node, f.next, f.bypass); i >= 0 {
				f.next = i + 1
				p.descend(f.node.Targets[i])
				return p.target, p.target != nil
			}
		}
		p.frames = p.frames[:len(p.frames)-1] // its outcome is that of its last target
	}
	p.frames = nil
	return nil, false
}

// Err is the error that ended the plan, if one did.
func (p *Plan) Err() error { return p.err }

// moves reports whether a status goes to the next target of a fallback.
func (s *Strategy) moves(status int) bool {
	if s.OnStatusCodes != nil {
		return s.OnStatusCodes.Has(status)
	}
	return status < 200 || status > 299
}

// descend goes down from t to the leaf that the strategies choose.
func (p *Plan) descend(t *Target) {
	for !t.Leaf() {
		var i int
		switch t.Strategy.Mode {
		case Fallback:
			var bypass bool
			i, bypass = p.first(t)
			p.frames = append(p.frames, frame{t, i + 1, bypass})
		case LoadBalance:
			i = p.balance(t)
		case Conditional:
			p.facts.needed = ""
			i = t.Strategy.route(&p.facts)
			switch {
			case p.facts.needed != "":
				p.err = &UnreadError{t.Path, p.facts.needed}
			case i < 0:
				p.err = &RouteError{t.Path}
			}
			if p.err != nil {
				p.frames = nil
				return
			}
		default:
			i, _ = p.first(t)
		}
		t = t.Targets[i]
	}
	p.target = t
	if t.Breaker != nil && p.facts.Circuit != nil {
		p.facts.Circuit.Try(t)
	}
}

// first is the first target of node that is not left out; where all are, none is.
func (p *Plan) first(node *Target) (i int, bypass bool) {
	if i = p.choice(node, 0, false); i < 0 {
		return 0, true
	}
	return i, false
}

// choice is the first target of node from index i on that is not left out, -1 where
// there is none.
func (p *Plan) choice(node *Target, i int, bypass bool) int {
	for ; i < len(node.Targets); i++ {
		if bypass || !p.open(node, node.Targets[i]) {
			return i
		}
	}
	return -1
}

// balance chooses by weight.
func (p *Plan) balance(t *Target) int {
	var hash [sha256.Size]byte
	sticky := t.Strategy.Sticky
	if sticky != nil {
		hash = sticky.hash(&p.facts, t.Path)
	}
	for _, bypass := range []bool{false, true} {
		chosen, total, best := -1, 0.0, 0.0
		for i, child := range t.Targets {
			if child.Weight == 0 || !bypass && p.open(t, child) {
				continue
			}
			if sticky != nil {
				if s := score(hash, i, child.Weight); chosen < 0 || s > best {
					chosen, best = i, s
				}
				continue
			}
			// Each takes the place of those before it as often as its share says.
			total += child.Weight
			if chosen < 0 || p.rand.Float64()*total < child.Weight {
				chosen = i
			}
		}
		if chosen >= 0 {
			return chosen
		}
	}
	return 0 // not reached: Parse wants a weight above 0
}

// route is the index of the target that the conditions choose, -1 for none.
func (s *Strategy) route(f *facts) int {
	for i := range s.Conditions {
		if s.Conditions[i].query.match(f) {
			return s.Conditions[i].Then
		}
	}
	return s.Default
}

// open reports whether the strategy of node leaves out one of its targets: a leaf
// whose breaker is open, or a node all of whose leaves are such.
func (p *Plan) open(node, target *Target) bool {
	if node.Strategy.Breaker == nil || p.facts.Circuit == nil {
		return false
	}
	if target.Leaf() {
		return target.Breaker != nil && p.facts.Circuit.Open(target)
	}
	return target.Strategy.Breaker != nil && p.allOpen(target)
}

func (p *Plan) allOpen(node *Target) bool {
	if node.Strategy.Breaker == nil || p.facts.Circuit == nil {
		return false
	}
	for _, child := range node.Targets {
		if !p.open(node, child) {
			return false
		}
	}
	return true
}
