package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a leftover may take to go: the last goroutine of a
// closed thing, or the kernel's removal of a cgroup, ends a moment later.
const patience = 3 * time.Second

// Main runs the tests of a package and ends the process. It fails the package
// if something is left: a goroutine, a file descriptor, a child process, a
// cgroup directory or a mount of belljar. It belongs at the end of TestMain.
//
// Goroutines whose stack contains one of the names in stays may live on, for
// example one that a package keeps for the life of the process by design.
func Main(m *testing.M, stays ...string) {
	os.Exit(Checked(m, stays...).Run())
}

// Runner is the part of testing.M that runs the tests.
type Runner interface{ Run() int }

// Checked is m with the check for leftovers after it, for a TestMain that
// hands its testing.M to somebody else.
func Checked(m Runner, stays ...string) Runner {
	return &checked{m: m, stays: stays}
}

type checked struct {
	m     Runner
	stays []string
}

// Run runs the tests and the check, and returns the exit status of both.
func (c *checked) Run() int {
	before := take(c.stays)
	code := c.m.Run()
	left := wait(before, c.stays, patience)
	if len(left) == 0 {
		return code
	}
	fmt.Fprintf(os.Stderr, "FAIL: the tests left %d things behind:\n", len(left))
	for _, l := range left {
		fmt.Fprintf(os.Stderr, "- %s\n", strings.ReplaceAll(l, "\n", "\n    "))
	}
	return max(code, 1)
}

// wait is what is left that was not there before, once it has had time to go.
func wait(before map[string]string, stays []string, long time.Duration) (left []string) {
	Until(long, func() bool { // nothing announces that a goroutine or a cgroup is gone
		left = nil
		for key, text := range take(stays) {
			if _, old := before[key]; !old {
				left = append(left, text)
			}
		}
		return len(left) == 0
	})
	sort.Strings(left)
	return left
}

// take lists all that there is now: for each thing a key that differs from all
// others, and a text for the reader.
func take(stays []string) map[string]string {
	all := make(map[string]string)
	goroutines(all, stays)
	descriptors(all)
	children(all)
	cgroups(all, "/sys/fs/cgroup")
	mounts(all)
	return all
}

// lasting are goroutines of the standard library that stay for the life of a
// process once they are started, and the one that asks.
var lasting = []string{
	"belljar.dev/internal/testenv.goroutines(",
	"os/signal.loop(",
	"os/signal.signal_recv(",
	"runtime.ensureSigM(",
	"testing.(*M).Run(",
}

func goroutines(all map[string]string, stays []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		holds := func(name string) bool { return strings.Contains(stack, name) }
		if slices.ContainsFunc(lasting, holds) || slices.ContainsFunc(stays, holds) {
			continue
		}
		id, _, _ := strings.Cut(stack, " [") // "goroutine 7 [select]:"
		all[id] = strings.TrimSpace(stack)
	}
}

func descriptors(all map[string]string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // the descriptor of the listing itself
		case target == "anon_inode:[eventpoll]", target == "anon_inode:[eventfd]":
			// The runtime's network poller makes these when first used.
		default:
			all["fd "+e.Name()+" "+target] = "descriptor " + e.Name() + " is open: " + target
		}
	}
}

func children(all map[string]string) {
	for _, p := range Processes() {
		if p.Parent == os.Getpid() {
			name := fmt.Sprintf("%d (%s)", p.PID, p.Name)
			all["child "+name+" "+p.Began] = "child process " + name + " in state " + p.State
		}
	}
}

// owner finds the process a cgroup directory is of: belljar writes its pid
// into the name, so that the tests of packages that run side by side do not
// take each other's for their own.
var owner = regexp.MustCompile(`[0-9]+`)

func cgroups(all map[string]string, root string) {
	// A directory that cannot be read cannot be ours, so no error counts.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // removed meanwhile
		case !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), "belljar-") && strings.HasSuffix(d.Name(), ".scope"):
			return nil // systemd made it, for this process or another, and removes it at its end
		case strings.HasPrefix(d.Name(), "belljar"):
			if !foreign(d.Name()) {
				all["cgroup "+path] = "cgroup " + path
			}
			return fs.SkipDir
		case strings.Count(strings.TrimPrefix(path, root), "/") >= 8:
			return fs.SkipDir
		}
		return nil
	})
}

// foreign reports whether a name carries the pid of a process that lives and
// is not this one.
func foreign(name string) bool {
	pid := owner.FindString(name)
	if pid == "" || pid == strconv.Itoa(os.Getpid()) {
		return false
	}
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

func mounts(all map[string]string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.Contains(fields[4], "belljar") {
			all["mount "+fields[0]] = "mount " + strings.TrimSpace(line)
		}
	}
}
