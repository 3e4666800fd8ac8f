package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// heldName is part of the name of a directory that the suite's process keeps open, and
// secretEnv is a variable in its environment.
const (
	heldName  = "belljar-held"
	secretEnv = "BELLJAR_PROBE_SECRET"
	ownedFile = ".belljar-probe-owner"
)

// credentials returns the probes for rights and secrets that a command must not have or
// get.
func credentials() []Probe {
	return []Probe{
		{ID: "C01", Name: "have a capability", Root: true, try: hasBits("CapPrm", "CapEff", "CapInh", "CapAmb")},
		{ID: "C02", Name: "have a capability in reach of an exec", try: hasBits("CapBnd")},
		{ID: "C03", Name: "gain privileges by an exec", try: statusIs("NoNewPrivs", "0")},
		{ID: "C04", Name: "run without a system call filter", try: statusIs("Seccomp", "0")},
		{
			ID: "C05", Name: "make a file in the workspace that is root's on the machine", Root: true, where: canWrite,
			try: func(*Facts) (string, error) { return ownedFile, newFile(ownedFile, "") },
			look: func(f *Facts) (string, error) {
				path := filepath.Join(f.Workspace, ownedFile)
				var info unix.Stat_t
				err := errors.Join(unix.Lstat(path, &info), os.Remove(path))
				if err == nil && int(info.Uid) == f.Owner {
					err = fmt.Errorf("it belongs to uid %d, as the workspace does", info.Uid)
				}
				return fmt.Sprintf("it belongs to uid %d", info.Uid), err
			},
		},
		{ID: "C06", Name: "become root", Root: true, try: func(*Facts) (string, error) {
			return "setresuid", errors.Join(unix.Setresgid(0, 0, 0), unix.Setresuid(0, 0, 0))
		}},
		{ID: "C07", Name: "choose its groups", Root: true, try: func(*Facts) (string, error) {
			return "setgroups", unix.Setgroups([]int{0, 6})
		}},
		{ID: "C08", Name: "take capabilities", Root: true, try: anyOf(
			func(*Facts) (string, error) {
				header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
				sets := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN, Inheritable: 1 << unix.CAP_SYS_ADMIN}}
				return "capset", unix.Capset(&header, &sets[0])
			},
			func(*Facts) (string, error) {
				return "PR_CAP_AMBIENT_RAISE", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
			},
		)},
		{ID: "C09", Name: "see a set-uid program that would run as its owner", try: func(*Facts) (string, error) {
			var info unix.Statfs_t
			if err := unix.Statfs("/usr/bin", &info); err != nil {
				return "", err
			}
			if info.Flags&unix.ST_NOSUID != 0 {
				return "", errors.New("/usr/bin is mounted nosuid")
			}
			return "/usr/bin is not mounted nosuid", nil
		}},
		{ID: "C10", Name: "keep rights over a change of user", Root: true, try: func(*Facts) (string, error) {
			return "PR_SET_SECUREBITS", unix.Prctl(unix.PR_SET_SECUREBITS, 1<<4, 0, 0, 0) // SECBIT_KEEP_CAPS
		}},
		{ID: "C11", Name: "read a key of the user's keyring", where: known(unix.SYS_KEYCTL, badFlags), try: func(f *Facts) (string, error) {
			text := make([]byte, len(f.Host.Token))
			_, err := unix.KeyctlBuffer(unix.KEYCTL_READ, int(f.Host.Key), text, 0)
			if err == nil && string(text) != f.Host.Token {
				err = errors.New("another key")
			}
			return "KEYCTL_READ", err
		}},
		{ID: "C12", Name: "join or make a session keyring", try: works("KEYCTL_JOIN_SESSION_KEYRING", unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0)},
		{ID: "C13", Name: "run before others, or be served by the disk before them", Root: true, try: anyOf(
			func(*Facts) (string, error) { return "setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, -5) },
			works("ioprio_set", unix.SYS_IOPRIO_SET, 1, 0, 1<<13|4), // ioprio_set(2): this process, IOPRIO_CLASS_RT
		)},
		{ID: "X01", Name: "have a descriptor of the user who runs belljar", try: func(*Facts) (string, error) {
			entries, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				return "", err
			}
			for _, e := range entries {
				if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(target, heldName) {
					return target, nil
				}
			}
			return "", fmt.Errorf("%d descriptors, all its own", len(entries))
		}},
		{ID: "X02", Name: "read an environment variable of the user who runs belljar", try: func(*Facts) (string, error) {
			if os.Getenv(secretEnv) == "" {
				return "", errors.New("not set")
			}
			return secretEnv, nil
		}},
		{ID: "X03", Name: "know its working directory", Works: true, try: func(*Facts) (string, error) {
			dir, err := os.Readlink("/proc/self/cwd")
			if err == nil && !filepath.IsAbs(dir) {
				err = fmt.Errorf("it is %s", dir) // for example "(unreachable)/..."
			}
			return dir, err
		}},
	}
}

// status returns the value of a key in /proc/self/status.
func status(key string) (string, error) {
	text, err := readSome("/proc/self/status", 1<<16)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("/proc/self/status: no %s", key)
}

// statusIs compares the value of a key in /proc/self/status.
func statusIs(key, want string) act {
	return func(*Facts) (string, error) {
		got, err := status(key)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %s", key, got)
		}
		return key + " is " + got, err
	}
}

// hasBits looks in /proc/self/status for a set of bits that is not empty.
func hasBits(keys ...string) act {
	return func(*Facts) (string, error) {
		for _, key := range keys {
			got, err := status(key)
			if err != nil {
				return "", err
			}
			bits, err := strconv.ParseUint(got, 16, 64)
			if err != nil {
				return "", err
			}
			if bits != 0 {
				return key + " is " + got, nil
			}
		}
		return "", fmt.Errorf("%s: empty", strings.Join(keys, ", "))
	}
}
