package seccomp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

//go:generate go run gen_syscalls.go

// abi is how one architecture numbers its system calls.
type abi struct {
	name  string // name in Go and in Docker's profile
	audit uint32 // AUDIT_ARCH_*, which the kernel shows a filter
	calls []syscallName
}

type syscallName struct {
	number uint32
	name   string
}

// abis are the architectures that belljar runs on. All are in every build, so
// that the tests on one of them read the filters of all.
var abis = []abi{
	{"amd64", unix.AUDIT_ARCH_X86_64, amd64Calls},
	{"arm64", unix.AUDIT_ARCH_AARCH64, arm64Calls},
}

// ownABI returns the architecture of this machine.
func ownABI() (abi, error) {
	for _, a := range abis {
		if a.name == runtime.GOARCH {
			return a, nil
		}
	}
	return abi{}, fmt.Errorf("no system call filter for %s", runtime.GOARCH)
}
