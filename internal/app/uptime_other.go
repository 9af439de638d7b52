//go:build !linux

package app

import "time"

// uptime knows no boot here.
func uptime() (boot string, up time.Duration) { return "", 0 }
