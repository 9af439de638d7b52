// Package standard registers the built-in providers.
package standard

import (
	_ "github.com/caddy-gw/gateway/providers/anthropic" // one line a provider
	_ "github.com/caddy-gw/gateway/providers/azure"
	_ "github.com/caddy-gw/gateway/providers/bedrock"
	_ "github.com/caddy-gw/gateway/providers/cohere"
	_ "github.com/caddy-gw/gateway/providers/gemini"
	_ "github.com/caddy-gw/gateway/providers/mistral"
	_ "github.com/caddy-gw/gateway/providers/sagemaker"
	_ "github.com/caddy-gw/gateway/providers/segmind"
	_ "github.com/caddy-gw/gateway/providers/stability"
	_ "github.com/caddy-gw/gateway/providers/vertex"
)
