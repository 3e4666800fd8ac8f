package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
)

// execView sees what the commands of one box start. One goroutine answers one
// exec after the other, so that a box which starts many slows down itself; it
// ends when the box does. Where it ended before, the box would be of no use
// any more (every exec gets ENOSYS), and is killed.
//
// What is looked at is memory of the caller, which another thread of it may
// change before the kernel reads it again: seccomp_unotify(2) says so under
// SECCOMP_USER_NOTIF_FLAG_CONTINUE. So this is where it is seen and where the
// policy is asked, and no wall.
type execView struct {
	box   *Box
	mode  policies.ExecMode
	ours  uint64
	begun bool
	file  *os.File
	done  chan struct{}

	closing atomic.Bool // the file is closed by us
	mu      sync.Mutex  // held from an answer until it is written down
}

// notification is struct seccomp_notif, seccomp_unotify(2).
type notification struct {
	id     uint64
	pid    uint32 // a thread, as the supervisor sees it; 0 if it cannot
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
	errno int32 // below zero
	flags uint32
}

// notifyValid is SECCOMP_IOCTL_NOTIF_ID_VALID, with its number since Linux 5.9.
const notifyValid = 0x40082102

// notifySetFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS.
const notifySetFlags = 0x40082104

// newExecView prepares to look at what a box with the grant starts; nil where
// nobody is to, or where the host cannot and it need not be.
func (s *Supervisor) newExecView(b *Box) (*execView, error) {
	mode := b.grant.Exec()
	if mode == policies.ExecOff {
		return nil, nil //nolint:nilnil // documented
	}
	if err := execSupport().err; err != nil {
		if mode == policies.ExecEnforce {
			return nil, refuseExec(b.grant.Profile(), err) // admit said so before
		}
		s.cfg.Log.Warn("what commands start is not seen", "box", b.id, "profile", b.grant.Profile(), "err", err)
		return nil, nil //nolint:nilnil // documented
	}
	v := &execView{box: b, mode: mode, done: make(chan struct{})}
	var mark [8]byte
	for v.ours == 0 {
		_, _ = rand.Read(mark[:]) // which never fails
		v.ours = binary.NativeEndian.Uint64(mark[:])
	}
	return v, nil
}

// refuseExec says that a profile asks for more than the host can.
func refuseExec(profile string, err error) error {
	return &Refusal{
		Message: fmt.Sprintf("profile %q has exec: enforce, and this host cannot show what commands start; run \"belljar doctor\" for how to mend it, or have the operator choose exec: observe", profile),
		Err:     err,
	}
}

// watchExecs takes over the listener that the init sent and begins to answer.
func (b *Box) watchExecs(files []int) error {
	v := b.execs
	if v == nil || v.begun || len(files) != 1 {
		boxinit.CloseAll(files)
		return errors.New("watch what is executed: its init sent what it was not asked for")
	}
	// What came from an init may be any kind of file. No path begins so.
	fd := files[0]
	if kind, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || kind != "anon_inode:seccomp notify" {
		unix.Close(fd)
		return fmt.Errorf("watch what is executed: its init sent a %q", kind)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that the runtime waits for it
		unix.Close(fd)
		return fmt.Errorf("watch what is executed: %w", err)
	}
	// Who asks and who answers take turns, so the one wakes the other where it
	// runs itself (Linux 6.6). Without, it costs more.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifySetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	v.file, v.begun = os.NewFile(uintptr(fd), "seccomp notify"), true
	go func() {
		defer close(v.done)
		if err := v.serve(); err != nil && !v.closing.Load() && !errors.Is(err, io.EOF) {
			// Nothing more could be started in it, and by enforce nothing may be.
			b.sup.cfg.Log.Error("box is killed", "box", b.id, "reason", "what it executes cannot be seen any more", "err", err)
			_ = b.process.Kill()
		}
	}()
	return nil
}

// close ends the view of a box whose processes are gone. Who would still wait
// for an answer gets ENOSYS.
func (v *execView) close() {
	if v != nil && v.begun {
		v.closing.Store(true)
		v.file.Close()
		<-v.done
	}
}

// serve answers until the file is closed or nobody is left to ask.
func (v *execView) serve() error {
	raw, err := v.file.SyscallConn()
	if err != nil {
		return err
	}
	var end error
	err = raw.Read(func(fd uintptr) bool {
		for wait := 0; ; {
			var n notification
			some, err := receive(int(fd), &n, wait)
			switch {
			case err != nil:
				end = err
				return true
			case !some:
				return false
			case n.id != 0:
				v.answer(int(fd), &n)
			}
			wait = execLinger
		}
	})
	if err == nil {
		err = end
	}
	return err
}

