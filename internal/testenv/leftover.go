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

// patience is the time in which a leftover must go: the last goroutine of a closed value,
// or the kernel's removal of a cgroup, ends a little later.
const patience = 3 * time.Second

// Main runs the tests of a package and ends the process. It fails the package if something
// is left: a goroutine, a file descriptor, a child process, a cgroup directory or a mount
// of belljar. It must be the last call in TestMain.
//
// Goroutines whose stack contains one of the names in stays may remain, for example one
// that a package keeps until the process ends.
func Main(m *testing.M, stays ...string) {
	os.Exit(Checked(m, stays...).Run())
}

// Runner is the part of testing.M that runs the tests.
type Runner interface{ Run() int }

// Checked returns a Runner that runs m and then checks for leftovers. It is for a TestMain
// that passes its testing.M to another package.
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

// wait waits until everything that was not there before is gone, at most for the time long.
// It returns what is still left.
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

// take lists everything that exists now: for each thing a unique key, and a text for
// people.
func take(stays []string) map[string]string {
	all := make(map[string]string)
	goroutines(all, stays)
	descriptors(all)
	children(all)
	cgroups(all, "/sys/fs/cgroup")
	mounts(all)
	return all
}

// lasting contains functions of goroutines that are not leftovers: goroutines of the
// standard library that stay until the process ends, and the goroutine that runs the check.
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
		id, _, _ := strings.Cut(stack, " [") // the stack begins with "goroutine 7 [select]:"
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

// owner finds the process ID in the name of a cgroup directory. belljar writes the ID into
// the name, so that the tests of packages that run in parallel do not take each other's
// directories for their own.
var owner = regexp.MustCompile(`[0-9]+`)

func cgroups(all map[string]string, root string) {
	// A directory that cannot be read cannot be ours, so errors are ignored.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // removed in the meantime
		case !d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), "belljar-") && strings.HasSuffix(d.Name(), ".scope"):
			return nil // systemd made it, for this process or another one, and removes it later
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

// foreign reports whether a name contains the ID of another process that still runs.
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
