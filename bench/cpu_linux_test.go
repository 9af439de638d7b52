package main

import (
	"os"
	"testing"
)

func TestCPUTimeGrowsWithWork(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatal(before, err)
	}
	for after := before; after == before; {
		if after, err = cpuTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cpuTime(1 << 22); err == nil {
		t.Error("a process that cannot be has used CPU time")
	}
}
