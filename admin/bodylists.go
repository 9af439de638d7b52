package admin

import "github.com/danielgtaylor/huma/v2"

// maxElements bounds the lists of bodies whose schemas have no bound.
const maxElements = 1000

// A bounded API bounds what the bodies of its operations may have, as it adds them to the document.
type bounded struct{ huma.API }

// DocumentOperation implements huma.OperationDocumenter.
func (a bounded) DocumentOperation(op *huma.Operation) {
	if op.RequestBody != nil {
		seen := make(map[*huma.Schema]bool)
		for _, content := range op.RequestBody.Content {
			boundLists(a.OpenAPI().Components.Schemas, content.Schema, seen)
		}
	}
	if !op.Hidden {
		a.OpenAPI().AddOperation(op)
	}
}

// boundLists gives each list of a schema that has none a bound.
func boundLists(registry huma.Registry, s *huma.Schema, seen map[*huma.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	if s.Ref != "" {
		boundLists(registry, registry.SchemaFromRef(s.Ref), seen)
	}
	if s.Type == huma.TypeArray && s.MaxItems == nil {
		s.MaxItems = new(maxElements)
		s.PrecomputeMessages()
	}
	boundLists(registry, s.Items, seen)
	for _, inner := range s.Properties {
		boundLists(registry, inner, seen)
	}
	for _, list := range [][]*huma.Schema{s.AnyOf, s.OneOf, s.AllOf} {
		for _, inner := range list {
			boundLists(registry, inner, seen)
		}
	}
	if others, ok := s.AdditionalProperties.(*huma.Schema); ok {
		boundLists(registry, others, seen)
	}
}

// cutLists returns what a body has as its schema judges it, with one element of each list more than any may have:
// each that the schema refuses costs some µs. Lists that may have any elements are bounded by who reads them.
func cutLists(v any) any {
	switch v := v.(type) {
	case []any:
		v = v[:min(len(v), maxElements+1)]
		for i := range v {
			v[i] = cutLists(v[i])
		}
		return v
	case map[string]any:
		for name, inner := range v {
			v[name] = cutLists(inner)
		}
	}
	return v
}

// Interface guards
var _ huma.OperationDocumenter = bounded{}
