package metrics

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// AddProcess adds the families of the Go runtime and of the process, under the names that
// dashboards expect. began is the time at which the process began.
func (r *Registry) AddProcess(began time.Time) {
	version := &Label{Name: "version", most: 1}
	r.GaugeFunc("go_info", "The Go release that this program was built with.", []*Label{version}, func(set Set) { set(1, runtime.Version()) })
	for _, m := range []struct {
		name, help, from string
		kind             kind
	}{
		{"go_goroutines", "Goroutines.", "/sched/goroutines:goroutines", gauge},
		{"go_gc_cycles_total", "Completed garbage collections.", "/gc/cycles/total:gc-cycles", counter},
		{"go_memstats_heap_alloc_bytes", "Bytes of objects on the heap.", "/memory/classes/heap/objects:bytes", gauge},
		{"go_memstats_sys_bytes", "Bytes of address space that the Go runtime has.", "/memory/classes/total:bytes", gauge},
	} {
		r.add(&family{name: m.name, help: m.help, kind: m.kind, collect: func(set Set) {
			sample := []metrics.Sample{{Name: m.from}}
			metrics.Read(sample)
			if sample[0].Value.Kind() == metrics.KindUint64 {
				set(float64(sample[0].Value.Uint64()))
			}
		}})
	}
	r.GaugeFunc("process_start_time_seconds", "When the process began, in seconds since 1970.", nil, func(set Set) {
		set(float64(began.UnixMilli()) / 1000)
	})
	r.CounterFunc("process_cpu_seconds_total", "CPU time of the process, without that of boxes.", nil, func(set Set) {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
			set(time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds())
		}
	})
	r.GaugeFunc("process_resident_memory_bytes", "Memory of the process, without that of boxes.", nil, func(set Set) {
		if text, err := os.ReadFile("/proc/self/statm"); err == nil {
			if fields := strings.Fields(string(text)); len(fields) > 1 { // proc_pid_statm(5)
				pages, _ := strconv.ParseFloat(fields[1], 64)
				set(pages * float64(os.Getpagesize()))
			}
		}
	})
	r.GaugeFunc("process_open_fds", "Open file descriptors.", nil, func(set Set) {
		if open, err := os.ReadDir("/proc/self/fd"); err == nil {
			set(float64(len(open) - 1)) // without the descriptor of this read
		}
	})
	r.GaugeFunc("process_max_fds", "How many file descriptors may be open.", nil, func(set Set) {
		var most syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) == nil {
			set(float64(most.Cur))
		}
	})
}
