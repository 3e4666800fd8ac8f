package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/pause"
)

// settleAfter is how long a server keeps the memory that its start used. mostStarting
// bounds this memory: above it, garbage is collected in spite of gcStarting.
const (
	settleAfter  = 500 * time.Millisecond
	mostStarting = 32 << 20
)

// tendMemory keeps the memory of a server small. First it returns the memory that only the
// start used, garbage and pages of the program, but not before clients have had their first
// answers. Then it returns the garbage of calls whenever no calls arrive, and sets GOGC
// according to the live memory. It returns at the end of ctx.
func tendMemory(ctx context.Context) {
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, mostStarting))
	err := pause.For(ctx, settleAfter)
	debug.SetMemoryLimit(limit)
	if err != nil {
		return
	}
	debug.FreeOSMemory()
	_ = releaseProgram() // a server that cannot release it is larger, but works
	made, live := readMemory()
	m := memory{made, live, made}
	for set := 0; ; {
		if now := m.percent(); now != set { // SetGCPercent stops the world
			collect(now)
			set = now
		}
		if pause.For(ctx, tendEvery) != nil {
			return
		}
		if m.look(readMemory()) {
			debug.FreeOSMemory()
		}
	}
}

// tendEvery is how often a server checks its memory.
const tendEvery = 2 * time.Second

// A server rests if it allocates less than restingMost bytes between two checks. Returning
// memory takes the time of a collection, so it is only done if at least worthwhile bytes,
// and at least a quarter of the live bytes, were allocated since the last time: there
// cannot be more garbage than that.
const (
	restingMost = 1 << 20
	worthwhile  = 8 << 20
)

// memory contains what a server knows about its own memory.
type memory struct {
	made     uint64 // bytes allocated before the last check, since the start
	live     uint64 // bytes that were live after the last collection
	released uint64 // value of made when garbage was last returned
}

// look reports whether the server rests and may have garbage to return.
func (m *memory) look(made, live uint64) bool {
	rests := made-m.made < restingMost
	m.made, m.live = made, live
	if !rests || made-m.released < max(worthwhile, live/4) {
		return false
	}
	m.released = made
	return true
}

// percent returns the GOGC for the live memory: garbage may take as much memory as the live
// memory, or headroom if that is more. It is at most gcStarting.
func (m *memory) percent() int {
	return int(max(headroom*100/max(m.live, headroom*100/gcStarting), gcDefault))
}

// readMemory returns how many bytes this process has allocated since its start, and how
// many are live (see package runtime/metrics).
func readMemory() (made, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// releaseProgram releases the pages of the program's own file from this process. All
// packages are initialised at the start, which touches two thirds of the program, and most
// of that code and data is never used again. A page that is used again comes from the
// kernel's cache, or from the file (madvise(2), MADV_DONTNEED). Pages that can be written
// stay, since they may differ from the file.
func releaseProgram() error {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	type mapping struct {
		from, to uintptr
		file     string // device and inode of its file
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

// Values of GOGC, see package runtime. A program that starts keeps most of what it
// allocates, and collecting garbage after each of the first MiBs takes a fifth of the work
// until a server answers. A server whose live memory is larger than the headroom has the
// runtime's default.
const (
	gcStarting = 400
	gcDefault  = 100
	headroom   = 32 << 20 // bytes
)

// collect sets GOGC, unless the environment does.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
