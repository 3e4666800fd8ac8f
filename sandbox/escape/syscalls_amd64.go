package escape

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ofThisMachine returns the probes for calls that only this architecture has.
func ofThisMachine() []Probe {
	return []Probe{
		{ID: "S15", Name: "call the kernel by the numbers of another ABI", where: compatible, dies: true, try: otherABI},
		{ID: "S36", Name: "change the table of segments", where: known(unix.SYS_MODIFY_LDT, 99), try: reaches("modify_ldt", unix.SYS_MODIFY_LDT, 1, badPointer, 16)},
		{ID: "S37", Name: "reach the machine's ports", Root: true, where: known(unix.SYS_IOPL, 99), try: anyOf(
			reaches("iopl", unix.SYS_IOPL, 3), reaches("ioperm", unix.SYS_IOPERM, 0x80, 1, 1))},
		{ID: "S38", Name: "use calls that programs gave up long ago", try: anyOf(
			reaches("sysfs", unix.SYS_SYSFS, 3), reaches("ustat", unix.SYS_USTAT, 0, badPointer), reaches("uselib", unix.SYS_USELIB, badPointer))},
	}
}

// int80 makes a call without arguments by its number for i386.
func int80(number uint32) int32

// compatible reports whether the kernel has calls of another ABI. If it has, this knob
// exists (arch/x86/entry/vdso).
func compatible(*ground) bool {
	_, err := os.Stat("/proc/sys/abi/vsyscall32")
	return err == nil
}

// otherABI asks for the process id by the numbers of x32 and of i386. A filter that knows
// only the numbers of its own ABI would take them for other calls.
func otherABI(*Facts) (string, error) {
	const x32, getpid32 = 0x40000000, 20
	pid, _, errno := unix.RawSyscall(x32|unix.SYS_GETPID, 0, 0, 0)
	if errno == 0 && int(pid) == os.Getpid() {
		return "x32", nil
	}
	if int(int80(getpid32)) == os.Getpid() {
		return "int 0x80", nil
	}
	return "", errors.Join(fmt.Errorf("x32: %w", errno), errors.New("int 0x80: another answer"))
}
