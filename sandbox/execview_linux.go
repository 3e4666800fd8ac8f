package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/rawsys"
)

// execView sees what the commands of one box start. One goroutine answers one
// exec after the other, so a box that starts many programs slows down only itself.
// The goroutine ends when the box ends. If it ends earlier, the box is killed,
// because each exec in it would fail with ENOSYS.
//
// execView reads memory of the caller, which another thread of the caller may
// change before the kernel reads it again (seccomp_unotify(2),
// SECCOMP_USER_NOTIF_FLAG_CONTINUE). So it can report execs and ask the policy, but
// it is not a security boundary.
type execView struct {
	box   *Box
	mode  policies.ExecMode
	ours  uint64
	begun bool
	file  *os.File          // the listener
	ready *rawsys.Readiness // readiness of the listener
	files *execFiles
	done  chan struct{}

	written []string // of writtenBy

	closing atomic.Bool // whether execView itself closes the file
	mu      sync.Mutex  // held from an answer until it is recorded
}

// notification is struct seccomp_notif, seccomp_unotify(2).
type notification struct {
	id     uint64
	pid    uint32 // thread that executes, as the supervisor sees it; 0 if it cannot see it
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// notifyReply is struct seccomp_notif_resp.
type notifyReply struct {
	id    uint64
	value int64
	errno int32 // negative error number, or 0
	flags uint32
}

// notifySetFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS.
const notifySetFlags = 0x40082104

// newExecView prepares to see what a box with the grant starts. It returns nil if the
// profile does not require it, or if the profile only observes and the host cannot show
// execs.
func (s *Supervisor) newExecView(b *Box) (*execView, error) {
	mode := b.grant.Exec()
	if mode == policies.ExecOff {
		return nil, nil //nolint:nilnil // documented
	}
	if err := execSupport().err; err != nil {
		if mode == policies.ExecEnforce {
			return nil, refuseExec(b.grant.Profile(), err) // admit has refused this before
		}
		s.cfg.Log.Warn("what commands start is not seen", "box", b.id, "profile", b.grant.Profile(), "err", err)
		return nil, nil //nolint:nilnil // documented
	}
	v := &execView{box: b, mode: mode, written: writtenBy(b.grant, b.home.dir)}
	var mark [8]byte
	for v.ours == 0 {
		_, _ = rand.Read(mark[:]) // Read never fails
		v.ours = binary.NativeEndian.Uint64(mark[:])
	}
	return v, nil
}

// writtenBy returns the directories whose files a box can write: its workspace and the
// sources of its writable mounts by their names on the host, without links, under which the
// box sees them if they lie in a tree of the system, and the places where its mounts, also
// read-only ones, show the same files. The workspace counts whatever the grant says of it,
// since another box may write it.
func writtenBy(g policies.Grant, workspace string) []string {
	var written []string
	if workspace != "" {
		written = append(written, workspace)
	}
	mounts := g.Mounts()
	sources := make([]string, len(mounts))
	for i, m := range mounts {
		sources[i] = m.Source
		if real, err := filepath.EvalSymlinks(m.Source); err == nil { // otherwise the box cannot be opened
			sources[i] = real
		}
		if m.Writable {
			written = append(written, sources[i])
		}
	}
	for _, dir := range slices.Clone(written) {
		for i, m := range mounts {
			switch {
			case inTree(dir, sources[i]):
				written = append(written, m.Target)
			case inTree(sources[i], dir):
				written = append(written, filepath.Join(m.Target, strings.TrimPrefix(dir, sources[i])))
			}
		}
	}
	slices.Sort(written)
	return slices.Compact(written)
}

// refuseExec returns the refusal of a profile that needs more than the host can do.
func refuseExec(profile string, err error) error {
	return &limit.Refusal{
		Message: fmt.Sprintf("profile %q has exec: enforce, and this host cannot show what commands start; run \"belljar doctor\" for how to fix it, or have the operator choose exec: observe", profile),
		Err:     err,
	}
}

// watch takes over the listener that the init sent and begins to answer.
func (v *execView) watch(files []int) error {
	if v == nil || v.begun || len(files) != 1 {
		boxinit.CloseAll(files)
		return errors.New("watch what is executed: its init sent something that was not requested")
	}
	// A hostile init can send any kind of file. The link of a file with a path
	// begins with a slash, so no such file passes for a listener.
	fd := files[0]
	if kind, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || kind != "anon_inode:seccomp notify" {
		unix.Close(fd)
		return fmt.Errorf("watch what is executed: its init sent a %q", kind)
	}
	ready, err := rawsys.NewReadiness(fd)
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("watch what is executed: %w", err)
	}
	// The process that asks and this goroutine take turns, so each wakes the
	// other on its own CPU (Linux 6.6). Older kernels only answer more slowly.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifySetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	v.file, v.ready, v.begun = os.NewFile(uintptr(fd), "seccomp notify"), ready, true
	go func() {
		defer close(v.done)
		if err := v.serve(); err != nil && !v.closing.Load() && !errors.Is(err, io.EOF) {
			// Every further exec in the box would fail.
			v.box.sup.cfg.Log.Error("box is killed", "box", v.box.id, "reason", "what it executes cannot be seen any more", "err", err)
			v.box.init.kill()
		}
	}()
	return nil
}

