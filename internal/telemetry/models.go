package telemetry

import "sync"

const (
	// otherModel is the label of all models that are not configured. Callers choose their
	// names, and could exhaust the memory with them.
	otherModel = "other"
	// maxModels bounds the number of models of saved configs with their own label, because
	// there can be any number of configs.
	maxModels = 200
)

// savedModels are the models of saved configs that were seen. Like the vectors that they
// are labels of, they are shared by the process.
var savedModels struct {
	mu   sync.RWMutex
	seen map[string]bool
}

// model returns the label of a target's model.
func (m *Metrics) model(t *Target) string {
	switch {
	case t.Model == "":
		return ""
	case m.models[t.Model], t.SavedModel && admit(t.Model):
		return t.Model
	}
	return otherModel
}

// admit reports whether a saved config's model has its own label, after giving it one if
// there is room.
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
