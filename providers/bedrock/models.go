package bedrock

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/caddy-gw/gateway/providers"
	"github.com/caddy-gw/gateway/providers/chat"
	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// listModels lists the models of a region. The list is served by another host than the
// models are.
func listModels(c *providers.Call) (*providers.Request, error) {
	return &providers.Request{
		URL: providers.URL(sibling(c.Base, "bedrock"), "/foundation-models", ""), Header: http.Header{"Accept": {mediaJSON}},
		Answer: &providers.Answer{Body: appendModels, Failure: readFailure},
	}, nil
}

// sibling returns the address of another AWS service: in the same region, or below a custom
// host.
func sibling(base *url.URL, name string) *url.URL {
	out := *base
	if region, ok := strings.CutPrefix(out.Host, "bedrock-runtime."); ok && strings.Contains(region, ".amazonaws.com") {
		out.Host = name + "." + region
	}
	return &out
}

func appendModels(dst, body []byte, _ http.Header) ([]byte, error) {
	return chat.AppendModels(dst, body, "modelSummaries", func(r *jsonscan.Reader) (m chat.Model) {
		r.Object(func(key jsonscan.Key) {
			switch string(key.Bytes()) {
			case "modelId":
				m.ID = chat.Literal(r.String()).Text()
			case "providerName":
				m.Owner = chat.Literal(r.String()).Text()
			}
		})
		return m
	})
}
