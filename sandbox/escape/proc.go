package escape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// proc returns the probes for the ways that /proc and /sys offer to the machine and to
// other processes.
func proc() []Probe {
	return []Probe{
		{ID: "P01", Name: "set what the kernel runs, or how it is called", Root: true, try: opens(unix.O_WRONLY,
			"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/panic")},
		{ID: "P02", Name: "press the magic key", Root: true, where: present("/proc/sysrq-trigger"), try: opens(unix.O_WRONLY, "/proc/sysrq-trigger")},
		{ID: "P03", Name: "see a process of the machine", try: func(f *Facts) (string, error) {
			if _, ok := findProcess(f.Host.Token); !ok {
				return "", errors.New("no process shows the token")
			}
			return "its arguments", nil
		}},
		{ID: "P04", Name: "read the environment of any process of the machine", try: func(f *Facts) (string, error) {
			for _, pid := range pids() {
				if what, err := reads(inProc(pid, "environ"), f.Host.Token); err == nil {
					return what, nil
				}
			}
			return "", errors.New("no environment shows the token")
		}},
		{ID: "P05", Name: "overwrite init's program (CVE-2019-5736)", try: func(f *Facts) (string, error) {
			// The file of a running program is busy (ETXTBSY). Only a process that may
			// write to the file gets that error.
			err := open(inProc(f.Init, "exe"), unix.O_WRONLY)
			if errors.Is(err, unix.ETXTBSY) {
				return "the program is only busy", nil
			}
			return "its program", err
		}},
		{ID: "P06", Name: "read the kernel's memory or its map", Root: true, try: readsAny(
			"/proc/kcore", "/proc/kpageflags", "/proc/vmallocinfo", "/proc/kallsyms", "/dev/mem")},
		{ID: "P07", Name: "open a file of a control group to write", Root: true, try: controlGroup},
		{ID: "P08", Name: "open a knob in /sys to write", Root: true, try: opens(unix.O_WRONLY,
			"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/ksm/run", "/sys/kernel/rcu_expedited", "/sys/power/state")},
		{ID: "P09", Name: "read the kernel's log", Root: true, try: func(*Facts) (string, error) {
			_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64))
			return "syslog", err
		}},
		{ID: "P10", Name: "name a keyring", try: works("keyctl KEYCTL_GET_KEYRING_ID", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, userKeyring, 1)},
		{ID: "P11", Name: "read init's memory", try: ofInit(unix.O_RDONLY, "mem")},
		{ID: "P12", Name: "learn the machine's name", try: func(f *Facts) (string, error) {
			name, err := os.Hostname()
			if err != nil {
				return "", err
			}
			if name != f.Hostname {
				return "", fmt.Errorf("it is called %s", name)
			}
			return name, nil
		}},
		{ID: "P13", Name: "read init's environment", try: readOfInit("environ")},
		{ID: "P14", Name: "read where init's memory is", try: readOfInit("maps", "smaps", "auxv", "numa_maps")},
		{ID: "P15", Name: "follow init's root or working directory", try: linkOfInit("root", "cwd")},
		{ID: "P16", Name: "follow init's descriptors", try: linkOfInit("fd/0", "fd/1", "fd/2", "fd/3")},
		{ID: "P17", Name: "name init's namespaces", try: linkOfInit("ns/mnt", "ns/pid", "ns/user", "ns/net")},
		{ID: "P18", Name: "open the files that init has mapped", try: func(f *Facts) (string, error) {
			entries, err := os.ReadDir(inProc(f.Init, "map_files"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d files", len(entries)), nil
		}},
		{ID: "P19", Name: "write init's memory", try: ofInit(unix.O_RDWR, "mem")},
		{ID: "P20", Name: "steer init by its files", try: ofInit(unix.O_WRONLY,
			"oom_score_adj", "coredump_filter", "clear_refs", "uid_map", "setgroups", "comm")},
		{ID: "P21", Name: "see what init does", try: readOfInit("io", "syscall", "stack", "pagemap", "personality")},
		{ID: "P22", Name: "run init's program", try: func(f *Facts) (string, error) {
			// If it is the prober's own program, it becomes a prober that only stays.
			p, err := os.StartProcess(inProc(f.Init, "exe"), []string{proberName, partLinger}, &os.ProcAttr{})
			if err != nil {
				return "", err
			}
			_ = p.Kill()
			_, _ = p.Wait()
			return "its program", nil
		}},
		{ID: "P23", Name: "open any kernel knob to write", Root: true, try: anyKnob},
		{ID: "P24", Name: "read the names of the kernel's functions", try: readsAny("/proc/kallsyms", "/proc/modules")},
		{ID: "P25", Name: "list keys", try: readsAny("/proc/keys", "/proc/key-users")},
		{ID: "P26", Name: "read what shows the machine's inside to root", Root: true, try: readsAny(
			"/proc/slabinfo", "/proc/timer_list", "/proc/sched_debug", "/proc/kpagecount", "/proc/config.gz", "/proc/swaps", "/proc/latency_stats")},
		{ID: "P27", Name: "see the machine's devices and modules in /sys", try: func(*Facts) (string, error) {
			entries, err := os.ReadDir("/sys/devices")
			if err == nil && len(entries) == 0 {
				err = errors.New("/sys/devices: empty")
			}
			return "/sys/devices", err
		}},
		{ID: "P28", Name: "move interrupts, or set a bus, to write", Root: true, try: func(*Facts) (string, error) {
			return firstOpen("/proc/irq", "/proc/bus", "/proc/mtrr", "/proc/acpi", "/proc/scsi")
		}},
		{ID: "P29", Name: "read what shows the machine's inside to anybody", try: readsAny(
			"/proc/interrupts", "/proc/config.gz", "/proc/key-users")},
		{ID: "P30", Name: "set the limits of init", try: func(f *Facts) (string, error) {
			// The limits keep their values: a lower limit of CPU time or descriptors could
			// end init.
			var old unix.Rlimit
			if err := unix.Prlimit(f.Init, unix.RLIMIT_NOFILE, nil, &old); err != nil {
				return "", fmt.Errorf("prlimit64: %w", err)
			}
			return "prlimit64", unix.Prlimit(f.Init, unix.RLIMIT_NOFILE, &old, nil)
		}},
	}
}

