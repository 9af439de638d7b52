package echo

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	gw_echo {
//	    delay       <duration>
//	    chunk_delay <duration>
//	}
//
// The block is optional. Both delays default to 0.
func (e *Echo) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		var field *caddy.Duration
		name := d.Val()
		switch name {
		case "delay":
			field = &e.Delay
		case "chunk_delay":
			field = &e.ChunkDelay
		default:
			return d.Errf("unrecognized subdirective %q", name)
		}
		if seen[name] {
			return d.Errf("%s is given twice", name)
		}
		seen[name] = true

		args := d.RemainingArgs()
		if len(args) != 1 {
			return d.ArgErr()
		}
		duration, err := caddy.ParseDuration(args[0])
		if err != nil {
			return d.Errf("parsing %s: %v", name, err)
		}
		if duration < 0 {
			return d.Errf("%s must not be negative: %s", name, args[0])
		}
		*field = caddy.Duration(duration)
	}
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Echo)(nil)