// execLinger is for how many milliseconds the next question is waited for in
// the kernel before the runtime waits for it: a script that starts one program
// after the other is answered with a switch of threads less each time, and on
// the processor on which it asks. An idle box holds no thread.
const execLinger = 20

// receive takes the next question, if there is one within a time in
// milliseconds. The id is 0 where whoever asked is gone.
func receive(fd int, n *notification, wait int) (bool, error) {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch _, err := unix.Poll(ready, wait); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, err
		case ready[0].Revents&unix.POLLIN == 0 && ready[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			return false, io.EOF // the last process with the filter is gone
		case ready[0].Revents&unix.POLLIN == 0:
			return false, nil
		}
		*n = notification{} // the kernel wants zeroes
		switch err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)); {
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

// ioctl makes one that does not wait.
func ioctl(fd int, request uintptr, at unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(at)); errno != 0 {
		return errno
	}
	return nil
}

// answer looks at one exec, decides about it and writes it down.
func (v *execView) answer(fd int, n *notification) {
	bounds := seen
	if v.mode == policies.ExecEnforce {
		bounds = judged
	}
	call, readErr := readExec(n, bounds)
	v.mu.Lock()
	defer v.mu.Unlock()
	if ioctl(fd, notifyValid, unsafe.Pointer(&n.id)) != nil {
		return // it is gone, and what was read may be another's
	}
	reply := notifyReply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	jobs := v.box.startedBy(int(n.pid))
	var d policies.Decision
	if v.mode == policies.ExecEnforce {
		if d = v.decide(jobs, call, readErr); d.Verdict != policies.Allow {
			// Not EACCES: with that, execvp(3) goes on along PATH.
			reply.errno, reply.flags = -int32(unix.EPERM), 0
			if absent(int(n.pid), call.Path) {
				// As the kernel would say: it is on its way along PATH.
				reply.errno, jobs = -int32(unix.ENOENT), nil
			}
		}
	}
	if ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)) != nil {
		return // killed meanwhile: nothing was started
	}
	for _, j := range jobs {
		j.started1(v, int(n.pid), call, readErr, d, jobs)
	}
}

// decide asks the policy, for each of the commands that it may belong to. What
// could not be read is not allowed.
func (v *execView) decide(jobs []*Job, call policies.Exec, readErr error) policies.Decision {
	if readErr != nil {
		return policies.Decision{
			Rule: "unreadable", Part: "a program whose words cannot be read", Reason: "What it is given cannot be read: " + readErr.Error() + ".",
			Instead: "Start it in the ordinary way.",
		}
	}
	sup := v.box.sup
	sup.mu.Lock()
	now := sup.policy
	sup.mu.Unlock()
	if len(jobs) == 0 {
		return v.box.grant.DecideExec(now, call)
	}
	strictest := policies.Decision{Verdict: policies.Allow + 1}
	for i, j := range jobs {
		if i > 0 && j.grant.SameCall(jobs[i-1].grant) {
			continue
		}
		if d := j.grant.DecideExec(now, call); d.Verdict < strictest.Verdict {
			strictest = d
		}
	}
	return strictest
}

