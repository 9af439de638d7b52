package inference

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-gw/gateway/credentials"
	"github.com/caddy-gw/gateway/internal/exchange"
	"github.com/caddy-gw/gateway/internal/upstream"
)

// A provider of embeddings that does not answer keeps a call waiting no longer than that.
func TestTheTimeOfASemanticLookupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{}) // a transport goes on dialing when a request is given up
		defer close(over)
		silent := &upstream.Pool{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			<-over
			return nil, net.ErrClosed
		}}}
		f := &Forwarder{
			Settings: Settings{Semantic: &Semantic{Provider: "meanings", Model: "m"}},
			client:   upstream.NewClient(upstream.Pools{Operator: silent, Public: silent}, upstream.Options{}),
			logger:   zap.NewNop(),
		}
		router := &credentials.Router{Providers: map[string]*credentials.Provider{
			"meanings": {Slug: "meanings", Dialect: "openai", BaseURL: &url.URL{Scheme: "http", Host: "meanings.example.com"}},
		}}
		x := &exchange.Exchange{Call: &exchange.Call{Caller: &credentials.Caller{WorkspaceID: "w"}, Gateway: &exchange.Gateway{Router: router}}}
		l := &lookup{h: &cacheHook{f}, x: x, question: new(question)}
		begun := time.Now()
		if entry := l.similar(t.Context()); entry != nil {
			t.Errorf("got %+v", entry)
		}
		if took := time.Since(begun); took != maxEmbedding {
			t.Errorf("the look-up took %v, want %v", took, maxEmbedding)
		}
	})
}
