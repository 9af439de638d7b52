package app

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sharedWith reports whether another process in this network namespace listens on a TCP
// port, which Linux allows because Caddy sets SO_REUSEPORT: the system then distributes
// connections between both. It returns false if this cannot be determined.
func sharedWith(port uint16) bool {
	listening := make(map[string]bool) // inodes of sockets
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		s := bufio.NewScanner(f)
		s.Scan() // the names of the columns
		for s.Scan() {
			inode, ok, more := listener(s.Text(), port)
			if ok {
				listening[inode] = true
			}
			if !more {
				break
			}
		}
		_ = f.Close()
	}
	if len(listening) == 0 {
		return false
	}
	own, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(own) == 0 {
		return false
	}
	for _, fd := range own {
		target, err := os.Readlink(fd)
		if err != nil {
			continue // it was closed
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			delete(listening, strings.TrimSuffix(inode, "]"))
		}
	}
	return len(listening) > 0
}

// listener returns the inode of the socket in a line of /proc/net/tcp if it listens on port. Sockets that listen come first,
// before those of all connections, which may be many: more is false for the first of these.
func listener(line string, port uint16) (inode string, ok, more bool) {
	const state, inodeAt = 3, 9
	fields := strings.Fields(line)
	if len(fields) <= inodeAt || fields[state] != "0A" {
		return "", false, false
	}
	if _, err := strconv.ParseUint(fields[inodeAt], 10, 64); err != nil || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
		return "", false, true
	}
	return fields[inodeAt], true, true
}
