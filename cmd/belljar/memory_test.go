package main

import (
	"runtime/debug"
	"testing"
)

// TestGOGCOfTheEnvironmentStays checks that the value of GOGC in the environment is used.
func TestGOGCOfTheEnvironmentStays(t *testing.T) {
	was := debug.SetGCPercent(70)
	defer debug.SetGCPercent(was)
	t.Setenv("GOGC", "70")
	collect(gcStarting)
	if got := debug.SetGCPercent(70); got != 70 {
		t.Errorf("got %d, want 70 as before", got)
	}
}

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	m := memory{made: 100 * mib, released: 100 * mib}
	for i, tt := range []struct {
		made, live uint64
		back       bool
	}{
		{100*mib + 500*kib, 0, false}, // the server rests, but has allocated too little
		{110 * mib, 0, false},         // the server does not rest
		{110*mib + kib, 0, true},
		{110*mib + 2*kib, 0, false}, // the garbage was returned already
		{116 * mib, 0, false},
		{120 * mib, 0, false},
		{120*mib + 4*kib, 60 * mib, false}, // too little for this much live memory
		{120*mib + 8*kib, 36 * mib, true},
	} {
		if got := m.look(tt.made, tt.live); got != tt.back {
			t.Errorf("look %d: got %v, want %v", i, got, tt.back)
		}
	}
}

func TestGarbageMayTakeTheHeadroom(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 4 * mib: 400, 8 * mib: 400, 16 * mib: 200, 32 * mib: 100, 500 * mib: 100} {
		if got := (&memory{live: live}).percent(); got != want {
			t.Errorf("with %d bytes: got %d, want %d", live, got, want)
		}
	}
}
