package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time that all threads of a process have used so far, in user
// and kernel mode, with the precision of a nanosecond. It reads the clock of
// clock_getcpuclockid(3).
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("reading the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