// renew prepares v for another init of the box; files finds the box's programs.
func (v *execView) renew(files *execFiles) {
	v.files = files
	v.begun, v.done = false, make(chan struct{})
	v.closing.Store(false)
}

// close ends the view of a box whose processes have ended. An exec that still
// waited for an answer would fail with ENOSYS.
func (v *execView) close() {
	if v != nil && v.begun {
		v.closing.Store(true)
		v.ready.Close()
		<-v.done
		v.file.Close()
		v.files.close()
	}
}

// serve answers until v is closed or no process with the filter is left. The listener is
// masked while attend runs: otherwise each exec of a script would wake two threads, the one
// that waits for it in the kernel (execLinger) and that of the runtime's poller.
func (v *execView) serve() error {
	listener := int(v.file.Fd())
	var end error
	err := v.ready.Wait(func() bool {
		if end = v.ready.Mask(); end == nil {
			end = v.attend(listener)
		}
		if end == nil {
			end = v.ready.Unmask()
		}
		return end != nil
	})
	if err == nil {
		err = end
	}
	return err
}

// attend answers until no exec has arrived for execLinger.
func (v *execView) attend(listener int) error {
	m, yielded := new(memory), time.Now()
	for wait := 0; ; wait = execLinger {
		var n notification
		some, err := receive(listener, &n, wait)
		if err != nil || !some {
			return err
		}
		if n.id != 0 {
			v.answer(listener, &n, m)
		}
		if now := time.Now(); now.Sub(yielded) >= execYield {
			runtime.Gosched()
			yielded = now
		}
	}
}

// execYield is how often the answering goroutine yields to the runtime. After 10 ms without
// a yield, the runtime takes the goroutine's P away whenever it waits in the kernel, and
// wakes a thread to give it a P again, for each exec.
const execYield = 8 * time.Millisecond

// execLinger is how many milliseconds a thread waits in the kernel for the next
// exec before the runtime's poller waits for it. For a script that starts one
// program after the other this saves a thread switch each time, and the answer
// comes from the CPU that asks. An idle box occupies no thread.
const execLinger = 20

// receive returns the next notification, if one arrives within wait milliseconds. The id is
// 0 if the process that executes has ended.
func receive(fd int, n *notification, wait int) (bool, error) {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch _, err := unix.Poll(ready, wait); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, err
		case ready[0].Revents&unix.POLLIN == 0 && ready[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			return false, io.EOF // the last process with the filter has ended
		case ready[0].Revents&unix.POLLIN == 0:
			return false, nil
		}
		*n = notification{} // the kernel requires zeroes
		switch err := rawsys.Ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT):
			n.id = 0
			return true, nil
		default:
			return false, err
		}
	}
}

