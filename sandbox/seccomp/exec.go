package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// actNotify makes a call wait for the listener's answer.
const actNotify = uint32(unix.SECCOMP_RET_USER_NOTIF)

// ExecFilter returns the program that makes each exec wait for an answer, for this machine.
// An exec whose sixth argument is the number ours does not wait.
func ExecFilter(ours uint64) ([]byte, error) {
	a, err := ownABI()
	if err != nil {
		return nil, err
	}
	const mark = offArgs + 5*8
	return assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: a.audit, SkipTrue: 7}, // the other filter kills its process
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_EXECVEAT, SkipTrue: 6},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_EXECVE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: mark, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(ours), SkipTrue: 3},
		bpf.LoadAbsolute{Off: mark + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(ours >> 32), SkipTrue: 1},
		bpf.RetConstant{Val: actAllow},
		bpf.RetConstant{Val: actNotify},
	})
}

// TryListener makes a listener, on a thread that then ends. It fails if belljar
// itself runs below a listener, for example in some containers and in a box of
// belljar: a process can have only one.
func TryListener() error {
	program, err := assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 1<<30 - 1, SkipTrue: 1}, // no call has this number
		bpf.RetConstant{Val: actNotify},
		bpf.RetConstant{Val: actAllow},
	})
	if err != nil {
		return err
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		const sizeofFilter = 8
		p := unix.SockFprog{Len: uint16(len(program) / sizeofFilter), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			result <- err
			return
		}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&p)))
		switch {
		case errors.Is(errno, unix.EBUSY):
			result <- errors.New("seccomp: another program outside belljar already has the listener, and only one is possible")
		case errno != 0:
			result <- fmt.Errorf("seccomp, SECCOMP_FILTER_FLAG_NEW_LISTENER: %w", errno)
		default:
			unix.Close(int(fd))
			result <- nil
		}
	}()
	return <-result
}
