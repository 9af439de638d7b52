// Command caddy is Caddy with the AI gateway plugged in. For a build with other
// plugins use xcaddy; see xcaddy.md.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-gw/gateway"
)

// gcPercent lets the heap grow further between collections than Go's default of
// 100: the live heap is small, and the collector was a seventh of the CPU. Caddy
// sets the memory limit, which still holds.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	caddycmd.Main()
}
