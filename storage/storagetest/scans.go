package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

func testScan(t *testing.T, s storage.Store) {
	const f, ff = "\xff", "\xff\xff"
	all := []string{"a", "a\x00", "a" + f, "a" + f + "z", "a" + ff, "b", "bb", "c", f, f + "x", ff, ff + f}
	for _, key := range all {
		put(t, s, kv{key, "of " + key})
	}
	tests := []struct {
		prefix, start string
		want          []string // forward
		wantReverse   []string // reverse, where start makes a difference
	}{
		{"", "", all, nil},
		{"a", "", all[0:5], nil},
		{"a" + f, "", all[2:5], nil},
		{"a" + ff, "", all[4:5], nil},
		{"b", "", all[5:7], nil},
		{"bbb", "", nil, nil},
		{f, "", all[8:12], nil},
		{ff, "", all[10:12], nil},
		{ff + f, "", all[11:12], nil},
		{ff + ff, "", nil, nil},
		{"", "b", all[5:], all[:6]},
		{"", "ba", all[6:], all[:6]},
		{"a", "a\x00", all[1:5], all[:2]},
		{"a", "a\x01", all[2:5], all[:2]},
		{"a", "a" + ff + f, nil, all[:5]},
		{"b", "a", all[5:7], nil}, // start before the prefix
		{"b", "c", nil, all[5:7]}, // start after it
		{"b", "b", all[5:7], all[5:6]},
		{f, f, all[8:12], all[8:9]},
		{"", "\x00", all, nil},
		{"", ff + ff, nil, all},
	}
	check := func(tx storage.Tx) error {
		for _, test := range tests {
			backward := slices.Clone(test.wantReverse)
			if test.start == "" {
				backward = slices.Clone(test.want)
			}
			slices.Reverse(backward)
			for reverse, want := range map[bool][]string{false: test.want, true: backward} {
				items, err := scan(tx, test.prefix, test.start, reverse)
				if err != nil {
					return err
				}
				if got := keysOf(items); !slices.Equal(got, want) {
					return fmt.Errorf("Scan(%q, %q, %t): got %q, want %q", test.prefix, test.start, reverse, got, want)
				}
				for _, item := range items {
					if item.value != "of "+item.key {
						return fmt.Errorf("scan: %q has the value %q", item.key, item.value)
					}
				}
			}
		}
		return nil
	}
	view(t, s, check)
	update(t, s, check)
	// The same of what the transaction itself has written, over rows that it
	// has deleted.
	update(t, s, func(tx storage.Tx) error {
		for i, key := range append([]string{"0", "aa", "d", f + "0"}, all...) {
			if err := tx.Set([]byte(key), []byte("of "+key)); err != nil {
				return err
			}
			if i < 4 {
				if err := tx.Delete([]byte(key)); err != nil {
					return err
				}
			}
		}
		return check(tx)
	})

	view(t, s, func(tx storage.Tx) error {
		// A scan that is left early, and one that runs twice.
		seq := tx.Scan([]byte("a"), nil, false)
		for range 2 {
			for item, err := range seq {
				if err != nil || string(item.Key) != "a" {
					return fmt.Errorf("first of a: %q, %w", item.Key, err)
				}
				break
			}
		}
		return nil
	})
}

func testNestedScan(t *testing.T, s storage.Store) {
	put(t, s, kv{"a1", ""}, kv{"a2", ""}, kv{"b1", ""}, kv{"b2", ""})
	nested := func(tx storage.Tx) error {
		var got []string
		for outer, err := range tx.Scan([]byte("a"), nil, false) {
			if err != nil {
				return err
			}
			for inner, err := range tx.Scan([]byte("b"), nil, true) {
				if err != nil {
					return err
				}
				if _, err := tx.Get(inner.Key); err != nil {
					return err
				}
				got = append(got, string(outer.Key)+string(inner.Key))
			}
		}
		if want := []string{"a1b2", "a1b1", "a2b2", "a2b1"}; !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	}
	view(t, s, nested)
	update(t, s, nested)
}

func testWriteDuringScan(t *testing.T, s storage.Store) {
	put(t, s, kv{"a", "1"}, kv{"b", "2"}, kv{"c", "3"})
	update(t, s, func(tx storage.Tx) error {
		var got []string
		for item, err := range tx.Scan(nil, nil, false) {
			if err != nil {
				return err
			}
			got = append(got, string(item.Key))
			err := errors.Join(tx.Delete(item.Key), tx.Set([]byte("0"+string(item.Key)), item.Value))
			if err != nil {
				return err
			}
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	view(t, s, func(tx storage.Tx) error {
		items, err := scan(tx, "", "", false)
		if want := []kv{{"0a", "1"}, {"0b", "2"}, {"0c", "3"}}; err == nil && !slices.Equal(items, want) {
			err = fmt.Errorf("got %q, want %q", items, want)
		}
		return err
	})
}
