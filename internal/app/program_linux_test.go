package app

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyUnchangedMappingsOfTheProgramAreUnmapped(t *testing.T) {
	const smaps = `00400000-02699000 r-xp 00000000 fe:00 10428976                           /usr/bin/caddy
Size:              35428 kB
Rss:               23692 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02699000-04e90000 r--p 02299000 fe:00 10428976                           /usr/bin/caddy
Rss:               35780 kB
Anonymous:             4 kB
04e90000-05091000 rw-p 04a90000 fe:00 10428976                           /usr/bin/caddy
Anonymous:             0 kB
05091000-05092000 r--p 04a90000 fe:00 10428976                           /usr/bin/caddy (deleted)
Anonymous:             0 kB
05092000-05093000 r--p 04a91000 fe:00 10428976                           /usr/bin/caddy
Anonymous:             0 kB
7fef01bf5000-7fef01d4b000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
Anonymous:             0 kB
7fef01d4b000-7fef01d4c000 r--p 00000000 00:00 0
Anonymous:             0 kB
nonsense r--p 00000000 fe:00 10428976 /usr/bin/caddy
Anonymous:             0 kB
`
	got := unchangedMappings(strings.NewReader(smaps), "/usr/bin/caddy")
	want := []mapping{{0x400000, 0x2699000}, {0x5092000, 0x5093000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestTheProgramGoesOnAfterItsPagesWereUnmapped(t *testing.T) {
	before := residentFile(t)
	unmapProgram()
	after := residentFile(t)
	if after >= before {
		t.Errorf("%d KiB of files are resident, %d before", after, before)
	}
}

// residentFile returns how much of files is mapped and resident, in KiB.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "RssFile:" {
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}
