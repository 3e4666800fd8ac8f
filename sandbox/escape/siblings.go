package escape

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// contacts returns the ways of one command to another command of its box, by name: each is
// an act on Facts.Sibling. Outside, the sibling is a process of the same user.
//
// No contact does harm: each writes the bytes that it read, or sends a signal that is
// ignored by default.
func contacts() []contact {
	file := func(name string, flags int) act {
		return toSibling(func(v *Victim) (string, error) { return name, open(inProc(v.Pid, name), flags) })
	}
	shows := func(names ...string) act {
		return toSibling(func(v *Victim) (string, error) {
			var paths []string
			for _, name := range names {
				paths = append(paths, inProc(v.Pid, name))
			}
			return readsAny(paths...)(nil)
		})
	}
	link := func(name string) act {
		return toSibling(func(v *Victim) (string, error) { return os.Readlink(inProc(v.Pid, name)) })
	}
	lists := func(name string) act {
		return toSibling(func(v *Victim) (string, error) {
			entries, err := os.ReadDir(inProc(v.Pid, name))
			return fmt.Sprintf("%d of %s", len(entries), name), err
		})
	}
	calls := func(name string, number uintptr, args func(v *Victim) [5]uintptr) act {
		return toSibling(func(v *Victim) (string, error) {
			a := args(v)
			return works(name, number, a[:]...)(nil)
		})
	}
	pidfd := func(name string, do func(fd int) error) act {
		return toSibling(func(v *Victim) (string, error) {
			fd, err := unix.PidfdOpen(v.Pid, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			defer unix.Close(fd)
			if err := do(fd); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			return name, nil
		})
	}
	return []contact{
		// Memory.
		{name: "read its memory", try: toSibling(func(v *Victim) (string, error) { return throughMem(v, unix.O_RDONLY) })},
		{name: "write its memory", try: toSibling(func(v *Victim) (string, error) { return throughMem(v, unix.O_RDWR) })},
		{name: "read its memory by a thread's file", try: toSibling(func(v *Victim) (string, error) {
			return fmt.Sprint("task/", v.Pid, "/mem"), open(inProc(v.Pid, fmt.Sprint("task/", v.Pid, "/mem")), unix.O_RDONLY)
		})},
		{name: "process_vm_readv", try: toSibling(func(v *Victim) (string, error) { return readsMemory(v.Pid, v.At) })},
		{name: "process_vm_writev", try: toSibling(func(v *Victim) (string, error) {
			local := []unix.Iovec{{Base: unsafe.StringData(v.Token), Len: 8}}
			_, err := unix.ProcessVMWritev(v.Pid, local, []unix.RemoteIovec{{Base: uintptr(v.At), Len: 8}}, 0)
			return "process_vm_writev", err
		})},
		{name: "trace it", try: toSibling(func(v *Victim) (string, error) {
			if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(v.Pid), 0, 0, 0, 0); errno != 0 {
				return "", fmt.Errorf("ptrace: %w", errno)
			}
			return "PTRACE_SEIZE", nil // the trace ends with this thread
		})},
		{name: "read where its memory is", try: shows("maps", "smaps", "smaps_rollup", "numa_maps", "auxv")},
		{name: "read its page table", try: shows("pagemap")},
		{name: "list its mapped files", try: lists("map_files")},
		{name: "move its pages", try: calls("move_pages", unix.SYS_MOVE_PAGES, func(v *Victim) [5]uintptr { return [5]uintptr{uintptr(v.Pid)} })},
		{name: "find its locks", try: toSibling(func(v *Victim) (string, error) {
			var head, size uintptr
			return works("get_robust_list", unix.SYS_GET_ROBUST_LIST, uintptr(v.Pid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size)))(nil)
		})},
		{name: "forget which of its pages it used", try: file("clear_refs", unix.O_WRONLY)},
		{name: "choose what its core would hold", try: file("coredump_filter", unix.O_WRONLY)},

		// Environment and arguments.
		{name: "read its environment", try: shows("environ")},
		{name: "read its arguments", try: shows("cmdline")},
		{name: "read its state", try: shows("stat", "status", "statm", "sched", "schedstat", "limits", "cgroup", "mountinfo")},
		{name: "read what it does", try: shows("syscall", "personality", "io", "timers")},

		// Descriptors.
		{name: "list its descriptors", try: toSibling(func(v *Victim) (string, error) {
			entries, err := os.ReadDir(inProc(v.Pid, "fd"))
			if err == nil && len(entries) == 0 {
				err = errors.New("none")
			}
			return "fd", err
		})},
		{name: "follow its descriptors", try: link("fd/1")},
		{name: "open its output", try: file("fd/1", unix.O_WRONLY)},
		{name: "open its errors", try: file("fd/2", unix.O_WRONLY)},
		{name: "read what its descriptors are", try: shows("fdinfo/1")},
		{name: "pidfd_getfd", try: pidfd("pidfd_getfd", func(fd int) error {
			_, err := unix.PidfdGetfd(fd, 1, 0)
			return err
		})},
		{name: "compare descriptors", try: calls("kcmp", unix.SYS_KCMP, func(v *Victim) [5]uintptr {
			const kcmpFiles = 2
			return [5]uintptr{uintptr(v.Pid), uintptr(v.Pid), kcmpFiles}
		})},

		// Its directories, program, namespaces and threads.
		{name: "follow its working directory", try: link("cwd")},
		{name: "follow its root", try: link("root")},
		{name: "follow its program", try: link("exe")},
		{name: "open its program", try: file("exe", unix.O_RDONLY)},
		{name: "follow its namespaces", try: link("ns/mnt")},
		{name: "list its threads", try: lists("task")},

		// Signals.
		{name: "signal it", signal: true, try: toSibling(func(v *Victim) (string, error) { return "kill", send(v.Pid, quietSignal) })},
		{name: "signal its group", signal: true, try: toSibling(func(v *Victim) (string, error) { return "kill", send(-v.Pid, quietSignal) })},
		{name: "signal its thread", signal: true, try: calls("tgkill", unix.SYS_TGKILL, func(v *Victim) [5]uintptr {
			return [5]uintptr{uintptr(v.Pid), uintptr(v.Pid), uintptr(quietSignal)}
		})},
		{name: "signal its thread by one number", signal: true, try: calls("tkill", unix.SYS_TKILL, func(v *Victim) [5]uintptr { return [5]uintptr{uintptr(v.Pid), uintptr(quietSignal)} })},
		{name: "queue a signal", signal: true, try: toSibling(func(v *Victim) (string, error) {
			info := queued()
			return works("rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, uintptr(v.Pid), uintptr(quietSignal), uintptr(unsafe.Pointer(&info)))(nil)
		})},
		{name: "queue a signal for its thread", signal: true, try: toSibling(func(v *Victim) (string, error) {
			info := queued()
			return works("rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, uintptr(v.Pid), uintptr(v.Pid), uintptr(quietSignal), uintptr(unsafe.Pointer(&info)))(nil)
		})},
		{name: "signal it by a descriptor", signal: true, try: pidfd("pidfd_send_signal", func(fd int) error { return unix.PidfdSendSignal(fd, quietSignal, nil, 0) })},

		// Its limits and its scheduling.
		{name: "have it killed first for memory", try: file("oom_score_adj", unix.O_WRONLY)},
		{name: "set its limits", try: toSibling(func(v *Victim) (string, error) {
			var old unix.Rlimit
			if err := unix.Prlimit(v.Pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
				return "", fmt.Errorf("prlimit64: %w", err)
			}
			return "prlimit64", unix.Prlimit(v.Pid, unix.RLIMIT_NOFILE, &old, nil)
		})},
		{name: "renice it", try: toSibling(func(v *Victim) (string, error) { return renices(v.Pid) })},
		{name: "renice its group", try: toSibling(func(v *Victim) (string, error) { return "setpriority", unix.Setpriority(unix.PRIO_PGRP, v.Pid, 0) })},
		{name: "renice it with all of its user's", try: toSibling(func(*Victim) (string, error) { return "setpriority", unix.Setpriority(unix.PRIO_USER, 0, 0) })},
		{name: "set its policy", try: toSibling(func(v *Victim) (string, error) { return setsPolicy(v.Pid) })},
		{name: "set its parameters", try: toSibling(func(v *Victim) (string, error) {
			var none int32
			return works("sched_setparam", unix.SYS_SCHED_SETPARAM, uintptr(v.Pid), uintptr(unsafe.Pointer(&none)))(nil)
		})},
		{name: "set its attributes", try: toSibling(func(v *Victim) (string, error) {
			attr, err := unix.SchedGetAttr(v.Pid, 0)
			if err != nil {
				return "", fmt.Errorf("sched_getattr: %w", err)
			}
			return "sched_setattr", unix.SchedSetAttr(v.Pid, attr, 0)
		})},
		{name: "set its disk priority", try: calls("ioprio_set", unix.SYS_IOPRIO_SET, func(v *Victim) [5]uintptr {
			const whoProcess, bestEffort = 1, 2<<13 | 4
			return [5]uintptr{whoProcess, uintptr(v.Pid), bestEffort}
		})},
	}
}

// contact is one way to another command of the box.
type contact struct {
	name   string
	signal bool // whether it is a signal, which not every kernel keeps from another command
	try    act
}

// quietSignal is a signal that a process ignores by default.
const quietSignal = unix.SIGWINCH

// toSibling is an act on the victim. If the victim is in another pid namespace, its number
// may be that of another process here; the act then fails.
func toSibling(do func(v *Victim) (string, error)) act {
	return func(f *Facts) (string, error) {
		v := &f.Sibling
		words, err := readSome(inProc(v.Pid, "cmdline"), 1<<16)
		if own := !strings.Contains(words, v.Token) || strings.Contains(words, toldOf); v.Pid <= 1 || err == nil && own {
			return "", errors.New("here this is the number of another process")
		}
		return do(v)
	}
}

// toldOf is in the arguments of a prober that must touch a victim, and not in those of the
// victim itself, which contain the token too.
const toldOf = `"Token":`

// throughMem reads the token and, with O_RDWR, writes it over itself. A process that may
// open the file may do both.
func throughMem(v *Victim, flags int) (string, error) {
	m, err := os.OpenFile(inProc(v.Pid, "mem"), flags, 0)
	if err != nil {
		return "", err
	}
	defer m.Close()
	got := make([]byte, len(v.Token))
	if _, err := m.ReadAt(got, int64(v.At)); err != nil || string(got) != v.Token {
		return "open, and it contains something else", nil
	}
	if flags == unix.O_RDWR {
		_, err = m.WriteAt(got, int64(v.At))
	}
	return "the token", err
}

// queued returns a siginfo_t like that of sigqueue(3).
func queued() [128]byte {
	var info [128]byte
	const siQueue = -1
	*(*int32)(unsafe.Pointer(&info[0])) = int32(quietSignal)
	*(*int32)(unsafe.Pointer(&info[8])) = siQueue
	*(*int32)(unsafe.Pointer(&info[16])) = int32(os.Getpid())
	*(*int32)(unsafe.Pointer(&info[20])) = int32(os.Getuid())
	return info
}

// renices sets the niceness of a process to its present value.
func renices(pid int) (string, error) {
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return "", fmt.Errorf("getpriority: %w", err)
	}
	// the system call returns 20 minus the niceness
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, 20-nice); err != nil {
		return "", fmt.Errorf("setpriority: %w", err)
	}
	return "setpriority", nil
}

