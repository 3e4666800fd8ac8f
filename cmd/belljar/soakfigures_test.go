package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/job"
	"belljar.dev/internal/testenv"
)

// footprint contains what a process uses.
type footprint struct {
	rss, pss                               int64 // bytes; pss includes all its descendants
	descriptors, threads, children, mounts int
	cgroups, leaves                        int // leaves are the cgroups of commands
	// number of the database's descriptors, which no other figure includes
	database int
	kinds    map[string]int // number of descriptors of each kind
}

// footprintOf returns the footprint of a process, as it can be seen from outside.
func footprintOf(t testing.TB, pid int) (u footprint) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	u.rss = testenv.Resident(t, pid)
	u.threads = entries(t, proc+"/task")
	u.kinds = descriptorsOf(proc + "/fd")
	for kind, n := range u.kinds {
		if strings.Contains(kind, "/db/") {
			u.database += n // the connections are a pool with a bound of its own
		} else {
			u.descriptors += n
		}
	}
	mounts, err := os.ReadFile(proc + "/mountinfo")
	if err != nil {
		t.Error(err)
	}
	u.mounts = strings.Count(string(mounts), "\n")
	u.children = len(childrenOf(pid))
	u.cgroups, u.leaves = cgroupsOf(pid)
	return u
}

// descriptorsOf counts the descriptors of a process by their kinds, without numbers.
func descriptorsOf(dir string) map[string]int {
	kinds := make(map[string]int)
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // otherwise it was closed meanwhile
			kinds[soakNumber.ReplaceAllString(to, "N")]++
		}
	}
	return kinds
}

var soakNumber = regexp.MustCompile(`[0-9]+`)

func entries(t testing.TB, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	return len(all)
}

func childrenOf(pid int) (all []int) {
	for _, p := range testenv.Processes() {
		if p.Parent == pid {
			all = append(all, p.PID)
		}
	}
	return all
}

// initsOf returns the inits of the boxes of a server.
func initsOf(pid int) (all []int) {
	for _, child := range childrenOf(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
		// proc_pid_status(5): the first process of a PID namespace has the number 1 there.
		if strings.Contains(string(text), fmt.Sprintf("\nNSpid:\t%d\t1\n", child)) {
			all = append(all, child)
		}
	}
	return all
}

// pssOf returns the proportional set size of a process and all its descendants, which
// counts a page once if several of them share it (proc_pid_smaps(5)).
func pssOf(pid int) (bytes int64) {
	for _, p := range testenv.Below(testenv.Processes(), pid) {
		text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "smaps_rollup"))
		for line := range strings.Lines(string(text)) {
			var kib int64
			if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
				bytes += kib << 10
			}
		}
	}
	return bytes
}

// cgroupsOf counts the cgroups that a server has made: its own, and those of tenants, of
// boxes and of commands in the boxes.
func cgroupsOf(pid int) (all, leaves int) {
	own := fmt.Sprintf("/belljar.%d.", pid)
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.Contains(path, own) {
			return nil //nolint:nilerr // a cgroup may be removed while it is looked at
		}
		if strings.HasPrefix(filepath.Base(filepath.Dir(path)), "box-") {
			leaves++
		} else {
			all++
		}
		return nil
	})
	return all, leaves
}

// figures contains what a server uses, and what it reports about itself.
type figures struct {
	footprint
	goroutines, sessions, boxes, streams, running int
	stdio                                         int      // number of descriptors of the keepers' own servers
	temporary                                     []string // names of the files in its temporary directory
	files                                         int      // number of files in its state directory, without the audit log
	bytes                                         int64    // bytes of these files
	// bytes of the heap after a collection; 0 if no collection was waited for
	heap int64
}

// soakSlack is how many more descriptors and goroutines a server may have at rest than
// before: a connection or a timer that is about to end.
const soakSlack = 3

