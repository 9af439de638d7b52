package admin_test

import (
	"github.com/caddy-gw/gateway/providers"
	_ "github.com/caddy-gw/gateway/providers/standard" // the providers that are not in the table
)

var builtIn = providers.BaseURL
