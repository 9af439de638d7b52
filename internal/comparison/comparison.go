// Package comparison compares values with those that a check of a guardrail wants, by the names that
// configs give to the ways to do it.
package comparison

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/guardrails"
	"github.com/caddy-gw/gateway/internal/jsregexp"
)

// The ways to compare.
const (
	Exact       = "exact"       // there is one value, which is one of those that are wanted
	Contains    = "contains"    // a value contains one that is wanted
	ContainsAll = "containsAll" // each that is wanted is contained in a value
	Regex       = "regex"       // a value matches one of the regular expressions of JavaScript
)

// Ways are all of them.
var Ways = []string{Exact, Contains, ContainsAll, Regex}

// A Func reports whether values are those that are wanted. Its error is that of a check.
type Func func(ctx context.Context, values []string) (bool, error)

// New returns the comparison with values, in one of the [Ways]. The error is about a regular expression.
func New(way string, wanted []string) (Func, error) {
	switch way {
	case Contains:
		return func(_ context.Context, values []string) (bool, error) {
			return slices.ContainsFunc(wanted, func(w string) bool { return contain(values, w) }), nil
		}, nil
	case ContainsAll:
		return func(_ context.Context, values []string) (bool, error) {
			return !slices.ContainsFunc(wanted, func(w string) bool { return !contain(values, w) }), nil
		}, nil
	case Regex:
		return matches(wanted)
	}
	return func(_ context.Context, values []string) (bool, error) {
		return len(values) == 1 && slices.Contains(wanted, values[0]), nil
	}, nil
}

func contain(values []string, part string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, part) })
}

func matches(rules []string) (Func, error) {
	size := 0
	patterns := make([]*jsregexp.Regexp, 0, len(rules))
	for _, rule := range rules {
		re, _, _, err := jsregexp.Parse(rule)
		if err != nil {
			return nil, err
		}
		if size += re.Size(); size > jsregexp.MaxSize {
			return nil, fmt.Errorf("expected regular expressions of at most %d characters together once their repetitions are written out", jsregexp.MaxSize)
		}
		patterns = append(patterns, re)
	}
	return func(ctx context.Context, values []string) (bool, error) {
		for _, v := range values {
			for _, re := range patterns {
				if found, err := re.Match(ctx, v); found || err != nil {
					return found, SearchError(ctx, err)
				}
			}
		}
		return false, nil
	}, nil
}

// SearchError is the error of a check whose search for a regular expression was given up.
func SearchError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, jsregexp.ErrTimeout), errors.Is(err, jsregexp.ErrMemory):
		return guardrails.Unreadable(err.Error())
	}
	return err
}
