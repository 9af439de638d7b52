package reqlog

import "context"

// A Store keeps records of calls, and is all that is known of how that is done. [Log] is
// the one over a [storage.Store] that a single process uses; it is no table of that store's,
// since a row for each call costs too much. Every Store passes the suite in reqlogtest. It
// is safe for concurrent use.
type Store interface {
	// Add queues a record, which is the store's from now on and gets its ID from it, and
	// reports whether it did. It never waits for the disk. What was queued can be read
	// within a second.
	Add(r *Record) bool

	// List returns a page of the records that match, the newest first, and how many do.
	List(ctx context.Context, f *Filter, p Page) (*List, error)

	// Find returns the record with this id, or the latest one with this trace id, of those
	// that the filter lets pass; nil: there is none.
	Find(ctx context.Context, id string, f *Filter) (*Record, error)

	// Bodies reads what is kept of a record's bodies. A body that is kept no more is nil
	// from then on.
	Bodies(ctx context.Context, r *Record) error

	// Configure says what is kept from now on. What may not be any more is dropped, in
	// the background.
	Configure(s Settings)

	// MaxBody is what is to be kept of each body of a call, in bytes; 0: none is.
	MaxBody() int

	// Lost and LostBodies return how many records were lost, and of how many the bodies.
	Lost() int64
	LostBodies() int64

	// Close writes what is queued. Records that are added later are lost.
	Close()
}

// Interface guards
var _ Store = (*Log)(nil)
