package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filtered runs a command under a system call filter that forbids what the filter of a
// container engine forbids: filtered PROGRAM ARG... It is a program for the scripts, so
// that the filter applies to nothing else.
func filtered() {
	if err := filterAndExec(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "filtered:", err)
		os.Exit(1)
	}
}

func filterAndExec(args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	program, err := bpf.Assemble(engineFilter())
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return errno
	}
	return syscall.Exec(path, args, os.Environ())
}

// engineFilter denies namespaces and mounts, as Docker's default profile does for a
// container without CAP_SYS_ADMIN, and makes clone3 look unsupported, because no filter can
// read its flags.
func engineFilter() []bpf.Instruction {
	const (
		number = 0  // seccomp_data.nr
		flags  = 16 // seccomp_data.args[0]
		spaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
		denied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		hidden = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		bpf.RetConstant{Val: hidden},
	}
	for _, call := range []uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT} {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, bpf.RetConstant{Val: denied})
	}
	return append(code,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 3},
		bpf.LoadAbsolute{Off: flags, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: spaces, SkipTrue: 1},
		bpf.RetConstant{Val: denied},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	)
}
