package app

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram takes the pages of the program's code and constants out of the memory of the process. They remain
// in the page cache, and those that are used again are mapped again, 64 KiB at a time. Starting Caddy touches most
// of its code, serving requests less than half of it.
func unmapProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range unchangedMappings(f, program) {
		// The mappings of a program stay where they are for as long as it runs. Where the system refuses, they
		// stay as they are.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// A mapping is a range of the address space.
type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings of a file that cannot be written to and of which no page differs from the
// file, as one that was relocated does. The format is that of /proc/<pid>/smaps (see proc_pid_smaps(5)).
func unchangedMappings(smaps io.Reader, file string) []mapping {
	var found []mapping
	var current mapping
	candidate := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 2 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") {
			current, candidate = parseMapping(fields[0])
			candidate = candidate && len(fields) == 6 && fields[5] == file && (fields[1] == "r--p" || fields[1] == "r-xp")
		} else if candidate && fields[0] == "Anonymous:" && fields[1] == "0" {
			found = append(found, current)
		}
	}
	return found
}

func parseMapping(text string) (m mapping, ok bool) {
	start, end, ok := strings.Cut(text, "-")
	from, err := strconv.ParseUint(start, 16, 64)
	to, err2 := strconv.ParseUint(end, 16, 64)
	return mapping{uintptr(from), uintptr(to)}, ok && err == nil && err2 == nil && from < to
}
