package inference

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/internal/cache"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/upstream"
	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Semantic is the model of embeddings by which questions are compared.
type Semantic struct {
	Provider  string  // slug of a provider of the configuration
	Model     string  // of embeddings
	Threshold float64 // least cosine of questions with the same meaning
}

// maxEmbedding is how long an embedding may take: a call must not wait longer for the cache than
// it is likely to save.
const maxEmbedding = 5 * time.Second

// A question is the part of a call that is compared by its meaning.
type question struct {
	cache.Question
	meaning []float32 // nil: not known
}

// similar returns the cached answer to a question of the same meaning, or nil if there is none.
// If the call wants a fresh answer, its meaning is only learned. If the meaning cannot be
// determined, that is logged and the call is forwarded.
func (l *lookup) similar(parent context.Context) *cache.Entry {
	q, x, f := l.question, l.x, l.h.f
	if !x.Options.Caching.Refresh {
		x.CacheStatus = exchange.CacheSemanticMiss
	}
	ctx, cancel := context.WithTimeout(parent, maxEmbedding)
	defer cancel()
	var entry *cache.Entry
	var err error
	if q.meaning, err = f.embed(ctx, x, q.Text); err == nil && !x.Options.Caching.Refresh {
		entry, err = l.answers.Similar(ctx, q.learned(), f.Semantic.Threshold, l.maxAge)
	}
	if err != nil && parent.Err() == nil {
		f.logger.Warn("the meaning of a question cannot be compared", zap.String("trace_id", x.Trace.ID), zap.Error(err))
	}
	return entry
}

// embed returns the embedding of a text.
func (f *Forwarder) embed(ctx context.Context, x *exchange.Exchange, text string) ([]float32, error) {
	route := x.Gateway.Router.Own(f.Semantic.Provider)
	if route == nil {
		return nil, errors.New("there is no provider " + f.Semantic.Provider)
	}
	var b jsonscan.Builder
	b.Open('{')
	b.Key("model").Text(f.Semantic.Model)
	b.Key("input").Text(text)
	b.Key("encoding_format").Text("float")
	b.Close('}')
	answer, _, err := f.client.Do(ctx, route, &upstream.Operation{
		Name: "semanticCache", Endpoint: providers.Embed, Method: http.MethodPost, Path: "/embeddings", Model: f.Semantic.Model, Workspace: x.Caller.WorkspaceID,
	}, b)
	if err != nil {
		return nil, err
	}
	defer answer.Release()
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("provider %s answered %d", route.Provider, answer.Status)
	}
	var meaning []float32
	for _, v := range gjson.GetBytes(answer.Body, "data.0.embedding").Array() {
		meaning = append(meaning, float32(v.Num))
	}
	if len(meaning) == 0 {
		return nil, errors.New("an answer without an embedding")
	}
	return meaning, nil
}

// learned is what the cache keeps of a question, or nil if its meaning is not known.
func (q *question) learned() *cache.Meaning {
	if q == nil || q.meaning == nil {
		return nil
	}
	return &cache.Meaning{Scope: q.Of(q.meaning), Vector: q.meaning}
}
