package testenv

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Seconds returns a long time for sleep(1) that no other process of this machine was given,
// so that Sleeping finds only the processes that were started with it.
func Seconds() string { return fmt.Sprintf("1000.%09d", rand.IntN(1_000_000_000)) }

// Sleeping counts the processes that have a text in their arguments. It looks from the
// host, because the commands of a box do not see each other: a search in another command of
// the box would find nothing. A process that has ended and is not reaped yet has no
// arguments and is not counted.
func Sleeping(t testing.TB, text string) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(names) == 0 {
		t.Fatalf("list processes: %v", err)
	}
	for _, name := range names {
		args, err := os.ReadFile(name)
		if err == nil && bytes.Contains(args, []byte(text)) { // an error means that the process is gone
			n++
		}
	}
	return n
}
