package telemetry

import "sync"

const (
	// otherModel is the label of every model that nobody configured: callers choose their
	// names, and could fill the memory with them.
	otherModel = "other"
	// maxModels bounds how many models of saved configs are told apart, because who may
	// save configs may do so without end.
	maxModels = 200
)

// savedModels are the models of saved configs that were seen. They are a process's, like
// the vectors whose labels they are.
var savedModels struct {
	mu   sync.RWMutex
	seen map[string]bool
}

// model is the label of a target's model.
func (m *Metrics) model(t *Target) string {
	switch {
	case t.Model == "":
		return ""
	case m.models[t.Model], t.SavedModel && admit(t.Model):
		return t.Model
	}
	return otherModel
}

// admit reports whether a saved config's model has a label of its own, and gives it one
// where there is room.
func admit(model string) bool {
	s := &savedModels
	s.mu.RLock()
	seen, full := s.seen[model], len(s.seen) >= maxModels
	s.mu.RUnlock()
	if seen || full {
		return seen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]bool)
	}
	if len(s.seen) < maxModels {
		s.seen[model] = true
	}
	return s.seen[model]
}
