package telemetry

import "sync"

const (
	// otherModel is the label of all models that are not configured. Callers choose their
	// names, and could exhaust the memory with them.
	otherModel = "other"
	// maxModels bounds the number of models of saved configs with their own label, because
	// there can be any number of configs. A workspace gets no more of them than it leaves free.
	maxModels = 200
)

// savedModels are the models of saved configs that were seen. Like the vectors that they
// are labels of, they are shared by the process.
var savedModels modelLabels

type modelLabels struct {
	mu   sync.RWMutex
	seen map[string]bool
	by   map[string]int // how many workspaces brought
}

// full reports whether a workspace can have no further model with a label of its own.
func (s *modelLabels) full(workspace string) bool {
	return s.by[workspace] >= maxModels-len(s.seen)
}

// model returns the label of a target's model.
func (m *Metrics) model(t *Target) string {
	switch {
	case t.Model == "":
		return ""
	case m.models[t.Model], t.SavedModel && admit(t.Workspace, t.Model):
		return t.Model
	}
	return otherModel
}

// admit reports whether the model of a saved config of a workspace has its own label, after giving
// it one if there is room.
func admit(workspace, model string) bool {
	s := &savedModels
	s.mu.RLock()
	seen, full := s.seen[model], s.full(workspace)
	s.mu.RUnlock()
	if seen || full {
		return seen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen, s.by = make(map[string]bool), make(map[string]int)
	}
	if !s.seen[model] && !s.full(workspace) {
		s.seen[model] = true
		s.by[workspace]++
	}
	return s.seen[model]
}
