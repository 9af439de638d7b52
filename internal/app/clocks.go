package app

import "time"

// clocks are what the services know the time by. Tests replace them.
var clocks = struct {
	now     func() time.Time     // the wall clock
	elapsed func() time.Duration // the monotonic clock; nil: the monotonic readings of now
	uptime  func() (boot string, up time.Duration)
}{now: time.Now, uptime: uptime}
