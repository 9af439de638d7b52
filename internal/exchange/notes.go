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

// notes are those of a call, by the stages that they are of.
type notes []stageNote

type stageNote struct {
	stage any
	note  Note
}

// SetNote sets the note of a stage, which is anything comparable; nil: it has none.
func (x *Exchange) SetNote(stage any, n Note) {
	x.notes = slices.DeleteFunc(x.notes, func(s stageNote) bool { return s.stage == stage })
	if n != nil {
		x.notes = append(x.notes, stageNote{stage, n})
	}
}

// Notes are the notes of all stages, in the order in which they were set.
func (x *Exchange) Notes() iter.Seq[Note] {
	return func(yield func(Note) bool) {
		for _, s := range x.notes {
			if !yield(s.note) {
				return
			}
		}
	}
}
