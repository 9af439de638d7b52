package validation

import (
	"fmt"
	"net/url"
	"strings"
)

// A Query is the query table of an endpoint.
type Query []Parameter

// A Parameter is a parameter of a query. The rules of strings and integers in a body apply;
// an integer consists of digits only.
type Parameter struct {
	Name  string
	Value Value
	List  bool // may be given more than once: see List
}

// BatchList is the query of GET /batches.
var BatchList = Query{
	{Name: "after", Value: text},
	{Name: "limit", Value: integer.between(1, 100)},
}

// FineTuningJobList is the query of GET /fine_tuning/jobs, whose limit has no
// upper bound.
var FineTuningJobList = Query{
	{Name: "after", Value: text},
	{Name: "limit", Value: integer.atLeast(1)},
}

// ResponseGet is the query of GET /responses/{response_id}. Clients know
// newer values of include than the three of old, so that any value
// is passed on.
var ResponseGet = Query{
	{Name: "include", Value: text, List: true},
}

// CheckQuery validates a query. Parameters that are not in the table are never refused.
func CheckQuery(q Query, values url.Values) *Error {
	for i := range q {
		p := &q[i]
		given := values[p.Name]
		if p.List {
			given = List(values, p.Name)
		} else if len(given) > 1 {
			return &Error{p.Name, DuplicateField, fmt.Sprintf("Invalid '%s': the parameter is given more than once.", p.Name)}
		}
		for _, value := range given {
			if fault := p.check(value); fault != nil {
				return fault
			}
		}
	}
	return nil
}

func (p *Parameter) check(value string) *Error {
	if p.Value.Kinds != Integer {
		return nil
	}
	c := checker{}
	c.push(step{name: p.Name})
	digits := strings.TrimPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		c.wrongType(Integer, "'"+clip(value)+"'")
		return c.err
	}
	c.bounds(&p.Value, []byte(value))
	return c.err
}

// List returns the values of a parameter that may be repeated, in any of three forms:
// name=a&name=b, name[]=a&name[]=b, name=a,b.
func List(values url.Values, name string) []string {
	var list []string
	for _, spelling := range []string{name, name + "[]"} {
		for _, value := range values[spelling] {
			for one := range strings.SplitSeq(value, ",") {
				if one = strings.TrimSpace(one); one != "" {
					list = append(list, one)
				}
			}
		}
	}
	return list
}
