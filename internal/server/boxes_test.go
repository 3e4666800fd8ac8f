package server

import "testing"

// The number of boxes of all tenants together is bounded by the number of files that the
// process may open, and not by what one client needs.
func TestMostBoxes(t *testing.T) {
	for files, want := range map[uint64]int{0: 64, 1024: 64, 4096: 64, 1 << 13: 128, 1 << 20: 1024, 1<<64 - 1: 1024} {
		if got := mostBoxes(files); got != want {
			t.Errorf("with %d files: %d boxes, want %d", files, got, want)
		}
	}
	if files := openFiles(); files < 64 {
		t.Errorf("this process may open %d files", files)
	}
}