// answer reads one exec with m, decides about it and records it.
func (v *execView) answer(fd int, n *notification, m *memory) {
	bounds := seen
	if v.mode == policies.ExecEnforce {
		bounds = judged
	}
	call, at, readErr := readExec(n, m, bounds)
	var fileErr error
	if readErr == nil {
		v.files.enter(fd, n)
		fileErr = v.files.follow(int(n.pid), at, &call)
	}
	missing := unix.Errno(0)
	if errors.As(fileErr, &missing) && (missing == unix.ENOENT || missing == unix.ENOTDIR || missing == unix.EACCES) {
		fileErr = nil // nothing is started
	} else {
		missing = 0
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	reply := notifyReply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	jobs := startedBy(v.box, int(n.pid))
	var d policies.Decision
	if v.mode == policies.ExecEnforce {
		d = v.decide(jobs, call, readErr, fileErr)
		switch {
		case missing != 0 && (d.Verdict == policies.Allow || missing != unix.EACCES):
			// This is the kernel's own error, but the kernel must not continue: it
			// could now find a file that was not looked at.
			reply.errno, reply.flags = -int32(missing), 0
			if d.Verdict != policies.Allow {
				jobs = nil // the program is still being looked for along PATH
			}
		case d.Verdict != policies.Allow:
			// Not EACCES: with that, execvp(3) would continue along PATH.
			reply.errno, reply.flags = -int32(unix.EPERM), 0
		}
	}
	if rawsys.Ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)) != nil {
		// If the caller was killed meanwhile, nothing was started, and the memory may have
		// been that of another process. Otherwise the caller has waited all the time.
		return
	}
	for _, j := range jobs {
		v.started(j, int(n.pid), call, readErr, fileErr, d, jobs)
	}
}

// decide asks the policy, for each of the commands that the exec may belong to. An
// exec that could not be read is not allowed.
func (v *execView) decide(jobs []*Job, call policies.Exec, readErr, fileErr error) policies.Decision {
	if readErr != nil {
		return policies.Decision{
			Rule: "unreadable", Part: "a program whose words cannot be read", Reason: "What it is given cannot be read: " + readErr.Error() + ".",
			Instead: "Start it in the ordinary way.",
		}
	}
	if fileErr != nil {
		return policies.Decision{
			Rule: "unreadable", Part: policies.Clip(call.Path, maxExecText), Reason: "What it starts is not known: " + fileErr.Error() + ".",
			Instead: "Start the program itself, by its own name.",
		}
	}
	now := v.box.home.holds()
	if len(jobs) == 0 {
		return v.box.grant.DecideExec(now, call, v.written...)
	}
	strictest := policies.Decision{Verdict: policies.Allow + 1}
	for i, j := range jobs {
		if i > 0 && j.grant.SameCall(jobs[i-1].grant) {
			continue
		}
		if d := j.grant.DecideExec(now, call, v.written...); d.Verdict < strictest.Verdict {
			strictest = d
		}
	}
	return strictest
}

// execBounds bounds how much is read of the arguments of one exec.
type execBounds struct{ words, bytes int }

var (
	// seen is enough to report an exec.
	seen = execBounds{words: 64, bytes: 4 << 10}
	// judged is for a decision about an exec: it reads long lists of files, for
	// example those that xargs makes, to their end.
	judged = execBounds{words: 16 << 10, bytes: 256 << 10}
)

// readExec returns what the caller gives the kernel, and where it names the file.
func readExec(n *notification, m *memory, most execBounds) (policies.Exec, execPlace, error) {
	m.turnTo(int(n.pid))
	at := execPlace{dir: unix.AT_FDCWD}
	if m.pid == 0 {
		return policies.Exec{}, at, errors.New("its process cannot be seen from here")
	}
	name, argv := n.args[0], n.args[1]
	if n.number == unix.SYS_EXECVEAT {
		at.dir, name, argv = int(int32(n.args[0])), n.args[1], n.args[2]
	}
	path, cut, err := m.text(name, unix.PathMax)
	if err != nil {
		return policies.Exec{}, at, err
	}
	if cut {
		return policies.Exec{}, at, unix.ENAMETOOLONG
	}
	e := policies.Exec{Path: path}
	at.name = path
	if n.number == unix.SYS_EXECVEAT && path == "" && n.args[4]&unix.AT_EMPTY_PATH != 0 {
		// The file is given as an open descriptor, so only its link shows which file it is.
		if e.Path, err = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", m.pid, at.dir)); err != nil {
			return e, at, err
		}
	}
	e.Argv, e.Cut, err = m.list(argv, most)
	return e, at, err
}

