package sandbox

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/claim"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

const (
	areaUser   = 61234
	areaBytes  = 16 << 20
	areaInodes = 1000
)

// inArea runs a script in an area, as its user. A quota would not bound root.
func inArea(t *testing.T, s *storage, script string) string {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	area := os.NewFile(uintptr(fd), "area")
	defer area.Close()
	cmd := exec.Command("bash", "-c", "cd /proc/self/fd/3 || exit; "+script)
	cmd.ExtraFiles, cmd.Dir = []*os.File{area}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: areaUser, Gid: areaUser}}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// fillArea checks that an area is full when it should be. full is the text of the error
// then.
func fillArea(t *testing.T, s *storage, full string) {
	t.Helper()
	out := inArea(t, s, "head -c 64M /dev/zero > big; stat -c %s big; rm big")
	said, size, ok := strings.Cut(strings.TrimSpace(out), "\n")
	got, err := strconv.Atoi(size)
	if !ok || err != nil || !strings.Contains(said, full) || got > areaBytes || got < areaBytes*3/4 {
		t.Errorf("one large file: got %q, want %q at up to %d bytes", out, full, areaBytes)
	}
	out = inArea(t, s, "for i in $(seq 2000); do : > f$i || break; done; ls | wc -l")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	got, err = strconv.Atoi(lines[len(lines)-1])
	if err != nil || !strings.Contains(lines[0], full) || got > areaInodes || got < areaInodes*9/10 {
		t.Errorf("many files: got %q, want %q at up to %d files", out, full, areaInodes)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(s.fd, &st); err != nil || st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 {
		t.Errorf("the area's mount has the flags %x, %v; want nosuid and nodev", st.Flags, err)
	}
}

// eventually waits for an effect that the kernel shows a little later.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !testenv.Until(5*time.Second, ok) {
		t.Errorf("%s: not within 5 seconds", what)
	}
}

// loopDevices returns the loop devices that are in use.
func loopDevices(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func mountTable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// isEmpty fails the test if something is in a directory.
func isEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	left = slices.DeleteFunc(left, func(name string) bool { return filepath.Base(name) == "lost+found" })
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStorageInALoopImage(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	dir, before, mounts := t.TempDir(), loopDevices(t), mountTable(t)
	s, err := openLoop(dir, areaBytes, areaInodes, areaUser)
	if err != nil {
		t.Fatal(err)
	}
	fillArea(t, s, "No space left on device")
	if got := mountTable(t); got != mounts {
		t.Errorf("the area is attached:\n%s", got)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	eventually(t, "the loop device is free", func() bool { return slices.Equal(loopDevices(t), before) })
	isEmpty(t, dir)
}

// quotaPool returns a file system with project quotas of its own.
func quotaPool(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, pool := filepath.Join(dir, "image"), filepath.Join(dir, "pool")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20), os.Mkdir(pool, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mke2fs", "-q", "-t", "ext4", "-O", "quota,project", image}, {"mount", "-o", "loop,prjquota", image, pool}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(pool, 0); err != nil {
			t.Errorf("unmount the pool: %v", err)
		}
	})
	return pool
}