// setsPolicy sets the scheduling policy of a process to its present value.
func setsPolicy(pid int) (string, error) {
	policy, _, errno := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(pid), 0, 0)
	if errno != 0 {
		return "", fmt.Errorf("sched_getscheduler: %w", errno)
	}
	var none int32
	return works("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), policy, uintptr(unsafe.Pointer(&none)))(nil)
}

// setsProcessors sets the processors of a process to their present value.
func setsProcessors(pid int) (string, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return "", fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := unix.SchedSetaffinity(pid, &set); err != nil {
		return "", fmt.Errorf("sched_setaffinity: %w", err)
	}
	return "sched_setaffinity", nil
}

// siblings returns the probes for the ways of a command to another command of its box: a
// row for each contact, and further ones.
func siblings() []Probe {
	rows := []Probe{
		{ID: "B01", Name: "look into any process of another command, by its number", sibling: true, try: lookIntoAny},
		{ID: "B02", Name: "starve the box's init, and with it all later commands", try: func(f *Facts) (string, error) {
			return anyOf(
				func(*Facts) (string, error) { return renices(f.Init) },
				func(*Facts) (string, error) { return setsPolicy(f.Init) },
				func(*Facts) (string, error) { return setsProcessors(f.Init) },
				works("ioprio_set", unix.SYS_IOPRIO_SET, 1, uintptr(f.Init), 2<<13|4),
			)(f)
		}},
		{ID: "B03", Name: "look into a child of one's own, and signal it", Works: true, try: ownChild},
		{ID: "B04", Name: "schedule oneself", Works: true, try: func(*Facts) (string, error) {
			runtime.LockOSThread()
			nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 minus the niceness
			if err != nil {
				return "", fmt.Errorf("getpriority: %w", err)
			}
			// The tests may run with a niceness, which a box may not lower.
			if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 20-nice+1); err != nil {
				return "", fmt.Errorf("setpriority: %w", err)
			}
			if what, err := setsPolicy(0); err != nil {
				return what, err
			}
			return setsProcessors(unix.Gettid()) // like pthread_setaffinity_np(3)
		}},
	}
	for i, t := range contacts() {
		p := Probe{ID: fmt.Sprintf("B%02d", 10+i), Name: "another command: " + t.name, sibling: true, try: t.try}
		if t.signal {
			p.where = signalsApart
		}
		rows = append(rows, p)
	}
	return rows
}

