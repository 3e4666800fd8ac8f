package boxinit

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// server starts commands, tells the host how they end and reaps every orphan
// of the box, as process 1 must.
type server struct {
	wire  *wire
	plan  *Plan
	score victim
	wake  chan struct{} // a command was started: there is something to wait for

	mu    sync.Mutex
	byID  map[uint64]*command
	byPid map[int]*command
}

type command struct {
	id  uint64
	pid int
	cwd string
	oom bool // guarded by server.mu: the watchdog killed it
}

func newServer(w *wire, p *Plan, score victim) *server {
	return &server{
		wire: w, plan: p, score: score, wake: make(chan struct{}, 1),
		byID: map[uint64]*command{}, byPid: map[int]*command{},
	}
}

// serve runs until the host closes the connection. Leaving ends the box: the
// kernel kills all that is left in the namespace of a process 1 that ended
// (pid_namespaces(7)).
func (s *server) serve() int {
	go s.reap() // ends with the process
	if s.plan.Memory > 0 {
		go s.watchMemory() // ends with the process
	}
	for {
		var r Request
		files, err := s.wire.receive(&r)
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return 1
		}
		switch r.Op {
		case "start":
			s.start(&r, files)
		case "signal":
			s.signal(r.ID, syscall.Signal(r.Signal))
		case "kill":
			s.signal(r.ID, syscall.SIGKILL)
		}
		CloseAll(files)
	}
}

func (s *server) start(r *Request, files []int) {
	want := 3
	if r.Leaf {
		want = 4
	}
	if len(files) != want || len(r.Argv) == 0 {
		s.failed(r.ID, "start", syscall.EINVAL)
		return
	}
	// Told apart here, because a fork reports one error for the directory and
	// for the program.
	var info syscall.Stat_t
	if err := syscall.Stat(r.Dir, &info); err != nil || info.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		if err == nil {
			err = syscall.ENOTDIR
		}
		s.failed(r.ID, "directory", err)
		return
	}
	env := merge(s.plan.Env, r.Env)
	program, err := lookup(r.Path, env)
	if err != nil {
		s.failed(r.ID, "program", err)
		return
	}
	attr := &syscall.ProcAttr{
		Dir: r.Dir, Env: env,
		Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: r.TTY, Ctty: 0},
	}
	if r.Leaf {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, files[3]
	}
	argv := r.Argv
	if s.plan.Nested {
		attr.Sys.Cloneflags = syscall.CLONE_NEWPID
		program, argv = underShell(program, argv)
	}
	// Held until the command is in the tables and the host knows that it runs:
	// reap must not meet a child that it does not know, nor tell an end before
	// the beginning, nor take the child that a failed exec leaves to ForkExec
	// itself.
	s.mu.Lock()
	s.score.set("1000")
	pid, err := syscall.ForkExec(program, argv, attr)
	s.score.set("0")
	if err == nil {
		c := &command{id: r.ID, pid: pid, cwd: r.Cwd}
		s.byID[c.id], s.byPid[pid] = c, c
		_ = s.wire.send(Reply{Op: "started", ID: r.ID})
	}
	s.mu.Unlock()
	if err != nil {
		s.failed(r.ID, "start", err)
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// underShell puts a shell between a new pid namespace and its command. The
// kernel drops the signals that the first process of a namespace does not
// handle, so a command in that place could be neither interrupted nor end
// itself with one. The shell's own remarks go nowhere; the price is that the
// end by a signal shows as exit code 128 and more only.
func underShell(program string, argv []string) (string, []string) {
	const sh = "/bin/sh"
	if _, err := os.Stat(sh); err != nil {
		return program, argv
	}
	script := `exec 3>&2 2>/dev/null; ("$@" 2>&3 3>&-); exit $?`
	return sh, append([]string{"sh", "-c", script, "sh"}, argv...)
}

// merge is base with extra variables added, or in place of those of the same
// name.
func merge(base, extra []string) []string {
	if len(extra) == 0 {
		return base
	}
	env := make([]string, 0, len(base)+len(extra))
	for _, b := range base {
		name, _, _ := strings.Cut(b, "=")
		if !slices.ContainsFunc(extra, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, b)
		}
	}
	return append(env, extra...)
}

// lookup finds a program as execvp(3) does.
func lookup(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		var info syscall.Stat_t
		return name, syscall.Stat(name, &info)
	}
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			file := path.Join(dir, name)
			var info syscall.Stat_t
			if syscall.Stat(file, &info) == nil && info.Mode&syscall.S_IFMT == syscall.S_IFREG && info.Mode&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", syscall.ENOENT
}

func (s *server) failed(id uint64, what string, err error) {
	var errno syscall.Errno
	errors.As(err, &errno)
	_ = s.wire.send(Reply{Op: "failed", ID: id, Error: what, Errno: int(errno)})
}

