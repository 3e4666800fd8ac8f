package escape

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
)

// over is how far, in bytes, a probe goes beyond a limit: more than anything that a limit
// is rounded to, or leaves to others.
const over = 64 << 20

// bigFile is larger than a file in a workspace may be, in bytes.
const bigFile = 1200 << 20

// mostTasks and mostFiles bound the attempts if a limit is very high.
const (
	mostTasks = 5000
	mostFiles = 400_000
)

// resources returns the probes for the ways to use more than the profile allows. Each goes
// a bit beyond the profile's limit. The profiles of tests have low limits, so that this
// costs little outside.
func resources() []Probe {
	return []Probe{
		{ID: "R01", Name: "have more processes than the limit", own: true, dies: true, where: held(policies.LimitPids), try: forks},
		{ID: "R02", Name: "touch more memory than the limit", own: true, dies: true, where: held(policies.LimitMemory), try: touches},
		{ID: "R03", Name: "open more descriptors than the limit", try: func(f *Facts) (string, error) {
			most := f.Limits.OpenFiles
			return duplicates(int(most) + 16)
		}},
		{ID: "R04", Name: "write more to /tmp than the limit", own: true, dies: true, try: func(f *Facts) (string, error) {
			return allocates(filepath.Join(os.TempDir(), "belljar-probe-big"), f.Limits.Tmp+over)
		}},
		{ID: "R05", Name: "write a file of 1.2 GB into the workspace", where: canWrite, try: inScratch(func(_ *Facts, dir string) (string, error) {
			return allocates(filepath.Join(dir, "big"), bigFile)
		})},
		{ID: "R06", Name: "make more files in /tmp than the limit", own: true, try: manyFiles},
		{ID: "R07", Name: "leave a core dump", try: dumps},
		{ID: "R08", Name: "write more to shared memory than the limit", own: true, dies: true, try: func(f *Facts) (string, error) {
			return allocates("/dev/shm/belljar-probe-"+strconv.Itoa(os.Getpid()), f.Limits.Tmp+over)
		}},
		{ID: "R09", Name: "hide memory in files without a name", own: true, dies: true, where: held(policies.LimitMemory), try: hidesInFiles},
		{ID: "R10", Name: "hide memory in SysV segments that nobody has attached", own: true, dies: true, where: held(policies.LimitMemory), try: hidesInSegments},
		{ID: "R11", Name: "raise the limit of descriptors", try: func(f *Facts) (string, error) {
			most := uint64(f.Limits.OpenFiles) + 1
			// The limit may be raised only up to the hard limit.
			return "RLIMIT_NOFILE", unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil)
		}},
		{ID: "R12", Name: "use more CPU time than the limit", own: true, slow: true, where: held(policies.LimitCPU), try: burns},
		{ID: "R13", Name: "use up the user's watches of files", own: true, try: func(*Facts) (string, error) {
			// Instances are counted for the user, and for the user that made the box
			// (kernel/ucount.c). The default limit is 128 (inotify(7)), so processes
			// outside would notice if half of it were used.
			const half = 64
			for n := range half {
				if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
					return "", fmt.Errorf("after %d: %w", n, err)
				}
			}
			return fmt.Sprintf("%d inotify instances", half), nil
		}},
		{ID: "R14", Name: "keep more descriptors in flight than the limit", try: func(f *Facts) (string, error) {
			// Descriptors in flight over a socket are in no process's table
			// (unix(7), SCM_RIGHTS), and count against the same limit.
			return inFlight(int(f.Limits.OpenFiles) + 512)
		}},
	}
}

// forks makes sleeping children until there can be no more.
func forks(f *Facts) (string, error) {
	// The box's own processes are in addition to the number in the profile.
	const slack = 64
	want := min(int(f.Limits.Pids)+slack, mostTasks)
	for n := range want {
		if _, errno := forked(0, true); errno != 0 {
			return "", fmt.Errorf("after %d: %w", n, errno)
		}
	}
	// The children end with this process.
	return fmt.Sprintf("%d processes", want), nil
}

// tooMuch returns more memory, in bytes, than a box may have: more than the limit and its
// storage, which may count against the limit.
func tooMuch(f *Facts) int64 { return f.Limits.Memory + f.Limits.Tmp + over }

// keeps waits, so that a watchdog that samples can see the memory.
func keeps() { pause(time.Second) }

func touches(f *Facts) (string, error) {
	size := tooMuch(f)
	at, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return "", fmt.Errorf("mmap: %w", err)
	}
	for i := 0; i < len(at); i += os.Getpagesize() {
		at[i] = 1
	}
	keeps()
	return fmt.Sprintf("%d MiB", size>>20), unix.Munmap(at)
}

func duplicates(want int) (string, error) {
	// The limit is first raised as far as possible.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return "", err
	}
	limit.Cur = limit.Max
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	for n := range want {
		if _, err := unix.Dup(0); err != nil {
			return "", fmt.Errorf("after %d: %w", n, err)
		}
	}
	return fmt.Sprintf("%d descriptors", want), nil
}

