package storage_test

import (
	"crypto/rand"
	"regexp"
	"slices"
	"testing"

	"github.com/caddy-gw/gateway/storage"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestNewIDsSortByTheTimeTheyWereMade(t *testing.T) {
	ids := make([]string, 2000)
	for i := range ids {
		if ids[i] = storage.NewID(rand.Reader); !uuidV7.MatchString(ids[i]) {
			t.Fatalf("%q is not a UUID of version 7", ids[i])
		}
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 2000 {
		t.Error("ids do not sort by the time they were made, or repeat")
	}
}
