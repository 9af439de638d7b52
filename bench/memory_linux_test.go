package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMemoryHasAPeakThatIsForgotten(t *testing.T) {
	pid := os.Getpid()
	read := func() memory {
		t.Helper()
		m, err := readMemory(pid)
		if err != nil || m.Resident <= 0 || m.Peak < m.Resident/2 {
			t.Fatal(m, err)
		}
		return m
	}
	const size = 64 << 20
	debug.FreeOSMemory() // else what other tests left is given back meanwhile
	before := read()
	room := make([]byte, size)
	for i := 0; i < size; i += 4 << 10 {
		room[i] = 1
	}
	if m := read(); m.Peak < before.Resident+size/2 {
		t.Errorf("%d bytes at the peak, %d before %d more", m.Peak, before.Resident, size)
	}
	runtime.KeepAlive(room)
	if err := forgetPeak(pid); err != nil {
		t.Fatal(err)
	}
	if m := read(); m.Peak > m.Resident+size/2 {
		t.Errorf("the peak is still %d bytes, %d are resident", m.Peak, m.Resident)
	}
	if _, err := readMemory(1 << 22); err == nil {
		t.Error("a process that cannot be has memory")
	}
}

func TestBytesWrittenAreCounted(t *testing.T) {
	if _, err := written(os.Getpid()); err != nil {
		t.Error(err)
	}
}
