package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/procfs"
)

// hierarchy is one mounted cgroup tree and the place of this process in it.
type hierarchy struct {
	dir         string
	controllers []string // v1: controllers that are bound to it; v2: controllers that are available
	v2          bool
}

// findHierarchies reads which hierarchies are mounted (proc_pid_mountinfo(5)) and where
// this process is in them (cgroups(7), /proc/pid/cgroup).
func findHierarchies() ([]hierarchy, error) {
	where := map[string]string{} // controller, or "" for v2 -> path
	text, err := os.ReadFile("/proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without cgroups
	}
	if err != nil {
		return nil, fmt.Errorf("read own cgroup: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if p := strings.SplitN(strings.TrimSpace(line), ":", 3); len(p) == 3 {
			for name := range strings.SplitSeq(p[1], ",") {
				where[name] = p[2]
			}
		}
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var found []hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(super) < 3 {
			continue
		}
		root, point := mount[3], mount[4]
		switch super[0] {
		case "cgroup2":
			h := hierarchy{v2: true, dir: placeIn(root, point, where[""])}
			list, _ := os.ReadFile(filepath.Join(h.dir, "cgroup.controllers"))
			h.controllers = strings.Fields(string(list))
			found = append(found, h)
		case "cgroup":
			for option := range strings.SplitSeq(super[2], ",") {
				if path, ok := where[option]; ok && option != "" {
					found = append(found, hierarchy{dir: placeIn(root, point, path), controllers: []string{option}})
				}
			}
		}
	}
	return found, nil
}

// placeIn returns the directory of the cgroup path in a hierarchy whose subtree
// root is mounted at point. In a container the path may lie outside the mounted
// subtree; placeIn then returns the mount point, the nearest directory.
func placeIn(root, point, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return point
	}
	dir := filepath.Join(point, rel)
	if _, err := os.Stat(dir); err != nil {
		return point
	}
	return dir
}

// available returns the controllers, of those in controllers, that the v2 cgroup dir has.
func available(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil
	}
	have := strings.Fields(string(text))
	return slices.DeleteFunc(slices.Clone(controllers), func(ctl string) bool { return !slices.Contains(have, ctl) })
}

// selfLeaf is the cgroup to which a supervisor moves itself if it is in the way (see
// handOut). It is not below the directory of a supervisor, because all processes in such a
// directory are killed when the supervisor has ended. It is removed with the delegated
// cgroup.
const selfLeaf = "supervisor"

// handOut enables controllers for the cgroups below dir: all of them or none. A cgroup with
// processes would accept pids and cpu alone. It would then become "threaded", and no box
// could run in it.
//
// A cgroup with processes cannot enable memory for the cgroups below it (cgroups(7), "no
// internal processes"). If we are the only process in it, for example in a service of our
// own or in a container, we move to another cgroup.
func handOut(dir string, ctls []string) error {
	if len(ctls) == 0 {
		return nil
	}
	file, want := filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(ctls, " +")
	err := procfs.Write(file, want)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	leaf := filepath.Join(dir, selfLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = procfs.Write(filepath.Join(leaf, procsFile), "0")
	if err == nil {
		if err = procfs.Write(file, want); err == nil {
			return nil
		}
		_ = procfs.Write(filepath.Join(dir, procsFile), "0")
	}
	_ = os.Remove(leaf) // stays if another supervisor is in it
	return err
}

// procsFile lists the processes of a cgroup; writing a pid to it moves the process into the
// cgroup.
const procsFile = "cgroup.procs"

// mountPoint returns the top of the cgroup tree that dir is in.
func mountPoint(dir string) string {
	var st, up unix.Stat_t
	for dir != "/" {
		if unix.Stat(dir, &st) != nil || unix.Stat(filepath.Dir(dir), &up) != nil || st.Dev != up.Dev {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
