package validation

import "github.com/caddy-gw/gateway/providers/jsonscan"

// siblings checks the rules between the fields of an object that was read.
func (c *checker) siblings(f *Fields, given []Span) {
	for _, i := range f.checked {
		row := &f.rows[i]
		if !c.has(given[i]) {
			if row.Need == Required || row.RequiredWith.Field != "" && c.is(f, given, row.RequiredWith) {
				c.push(step{name: row.Name})
				c.err = missing(c.param())
				return
			}
			continue
		}
		if c.draft {
			continue
		}
		c.push(step{name: row.Name})
		switch {
		case row.OnlyWith != "" && !c.isTrue(f.value(given, row.OnlyWith)):
			c.fail(InvalidValue, "it may only be given when '%s' is true.", row.OnlyWith)
		case row.NotWith != "" && c.isTrue(f.value(given, row.NotWith)):
			c.fail(InvalidValue, "it may not be given when '%s' is true.", row.NotWith)
		case row.Above != "" && c.has(f.value(given, row.Above)):
			own, other := c.read(given[i]), c.read(f.value(given, row.Above))
			if parseDecimal(own).compare(parseDecimal(other)) <= 0 {
				c.fail(InvalidValue, "expected a value greater than '%s', which is %s, but got %s instead.", row.Above, clip(string(other)), clip(string(own)))
			}
		}
		if c.err != nil {
			return
		}
		c.pop()
	}
}

func (f *Fields) value(given []Span, name string) Span { return given[f.find([]byte(name))] }

func (c *checker) read(s Span) []byte { return c.scan[s.Start:s.End] }

func (c *checker) has(s Span) bool { return s.End != 0 && c.scan[s.Start] != 'n' }

func (c *checker) isTrue(s Span) bool { return s.End != 0 && c.scan[s.Start] == 't' }

func (c *checker) is(f *Fields, given []Span, is Is) bool {
	s := f.value(given, is.Field)
	return c.has(s) && c.scan.Kind(s.Start) == jsonscan.String && jsonscan.Unquote(c.read(s)) == is.Value
}
