package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
)

// tenants returns the probes for the ways of one tenant's box to another tenant's. Outside,
// where there are no tenants, the neighbour is a process of the same user.
func tenants() []Probe {
	return []Probe{
		{ID: "T01", Name: "see the neighbour's processes", try: func(f *Facts) (string, error) {
			if _, ok := findProcess(f.Neighbour.Token); !ok {
				return "", errors.New("no process shows the token")
			}
			return "its arguments", nil
		}},
		{ID: "T02", Name: "read the neighbour's environment", try: func(f *Facts) (string, error) {
			for _, pid := range pids() {
				if what, err := reads(inProc(pid, "environ"), f.Neighbour.Token); err == nil {
					return what, nil
				}
			}
			return "", errors.New("no environment shows the token")
		}},
		{ID: "T03", Name: "signal the neighbour", try: func(f *Facts) (string, error) {
			if err := send(f.Neighbour.Pid, 0); err != nil {
				return "", err
			}
			return isVictim(f.Neighbour.Pid, f.Neighbour.Token)
		}},
		{ID: "T04", Name: "read the neighbour's files in /tmp", try: func(f *Facts) (string, error) {
			return reads(f.Neighbour.File, f.Neighbour.Token)
		}},
		{ID: "T05", Name: "read the neighbour's shared memory in /dev/shm", try: func(f *Facts) (string, error) {
			return reads(f.Neighbour.Shm, f.Neighbour.Token)
		}},
		{ID: "T06", Name: "connect to the neighbour's abstract socket", try: func(f *Facts) (string, error) {
			return answers("unix", f.Neighbour.Abstract, f.Neighbour.Token)
		}},
		{ID: "T07", Name: "connect to the neighbour's socket file", try: func(f *Facts) (string, error) {
			return answersAt(f.Neighbour.Socket, f.Neighbour.Token)
		}},
		{ID: "T08", Name: "connect to the neighbour's loopback", try: func(f *Facts) (string, error) {
			return answers("tcp", loopback(f.Neighbour.Port), f.Neighbour.Token)
		}},
		{ID: "T09", Name: "ask the neighbour's UDP service", try: func(f *Facts) (string, error) {
			return asks(loopback(f.Neighbour.UDP), f.Neighbour.Token)
		}},
		{ID: "T10", Name: "attach the neighbour's SysV shared memory", try: func(f *Facts) (string, error) {
			return attaches(&f.Neighbour)
		}},
		{ID: "T11", Name: "open the neighbour's SysV queues and semaphores", try: func(f *Facts) (string, error) {
			return anyOf(sysvOf(&f.Neighbour)...)(f)
		}},
		{ID: "T12", Name: "open the neighbour's POSIX message queue", try: func(f *Facts) (string, error) {
			return opensFD(openMq(f.Neighbour.Mq, 0))
		}},
		{ID: "T13", Name: "read the neighbour's memory", try: func(f *Facts) (string, error) {
			return readsMemory(f.Neighbour.Pid, f.Neighbour.At)
		}},
		{ID: "T14", Name: "open the neighbour's terminal", try: func(f *Facts) (string, error) {
			return f.Neighbour.Terminal, open(f.Neighbour.Terminal, unix.O_RDWR)
		}},
		{ID: "T15", Name: "see the neighbour's sockets", try: anyOf(
			func(f *Facts) (string, error) { return reads("/proc/net/unix", f.Neighbour.Abstract) },
			func(f *Facts) (string, error) {
				// a listener in proc_net_tcp: no remote address, and the state 0A
				return reads("/proc/net/tcp", fmt.Sprintf(":%04X 00000000:0000 0A", f.Neighbour.Port))
			},
		)},
		{ID: "T16", Name: "see the neighbour's SysV shared memory", try: func(f *Facts) (string, error) {
			return reads("/proc/sysvipc/shm", strconv.Itoa(f.Neighbour.Memory))
		}},
		{ID: "T17", Name: "open the neighbour's process by its number", try: func(f *Facts) (string, error) {
			fd, err := unix.PidfdOpen(f.Neighbour.Pid, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			unix.Close(fd)
			return isVictim(f.Neighbour.Pid, f.Neighbour.Token)
		}},
		{ID: "T18", Name: "open the neighbour's pipe", try: func(f *Facts) (string, error) {
			return f.Neighbour.Fifo, open(f.Neighbour.Fifo, unix.O_RDWR)
		}},
		{ID: "T19", Name: "steer the neighbour's CPUs, priority or limits", try: anyOf(
			ofNeighbour("sched_setaffinity", func(pid int) error {
				var set unix.CPUSet
				return errors.Join(unix.SchedGetaffinity(pid, &set), unix.SchedSetaffinity(pid, &set))
			}),
			ofNeighbour("setpriority", func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 0) }),
			// prlimit(2) needs the same rights to read a limit as to set it
			ofNeighbour("prlimit64", func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{}) }),
		)},
		{ID: "T20", Name: "share a namespace with the neighbour", try: func(f *Facts) (string, error) {
			return shares(&f.Neighbour)
		}},
		{ID: "T21", Name: "time the neighbour by the machine's counters of CPUs and disks", try: readsAny(
			"/proc/interrupts", "/proc/softirqs", "/proc/schedstat", "/proc/diskstats", "/proc/timer_list", "/proc/sched_debug",
			"/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory")},
		{ID: "T22", Name: "read the neighbour's files through /proc", try: func(f *Facts) (string, error) {
			faults := []error{errors.New("no process leads to the neighbour's file")}
			for _, pid := range pids() {
				what, err := reads(inProc(pid, "root")+f.Neighbour.File, f.Neighbour.Token)
				if err == nil {
					return what, nil
				}
				faults = append(faults, err)
			}
			return "", errors.Join(faults...)
		}},
		{ID: "T23", Name: "crowd the neighbour out with processes", own: true, busy: true, dies: true, where: held(policies.LimitPids), try: forks},
		{ID: "T24", Name: "crowd the neighbour out of memory", own: true, busy: true, dies: true, where: held(policies.LimitMemory), try: touches},
		{ID: "T25", Name: "crowd the neighbour out of /tmp", own: true, busy: true, dies: true, try: func(f *Facts) (string, error) {
			return allocates(filepath.Join(os.TempDir(), "belljar-probe-big"), f.Limits.Tmp+over)
		}},
		{ID: "T26", Name: "crowd the neighbour off the CPUs", own: true, slow: true, busy: true, where: held(policies.LimitCPU), try: burns},
		{ID: "T27", Name: "crowd the neighbour out of descriptors", own: true, busy: true, try: func(f *Facts) (string, error) {
			return duplicates(int(f.Limits.OpenFiles) + 16)
		}},
		{ID: "T28", Name: "follow the neighbour's descriptors", try: func(f *Facts) (string, error) {
			target, err := os.Readlink(inProc(f.Neighbour.Pid, "fd/0"))
			if err != nil {
				return "", err
			}
			_, err = isVictim(f.Neighbour.Pid, f.Neighbour.Token)
			return target, err
		}},
	}
}

// ofNeighbour returns an act that does something to the neighbour's process. It fails if the
// pid belongs to another process here.
func ofNeighbour(name string, do func(pid int) error) act {
	return func(f *Facts) (string, error) {
		if err := do(f.Neighbour.Pid); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		what, err := isVictim(f.Neighbour.Pid, f.Neighbour.Token)
		return name + " of " + what, err
	}
}
