package app

import "time"

// SetClocks replaces the clocks of the services that are opened and the configurations that are loaded from then on,
// and returns a function that puts them back.
func SetClocks(now func() time.Time, elapsed func() time.Duration, uptime func() (boot string, up time.Duration)) (restore func()) {
	before := clocks
	clocks.now, clocks.elapsed, clocks.uptime = now, elapsed, uptime
	return func() { clocks = before }
}
