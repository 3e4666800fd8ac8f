package rawsys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a call that does not block and whose second argument is an address.
func call(number uintptr, fd int, at unsafe.Pointer, a3 uintptr) (int, error) {
	for {
		r, _, errno := unix.RawSyscall6(number, uintptr(fd), uintptr(at), a3, 0, 0, 0)
		if errno == 0 {
			return int(r), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

// plain makes a call that does not block and has no address among its arguments.
func plain(number uintptr, fd int, a2, a3 uintptr) error {
	if _, _, errno := unix.RawSyscall(number, uintptr(fd), a2, a3); errno != 0 {
		return errno // never EINTR, because it does not wait
	}
	return nil
}

// Read is read(2) of a file that does not block.
func Read(fd int, to []byte) (int, error) {
	return call(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(to)), uintptr(len(to)))
}

// Write is write(2) to a file that does not block.
func Write(fd int, text []byte) (int, error) {
	return call(unix.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(text)), uintptr(len(text)))
}

// Close is close(2) of pipes, sockets, memory and devices.
func Close(fds ...int) {
	for _, fd := range fds {
		_ = plain(unix.SYS_CLOSE, fd, 0, 0)
	}
}

// Chown is fchown(2) of a pipe.
func Chown(fd, owner int) error {
	const same = ^uintptr(0)
	return plain(unix.SYS_FCHOWN, fd, uintptr(owner), same)
}

// SetNonblock is fcntl(2) that makes a pipe non-blocking.
func SetNonblock(fd int) error {
	return plain(unix.SYS_FCNTL, fd, unix.F_SETFL, unix.O_NONBLOCK)
}

// Dup is fcntl(2) with F_DUPFD_CLOEXEC.
func Dup(fd int) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Ioctl is ioctl(2) of a seccomp listener with a pending notification.
func Ioctl(fd int, request uintptr, at unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(at)); errno != 0 {
		return errno
	}
	return nil
}

// Sendmsg is sendmsg(2). It returns EAGAIN if the socket has no room.
func Sendmsg(socket int, text, rights []byte) error {
	var iov unix.Iovec
	m := message(&iov, text, rights)
	_, err := call(unix.SYS_SENDMSG, socket, unsafe.Pointer(&m), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	return err
}

// Recvmsg is recvmsg(2). It returns EAGAIN if no message has arrived, and
// otherwise the number of bytes in text and rights, and the flags.
func Recvmsg(socket int, text, rights []byte) (n, rightsN, flags int, err error) {
	var iov unix.Iovec
	m := message(&iov, text, rights)
	if n, err = call(unix.SYS_RECVMSG, socket, unsafe.Pointer(&m), unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT); err != nil {
		return 0, 0, 0, err
	}
	return n, int(m.Controllen), int(m.Flags), nil
}

func message(iov *unix.Iovec, text, rights []byte) unix.Msghdr {
	iov.Base = unsafe.SliceData(text)
	iov.SetLen(len(text))
	m := unix.Msghdr{Iov: iov}
	m.SetIovlen(1)
	if len(rights) > 0 {
		m.Control = &rights[0]
		m.SetControllen(len(rights))
	}
	return m
}

// Pread is pread(2) of a file that does not block, for example one of cgroupfs.
func Pread(fd int, to []byte) (int, error) {
	return call(unix.SYS_PREAD64, fd, unsafe.Pointer(unsafe.SliceData(to)), uintptr(len(to)))
}

// Fstat is fstat(2) of a file on a local file system. st is a struct stat.
func Fstat(fd int, st unsafe.Pointer) error {
	_, err := call(unix.SYS_FSTAT, fd, st, 0)
	return err
}

// Flock is flock(2) with LOCK_NB of a file on a local file system.
func Flock(fd, how int) error {
	return plain(unix.SYS_FLOCK, fd, uintptr(how|unix.LOCK_NB), 0)
}

// ClockGettime is clock_gettime(2).
func ClockGettime(clock int) (time.Time, error) {
	var at unix.Timespec
	if _, err := call(unix.SYS_CLOCK_GETTIME, clock, unsafe.Pointer(&at), 0); err != nil {
		return time.Time{}, err
	}
	return time.Unix(at.Unix()), nil
}

// epollWait is epoll_pwait(2) without a wait.
func epollWait(poll int, events []unix.EpollEvent) (int, error) {
	return call(unix.SYS_EPOLL_PWAIT, poll, unsafe.Pointer(unsafe.SliceData(events)), uintptr(len(events)))
}
