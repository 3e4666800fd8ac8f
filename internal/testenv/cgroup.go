package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// CgroupDir returns a cgroup v2 directory for one test, which is removed at the end of the
// test. It returns an empty text if this user can make no such directory.
func CgroupDir(t testing.TB) string {
	t.Helper()
	for _, dir := range cgroupDirs() {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil || !writable(dir) {
			continue // not a writable directory of version 2
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
