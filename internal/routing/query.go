package routing

import (
	"regexp"
	"regexp/syntax"
)

const (
	maxConditions = 5000
	maxQuery      = 16    // how deep $and and $or nest
	maxRegex      = 512   // bytes of an expression
	maxRegexes    = 5_000 // compiled instructions of all expressions of a config
)

func (p *parser) conditions(t *Target, path string, v []byte) {
	p.list(path, v, 1, maxConditions, func(at string, v []byte) {
		c := Condition{Then: -1}
		found := false
		if !p.object(at, v, func(at, name string, v []byte) {
			switch name {
			case "query":
				c.query = p.query(at, v, 1)
			case "then":
				found = true
				c.Then = p.reference(t, at, v)
			default:
				p.errorf(at, "unknown key%s", suggestion(name))
			}
		}) {
			return
		}
		if c.query == nil {
			p.errorf(in(at, "query"), "required")
		}
		if !found {
			p.errorf(in(at, "then"), "required: the name of a target")
		}
		t.Strategy.Conditions = append(t.Strategy.Conditions, c)
	})
}

// query parses an object all of whose members must match. If there is an error, the result
// is unusable.
func (p *parser) query(path string, v []byte, depth int) query {
	q, n := all{}, 0
	if depth > maxQuery {
		p.errorf(path, "nested more than %d deep", maxQuery)
		return q
	}
	if p.object(path, v, func(at, name string, v []byte) {
		n++
		switch {
		case name == "":
			p.errorf(at, "expected a field, $and or $or")
		case name == "$and":
			q = append(q, all(p.queries(at, v, depth)))
		case name == "$or":
			q = append(q, anyOf(p.queries(at, v, depth)))
		case name[0] == '$':
			p.errorf(at, "unknown operator: expected a field, $and or $or")
		default:
			if f, ok := p.field(at, name, true); ok {
				q = append(q, p.comparisons(at, v, f)...)
			}
		}
	}) && n == 0 {
		p.errorf(path, "expected at least one comparison")
	}
	return q
}

func (p *parser) queries(path string, v []byte, depth int) (list []query) {
	p.list(path, v, 1, maxConditions, func(at string, v []byte) {
		list = append(list, p.query(at, v, depth+1))
	})
	return list
}

// comparisons parses what a field is compared with: a scalar, which it must equal, or an
// object of operators.
func (p *parser) comparisons(path string, v []byte, f int) (list []query) {
	if v[0] != '{' {
		if w, ok := p.scalar(path, v); ok {
			list = append(list, &comparison{field: f, op: opEq, with: []value{w}})
		}
		return list
	}
	n := 0
	p.object(path, v, func(at, name string, v []byte) {
		n++
		c := &comparison{field: f, op: operator(name)}
		ok := true
		switch c.op {
		case opEq, opNe:
			var w value
			w, ok = p.scalar(at, v)
			c.with = []value{w}
		case opGt, opGte, opLt, opLte:
			w := valueOf(v)
			if _, ok = w.compare(&w); !ok {
				p.errorf(at, "expected a number")
			}
			c.with = []value{w}
		case opIn, opNin:
			p.list(at, v, 1, maxConditions, func(at string, v []byte) {
				w, _ := p.scalar(at, v)
				c.with = append(c.with, w)
			})
		case opRegex:
			c.regex = p.regex(at, v)
		default:
			ok = false
			p.errorf(at, "unknown operator: expected $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $regex")
		}
		if ok {
			list = append(list, c)
		}
	})
	if n == 0 {
		p.errorf(path, "expected an operator")
	}
	return list
}

func (p *parser) scalar(path string, v []byte) (value, bool) {
	w := valueOf(v)
	if w.kind == compound {
		p.errorf(path, "expected a string, a number, true, false or null")
	}
	return w, w.kind != compound
}

// regex compiles an RE2 expression, whose matching time is linear in the length of the
// text.
func (p *parser) regex(path string, v []byte) *regexp.Regexp {
	s := p.text(path, v, maxRegex)
	if s == "" {
		return nil
	}
	const expected = "expected a regular expression of RE2, without lookaround and backreferences"
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		p.errorf(path, expected)
		return nil
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		p.errorf(path, expected)
		return nil
	}
	if p.regexes += len(program.Inst); p.regexes > maxRegexes {
		p.errorf(path, "the regular expressions of this config are too much work together")
		return nil
	}
	r, err := regexp.Compile(s)
	if err != nil {
		p.errorf(path, expected)
	}
	return r
}
