package app

import (
	"fmt"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/inference"
)

const defaultEmbedding = "text-embedding-3-small"

func (s *SemanticCache) provision(providers map[string]*Provider) error {
	switch {
	case s == nil:
		return nil
	case s.Provider == "":
		return fmt.Errorf("semantic_cache: provider: required, the slug of a provider that has embeddings")
	case providers[s.Provider] == nil:
		return fmt.Errorf("semantic_cache: provider: there is no provider %q in the gw block", s.Provider)
	case s.Threshold < 0 || s.Threshold > 1:
		return fmt.Errorf("semantic_cache: threshold: expected a number above 0 and at most 1, got %v", s.Threshold)
	}
	if s.Model == "" {
		s.Model = defaultEmbedding
	}
	if s.Threshold == 0 {
		s.Threshold = cache.DefaultThreshold
	}
	return nil
}

// model returns the embedding model, or nil if none is configured.
func (s *SemanticCache) model() *inference.Semantic {
	if s == nil {
		return nil
	}
	return &inference.Semantic{Provider: s.Provider, Model: s.Model, Threshold: s.Threshold}
}

func (s *SemanticCache) unmarshal(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch name := d.Val(); name {
		case "provider":
			err = one(d, &s.Provider)
		case "model":
			err = one(d, &s.Model)
		case "threshold":
			var value string
			if err = one(d, &value); err != nil {
				return err
			}
			if s.Threshold, err = strconv.ParseFloat(value, 64); err != nil || s.Threshold <= 0 || s.Threshold > 1 {
				return d.Errf("threshold: expected a number above 0 and at most 1, got %q", value)
			}
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
