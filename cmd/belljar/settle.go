package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settleAfter is how long a server keeps the memory that its start used, and mostStarting
// how much that may be: beyond it garbage is collected in spite of gcStarting.
const (
	settleAfter  = 500 * time.Millisecond
	mostStarting = 32 << 20
)

// settle gives back what only the start of a server used: garbage, and pages of the
// program. It waits until clients have had their first answers, and returns early at
// the end of ctx.
func settle(ctx context.Context) {
	start := time.NewTimer(settleAfter)
	defer start.Stop()
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, mostStarting))
	defer debug.SetMemoryLimit(limit)
	select {
	case <-ctx.Done():
		return
	case <-start.C:
	}
	collect(gcServing)
	debug.FreeOSMemory()
	_ = releaseProgram() // a server that cannot do it is larger, and works
}

// releaseProgram takes the pages of the program's own file out of this process. All
// packages are initialised at the start, which touches two thirds of the program, and
// most of that code and data is never used again. A page that is used again comes from
// the kernel's cache, or from the file (madvise(2), MADV_DONTNEED). Pages that can be
// written stay, since they may differ from the file.
func releaseProgram() error {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	type mapping struct {
		from, to uintptr
		file     string // its device and its inode
		written  bool
	}
	var all []mapping
	program, here := "", reflect.ValueOf(releaseProgram).Pointer()
	for line := range strings.Lines(string(text)) {
		// proc_pid_maps(5): addresses, mode, offset, device, inode and perhaps a path
		var m mapping
		var mode, offset, device, inode string
		if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &mode, &offset, &device, &inode); err != nil {
			return fmt.Errorf("read /proc/self/maps: %w", err)
		}
		m.file, m.written = device+" "+inode, strings.Contains(mode, "w")
		if m.from <= here && here < m.to {
			program = m.file
		}
		all = append(all, m)
	}
	for _, m := range all {
		if m.file != program || m.written {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// Values of GOGC, see runtime: a program that starts keeps most of what it makes,
// and to collect garbage after each of the first MiBs is a fifth of the work until
// a server answers. A server takes the runtime's default when it has settled.
const (
	gcStarting = 400
	gcServing  = 100
)

// collect sets GOGC, unless the environment does.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
