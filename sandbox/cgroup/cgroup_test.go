package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/claim"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox/limit"
)

// groupsOf returns the cgroups of this host.
func groupsOf(t *testing.T) *Tree {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func tenantGrant(t *testing.T, tenant, totals string) policies.Grant {
	t.Helper()
	return policytest.GrantFor(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {p: {limits: {memory: 64MiB, tmp: 1MiB, io: 7MiB}}}\ntotals: {"+totals+"}\n",
		policies.Facts{Tenant: tenant, Tool: "Any"})
}

// open makes the cgroups of a box whose processes run as the user of the tests.
func open(t *testing.T, c *Tree, name string, g policies.Grant) *Group {
	t.Helper()
	made, err := c.Open(name, g, os.Geteuid(), Disk{})
	if err != nil {
		t.Fatal(err)
	}
	closed := sync.OnceFunc(made.Close)
	t.Cleanup(closed)
	return made
}

// A supervisor in another PID namespace is not in /proc. Its directories must stay until it
// has ended.
func TestSweepSparesTheLiving(t *testing.T) {
	for _, dir := range groupsOf(t).dirs() {
		if f, yes := claim.Abandoned(dir); yes {
			f.Close()
			t.Errorf("%s is not locked", dir)
		}
		unseen := filepath.Join(filepath.Dir(dir), "belljar.0.0."+strconv.Itoa(os.Getpid()))
		f, err := claim.Make(unseen, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		sweep(filepath.Dir(dir))
		if _, err := os.Stat(unseen); err != nil {
			t.Errorf("what is held was removed: %v", err)
		}
		f.Close()
		sweep(filepath.Dir(dir))
		if _, err := os.Stat(unseen); err == nil {
			t.Errorf("%s is left", unseen)
		}
	}
}

// TestOneDirectoryInTheV2Tree checks that the tree of version 2 has one of our directories,
// and not one for each mount of it: only the directory that Tree knows is removed.
func TestOneDirectoryInTheV2Tree(t *testing.T) {
	mounts := []string{t.TempDir(), t.TempDir()}
	tree := &Tree{v1: map[string]string{}, own: map[string]string{}, v2ctl: map[string]bool{}}
	tree.open([]hierarchy{{dir: mounts[0], v2: true}, {dir: mounts[1], v2: true}}, "belljar.test.1")
	for _, f := range tree.claims {
		t.Cleanup(func() { f.Close() })
	}
	if want := filepath.Join(mounts[0], "belljar.test.1"); tree.v2 != want || len(tree.claims) != 1 {
		t.Errorf("got the directory %s and %d claims, want %s and one", tree.v2, len(tree.claims), want)
	}
}

// A tenant's directories contain its totals, follow a change of the policy, and are removed
// with the last box if there are many tenants.
func TestShareLivesWithItsBoxes(t *testing.T) {
	testenv.NeedCgroups(t)
	c := groupsOf(t)
	c.kept = 1
	first, err := c.Open("a", tenantGrant(t, "x", "pids: 1000"), os.Geteuid(), Disk{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Open("b", tenantGrant(t, "x", "pids: 2000"), os.Geteuid(), Disk{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Open("c", tenantGrant(t, "y", "pids: 3000"), os.Geteuid(), Disk{})
	if err != nil {
		t.Fatal(err)
	}
	top := c.v1[ctlPids]
	if c.v2ctl[ctlPids] {
		top = c.v2
	}
	if top == "" {
		t.Fatal("no pids controller")
	}
	if first.share != second.share || first.share == other.share {
		t.Error("two boxes of a tenant share no directory, or two tenants do")
	}
	for share, want := range map[*share]string{first.share: "2000", other.share: "3000"} {
		if got := word(filepath.Join(top, share.name, "pids.max")); got != want {
			t.Errorf("tenant %s may have %s processes, want %s", share.tenant, got, want)
		}
	}
	first.Close()
	if _, err := os.Stat(filepath.Join(top, second.share.name)); err != nil {
		t.Errorf("the share went with the first box: %v", err)
	}
	second.Close()
	other.Close()
	for _, top := range c.dirs() {
		left, err := filepath.Glob(filepath.Join(top, "tenant-*"))
		if err != nil || len(left) != 1 {
			t.Errorf("left are %v, %v, want one", left, err)
		}
	}
}

// Many boxes of many tenants are opened and closed at the same time.
func TestSharesAtOnce(t *testing.T) {
	testenv.NeedCgroups(t)
	c := groupsOf(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		g := tenantGrant(t, "t"+strconv.Itoa(worker%3), "pids: 1000")
		wg.Go(func() {
			for i := range 20 {
				made, err := c.Open(fmt.Sprintf("w%d-%d", worker, i), g, os.Geteuid(), Disk{})
				if err != nil {
					t.Error(err)
					return
				}
				made.Close()
			}
		})
	}
	wg.Wait()
	if len(c.shares) != 3 {
		t.Errorf("%d shares are left, want one a tenant", len(c.shares))
	}
}

// The kernel has accepted the bound on the workspace's disk as it was meant.
func TestIOIsBoundedOnTheDiskOfTheWorkspace(t *testing.T) {
	testenv.NeedCgroups(t)
	dir := t.TempDir()
	c := groupsOf(t)
	disk := c.DiskOf(dir)
	g, err := c.Open("io", tenantGrant(t, "x", ""), os.Geteuid(), disk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if disk.number == "" || !c.has(ctlIO) {
		t.Skipf("%s is on no disk that can be throttled", dir)
	}
	want := disk.number + " " + strconv.Itoa(7<<20)
	files := map[string]string{
		filepath.Join(g.v1[ctlIO], "blkio.throttle.read_bps_device"):  want,
		filepath.Join(g.v1[ctlIO], "blkio.throttle.write_bps_device"): want,
	}
	held := limit.Partly
	if c.v2ctl[ctlIO] {
		files = map[string]string{filepath.Join(g.v2, "io.max"): fmt.Sprintf("%s rbps=%d wbps=%[2]d riops=max wiops=max", disk.number, 7<<20)}
		held = limit.Enforced
	}
	for file, want := range files {
		if got := word(file); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	if got := c.Enforcements(disk)[policies.LimitIO]; got != held {
		t.Errorf("io is %q, want %q", got, held)
	}
}

func TestDiskOf(t *testing.T) {
	for _, dir := range []string{"", "/proc", "/dev", "/does/not/exist"} {
		if got := diskOf(dir); got != (Disk{}) {
			t.Errorf("%q is on the disk %+v, want none", dir, got)
		}
	}
	var c Tree
	if got := c.ioHeld(Disk{}); got != limit.NotEnforced {
		t.Errorf("without a disk io is %q", got)
	}
}

// inGroup starts a program in a box's cgroups, like an init.
func inGroup(t *testing.T, g *Group, leaf *Leaf, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	if leaf != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: leaf.FD()}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.Start(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// The watcher of a box is notified of an out-of-memory kill in that box, and of no other
// kill.
func TestWatchOOM(t *testing.T) {
	testenv.NeedCgroups(t)
	testenv.Need(t, testenv.Perl)
	c := groupsOf(t)
	if !c.has(ctlMemory) {
		t.Fatal("no memory controller")
	}
	heard := make(chan string, 10)
	watch := func(name string) (*Group, func()) {
		g := open(t, c, name, tenantGrant(t, "x", ""))
		stop, err := g.WatchOOM(func() { heard <- name })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return g, stop
	}
	hungry, stop := watch("hungry")
	watch("neighbour")
	const eat = `perl -e 'vec($x, (200 << 20) - 1, 8) = 1'; true` // the shell survives
	for range 2 {
		cmd := inGroup(t, hungry, hungry.init, eat)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("the shell was killed instead of the largest: %v", err)
		}
		select {
		case name := <-heard:
			if name != "hungry" {
				t.Errorf("box %s was told", name)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("nobody was told of the kill")
		}
	}
	stop()
	stop()
	if err := inGroup(t, hungry, hungry.init, eat).Wait(); err != nil {
		t.Fatal(err)
	}
	if n := hungry.OOMKills(); n != 3 {
		t.Errorf("the kernel counts %d kills, want 3", n)
	}
	select {
	case name := <-heard:
		t.Errorf("box %s was told when nobody watched any more", name)
	default:
	}
}

// A watch ends with its box, whichever of the two is closed first.
func TestWatchOOMEndsWithItsBox(t *testing.T) {
	testenv.NeedCgroups(t)
	c := groupsOf(t)
	for i := range 20 {
		g, err := c.Open("box-"+strconv.Itoa(i), tenantGrant(t, "x", ""), os.Geteuid(), Disk{})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := g.WatchOOM(func() { t.Error("told of a kill in an empty box") })
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			g.Close()
			stop()
		} else {
			stop()
			g.Close()
		}
	}
	if n := len(c.ooms.boxes); n != 0 {
		t.Errorf("%d boxes are still watched", n)
	}
}

// For two leaves, Resident shows which one uses more memory.
func TestResident(t *testing.T) {
	testenv.NeedCgroups(t)
	testenv.Need(t, testenv.Perl)
	c := groupsOf(t)
	g := open(t, c, "leaves", tenantGrant(t, "x", ""))
	if g.v2 == "" {
		t.Skip("no cgroup v2 is writable here, so there are no leaves")
	}
	small, large := leafHolding(t, g, "small", 0), leafHolding(t, g, "large", 16<<20)
	if small <= 0 || large < small+8<<20 {
		t.Errorf("got %d and %d bytes, want the second to hold 16 MiB more", small, large)
	}
	if small > 2<<20 {
		t.Errorf("a small program holds %d bytes, want without what it maps of files", small)
	}
	if got := (*Leaf)(nil).Resident(); got != 0 {
		t.Errorf("no leaf holds %d bytes", got)
	}
}

// leafHolding returns the memory of a leaf with a process in it that uses so many bytes.
func leafHolding(t *testing.T, g *Group, name string, bytes int) int64 {
	t.Helper()
	l, err := g.NewLeaf(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Resident(); got != 0 {
		t.Errorf("an empty leaf holds %d bytes", got)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("perl", "-e", fmt.Sprintf(`$| = 1; vec($x, %d, 8) = 1; print "full\n"; sleep 1000`, bytes))
	cmd.Stdout, cmd.SysProcAttr = w, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: l.FD()}
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := r.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	return l.Resident()
}

// On v1 all boxes of a tenant are notified when the tenant's memory runs out. Only the box
// that lost a process reports a kill.
func TestTenantOOMIsToldToTheBoxThatPays(t *testing.T) {
	testenv.NeedCgroups(t)
	testenv.Need(t, testenv.Perl)
	c := groupsOf(t)
	grant := tenantGrant(t, "x", "memory: 66MiB")
	heard := make(chan string, 10)
	boxes := map[string]*Group{}
	for _, name := range []string{"small", "large"} {
		g := open(t, c, name, grant)
		boxes[name] = g
		stop, err := g.WatchOOM(func() { heard <- name })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	// Each of the two fits alone, but not both.
	inGroup(t, boxes["small"], boxes["small"].init, `exec perl -e 'vec($x, (40 << 20) - 1, 8) = 1; sleep 1000'`)
	inGroup(t, boxes["large"], boxes["large"].init, `exec perl -e 'vec($x, (50 << 20) - 1, 8) = 1; sleep 1000'`)
	select {
	case name := <-heard:
		if n := boxes[name].OOMKills(); n != 1 {
			t.Errorf("box %s was told and lost %d processes", name, n)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was told of the kill")
	}
	if total := boxes["small"].OOMKills() + boxes["large"].OOMKills(); total != 1 {
		t.Errorf("%d processes were killed, want 1", total)
	}
}

// Without a memory controller a watchdog bounds memory. If the kernel does not list the
// children of a process, memory is not bounded, and nothing claims that it is.
func TestMemoryHeld(t *testing.T) {
	thread := t.TempDir() // like a thread in a kernel without CONFIG_PROC_CHILDREN
	if listsChildren(thread) {
		t.Error("a kernel that does not tell children is said to")
	}
	for _, tt := range []struct {
		c    *Tree
		want limit.Enforcement
	}{
		{&Tree{}, limit.NotEnforced},
		{&Tree{watch: true}, limit.Watchdog},
		{&Tree{v2ctl: map[string]bool{ctlMemory: true}}, limit.Enforced},
		{&Tree{v1: map[string]string{ctlMemory: "x"}, watch: true}, limit.Enforced},
	} {
		if got := tt.c.Enforcements(Disk{})[policies.LimitMemory]; got != tt.want {
			t.Errorf("memory is %q, want %q", got, tt.want)
		}
	}
}
