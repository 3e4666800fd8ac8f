package main

import (
	"os"
	"strconv"
	"testing"
)

// A service of systemd is not handed over: systemd would end both processes.
func TestHandOverOfServices(t *testing.T) {
	for pid, want := range map[string]bool{"": true, "1": true, strconv.Itoa(os.Getpid()): false} {
		if err := mayHandOver(func(string) string { return pid }); (err == nil) != want {
			t.Errorf("%q: %v", pid, err)
		}
	}
}
