package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Traces returns what is left of a supervisor: the processes with mark in their arguments,
// and the cgroups of the supervisor with this pid.
func Traces(t testing.TB, mark string, pid int) []string {
	t.Helper()
	var found []string
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), mark) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), fmt.Sprintf("belljar.%d.", pid)) {
			found = append(found, path)
		}
		return nil // ignore errors: a cgroup may be removed during the walk
	})
	return found
}

// NoTraces waits up to five seconds until there are no Traces, and fails the test with
// those that are left.
func NoTraces(t testing.TB, mark string, pid int) {
	t.Helper()
	var left []string
	if !Until(5*time.Second, func() bool { left = Traces(t, mark, pid); return len(left) == 0 }) {
		t.Errorf("left behind: %v", left)
	}
}

// Resident returns the size of the resident set of a process in bytes (proc_pid_statm(5)).
func Resident(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		t.Fatalf("statm of %d holds %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
