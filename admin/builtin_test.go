package admin_test

import "github.com/caddy-gw/gateway/providers"

var builtIn = providers.BaseURL