// lookIntoAny looks into every process that is not of the prober's session.
func lookIntoAny(*Facts) (string, error) {
	own, err := unix.Getsid(0)
	if err != nil {
		return "", err
	}
	most := 1 << 12
	for _, pid := range pids() {
		most = max(most, pid)
	}
	seen := 0
	for pid := 2; pid <= most; pid++ {
		if sid, err := unix.Getsid(pid); err != nil || sid == own {
			continue
		}
		seen++
		for name, flags := range map[string]int{"mem": unix.O_RDWR, "environ": unix.O_RDONLY, "fd/1": unix.O_WRONLY, "fd/3": unix.O_WRONLY, "oom_score_adj": unix.O_WRONLY} {
			if open(inProc(pid, name), flags) == nil {
				return inProc(pid, name), nil
			}
		}
	}
	return "", fmt.Errorf("%d processes of others, and no way into one", seen)
}

// ownChild does what programs do with their children.
func ownChild(*Facts) (string, error) {
	pid, stop, err := child()
	if err != nil {
		return "", fmt.Errorf("start a child: %w", err)
	}
	defer stop()
	for name, flags := range map[string]int{"mem": unix.O_RDWR, "environ": unix.O_RDONLY, "fd/1": unix.O_WRONLY, "oom_score_adj": unix.O_WRONLY} {
		if err := open(inProc(pid, name), flags); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"cwd", "exe", "fd/0"} {
		if _, err := os.Readlink(inProc(pid, name)); err != nil {
			return "", err
		}
	}
	return "child " + strconv.Itoa(pid), send(pid, quietSignal)
}

