package reqlog

import "context"

// A Store keeps the records of calls. [Log] implements it on top of a [storage.Store] that
// a single process uses; it does not use a row for each call, which would cost too much.
// Implementations have to pass the test suite in reqlogtest. A Store is safe for concurrent
// use.
type Store interface {
	// Add queues a record, which must not be changed afterwards and is assigned an ID, and
	// reports whether it was queued. It never waits for the disk. Queued records can be
	// read within a second.
	Add(r *Record) bool

	// List returns a page of the records that match, the newest first, and their number.
	List(ctx context.Context, f *Filter, p Page) (*List, error)

	// Find returns the record with the given id, or the latest one with the given trace id,
	// that matches the filter; nil if there is none.
	Find(ctx context.Context, id string, f *Filter) (*Record, error)

	// Bodies reads the stored bodies of a record. Bodies that are no longer stored are nil.
	Bodies(ctx context.Context, r *Record) error

	// Configure changes the settings. Records that exceed them are removed in the
	// background.
	Configure(s Settings)

	// MaxBody returns how much of each body of a call is to be kept, in bytes; 0: nothing.
	MaxBody() int

	// Lost and LostBodies return the numbers of lost records, and of records whose bodies
	// were lost.
	Lost() int64
	LostBodies() int64

	// Close writes what is queued. Records that are added later are lost.
	Close()
}

// Interface guards
var _ Store = (*Log)(nil)
