// Package standard registers the providers that come with the gateway.
package standard

import (
	_ "github.com/caddy-gw/gateway/providers/anthropic" // one line a provider
)
