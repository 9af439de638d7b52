package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// readMemory returns the resident memory of a process, and its peak since the last call
// of [forgetPeak].
func readMemory(pid int) (m memory, err error) {
	if m.Resident, err = procField(pid, "status", "VmRSS:", 1<<10); err != nil {
		return m, err
	}
	m.Peak, err = procField(pid, "status", "VmHWM:", 1<<10)
	return m, err
}

// forgetPeak resets the peak of a process.
func forgetPeak(pid int) error {
	const peak = "5" // proc_pid_clear_refs(5)
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peak), 0)
}

// written returns how many bytes a process has caused to be written to disk, including
// writes to memory maps. It does not count file systems in memory.
func written(pid int) (int64, error) { return procField(pid, "io", "write_bytes:", 1) }

// procField returns the number after a name in a file of proc(5).
func procField(pid int, file, name string, unit int64) (int64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(content) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == name {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n * unit, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, name)
}