// signal reaches the command's process group; a kill in a nested namespace
// takes all of it, because its process 1 dies.
func (s *server) signal(id uint64, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if c == nil {
		return
	}
	// The child is not reaped while it is in the table, so neither number can
	// have been given to another process.
	_ = syscall.Kill(-c.pid, sig) //nolint:forbidigo // see above
	_ = syscall.Kill(c.pid, sig)  //nolint:forbidigo // see above
}

// reap waits for every child, commands and orphans alike.
func (s *server) reap() {
	for {
		pid, err := nextDead()
		switch {
		case err == syscall.ECHILD:
			<-s.wake
			continue
		case err != nil:
			continue // EINTR
		}
		s.mu.Lock()
		var status syscall.WaitStatus
		var usage syscall.Rusage
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &usage)
		c := s.byPid[pid]
		if err == nil && got == pid && c != nil {
			delete(s.byPid, pid)
			delete(s.byID, c.id)
		}
		s.mu.Unlock()
		if err == nil && got == pid && c != nil {
			_ = s.wire.send(ended(c, status, &usage))
		}
	}
}

// nextDead waits for a child that ended and leaves it unreaped.
func nextDead() (int, error) {
	var info [128]byte // siginfo_t; si_pid stands at 16 on 64-bit systems
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(*(*int32)(unsafe.Pointer(&info[16]))), nil
}

func ended(c *command, status syscall.WaitStatus, usage *syscall.Rusage) Reply {
	r := Reply{
		Op: "ended", ID: c.id, Code: status.ExitStatus(), OOM: c.oom,
		CPU: usage.Utime.Nano() + usage.Stime.Nano(), RSS: usage.Maxrss << 10,
	}
	if status.Signaled() {
		r.Signal = int(status.Signal())
		r.Code = 128 + r.Signal
	}
	if c.cwd != "" {
		r.Dir = lastDir(c.cwd)
	}
	return r
}

// lastDir reads the directory that a shell left in file. A command can write
// there what it likes: it chooses the directory of the next one anyway.
func lastDir(file string) string {
	const longest = 4096 // PATH_MAX
	defer func() { _ = syscall.Unlink(file) }()
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	var info syscall.Stat_t
	if syscall.Fstat(fd, &info) != nil || info.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return ""
	}
	buf := make([]byte, longest+1)
	n, err := syscall.Read(fd, buf)
	if err != nil || n <= 0 || n > longest {
		return ""
	}
	dir := strings.TrimSuffix(string(buf[:n]), "\n")
	if !path.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return ""
	}
	return dir
}

// watchMemory stands in for a memory cgroup: it adds up resident memory 20
// times a second and kills the command that holds most of it.
func (s *server) watchMemory() {
	for range time.Tick(50 * time.Millisecond) {
		s.mu.Lock()
		idle := len(s.byID) == 0
		s.mu.Unlock()
		if idle {
			continue
		}
		parents, sizes := processes()
		var total int64
		held := map[int]int64{}
		for pid, size := range sizes {
			total += size
			held[s.commandOf(pid, parents)] += size
		}
		if total <= s.plan.Memory {
			continue
		}
		delete(held, 0)
		worst := 0
		for pid, size := range held {
			if worst == 0 || size > held[worst] {
				worst = pid
			}
		}
		s.mu.Lock()
		c := s.byPid[worst]
		if c != nil {
			c.oom = true
			_ = syscall.Kill(c.pid, syscall.SIGKILL) //nolint:forbidigo // unreaped while in the table
		}
		s.mu.Unlock()
	}
}

// commandOf is the pid of the command that a process descends from, or 0.
func (s *server) commandOf(pid int, parents map[int]int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range len(parents) { // processes move while they are read: no loop for ever
		if s.byPid[pid] != nil {
			return pid
		}
		if pid = parents[pid]; pid <= 1 {
			return 0
		}
	}
	return 0
}

// processes reads parent and resident bytes of every process in the box.
func processes() (parents map[int]int, sizes map[int]int64) {
	parents, sizes = map[int]int{}, map[int]int64{}
	dir, err := os.Open("/proc")
	if err != nil {
		return parents, sizes
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	page := int64(os.Getpagesize())
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == 1 {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		// proc_pid_stat(5): the name stands in parentheses and may hold
		// anything, so fields count from the last one.
		_, rest, ok := strings.Cut(string(text), ") ")
		for ok && strings.Contains(rest, ") ") {
			_, rest, ok = strings.Cut(rest, ") ")
		}
		fields := strings.Fields(rest)
		if len(fields) < 22 {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		rss, _ := strconv.ParseInt(fields[21], 10, 64)
		sizes[pid] = rss * page
	}
	return parents, sizes
}