// soakBox is how many more descriptors a box may have than before: it keeps a cgroup or two
// for its next commands, and closes them when it is idle.
const soakBox = 4

// soakDatabase is how many descriptors the connections of the database may have.
const soakDatabase = 24

// soakFiles is how many files the state may have that are not outputs of background tasks,
// and soakState is how many MiB all files may have: what belljar keeps has bounds, and the
// guests reach the bound of background tasks.
const (
	soakFiles = 16
	soakState = 32
)

// over returns what a server uses more of at rest than in the figures of an earlier rest,
// except memory. If every session or every call leaves a thing open, the number soon
// exceeds the few that are allowed.
func (f *figures) over(base *figures) string {
	var more []string
	descriptors := base.descriptors + soakSlack + soakBox*f.boxes
	for _, one := range []struct {
		what      string
		got, want int
	}{
		{"descriptors", f.descriptors, descriptors},
		{"descriptors of the database", f.database, soakDatabase},
		{"descriptors of servers over stdio", f.stdio, base.stdio + base.stdio/4}, // each of these servers has a box
		{"goroutines", f.goroutines, base.goroutines + soakSlack},
		{"children", f.children, base.children},
		{"cgroups", f.cgroups, base.cgroups},
		{"cgroups of commands", f.leaves, base.leaves + 2*f.boxes},
		{"mounts", f.mounts, base.mounts},
		{"sessions", f.sessions, base.sessions},
		{"boxes", f.boxes, base.boxes},
		{"streams", f.streams, base.streams},
		{"running calls", f.running, base.running},
		{"temporary files", len(f.temporary), len(base.temporary)},
		{"files of state", f.files, len(soakTenants)*job.MaxEnded + soakFiles},
		{"MiB of state", int(f.bytes >> 20), soakState},
	} {
		if one.got > one.want {
			more = append(more, fmt.Sprintf("%d %s, want %d", one.got, one.what, one.want))
		}
	}
	for kind, n := range f.kinds {
		if n > base.kinds[kind] && f.descriptors > descriptors {
			more = append(more, fmt.Sprintf("%d more of %s", n-base.kinds[kind], kind))
		}
	}
	return strings.Join(more, "; ")
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// String returns the figures that over does not name anyway.
func (f *figures) String() string {
	return fmt.Sprintf("rss %s, heap %s, %d descriptors, %d goroutines, %d threads, %d children, %d cgroups, %d mounts, %d sessions, %d boxes, %d streams, state %d files %s",
		mib(f.rss), mib(f.heap), f.descriptors, f.goroutines, f.threads, f.children, f.cgroups+f.leaves, f.mounts, f.sessions, f.boxes, f.streams, f.files, mib(f.bytes))
}

// trend reports whether sizes grow: the smallest of the last third is a fifth larger than
// the smallest of the first third, and larger by at least 4 MiB. A leak raises each size;
// the time of a garbage collection does not. At least six sizes are needed.
func trend(sizes []int64) (from, to int64, grows bool) {
	third := len(sizes) / 3
	if third < 2 {
		return 0, 0, false
	}
	from, to = slices.Min(sizes[:third]), slices.Min(sizes[len(sizes)-third:])
	return from, to, to > from+max(from/5, 4<<20)
}

// TestTrend checks that a leak can be distinguished from the noise of a garbage collector.
func TestTrend(t *testing.T) {
	var noise, leak []int64
	for n := range int64(40) {
		size := 40<<20 + n*7919%11<<20 // up to 10 MiB of garbage
		noise = append(noise, size)
		leak = append(leak, size+n*400<<10) // a hundred calls that leave 4 KiB each
	}
	if from, to, grows := trend(noise); grows {
		t.Errorf("noise grows from %d to %d", from, to)
	}
	if from, to, grows := trend(leak); !grows {
		t.Errorf("a leak does not grow: %d to %d", from, to)
	}
	if _, _, grows := trend(nil); grows {
		t.Error("nothing grows")
	}
}
