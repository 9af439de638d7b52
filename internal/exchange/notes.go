package exchange

import (
	"iter"
	"slices"

	"github.com/caddy-gw/gateway/internal/reqlog"
)

// A Note is what a stage has to say in the record of a call. It outlives the holds of the stage.
type Note interface {
	// Record writes it into the record of the call, which has ended.
	Record(r *reqlog.Record)
}

// A DeferredNote is complete only when work is done that follows the call.
type DeferredNote interface {
	Note
	// Deferred returns the work, and how many bytes of memory it needs; nil: there is none. If there
	// is no room for it, the work only notes that. It needs nothing of the call that
	// [Exchange.Close] releases.
	Deferred() (bytes int, work func(room bool))
}

// Notes are those of a call, by the stages that they are of.
type Notes []stageNote

type stageNote struct {
	stage any
	note  Note
}

// Set sets the note of a stage, which is anything comparable; nil: it has none.
func (n *Notes) Set(stage any, note Note) {
	*n = slices.DeleteFunc(*n, func(s stageNote) bool { return s.stage == stage })
	if note != nil {
		*n = append(*n, stageNote{stage, note})
	}
}

// All are the notes of all stages, in the order in which they were set.
func (n Notes) All() iter.Seq[Note] {
	return func(yield func(Note) bool) {
		for _, s := range n {
			if !yield(s.note) {
				return
			}
		}
	}
}
