package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls in this file do not block, and are made without telling the
// runtime. Before an ordinary system call the runtime notes that the thread may
// block, and in an idle program it wakes its monitor thread for that. For a quick
// command this costs two thread switches and some sleeps of 20 us, on the CPU on
// which the command should run. A call that can block must not be made in this
// way: nothing else could use the P meanwhile, and a garbage collection would have
// to wait.

// now makes a call that does not block and whose second argument is an address.
func now(number uintptr, fd int, at unsafe.Pointer, a3 uintptr) (int, error) {
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

// plainNow makes a call that does not block, without an address.
func plainNow(number uintptr, fd int, a2, a3 uintptr) error {
	if _, _, errno := unix.RawSyscall(number, uintptr(fd), a2, a3); errno != 0 {
		return errno // never EINTR, since it does not wait
	}
	return nil
}

// readNow is read(2) of a file that does not block.
func readNow(fd int, to []byte) (int, error) {
	return now(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(to)), uintptr(len(to)))
}

// writeNow is write(2) to a file that does not block.
func writeNow(fd int, text []byte) (int, error) {
	return now(unix.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(text)), uintptr(len(text)))
}

// closeNow is close(2) of pipes, sockets, memory and devices.
func closeNow(fds ...int) {
	for _, fd := range fds {
		_ = plainNow(unix.SYS_CLOSE, fd, 0, 0)
	}
}

// chownNow is fchown(2) of a pipe.
func chownNow(fd, owner int) error {
	const same = ^uintptr(0)
	return plainNow(unix.SYS_FCHOWN, fd, uintptr(owner), same)
}

// unblockNow is fcntl(2) that makes a pipe non-blocking.
func unblockNow(fd int) error {
	return plainNow(unix.SYS_FCNTL, fd, unix.F_SETFL, unix.O_NONBLOCK)
}

// copyNow is fcntl(2) with F_DUPFD_CLOEXEC.
func copyNow(fd int) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// ioctlNow is ioctl(2) of a seccomp listener with a pending notification.
func ioctlNow(fd int, request uintptr, at unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(at)); errno != 0 {
		return errno
	}
	return nil
}

// sendNow is sendmsg(2). It returns EAGAIN if the socket has no room.
func sendNow(socket int, text, rights []byte) error {
	var iov unix.Iovec
	m := message(&iov, text, rights)
	_, err := now(unix.SYS_SENDMSG, socket, unsafe.Pointer(&m), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	return err
}

// receiveNow is recvmsg(2). It returns EAGAIN if no message has arrived, and
// otherwise the number of bytes in text and rights, and the flags.
func receiveNow(socket int, text, rights []byte) (n, rightsN, flags int, err error) {
	var iov unix.Iovec
	m := message(&iov, text, rights)
	if n, err = now(unix.SYS_RECVMSG, socket, unsafe.Pointer(&m), unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT); err != nil {
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
