package routing

import (
	"container/list"

	"github.com/caddy-gw/gateway/internal/fairshare"
)

// A breakerTable has the states of breakers, at most a number of them. No workspace makes those of
// another be forgotten: one that has its fair share replaces its own, and a closed one before one
// that is open, by which calls are kept from a target. Only a table that workspaces with their fair
// shares fill together forgets closed breakers of any of them for one that has none.
type breakerTable struct {
	most       int
	states     map[BreakerKey]*breakerState
	workspaces map[string]*workspaceBreakers
	closed     *list.List // of *breakerState of all workspaces, the latest used first
}

// workspaceBreakers are the states of a workspace, the latest used first.
type workspaceBreakers struct{ closed, open *list.List }

func (w *workspaceBreakers) len() int { return w.closed.Len() + w.open.Len() }

// A placeInTable is where a state is in the lists of its table.
type placeInTable struct {
	open bool
	own  *list.Element // of the workspace's list
	all  *list.Element // of the table's list; nil: the breaker is open
}

func newBreakerTable(most int) breakerTable {
	return breakerTable{most: most, states: make(map[BreakerKey]*breakerState), workspaces: make(map[string]*workspaceBreakers), closed: list.New()}
}

// add adds a state of a closed breaker. It reports whether there was room.
func (t *breakerTable) add(s *breakerState) bool {
	w := t.workspaces[s.key.Workspace]
	held := 0
	if w != nil {
		held = w.len()
	}
	if fairshare.Left(int64(held+1), int64(t.most-len(t.states)-1)) < 0 && !t.makeRoom(w) {
		return false
	}
	if w = t.workspaces[s.key.Workspace]; w == nil {
		w = &workspaceBreakers{list.New(), list.New()}
		t.workspaces[s.key.Workspace] = w
	}
	t.states[s.key] = s
	s.place = placeInTable{own: w.closed.PushFront(s), all: t.closed.PushFront(s)}
	return true
}

// makeRoom removes a state for one of a workspace, of which w has the others; nil: there are none.
func (t *breakerTable) makeRoom(w *workspaceBreakers) bool {
	var last *list.Element
	switch {
	case w != nil && w.closed.Len() > 0:
		last = w.closed.Back()
	case w != nil:
		last = w.open.Back()
	case len(t.states) < t.most:
		return true
	default:
		last = t.closed.Back()
	}
	if last == nil {
		return false
	}
	t.remove(last.Value.(*breakerState))
	return true
}

// use notes that a state was used, and may have opened or closed. It does nothing if the state was
// removed.
func (t *breakerTable) use(s *breakerState) {
	if t.states[s.key] != s {
		return
	}
	w, open := t.workspaces[s.key.Workspace], !s.opened.IsZero()
	switch {
	case open && s.place.open:
		w.open.MoveToFront(s.place.own)
	case open:
		w.closed.Remove(s.place.own)
		t.closed.Remove(s.place.all)
		s.place = placeInTable{open: true, own: w.open.PushFront(s)}
	default:
		w.closed.MoveToFront(s.place.own)
		t.closed.MoveToFront(s.place.all)
	}
}

// remove removes a state.
func (t *breakerTable) remove(s *breakerState) {
	w := t.workspaces[s.key.Workspace]
	if s.place.open {
		w.open.Remove(s.place.own)
	} else {
		w.closed.Remove(s.place.own)
		t.closed.Remove(s.place.all)
	}
	delete(t.states, s.key)
	if w.len() == 0 {
		delete(t.workspaces, s.key.Workspace)
	}
}
