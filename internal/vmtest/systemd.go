package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are for a guest whose first process is the host's systemd. This program is
// the first process until it has made the root. It copies itself and the order to
// /run, and becomes systemd, which starts a unit that
//
//	runs the test (runOrder), as root or in a login session of the user
//	writes the exit status to the second serial line and resets (reportEnd)
const (
	systemdPath = "/lib/systemd/systemd"
	unitDir     = "/run/systemd/system"
	ownProgram  = "/run/vmtest"
	ownOrder    = "/run/" + orderFile

	argRun = "run-order"  // argument with which the unit runs the test
	argEnd = "report-end" // argument with which the unit reports the end
)

// unit is the unit of the test. In a session of PAM's service "login", a process is in the
// same cgroup as after a login. The plus sign runs a command with the rights of root.
const unit = `[Unit]
Requires=dbus.service systemd-logind.service systemd-user-sessions.service
After=dbus.service systemd-logind.service systemd-user-sessions.service
[Service]
%s
ExecStart=` + ownProgram + ` ` + argRun + `
ExecStopPost=+` + ownProgram + ` ` + argEnd + `
StandardOutput=file:/dev/ttyS0
StandardError=inherit
TimeoutStartSec=infinity
`

// useless are units of the host's packages that only take time here.
var useless = []string{
	"systemd-timesyncd.service", "systemd-hwdb-update.service", "systemd-journal-catalog-update.service", "ldconfig.service",
	"systemd-udev-settle.service", "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-pstore.service",
	"systemd-random-seed.service", "keyboard-setup.service", "console-setup.service", "e2scrub_reap.service",
}

// becomeSystemd turns this process into systemd. It returns only if it fails. The root of
// the guest has been entered.
func becomeSystemd(w *order, program string) error {
	who := ""
	if w.User != 0 {
		name := "vmtest"
		if code, err := execute("/usr/sbin/useradd", "--key", "UID_MAX=65000", "--uid", strconv.Itoa(w.User), "--create-home", "--shell", "/bin/bash", name); err != nil || code != 0 {
			return fmt.Errorf("useradd %s: status %d, %w", name, code, err)
		}
		who = "User=" + name + "\nPAMName=login"
	}
	w.Program = program
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(unitDir, 0o755); err != nil { //nolint:gosec // as systemd makes it
		return err
	}
	for _, name := range useless {
		if err := os.Symlink("/dev/null", filepath.Join(unitDir, name)); err != nil {
			return err
		}
	}
	// The host may be a container, but the guest is a machine.
	if err := os.Remove("/.dockerenv"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A slow start is not a failure here; the default limit is 90 seconds.
	slow := "[Manager]\nDefaultTimeoutStartSec=30min\nDefaultTimeoutStopSec=30min\n"
	for _, dir := range []string{"/etc/systemd/system.conf.d", "/etc/systemd/user.conf.d"} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as systemd makes it
			return err
		}
	}
	// The empty fstab keeps systemd from mounting file systems of the host.
	for path, content := range map[string]string{
		"/etc/systemd/system.conf.d/slow.conf": slow, "/etc/systemd/user.conf.d/slow.conf": slow,
		"/etc/fstab": "", ownOrder: string(text),
		unitDir + "/vmtest.service": fmt.Sprintf(unit, who),
		unitDir + "/vmtest.target":  "[Unit]\nRequires=vmtest.service\nAllowIsolate=yes\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // the test reads its order as the user
			return err
		}
	}
	return syscall.Exec(systemdPath, []string{systemdPath, "--unit=vmtest.target", "--show-status=no"}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}

// keepSelf copies this program into the new root, from which the initial files cannot be
// reached.
func keepSelf(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// runOrder turns this process into the test. It returns only if it fails.
func runOrder() error {
	text, err := os.ReadFile(ownOrder)
	if err != nil {
		return err
	}
	var w order
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if err := os.Chdir(w.Dir); err != nil {
		return err
	}
	rawTerminal(1) // systemd has reset the console
	return syscall.Exec(w.Program, append([]string{w.Program}, w.Args...), append(os.Environ(), w.Env...))
}

// reportEnd reports to the host how the test ended, by the variables that systemd sets for
// this program (systemd.exec(5), "EXIT_CODE"), and resets the guest.
func reportEnd() {
	status := os.Getenv("EXIT_STATUS")
	if os.Getenv("EXIT_CODE") != "exited" {
		number := unix.SignalNum("SIG" + status)
		status = strconv.Itoa(128 + int(number))
	}
	end(status)
}