// beside is a victim that is another command of the prober's box: it writes its process id,
// its token and the token's address in its memory, and stays.
func beside(token string) error {
	v := Victim{Token: token, Pid: os.Getpid(), At: uint64(uintptr(unsafe.Pointer(&memory)))}
	if len(token) < 8 || len(token) > len(memory) {
		return fmt.Errorf("token of %d bytes", len(token))
	}
	copy(memory[:], token)
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // see newVictim
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		return err
	}
	linger(nil)
	return nil
}

// Beside returns the words of a command that is a victim with a token: it writes a [Victim]
// as JSON, and stays.
func Beside(token string) []string { return []string{boxed, partBeside, token} }

// Touch returns the words of a command that tries all contacts with a victim.
func Touch(v Victim) ([]string, error) {
	text, err := json.Marshal(v)
	return []string{boxed, partTouch, string(text)}, err
}

// IsSignal reports whether the contact of that name is a signal: see
// sandbox.Supervisor.SignalsApart.
func IsSignal(name string) bool {
	return slices.ContainsFunc(contacts(), func(c contact) bool { return c.name == name && c.signal })
}

// Touched reads what the command of Touch wrote: the outcome of each contact, by name.
func Touched(out string) (map[string]Outcome, error) {
	outcomes := map[string]Outcome{}
	for line := range strings.Lines(out) {
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Step != done {
			return nil, fmt.Errorf("the prober said %q", line)
		}
		outcomes[r.ID] = Outcome{Through: r.Through, Detail: r.Detail}
	}
	if len(outcomes) != len(contacts()) {
		return nil, fmt.Errorf("the prober tried %d of %d ways", len(outcomes), len(contacts()))
	}
	return outcomes, nil
}

// touchAll tries all contacts with the victim in its argument, and writes the outcome of
// each.
func touchAll(arg string) error {
	var f Facts
	if err := json.Unmarshal([]byte(arg), &f.Sibling); err != nil {
		return fmt.Errorf("read the victim: %w", err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, t := range contacts() {
		r := reply{Step: done, ID: t.name}
		var err error
		r.Detail, err = t.try(&f)
		if r.Through = err == nil; err != nil {
			r.Detail = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
