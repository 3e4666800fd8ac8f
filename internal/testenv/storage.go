package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lackLoop returns what is missing to mount a file system in a file.
func lackLoop() string {
	if why := lackRoot(); why != "" {
		return why
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "no loop devices: " + err.Error()
	}
	return lackProgram("mke2fs")()
}

// lackProjectQuota tries to mount a file system with project quotas, because a kernel may
// support quotas and lack their format.
func lackProjectQuota() string {
	if why := lackLoop(); why != "" {
		return why
	}
	dir, err := os.MkdirTemp("", "testenv-quota-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	image, pool := filepath.Join(dir, "image"), filepath.Join(dir, "pool")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20), os.Mkdir(pool, 0o700)); err != nil {
		return err.Error()
	}
	for _, args := range [][]string{
		{"mke2fs", "-q", "-t", "ext4", "-O", "quota,project", image},
		{"mount", "-o", "loop,prjquota", image, pool},
		{"umount", pool},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:noctx // answers at once or is broken
			return fmt.Sprintf("%s: %v: %s", strings.Join(args[:len(args)-1], " "), err, strings.TrimSpace(string(out)))
		}
	}
	return ""
}