// memory reads the memory of another process, which may contain anything. It
// reads whole pages and keeps the last few, because a path and its words mostly
// lie together.
type memory struct {
	pid   int
	pages [4]struct {
		number uint64 // the address divided by pageBytes
		size   int    // bytes that could be read; 0 if the page is not used
		data   [pageBytes]byte
	}
	next int // index of the page to replace next
}

const pageBytes = 4 << 10 // the smallest page size: such a block is readable as a whole or not at all

// turnTo switches to another process and forgets the pages of the last one.
func (m *memory) turnTo(pid int) {
	m.pid = pid
	for i := range m.pages {
		m.pages[i].size = 0
	}
}

// rest returns the bytes from an address to the end of its page. They are valid
// until the next call.
func (m *memory) rest(at uint64) ([]byte, error) {
	number, within := at/pageBytes, int(at%pageBytes)
	for i := range m.pages {
		if p := &m.pages[i]; p.size > 0 && p.number == number {
			return p.data[within:p.size], nil
		}
	}
	p := &m.pages[m.next]
	m.next = (m.next + 1) % len(m.pages)
	local := []unix.Iovec{{Base: &p.data[0], Len: pageBytes}}
	from := []unix.RemoteIovec{{Base: uintptr(number * pageBytes), Len: pageBytes}}
	for {
		n, err := unix.ProcessVMReadv(m.pid, local, from, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		p.number, p.size = number, max(n, 0)
		if err == nil && n < pageBytes {
			p.size, err = 0, io.ErrUnexpectedEOF
		}
		return p.data[within:max(p.size, within)], err
	}
}

// text reads a string. most is the largest number of its bytes that text reads.
func (m *memory) text(at uint64, most int) (text string, cut bool, err error) {
	var got []byte
	for len(got) < most {
		page, err := m.rest(at)
		if err != nil {
			return "", false, err
		}
		page = page[:min(len(page), most-len(got))]
		if end := bytes.IndexByte(page, 0); end >= 0 {
			return string(append(got, page[:end]...)), false, nil
		}
		got, at = append(got, page...), at+uint64(len(page))
	}
	return string(got), true, nil
}

// list reads a list of strings, which a null pointer ends, within bounds.
func (m *memory) list(at uint64, most execBounds) (words []string, cut bool, err error) {
	if at == 0 {
		return nil, false, nil
	}
	for left := most.bytes; len(words) < most.words && left > 0; at += 8 {
		p, err := m.pointer(at)
		if err != nil || p == 0 {
			return words, false, err
		}
		word, cut, err := m.text(p, left)
		if err != nil {
			return words, false, err
		}
		words = append(words, word)
		if cut {
			return words, true, nil
		}
		left -= len(word) + 1
	}
	return words, true, nil
}

// pointer reads a pointer, which may cross the end of a page.
func (m *memory) pointer(at uint64) (uint64, error) {
	var raw [8]byte
	page, err := m.rest(at)
	if err != nil {
		return 0, err
	}
	if n := copy(raw[:], page); n < len(raw) {
		if page, err = m.rest(at + uint64(n)); err != nil {
			return 0, err
		}
		copy(raw[n:], page)
	}
	return binary.NativeEndian.Uint64(raw[:]), nil
}

// started records one exec of a job and the program that was started in its place. The
// caller holds v.mu.
func (v *execView) started(j *Job, pid int, call policies.Exec, readErr, fileErr error, d policies.Decision, jobs []*Job) {
	l := &j.execLog
	l.Mode = v.mode
	seen := execOf(call, readErr)
	key := seen.key()
	if l.lastPid == pid && l.lastKey == key {
		return // still along PATH, like a shell that continues after EPERM
	}
	l.lastPid, l.lastKey = pid, key
	if v.mode == policies.ExecEnforce && d.Verdict != policies.Allow {
		l.stop(d)
	}
	would := func() policies.Decision { return v.decide(jobs, call, readErr, fileErr) }
	l.add(seen, key, v.mode, d, would)
	for e := call.Then; e != nil; e = e.Then {
		then := execOf(*e, readErr)
		l.add(then, then.key(), v.mode, d, would)
	}
}
