package app

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// uptime identifies the boot of the machine and returns the time since then, by the clock
// that Go's monotonic readings use. Clocks of another time namespace count as another boot.
// boot is empty if this is unknown.
func uptime() (boot string, up time.Duration) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return "", 0
	}
	space, _ := os.Readlink("/proc/self/ns/time") // kernels before 5.6 have none
	return strings.TrimSpace(string(id)) + " " + space, time.Duration(t.Nano())
}