// ofInit opens one of process 1's files.
func ofInit(flags int, names ...string) act {
	return func(f *Facts) (string, error) {
		paths := make([]string, len(names))
		for i, name := range names {
			paths[i] = inProc(f.Init, name)
		}
		return opens(flags, paths...)(f)
	}
}

// readOfInit reads one of process 1's files.
func readOfInit(names ...string) act {
	return func(f *Facts) (string, error) {
		paths := make([]string, len(names))
		for i, name := range names {
			paths[i] = inProc(f.Init, name)
		}
		return readsAny(paths...)(f)
	}
}

// linkOfInit follows one of process 1's links.
func linkOfInit(names ...string) act {
	return func(f *Facts) (string, error) {
		var faults []error
		for _, name := range names {
			target, err := os.Readlink(inProc(f.Init, name))
			if err == nil {
				return name + " is " + target, nil
			}
			faults = append(faults, err)
		}
		return "", errors.Join(faults...)
	}
}

// controlGroup opens files that could move processes, or make the host run a program when a
// group is empty (cgroups(7), release_agent; CVE-2022-0492).
func controlGroup(*Facts) (string, error) {
	var faults []error
	for _, pattern := range []string{
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs", "/sys/fs/cgroup/*/release_agent", "/sys/fs/cgroup/*/*/cgroup.procs",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(names) == 0 {
			faults = append(faults, fmt.Errorf("%s: nothing there", pattern))
			continue
		}
		what, err := opens(unix.O_WRONLY, names...)(nil)
		if err == nil {
			return what, nil
		}
		faults = append(faults, err)
	}
	return "", errors.Join(faults...)
}

// anyKnob tries to open every file of /proc/sys for writing.
func anyKnob(*Facts) (string, error) {
	seen := 0
	var last error
	// Of hundreds of knobs, only a few can never be written.
	found := errors.New("found")
	var path string
	err := filepath.WalkDir("/proc/sys", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a directory that cannot be listed has no file to open
		}
		seen++
		if last = open(name, unix.O_WRONLY); last == nil {
			path = name
			return found
		}
		return nil
	})
	switch {
	case errors.Is(err, found):
		return path, nil
	case seen == 0:
		return "", errors.New("/proc/sys: empty")
	}
	return "", fmt.Errorf("%d knobs, the last: %w", seen, last)
}

// firstOpen returns the first regular file below the directories that can be opened for
// writing.
func firstOpen(dirs ...string) (string, error) {
	found := errors.New("found")
	var path string
	last := errRefused
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // a directory that cannot be listed has no file to open
			}
			if last = open(name, unix.O_WRONLY); last == nil {
				path = name
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of %s: %w", strings.Join(dirs, ", "), last)
}
