package prices

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Model is what the list of prices says about a model. What it has no price for, it may not
// mention, even if the model can do it.
type Model struct {
	ID            string
	Name          string   // to show; "": unknown
	ContextWindow int64    // tokens; 0: unknown
	Input         []string // modalities: text, audio, image, video, document
	Output        []string
	Features      []string // see featuresOf
	Deprecated    bool
}

// featuresOf maps units that have prices of their own to what a model that has one can do.
var featuresOf = map[string]string{
	"cache_read_mtok": "prompt_caching", "cache_write_mtok": "prompt_caching", "output_reasoning_mtok": "reasoning",
	"web_searches_kcount": "web_search", "storage_searches_kcount": "file_search", "output_citation_mtok": "citations",
}

// modalitiesOf maps units to what a model that has a price for them takes or returns.
var modalitiesOf = map[string]struct{ in, out string }{
	"input_mtok": {in: "text"}, "input_audio_mtok": {in: "audio"}, "input_image_mtok": {in: "image"}, "input_video_mtok": {in: "video"},
	"input_audio_hours": {in: "audio"}, "audio_hours": {in: "audio"}, "input_document_kpages": {in: "document"}, "input_annotated_document_kpages": {in: "document"},
	"output_mtok": {out: "text"}, "output_audio_mtok": {out: "audio"}, "output_image_mtok": {out: "image"}, "output_video_mtok": {out: "video"},
}

// readUnits reads what the units of a model's prices say about it. They may be other ones than
// those that the gateway counts.
func (m *Model) readUnits(raw json.RawMessage) error {
	prices := []struct {
		Prices map[string]json.RawMessage `json:"prices"`
	}{{}}
	var err error
	if len(raw) > 0 && raw[0] == '[' {
		err = json.Unmarshal(raw, &prices)
	} else {
		err = json.Unmarshal(raw, &prices[0].Prices)
	}
	if err != nil {
		return fmt.Errorf("prices: %w", err)
	}
	add := func(to *[]string, what string) {
		if what != "" && !slices.Contains(*to, what) {
			*to = append(*to, what)
		}
	}
	for _, one := range prices {
		for unit, raw := range one.Prices {
			if string(raw) == "null" {
				continue
			}
			add(&m.Features, featuresOf[unit])
			add(&m.Input, modalitiesOf[unit].in)
			add(&m.Output, modalitiesOf[unit].out)
		}
	}
	// Prices of tokens alone do not say that a model takes nothing else than text.
	if !slices.ContainsFunc(slices.Concat(m.Input, m.Output), func(s string) bool { return s != "text" }) {
		m.Input, m.Output = nil, nil
	}
	for _, list := range [][]string{m.Features, m.Input, m.Output} {
		slices.Sort(list)
	}
	return nil
}

// About returns what is known about a model of a provider, which may have several names.
func (t *Table) About(model string, providers ...string) (Model, bool) {
	if t == nil || model == "" {
		return Model{}, false
	}
	for _, p := range providers {
		if m := t.lookup(p, model); m != nil {
			return m.Model, true
		}
	}
	return Model{}, false
}

// Models returns the models of a provider that are known, except those that are deprecated.
func (t *Table) Models(provider string) []Model {
	if t == nil {
		return nil
	}
	id := provider
	if other := catalogueNames[provider]; other != "" {
		id = other
	}
	p := t.catalogue[id]
	if p == nil {
		return nil
	}
	var all []Model
	models := p.models()
	for i := range models {
		if m := &models[i]; !m.Deprecated && !strings.ContainsAny(m.ID, " *") {
			all = append(all, m.Model)
		}
	}
	return all
}
