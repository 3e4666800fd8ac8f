package escape

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is where a victim keeps its token for others to read.
var memory [64]byte

// hold is the life of a victim. It makes the targets of attacks, reports where they are,
// and removes them when its standard input ends, which is at the latest when the process
// that started it ends.
func hold(token string) error {
	v, err := newVictim(token)
	defer v.remove()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(v)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// newVictim makes all parts of a victim. After an error, the victim contains the parts that
// were made before it, so that they can be removed.
func newVictim(token string) (v Victim, err error) {
	v = Victim{Token: token, Pid: os.Getpid(), At: uint64(uintptr(unsafe.Pointer(&memory))), ids: ipc{-1, -1, -1, -1}}
	if len(token) < 8 || len(token) > len(memory) {
		return v, fmt.Errorf("token of %d bytes", len(token))
	}
	copy(memory[:], token)
	// Otherwise Yama would let only an ancestor attach, also outside of a box. A probe that
	// fails inside would then prove nothing (ptrace(2), ptrace_scope).
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	if v.Namespaces, err = ownNamespaces(); err != nil {
		return v, err
	}
	if v.Dir, err = os.MkdirTemp("", "belljar-victim-"); err != nil {
		return v, err
	}
	for _, make := range []func(*Victim) error{
		(*Victim).makeFiles, (*Victim).listen, (*Victim).openTerminal, (*Victim).makeIPC,
	} {
		if err := make(&v); err != nil {
			return v, fmt.Errorf("make a victim: %w", err)
		}
	}
	// A box has no keyring, so no victim in one has a key.
	if key, err := unix.AddKey("user", "belljar-"+token, []byte(token), unix.KEY_SPEC_USER_KEYRING); err == nil {
		v.Key = int32(key)
		const forUser = 0x3f3f0000 // keyctl_setperm(3): all, for possessor and user
		_ = unix.KeyctlSetperm(key, forUser)
	}
	return v, nil
}

func (v *Victim) makeFiles() error {
	v.File = filepath.Join(v.Dir, "secret")
	if err := newFile(v.File, v.Token+"\n"); err != nil {
		return err
	}
	// If the call is refused, as in a box, nobody can use a handle either.
	if h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, v.File, 0); err == nil {
		v.Handle, v.Kind = h.Bytes(), h.Type()
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		v.Shm = "/dev/shm/belljar-" + v.Token
		if err := newFile(v.Shm, v.Token+"\n"); err != nil {
			return err
		}
	}
	v.Fifo = filepath.Join(v.Dir, "fifo")
	return unix.Mkfifo(v.Fifo, 0o600)
}

// listen opens the sockets. Each answers with the token until the victim ends.
func (v *Victim) listen() error {
	answer := func(network, address string) (net.Addr, error) {
		l, err := net.Listen(network, address) //nolint:noctx // local, and does not block
		if err != nil {
			return nil, err
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false) // it is removed with Dir, and was bound by another path
		}
		v.open = append(v.open, l)
		go func() { // ends with l
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { // ends when the caller is done, or is too slow
					_ = c.SetDeadline(time.Now().Add(patience))
					_, _ = c.Write([]byte(v.Token))
					_, _ = io.Copy(io.Discard, c)
					c.Close()
				}()
			}
		}()
		return l.Addr(), nil
	}
	v.Socket, v.Abstract = filepath.Join(v.Dir, "socket"), "@belljar-"+v.Token
	err := atSocket(v.Socket, func(name string) error {
		_, err := answer("unix", name)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := answer("unix", v.Abstract); err != nil {
		return err
	}
	tcp, err := answer("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	v.Port = port(tcp)
	udp, err := v.answerPackets("127.0.0.1:0")
	if err != nil {
		return err
	}
	v.UDP = port(udp)
	if v.Relay, err = v.relay(); err != nil {
		return err
	}
	// Binding to an address can fail, for example while it is still tentative.
	for _, a := range addresses() {
		own, err := answer("tcp", net.JoinHostPort(a, "0"))
		if err != nil {
			continue
		}
		if _, err := v.answerPackets(own.String()); err != nil {
			continue
		}
		v.Own = own.String()
		break
	}
	return nil
}

// answerPackets answers packets to an address with the token.
func (v *Victim) answerPackets(at string) (net.Addr, error) {
	udp, err := net.ListenPacket("udp", at) //nolint:noctx // local, and does not block
	if err != nil {
		return nil, err
	}
	v.open = append(v.open, udp)
	go func() { // ends with udp
		buf := make([]byte, 16)
		for {
			_, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo([]byte(v.Token), from)
		}
	}()
	return udp.LocalAddr(), nil
}

// relay starts a careless proxy and returns its port. Unlike the door, the proxy
// connects to any address that a client names, and passes the answer on.
func (v *Victim) relay() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local, and does not block
	if err != nil {
		return 0, err
	}
	v.open = append(v.open, l)
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends when one side is done, or is too slow
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				request := make([]byte, 1024)
				n, _ := c.Read(request)
				word := strings.Fields(string(request[:n]))
				if len(word) < 2 {
					return
				}
				up, err := dial("tcp", strings.TrimSuffix(strings.TrimPrefix(word[1], "http://"), "/"))
				if err != nil {
					return
				}
				defer up.Close()
				_ = up.SetDeadline(time.Now().Add(patience))
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return port(l.Addr()), nil
}

// atSocket calls do with a short form of a socket's path: the path of a deep directory does
// not fit in the 108 bytes of an address (unix(7)).
func atSocket(path string, do func(name string) error) error {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Dir(path), err)
	}
	defer unix.Close(fd)
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)))
}

