package routing

import (
	"maps"
	"slices"
)

// VendorNames has the names of all vendors' keys, sorted.
var VendorNames = slices.Sorted(maps.Keys(vendorKeys))