// absent reports whether there surely is no file of an absolute path where a
// process looks for it. What is found meanwhile does not matter: it is not
// started.
func absent(pid int, name string) bool {
	if !strings.HasPrefix(name, "/") {
		return false
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// execBounds bound what is read of one exec.
type execBounds struct{ words, bytes int }

// What is read in order to tell of it, and in order to decide about it: then
// long lists of files, as xargs makes, are to be read to their end.
var (
	seen   = execBounds{words: 64, bytes: 4 << 10}
	judged = execBounds{words: 16 << 10, bytes: 256 << 10}
)

// readExec reads what the caller gives the kernel.
func readExec(n *notification, most execBounds) (policies.Exec, error) {
	m := memory{pid: int(n.pid)}
	if m.pid == 0 {
		return policies.Exec{}, errors.New("its process cannot be seen from here")
	}
	name, argv := n.args[0], n.args[1]
	at := n.number == unix.SYS_EXECVEAT
	if at {
		name, argv = n.args[1], n.args[2]
	}
	path, cut, err := m.text(name, unix.PathMax)
	if err != nil {
		return policies.Exec{}, err
	}
	if cut {
		return policies.Exec{}, unix.ENAMETOOLONG
	}
	e := policies.Exec{Path: path}
	if at && path == "" && n.args[4]&unix.AT_EMPTY_PATH != 0 {
		// Of the file that is open only the name can be told.
		if e.Path, err = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", m.pid, int32(n.args[0]))); err != nil {
			return e, err
		}
	}
	e.Argv, e.Cut, err = m.list(argv, most)
	return e, err
}

// memory is that of another process, which may be anything.
type memory struct{ pid int }

const pageBytes = 4 << 10 // the least that a page may have: what lies in one is readable as a whole

// read copies what stands at several places, none of which goes over the end
// of a page, and is how many bytes could be.
func (m memory) read(to []byte, from []unix.RemoteIovec) (int, error) {
	local := []unix.Iovec{{Base: unsafe.SliceData(to), Len: uint64(len(to))}}
	for {
		n, err := unix.ProcessVMReadv(m.pid, local, from, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// chunk is how many of the wanted bytes at a place lie in its page.
func chunk(at uint64, want int) int { return min(want, pageBytes-int(at%pageBytes)) }

// text reads a string, up to most bytes of it.
func (m memory) text(at uint64, most int) (text string, cut bool, err error) {
	var room [256]byte
	got := room[:0]
	var page [pageBytes]byte
	for want := len(room); len(got) < most; want = pageBytes {
		to := page[:chunk(at, min(want, most-len(got)))]
		n, err := m.read(to, []unix.RemoteIovec{{Base: uintptr(at), Len: len(to)}})
		if err != nil {
			return "", false, err
		}
		if end := bytes.IndexByte(to[:n], 0); end >= 0 {
			return string(append(got, to[:end]...)), false, nil
		}
		got, at = append(got, to[:n]...), at+uint64(n)
	}
	return string(got), true, nil
}

// first is how much of each word is read together with that of the others: most
// are no longer.
const first = 64

// list reads a list of strings, within bounds.
func (m memory) list(at uint64, most execBounds) (words []string, cut bool, err error) {
	if at == 0 {
		return nil, false, nil
	}
	left := most.bytes
	for len(words) < most.words && left > 0 {
		const batch = 64 // below UIO_MAXIOV
		var raw [batch * 8]byte
		to := raw[:chunk(at, 8*min(batch, most.words-len(words)))]
		if len(to)%8 != 0 && len(to) > 8 {
			to = to[:len(to)&^7]
		} else if len(to) < 8 { // one that goes over the end of a page
			to = raw[:8]
		}
		n, err := m.read(to, []unix.RemoteIovec{{Base: uintptr(at), Len: len(to)}})
		if err != nil || n < 8 {
			return words, false, errors.Join(err, short(n, 8))
		}
		at += uint64(n)
		more, end, err := m.strings(raw[:n&^7], &left)
		words = append(words, more...)
		switch {
		case err != nil:
			return words, false, err
		case end:
			return words, false, nil
		}
	}
	return words, true, nil
}

func short(n, want int) error {
	if n < want {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// strings reads those that the pointers lead to, until a null one, which is
// the end of the list, or until nothing is left. A word that is cut is told by
// left being zero.
func (m memory) strings(pointers []byte, left *int) (words []string, end bool, err error) {
	var from [64]unix.RemoteIovec
	var buf [64 * first]byte
	n, size := 0, 0
	for i := 0; i < len(pointers); i += 8 {
		p := binary.NativeEndian.Uint64(pointers[i:])
		if p == 0 {
			end = true
			break
		}
		from[n] = unix.RemoteIovec{Base: uintptr(p), Len: chunk(p, first)}
		size += from[n].Len
		n++
	}
	if n == 0 {
		return nil, end, nil
	}
	if got, err := m.read(buf[:size], from[:n]); err != nil || got < size {
		return nil, false, errors.Join(err, short(got, size))
	}
	place := 0
	for _, f := range from[:n] {
		head := buf[place : place+f.Len]
		place += f.Len
		text, cut := "", false
		if whole, _, found := bytes.Cut(head, []byte{0}); found {
			text = string(whole)
		} else if text, cut, err = m.text(uint64(f.Base), max(*left, first)); err != nil {
			return words, false, err
		}
		words = append(words, text)
		if *left -= len(text) + 1; *left <= 0 || cut {
			*left = 0
			return words, false, nil
		}
	}
	return words, end, nil
}
