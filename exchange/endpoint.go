package exchange

// An Endpoint is one row of the data plane: a call that the gateway forwards.
type Endpoint struct {
	Name   string // as policies name it (condition endpoint_type)
	Method string
	Path   string
	// Upstream is the path below a provider's base URL.
	Upstream string
	// Done: a stream of this endpoint ends with "data: [DONE]".
	Done bool
}

// endpoints is the table of the data plane (the interface, "Endpoints").
var endpoints = []Endpoint{
	{Name: "chatComplete", Method: "POST", Path: "/v1/chat/completions", Upstream: "/chat/completions", Done: true},
	{Name: "complete", Method: "POST", Path: "/v1/completions", Upstream: "/completions", Done: true},
	{Name: "moderate", Method: "POST", Path: "/v1/moderations", Upstream: "/moderations"},
	{Name: "embed", Method: "POST", Path: "/v1/embeddings", Upstream: "/embeddings"},
}

var endpointByPath = func() map[string]*Endpoint {
	m := make(map[string]*Endpoint, len(endpoints))
	for i := range endpoints {
		m[endpoints[i].Path] = &endpoints[i]
	}
	return m
}()

// EndpointOf returns the endpoint that is served at path, nil where none is.
func EndpointOf(path string) *Endpoint { return endpointByPath[path] }
