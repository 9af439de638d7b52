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
		for s := bufio.NewScanner(f); s.Scan(); {
			if inode, ok := listener(s.Text(), port); ok {
				listening[inode] = true
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

// listener returns the inode of the socket in a line of /proc/net/tcp if it listens on port.
func listener(line string, port uint16) (inode string, ok bool) {
	const state, inodeAt = 3, 9
	fields := strings.Fields(line)
	if len(fields) <= inodeAt || fields[state] != "0A" || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
		return "", false
	}
	if _, err := strconv.ParseUint(fields[inodeAt], 10, 64); err != nil {
		return "", false
	}
	return fields[inodeAt], true
}
