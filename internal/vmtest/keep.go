package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Paths in a guest whose power is cut.
const (
	keptDir  = "/kept" // mount point of the disk that stays
	saidFile = "/said"
)

// keep mounts the disk that stays, and runs the program with it. The program is not
// expected to end by itself.
func keep(w *order) (int, error) {
	program, err := packed()
	if err != nil {
		return 0, err
	}
	err = mountAll(
		mount{w.Kept, keptDir, "ext4", 0, ""},
		mount{"tmpfs", "/tmp", "tmpfs", 0, "mode=1777"},
	)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(saidFile, []byte(w.Said), 0o600), loopbackUp()); err != nil {
		return 0, err
	}
	if w.Deaf {
		// A seccomp filter applies to the thread that installs it, which must also start
		// the program.
		runtime.LockOSThread()
		if err := deafen(); err != nil {
			return 0, fmt.Errorf("disable fsync: %w", err)
		}
	}
	return start(w, program, "")
}

// deafen makes all calls that wait for a disk succeed immediately and without effect. So a
// program behaves like one that forgets these calls.
func deafen() error {
	deaf := []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_SYNC_FILE_RANGE, unix.SYS_MSYNC}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // loads the number of the call
	for i, call := range deaf {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(deaf) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // errno 0: the call succeeds
	)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}
