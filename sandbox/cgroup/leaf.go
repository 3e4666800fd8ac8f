package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/procfs"
	"belljar.dev/sandbox/rawsys"
)

// Leaf is a cgroup below that of a box, for one command at a time. It is reused if the
// command left nothing in it, because looking costs less than making a new one. A leaf that
// was killed is not reused: Linux 6.18 immediately kills any process that CLONE_INTO_CGROUP
// puts into a cgroup that was once killed by cgroup.kill, because it compares the number of
// kills with that of the parent's cgroup.
type Leaf struct {
	path   string
	killed bool
	dir    *os.File // for CLONE_INTO_CGROUP
	events *os.File // cgroup.events
}

// NewLeaf makes a leaf in which the box's user may put processes. The caller must
// Close or Remove it.
func (g *Group) NewLeaf(name string) (*Leaf, error) {
	path := filepath.Join(g.v2, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	return openLeaf(path, g.uid)
}

// openLeaf opens a cgroup and lets uid put processes into it.
func openLeaf(path string, uid int) (_ *Leaf, err error) {
	l := &Leaf{path: path}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := chownProcs(l.path, uid); err != nil {
		return nil, err
	}
	if l.dir, err = procfs.Open(l.path); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	if l.events, err = procfs.Open(filepath.Join(l.path, "cgroup.events")); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return l, nil
}

// FD returns a descriptor of the leaf, for CLONE_INTO_CGROUP. It is valid until
// Close.
func (l *Leaf) FD() int { return int(l.dir.Fd()) }

// Path returns the directory of the leaf.
func (l *Leaf) Path() string { return l.path }

// Reusable reports whether another command can be started in an empty leaf.
func (l *Leaf) Reusable() bool { return !l.killed }

// Remove closes the leaf and removes its directory. If processes are still in it, the
// group's Close removes it.
func (l *Leaf) Remove() {
	l.Close()
	_ = os.Remove(l.path)
}

// empty reports whether no process is in the leaf (cgroups(7), cgroup.events).
func (l *Leaf) empty() bool {
	var text [128]byte
	n, err := rawsys.Pread(int(l.events.Fd()), text[:])
	return err == nil && strings.Contains(string(text[:n]), "populated 0")
}

// Kill kills all processes in the leaf and waits until it is empty. It reports
// whether the leaf is empty before the deadline.
func (l *Leaf) Kill(deadline time.Time) bool {
	for wait := 50 * time.Microsecond; !l.empty(); wait = min(2*wait, 10*time.Millisecond) {
		// This is repeated in each round: a process that is being moved into the leaf can
		// be missed.
		l.killed = true
		_ = procfs.Write(filepath.Join(l.path, "cgroup.kill"), "1")
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(wait)
	}
	return true
}

// Close closes the leaf's files; the group removes its directory. The leaf may be
// nil.
func (l *Leaf) Close() {
	if l == nil {
		return
	}
	if l.dir != nil {
		l.dir.Close()
	}
	if l.events != nil {
		l.events.Close()
	}
}

// Resident returns the memory of all processes in the leaf, in bytes. If the box's memory
// runs out while several commands run, the largest one is ended. The leaf may be nil.
func (l *Leaf) Resident() (held int64) {
	if l == nil {
		return 0
	}
	f, err := os.Open(filepath.Join(l.path, procsFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	// The loop is bounded: a box has at most as many processes as a profile can give it.
	for lines := bufio.NewScanner(f); lines.Scan(); {
		pid, _ := strconv.Atoi(lines.Text())
		held += resident(pid)
	}
	return held
}

func chownProcs(dir string, uid int) error {
	if uid == os.Geteuid() {
		return nil
	}
	if err := os.Chown(filepath.Join(dir, procsFile), uid, -1); err != nil {
		return fmt.Errorf("hand out cgroup: %w", err)
	}
	return nil
}