// projectOf returns the project of an area and its quota.
func projectOf(t *testing.T, s *storage) (uint32, diskQuota) {
	t.Helper()
	fd, err := unix.Openat(s.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var attr fsxattr
	if err := attributes(fd, ioctlGetAttr, &attr); err != nil {
		t.Fatal(err)
	}
	return attr.project, quotaIn(t, fd, attr.project)
}

func quotaIn(t *testing.T, fd int, project uint32) diskQuota {
	t.Helper()
	q, err := quotaOf(fd, project)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestStorageUnderAProjectQuota(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.ProjectQuota)
	pool := quotaPool(t)
	if err := canQuota(pool); err != nil {
		t.Fatal(err)
	}
	mounts := mountTable(t)
	s, err := openStorage(pool, areaBytes, areaInodes, areaUser)
	if err != nil {
		t.Fatal(err)
	}
	other, err := openStorage(pool, areaBytes, areaInodes, areaUser)
	if err != nil {
		t.Fatal(err)
	}
	fillArea(t, s, "Disk quota exceeded")
	first, q := projectOf(t, s)
	if q.blockHard != areaBytes/basicBlock || q.inodeHard != areaInodes || q.inodes < areaInodes-10 {
		t.Errorf("the quota of project %d is %+v", first, q)
	}
	if second, q := projectOf(t, other); second == first || q.inodes != 1 {
		t.Errorf("the other area has project %d of %d, and %d files", second, first, q.inodes)
	}
	if got := mountTable(t); got != mounts {
		t.Errorf("an area is attached:\n%s", got)
	}
	if err := errors.Join(s.close(), other.close()); err != nil {
		t.Fatal(err)
	}
	isEmpty(t, pool)
	fd, err := openArea(pool)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if q := quotaIn(t, fd, first); q.blockHard != 0 || q.inodeHard != 0 || q.blocks != 0 {
		t.Errorf("the limits of project %d stayed: %+v", first, q)
	}
}

// areaHelper is set in a process that will be killed. Its value says how the process opens
// an area, and where.
const areaHelper = "BELLJAR_TEST_AREA"

var openers = map[string]func(string, int64, int64, int) (*storage, error){"loop": openLoop, "quota": openQuota}

// The tests start this program again as the supervisor that they kill.
func init() {
	how, dir, ok := strings.Cut(os.Getenv(areaHelper), ":")
	if !ok {
		return
	}
	if _, err := openers[how](dir, areaBytes, areaInodes, areaUser); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("ready\n")
	for {
		_ = unix.Pause() // until it is killed
	}
}

// killedWithArea starts a supervisor with an area in dir, and kills it.
func killedWithArea(t *testing.T, how, dir string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), areaHelper+"="+how+":"+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || line != "ready\n" {
		t.Fatalf("the helper said %q, %v", line, err)
	}
}

func TestLoopImageOfTheKilled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Loop)
	dir, before := t.TempDir(), loopDevices(t)
	killedWithArea(t, "loop", dir)
	eventually(t, "the loop device is free", func() bool { return slices.Equal(loopDevices(t), before) })
	isEmpty(t, dir)
}

func TestQuotaOfTheKilled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.ProjectQuota)
	pool := quotaPool(t)
	killedWithArea(t, "quota", pool)
	left, err := filepath.Glob(filepath.Join(pool, "belljar.*", "area-*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("the killed one left %v, %v, want one area", left, err)
	}
	fd, err := openArea(left[0])
	if err != nil {
		t.Fatal(err)
	}
	var attr fsxattr
	err = attributes(fd, ioctlGetAttr, &attr)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStorage(pool, areaBytes, areaInodes, areaUser)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the area of the killed one is still there: %v", err)
	}
	fd, err = openArea(pool)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if q := quotaIn(t, fd, attr.project); q.blockHard != 0 {
		t.Errorf("its limits are still there: %+v", q)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	isEmpty(t, pool)
}

// A directory that an attacker put in place of the supervisor's own is neither used nor
// swept.
func TestAreasOfOthersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	self, err := claim.Process()
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "belljar.1.1")
	if err := errors.Join(os.Symlink("/", filepath.Join(dir, "belljar."+self)), os.Mkdir(foreign, 0o700), os.Chmod(foreign, 0o777)); err != nil {
		t.Fatal(err)
	}
	if areas, err := areasOf(dir); err == nil {
		t.Errorf("got %s, a link to somewhere else", areas)
	}
	sweepStorage(dir)
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("what everybody can write was swept: %v", err)
	}
}

func TestStorageIsRefusedToUsers(t *testing.T) {
	testenv.Need(t, testenv.User)
	_, err := openStorage(t.TempDir(), areaBytes, areaInodes, os.Geteuid())
	var refusal *limit.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "storage: memory") {
		t.Errorf("got %v, want a refusal that says what to do", err)
	}
	s := &Supervisor{ground: ground{groups: &cgroup.Tree{}, disk: diskHeld(t.TempDir())}}
	w := newWorkspace(s, "")
	if got := w.held()[policies.LimitDisk]; got != limit.NotEnforced {
		t.Errorf("disk is %q here", got)
	}
	if got := w.heldFor(policytest.Grant(t))[policies.LimitDisk]; got != limit.Enforced {
		t.Errorf("disk is %q for storage in memory, which its tmpfs bounds", got)
	}
}
