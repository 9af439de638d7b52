package routing

// spliced returns the object b with ops applied, whose paths start with a name, or b itself
// if they change nothing.
func spliced(b []byte, ops []op) ([]byte, error) {
	s, err := splice(b, ops)
	if err != nil || !s.changed {
		return b, err
	}
	return s.append(make([]byte, 0, s.size)), nil
}

// A splicing is an object and the changes to it, found in one scan and written in one copy.
// It changes the members of a body; sjson would scan and copy the whole body for each of
// them, and is only used for changes within a member. See
// docs/decisions/001-edits-of-bodies.md.
type splicing struct {
	b       []byte
	hits    []hit // the members that are touched, in order
	groups  []group
	members int
	last    int // end of the last member
	closing int // position of the closing brace
	changed bool
	size    int // an upper bound of the result's size
}

// A group is the changes to one member.
type group struct {
	name  string
	ops   []op   // with the rest of their paths
	hit   int    // index of the member's last occurrence; -1: it is missing
	value []byte // the new value; nil: none
	keep  bool   // the value does not change
}

// A hit is a member that a group touches.
type hit struct {
	member
	group   int
	ordinal int // index among all members
	before  int // end of the previous member
	after   int // start of the next member; 0: it is the last
}

// splice finds what ops, whose paths start with a name, change in the object b.
func splice(b []byte, ops []op) (*splicing, error) {
	s := &splicing{b: b, groups: make([]group, 0, len(ops)), hits: make([]hit, 0, len(ops))}
	for _, o := range ops {
		s.add(o)
	}
	pending := false // the last hit does not have its after yet
	closing, err := eachMember(b, func(m member) {
		if pending {
			s.hits[len(s.hits)-1].after, pending = m.key, false
		}
		for g := range s.groups {
			if m.is(s.groups[g].name) {
				s.groups[g].hit = len(s.hits)
				s.hits = append(s.hits, hit{member: m, group: g, ordinal: s.members, before: s.last})
				pending = true
				break
			}
		}
		s.members++
		s.last = m.end
	})
	if err != nil {
		return nil, err
	}
	s.closing = closing
	return s, s.resolve()
}

func (s *splicing) add(o op) {
	name, rest := o.path[0].Name, o
	rest.path = o.path[1:]
	for g := range s.groups {
		if s.groups[g].name == name {
			s.groups[g].ops = append(s.groups[g].ops, rest)
			return
		}
	}
	s.groups = append(s.groups, group{name: name, ops: []op{rest}, hit: -1})
}

// resolve computes the new values.
func (s *splicing) resolve() error {
	s.size = len(s.b)
	for g := range s.groups {
		g := &s.groups[g]
		var old []byte
		if g.hit >= 0 {
			h := &s.hits[g.hit]
			old = s.b[h.start:h.end]
		}
		g.value = old
		for _, o := range g.ops {
			var err error
			if g.value, err = o.apply(g.value); err != nil {
				return err
			}
		}
		g.keep = same(g.value, old)
		if g.keep {
			continue
		}
		s.changed = true
		s.size += len(g.value)
		if g.hit < 0 {
			s.size += 2*len(g.name) + 4
		}
	}
	if len(s.hits) > 0 { // duplicates of a member are reduced to one
		n := 0
		for g := range s.groups {
			if s.groups[g].hit >= 0 {
				n++
			}
		}
		s.changed = s.changed || n < len(s.hits)
	}
	return nil
}

// append writes the resulting object.
func (s *splicing) append(out []byte) []byte {
	from := 0    // start of what is not yet written
	removed := 0 // number of members so far
	for i := range s.hits {
		h := &s.hits[i]
		g := &s.groups[h.group]
		switch {
		case g.hit == i && g.keep:
		case g.hit == i && g.value != nil:
			out = append(append(out, s.b[from:h.start]...), g.value...)
			from = h.end
		case h.ordinal > removed: // an earlier member is kept: remove the comma between them
			out = append(out, s.b[from:h.before]...)
			from = h.end
			removed++
		default: // no earlier member is kept: remove the comma after it
			out = append(out, s.b[from:h.key]...)
			if from = h.after; from == 0 {
				from = h.end
			}
			removed++
		}
	}
	some := s.members > removed
	var made bool
	for i := range s.groups {
		g := &s.groups[i]
		if g.hit >= 0 || g.keep {
			continue
		}
		if !made {
			made = true
			end := s.last
			if s.members == 0 {
				end = s.closing
			}
			if end > from {
				out = append(out, s.b[from:end]...)
				from = end
			}
		}
		if some {
			out = append(out, ',')
		}
		some = true
		out = append(append(append(out, quote(g.name)...), ':'), g.value...)
	}
	return append(out, s.b[from:]...)
}