func port(a net.Addr) int {
	_, text, _ := net.SplitHostPort(a.String())
	n, _ := strconv.Atoi(text)
	return n
}

// openTerminal opens a pseudo-terminal, which remains open.
func (v *Victim) openTerminal() error {
	fd, name, err := newTerminal()
	if err != nil {
		return err
	}
	v.open = append(v.open, os.NewFile(uintptr(fd), name))
	v.Terminal = name
	return nil
}

// newTerminal returns the master of a new pseudo-terminal, and the name of its slave.
func newTerminal() (int, string, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", fmt.Errorf("open /dev/ptmx: %w", err)
	}
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	n, err2 := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, err2); err != nil {
		unix.Close(fd)
		return -1, "", fmt.Errorf("unlock a terminal: %w", err)
	}
	return fd, "/dev/pts/" + strconv.Itoa(n), nil
}

// makeIPC makes a segment, a queue and a semaphore of SysV, and a POSIX queue.
func (v *Victim) makeIPC() error {
	// No other process uses these keys: a process id is unique at any time.
	const ours = 0x626a0000
	v.Memory, v.Queue, v.Sem = ours+4*os.Getpid(), ours+4*os.Getpid()+1, ours+4*os.Getpid()+2
	const flags = unix.IPC_CREAT | unix.IPC_EXCL | 0o600
	var err error
	v.ids.shm, err = unix.SysvShmGet(v.Memory, len(page), flags)
	switch {
	case errors.Is(err, unix.ENOSYS): // a box whose memory is only watched has no shared memory
		v.ids.shm = -1
	case err != nil:
		return fmt.Errorf("shmget: %w", err)
	default:
		at, err := unix.SysvShmAttach(v.ids.shm, 0, 0)
		if err != nil {
			return fmt.Errorf("shmat: %w", err)
		}
		copy(at, v.Token)
		_ = unix.SysvShmDetach(at)
	}
	queue, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(v.Queue), flags, 0)
	if errno != 0 {
		return fmt.Errorf("msgget: %w", errno)
	}
	v.ids.queue = int(queue)
	sem, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(v.Sem), 1, flags)
	if errno != 0 {
		return fmt.Errorf("semget: %w", errno)
	}
	v.ids.sem = int(sem)
	v.Mq = "belljar-" + v.Token
	// In a box made by root, the owner of the queues is a root that the box does not know,
	// so no process in it can make a queue.
	if v.ids.mq, err = openMq(v.Mq, unix.O_CREAT|unix.O_EXCL); err != nil && !refusedError(err) {
		return err
	}
	if v.ids.mq >= 0 {
		v.open = append(v.open, os.NewFile(uintptr(v.ids.mq), v.Mq))
	}
	return nil
}

// openMq opens a POSIX message queue (mq_open(3); the call takes the name
// without its slash).
func openMq(name string, flags int) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), uintptr(flags|unix.O_RDWR|unix.O_CLOEXEC), 0o600, 0, 0, 0)
	if errno != 0 {
		return -1, fmt.Errorf("mq_open: %w", errno)
	}
	return int(fd), nil
}

// remove closes what is open and removes what does not end with the process.
func (v *Victim) remove() {
	for _, c := range v.open {
		c.Close()
	}
	if v.Dir != "" {
		_ = os.RemoveAll(v.Dir)
	}
	if v.Shm != "" {
		_ = os.Remove(v.Shm)
	}
	if v.Key != 0 {
		_, _ = unix.KeyctlInt(unix.KEYCTL_REVOKE, int(v.Key), 0, 0, 0)
		_, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, int(v.Key), unix.KEY_SPEC_USER_KEYRING, 0, 0)
	}
	if v.ids.mq >= 0 {
		if p, err := unix.BytePtrFromString(v.Mq); err == nil {
			_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0)
		}
	}
	if v.ids.shm >= 0 {
		_, _ = unix.SysvShmCtl(v.ids.shm, unix.IPC_RMID, nil)
	}
	if v.ids.queue >= 0 {
		_, _, _ = unix.Syscall(unix.SYS_MSGCTL, uintptr(v.ids.queue), unix.IPC_RMID, 0)
	}
	if v.ids.sem >= 0 {
		_, _, _ = unix.Syscall6(unix.SYS_SEMCTL, uintptr(v.ids.sem), 0, unix.IPC_RMID, 0, 0, 0)
	}
}

// handle returns v's file handle in the form for open_by_handle_at(2).
func (v *Victim) handle() unix.FileHandle { return unix.NewFileHandle(v.Kind, v.Handle) }

// capability returns a security.capability attribute that would give a program
// CAP_SYS_ADMIN (capabilities(7), VFS_CAP_REVISION_2).
func capability() []byte {
	words := []uint32{0x02000001, 1 << unix.CAP_SYS_ADMIN, 0, 0, 0}
	var text []byte
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, w)
	}
	return text
}
