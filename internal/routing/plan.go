package routing

import "crypto/sha256"

// A Rand returns numbers in [0, 1), like *rand.Rand of math/rand/v2.
type Rand interface{ Float64() float64 }

// A Circuit has the state of the circuit breakers of targets.
type Circuit interface {
	Open(t *Target) bool // whether t must not be called
	StartCall(t *Target) // t was chosen, and its outcome will be reported
}

// An Outcome is the outcome of a leaf, including its retries.
type Outcome struct {
	Status int // of the answer, or of the error if there was none (408, 500, 503)
	// GatewayException is set if the gateway itself caused the failure, so that no other
	// target is tried.
	GatewayException bool
	// Unserved is set if the target does not serve such calls, so that the next one is tried
	// whatever statuses the strategy lists.
	Unserved bool
}

// A RouteError means that no condition matches a call. The call is answered with 400.
type RouteError struct{ Path string } // of the strategy's node

func (e *RouteError) Error() string {
	return "no condition of the conditional strategy at " + e.Path + " matches this call, and it has no default"
}

// An UnreadError means that the routing of a call depends on a parameter of a body that was
// not read. The call is answered with 400.
type UnreadError struct{ Path, Field string } // of the strategy's node; what a condition reads

func (e *UnreadError) Error() string {
	return "a condition of the conditional strategy at " + e.Path + " reads " + e.Field + ", and the body of this call is not read"
}

// A Plan returns the leaves of a config for one call, one at a time. It is not safe for
// concurrent use.
type Plan struct {
	facts   fieldReader
	rand    Rand
	target  *Target
	err     error
	frames  []frame
	storage [4]frame // for frames, unless strategies are nested more deeply
}

// A frame is the state of a fallback.
type frame struct {
	node   *Target
	next   int  // the target after the current one
	bypass bool // all breakers are open, so they are ignored
}

// Plan starts the plan of a call, whose Target is then the first leaf. The error is a
// *RouteError or an *UnreadError.
func (c *Config) Plan(f Input, r Rand) (*Plan, error) {
	p := &Plan{facts: fieldReader{Input: f, fields: c.fields}, rand: r}
	p.frames = p.storage[:0]
	p.descend(c.Root)
	return p, p.err
}

// Target returns the current leaf, or nil if the plan has ended.
func (p *Plan) Target() *Target { return p.target }

// Next records the outcome of the current leaf and advances to the next one. It returns
// false if there is none. Then the last outcome is that of the call, unless Err says that
// no condition of a strategy matched.
func (p *Plan) Next(o Outcome) (*Target, bool) {
	p.target = nil
	for len(p.frames) > 0 && !o.GatewayException {
		f := &p.frames[len(p.frames)-1]
		if o.Unserved || f.node.Strategy.moves(o.Status) {
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

// Err returns the error that ended the plan, if any.
func (p *Plan) Err() error { return p.err }

// moves reports whether a fallback continues with the next target after a status.
func (s *Strategy) moves(status int) bool {
	if s.OnStatusCodes != nil {
		return s.OnStatusCodes.Has(status)
	}
	return status < 200 || status > 299
}

// descend descends from t to the leaf that the strategies choose.
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
		p.facts.Circuit.StartCall(t)
	}
}

// first returns the first target of node whose breaker is not open. If all are open,
// breakers are ignored.
func (p *Plan) first(node *Target) (i int, bypass bool) {
	if i = p.choice(node, 0, false); i < 0 {
		return 0, true
	}
	return i, false
}

// choice returns the first target of node, from index i on, whose breaker is not open, or
// -1.
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
			// Choosing each with probability weight/total replaces those before it in the
			// right proportion.
			total += child.Weight
			if chosen < 0 || p.rand.Float64()*total < child.Weight {
				chosen = i
			}
		}
		if chosen >= 0 {
			return chosen
		}
	}
	return 0 // not reached: Parse requires a positive weight
}

// route returns the index of the target that the conditions choose, or -1.
func (s *Strategy) route(f *fieldReader) int {
	for i := range s.Conditions {
		if s.Conditions[i].query.match(f) {
			return s.Conditions[i].Then
		}
	}
	return s.Default
}

// open reports whether the strategy of node skips a target: a leaf whose breaker is open,
// or a node all of whose leaves are such.
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
