package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// CgroupDir is a cgroup v2 directory for one test, which goes with it; empty where
// this user can make none.
func CgroupDir(t testing.TB) string {
	t.Helper()
	for _, dir := range cgroupDirs() {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil || !writable(dir) {
			continue // of version 1
		}
		own, err := os.MkdirTemp(dir, fmt.Sprintf("belljar-test-%d-", os.Getpid())) //nolint:usetesting // a cgroup
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(own); err != nil {
				t.Error(err)
			}
		})
		return own
	}
	return ""
}
