// Command caddy is Caddy with the AI gateway plugged in. For a build with other
// plugins use xcaddy; see xcaddy.md.
package main

import (
	_ "time/tzdata"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-gw/gateway"
)

func main() {
	caddycmd.Main()
}