// allocates makes a file of a size in bytes, and removes it.
func allocates(path string, size int64) (string, error) {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	defer func() { _ = unix.Unlink(path) }()
	err = unix.Fallocate(fd, 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		// A file system that cannot reserve blocks can still make a file of this size.
		_, err = unix.Pwrite(fd, []byte("x"), size-1)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d MiB", size>>20), nil
}

func manyFiles(f *Facts) (string, error) {
	dir, err := os.MkdirTemp("", "belljar-probe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	want := min(int(f.Limits.TmpFiles)+16, mostFiles)
	for n := range want {
		if err := unix.Mknod(filepath.Join(dir, strconv.Itoa(n)), unix.S_IFREG|0o600, 0); err != nil {
			return "", fmt.Errorf("after %d: %w", n, err)
		}
	}
	return fmt.Sprintf("%d files", want), nil
}

// dumps raises the limit on core dumps as far as possible, and checks whether a child that
// aborts dumps its memory.
func dumps(*Facts) (string, error) {
	dir, remove, err := scratch()
	if err != nil {
		return "", err
	}
	defer remove()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return "", err
	}
	// Not by Setrlimit, because a child must inherit the limit.
	limit.Cur = min(limit.Max, 1<<20)
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &limit, nil); err != nil {
		return "", err
	}
	c := &exec.Cmd{Path: lookPath("sleep"), Args: []string{"sleep", "10"}, Dir: dir}
	if err := c.Start(); err != nil {
		return "", err
	}
	err = c.Process.Signal(unix.SIGABRT)
	_ = c.Wait()
	status, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil && (!ok || !status.CoreDump()) {
		err = errors.New("no core was dumped")
	}
	return "a core dump", err
}

func hidesInFiles(f *Facts) (string, error) {
	const piece = 128 << 20
	size := tooMuch(f)
	for have := int64(0); have < size; have += piece {
		fd, err := unix.MemfdCreate("belljar-probe", unix.MFD_CLOEXEC)
		if err != nil {
			return "", fmt.Errorf("memfd_create: %w", err)
		}
		if err := unix.Fallocate(fd, 0, 0, piece); err != nil {
			return "", fmt.Errorf("after %d MiB: %w", have>>20, err)
		}
	}
	keeps()
	return fmt.Sprintf("%d MiB", size>>20), nil
}

func hidesInSegments(f *Facts) (string, error) {
	const piece = 32 << 20
	size := tooMuch(f)
	var ids []int
	defer func() {
		for _, id := range ids {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}()
	for have := int64(0); have < size; have += piece {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, piece, unix.IPC_CREAT|0o600)
		if err != nil {
			return "", fmt.Errorf("after %d MiB: shmget: %w", have>>20, err)
		}
		ids = append(ids, id)
		at, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return "", fmt.Errorf("after %d MiB: shmat: %w", have>>20, err)
		}
		for i := 0; i < len(at); i += os.Getpagesize() {
			at[i] = 1
		}
		if err := unix.SysvShmDetach(at); err != nil {
			return "", err
		}
	}
	keeps()
	return fmt.Sprintf("%d MiB", size>>20), nil
}

// burns runs on more CPUs than the limit and measures how much CPU time it gets, in windows
// that contain several periods of a quota.
func burns(f *Facts) (string, error) {
	const window, windows = time.Second, 4
	// Enough threads to get more than the limit even from a busy machine.
	threads := int(2*f.Limits.CPU) + 16
	runtime.GOMAXPROCS(threads)
	var stop atomic.Bool
	defer stop.Store(true)
	for range threads {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	// A window may begin and end in the middle of a period of a tenth of a second. One
	// window alone proves nothing: a virtual machine that stands still for a short time
	// counts this time as used, and corrects it only later.
	above, most, times := 1.5*f.Limits.CPU, 0.0, 0
	for range windows {
		before, start := cpuTime(), time.Now()
		pause(window)
		share := float64(cpuTime()-before) / float64(time.Since(start))
		most = max(most, share)
		if share > above {
			times++
		}
		if times > 1 {
			return fmt.Sprintf("%.2f CPUs, of %.2f", most, f.Limits.CPU), nil
		}
	}
	return "", fmt.Errorf("%.2f CPUs, of %.2f", most, f.Limits.CPU)
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// inFlight sends descriptors over a socket that nobody reads.
func inFlight(want int) (string, error) {
	const each = 250 // descriptors in one message, of at most 253 (unix(7), SCM_MAX_FD)
	rights := make([]int, each)
	var pair [2]int
	for n := 0; n < want; n += each {
		if n%(8*each) == 0 { // a socket's queue is short
			var err error
			if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
				return "", err
			}
		}
		if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(rights...), nil, 0); err != nil {
			return "", fmt.Errorf("after %d: %w", n, err)
		}
	}
	return fmt.Sprintf("%d descriptors", want), nil
}
