package sandbox

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/scope"
)

// Examine and New must agree about the host.
func TestExamine(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	dir := t.TempDir()
	h := Examine(dir)
	s, err := New(Config{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !h.OK() {
		t.Errorf("boxes can run here, but Examine says: %+v", h.Checks)
	}
	for limit, held := range s.Limits() {
		if h.Limits[limit] != held {
			t.Errorf("limit %s: Examine says %q, a supervisor %q", limit, h.Limits[limit], held)
		}
	}
	names := map[string]bool{}
	for _, c := range h.Checks {
		if names[c.Name] {
			t.Errorf("two checks are called %q", c.Name)
		}
		names[c.Name] = true
		if c.Detail == "" {
			t.Errorf("check %q has no detail", c.Name)
		}
		if c.Word() != "ok" && (c.Degraded == "" || c.Mend == "") {
			t.Errorf("check %q is %s and does not say what is lost or what mends it: %+v", c.Name, c.Word(), c)
		}
	}
}

func TestCheckWord(t *testing.T) {
	for _, tt := range []struct {
		check Check
		want  string
	}{
		{Check{OK: true}, "ok"},
		{Check{OK: true, Required: true}, "ok"},
		{Check{OK: true, Degraded: "x"}, "weak"},
		{Check{}, "absent"},
		{Check{Required: true}, "MISSING"},
	} {
		if got := tt.check.Word(); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.check, got, tt.want)
		}
	}
}

// Outcomes of a request to systemd for a cgroup.
var (
	inService   = cgroup.Scope{Err: fmt.Errorf("%w: x.service", scope.ErrService)}
	noManager   = cgroup.Scope{Err: fmt.Errorf("%w: no file", scope.ErrNoManager)}
	inContainer = cgroup.Scope{Err: scope.ErrContainer}
)

// The check names what is missing and how to get it. It exists only if systemd can help.
func TestCheckScope(t *testing.T) {
	for _, tt := range []struct {
		name       string
		scope      cgroup.Scope
		word, lost string // an empty word means that no check is expected
	}{
		{"nobody was asked", cgroup.Scope{}, "", ""},
		{"a container", inContainer, "", ""},
		{"no manager", cgroup.Scope{Err: scope.ErrNoManager, Missing: []string{"cpu", "memory"}}, "absent", "cpu, memory"},
		{"no manager, and no controllers to have", noManager, "absent", "no cgroup"},
		{"a scope without one", cgroup.Scope{Name: "x.scope", Missing: []string{"cpu"}}, "weak", "cpu"},
		{"a scope with all", cgroup.Scope{Name: "x.scope"}, "ok", ""},
	} {
		checks := checkScope(around{systemd: true, cgroups: true, scope: tt.scope})
		if tt.word == "" {
			if len(checks) > 0 {
				t.Errorf("%s: got %+v, want no check", tt.name, checks)
			}
			continue
		}
		if len(checks) != 1 || checks[0].Word() != tt.word || !strings.Contains(checks[0].Degraded, tt.lost) || (checks[0].Degraded == "") != (checks[0].Mend == "") {
			t.Errorf("%s: got %+v, want one that is %s and names %q", tt.name, checks, tt.word, tt.lost)
		}
	}
	if checks := checkScope(around{scope: noManager}); len(checks) > 0 {
		t.Errorf("a host without systemd: got %+v, want no check", checks)
	}
}

// The advice depends on the reason that was found.
func TestMend(t *testing.T) {
	for _, tt := range []struct {
		name   string
		around around
		err    error
		ask    func(around, error) string
		want   string // part of the advice
	}{
		{"userns limit", around{maxUser: "0"}, unix.ENOSPC, mendNS, "sysctl -w user.max_user_namespaces=15000"},
		{"userns limit in a container", around{maxUser: "0", signs: []string{"x"}}, unix.ENOSPC, mendNS, "on the host"},
		{"root of a rootless container", around{root: true, unmapped: true, signs: []string{"x"}}, unix.EPERM, mendNS, "as a user other than root"},
		{"debian's knob", around{cloning: "0"}, unix.EPERM, mendNS, "kernel.unprivileged_userns_clone=1"},
		{"debian's knob is not for root", around{cloning: "0", root: true}, unix.EPERM, mendNS, "dmesg"},
		{"ubuntu's knob", around{apparmor: "1"}, unix.EPERM, mendNS, "kernel.apparmor_restrict_unprivileged_userns=0"},
		{"ubuntu's knob shows in a mount", around{apparmor: "1"}, unix.EACCES, mendMnt, "kernel.apparmor_restrict_unprivileged_userns=0"},
		{"too deep", around{}, unix.EUSERS, mendNS, "32 levels"},
		{"kernel without", around{}, unix.EINVAL, mendNS, "CONFIG_NAMESPACES"},
		{"wsl 1", around{kernel: "4.4.0-19041-Microsoft"}, unix.EINVAL, mendNS, "wsl --set-version"},
		{"chroot", around{chroot: true}, unix.EPERM, mendNS, "pivot_root"},
		{"docker's filter", around{filtered: true, runtime: "docker"}, unix.EPERM, mendNS, "docker run --security-opt seccomp=unconfined"},
		{"a pod's filter", around{filtered: true, runtime: "kubernetes"}, unix.EPERM, mendNS, "seccompProfile"},
		{"a service's filter", around{filtered: true}, unix.EPERM, mendNS, "RestrictNamespaces=no"},
		{"masked proc in docker", around{covered: []string{"/proc/kcore"}, runtime: "docker"}, unix.EPERM, mendPrc, "systempaths=unconfined"},
		{"masked proc in a pod", around{covered: []string{"/proc/kcore"}, runtime: "kubernetes"}, unix.EPERM, mendPrc, "procMount: Unmasked"},
		{"covered proc", around{covered: []string{"/proc/kcore", "/proc/x"}}, unix.EPERM, mendPrc, "umount /proc/kcore /proc/x"},
		{"old kernel", around{}, unix.ENOSYS, mendMnt, "Linux 5.12"},
		{"docker's cgroups", around{runtime: "docker", root: true}, nil, mendGrp, "writable-cgroups=true"},
		{"podman's cgroups", around{runtime: "podman", root: true}, nil, mendGrp, "unmask=/sys/fs/cgroup"},
		{"read-only cgroups", around{root: true, cgroups: true, cgroupRO: []string{"/sys/fs/cgroup"}}, nil, mendGrp, "mount -o remount,rw /sys/fs/cgroup"},
		{"read-only trees of version 1", around{root: true, cgroups: true, cgroupRO: []string{"/a", "/b"}}, nil, mendGrp, "for tree in /a /b; do mount -o remount,rw"},
		{"no cgroups", around{root: true}, nil, mendGrp, "mount -t cgroup2"},
		{"no tree to kill by", around{root: true, cgroups: true}, nil, mendKil, "mount -t cgroup2"},
		{"a tree to kill by that is not ours", around{systemd: true, cgroups: true, scope: inService}, nil, mendKil, "Delegate=yes"},
		{"a user's service", around{systemd: true, cgroups: true, scope: inService}, nil, mendGrp, "Delegate=yes"},
		{"a user without a service manager", around{systemd: true, cgroups: true, scope: noManager}, nil, mendGrp, "enable-linger"},
		{"a service manager that does not answer", around{systemd: true, cgroups: true, scope: cgroup.Scope{Err: context.DeadlineExceeded}}, nil, mendGrp, "systemctl --user status"},
		{"a service manager without controllers", around{systemd: true, cgroups: true, scope: cgroup.Scope{Name: "x.scope", Missing: []string{"cpu"}}}, nil, mendGrp, "Delegate=cpu io memory pids"},
		{"a user of systemd with version 1", around{systemd: true, cgroups: true}, nil, mendGrp, "as root"},
		{"a container with systemd outside", around{systemd: true, cgroups: true, scope: inContainer}, nil, mendGrp, "as root"},
		{"a user without", around{cgroups: true}, nil, mendGrp, "as root"},
	} {
		if got := tt.ask(tt.around, tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want it to name %q", tt.name, got, tt.want)
		}
	}
}

func mendNS(a around, err error) string { return a.mendNamespaces(err) }
func mendMnt(a around, _ error) string  { return a.mendMounts() }
func mendPrc(a around, _ error) string  { return a.mendProc() }
func mendKil(a around, _ error) string  { return a.mendKill() }
func mendGrp(a around, _ error) string  { return a.mendCgroups() }

func TestReadMounts(t *testing.T) {
	const host = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 27 0:21 / /proc rw,relatime - proc none rw
33 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw
30 27 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 none rw
`
	const docker = `500 400 0:50 / / rw,relatime master:1 - overlay none rw,lowerdir=/l
501 500 0:51 / /proc rw,nosuid - proc none rw,hidepid=invisible
502 501 0:52 / /proc/acpi ro - tmpfs none ro
503 501 0:53 /null /proc/kcore rw,nosuid - tmpfs none rw
504 500 0:54 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw
`
	var a around
	a.readMounts(host)
	if a.chroot || len(a.covered) > 0 || len(a.cgroupRO) > 0 || !a.cgroups || a.inContainer() || a.hiding {
		t.Errorf("a plain host: %+v", a)
	}
	a = around{}
	a.readMounts(docker)
	if a.chroot || strings.Join(a.covered, " ") != "/proc/acpi /proc/kcore" || len(a.cgroupRO) != 1 || !a.cgroup2 || !a.overlay || !a.hiding {
		t.Errorf("a container: %+v", a)
	}
	a = around{}
	a.readMounts("1 2 0:1 / /proc rw - proc none rw\nnonsense\n")
	if !a.chroot || a.cgroups {
		t.Errorf("a chroot: %+v", a)
	}
}

func TestReadStatus(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n": true,
		"Name:\tx\nSeccomp:\t0\n":                      false,
		"":                                             false,
	} {
		if got := hasFilter(text); got != want {
			t.Errorf("hasFilter(%q) = %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":                     true,
		"         0       1000          1\n":                     false,
		"0 1000 1\n1 100000 65536\n":                             false,
		"0 1000 1\n" + "1879048192 1879048192 65536\nnonsense\n": true,
		"": false,
	} {
		if got := hasUser(text, firstUID); got != want {
			t.Errorf("hasUser(%q) = %v, want %v", text, got, want)
		}
	}
	const table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t"
	if memoryDisabled(table+"1\n") || !memoryDisabled(table+"0\n") || memoryDisabled("") {
		t.Error("whether memory is disabled is not read from /proc/cgroups")
	}
}

func TestDescribeLandlock(t *testing.T) {
	for _, tt := range []struct {
		version int
		word    string
		has     []string
		lost    []string
	}{
		{2, "weak", []string{"version 2: changes to files"}, []string{"ioctl_dev", "scoped"}},
		{5, "weak", []string{"ioctl_dev"}, []string{"scoped"}},
		{6, "ok", []string{"scoped"}, nil},
		{7, "ok", []string{"scoped"}, nil},
	} {
		var c Check
		describeLandlock(&c, tt.version)
		if c.Word() != tt.word {
			t.Errorf("version %d is %s, want %s", tt.version, c.Word(), tt.word)
		}
		for _, want := range tt.has {
			if !strings.Contains(c.Detail, want) {
				t.Errorf("version %d: detail %q lacks %q", tt.version, c.Detail, want)
			}
		}
		for _, want := range tt.lost {
			if !strings.Contains(c.Degraded, "no "+want) {
				t.Errorf("version %d: %q does not name the loss of %q", tt.version, c.Degraded, want)
			}
		}
	}
}

// The host alone decides how the commands of a box are separated.
func TestCheckApart(t *testing.T) {
	for _, tt := range []struct {
		nested  bool
		version landlock
		word    string
		has     string
	}{
		{false, 7, "ok", "Landlock domain"},
		{false, 6, "ok", "or signals it"},
		{false, 2, "weak", "Landlock domain"},
		{true, 6, "ok", "pid namespace"},
		{true, 1, "weak", "no Landlock"},
		{true, 0, "weak", "no Landlock"},
	} {
		if c := checkApart(tt.nested, tt.version); c.Word() != tt.word || !strings.Contains(c.Detail, tt.has) {
			t.Errorf("nested %v, version %d: got %s, %q; want %s, %q", tt.nested, tt.version, c.Word(), c.Detail, tt.word, tt.has)
		}
		apart := signalsApart(tt.nested, tt.version)
		if says := strings.Contains(checkApart(tt.nested, tt.version).Degraded, "signal"); says == apart {
			t.Errorf("nested %v, version %d: signals are apart: %v; doctor says that they are not: %v", tt.nested, tt.version, apart, says)
		}
	}
}

// An attempt that fails keeps its errno and what was tried on the way.
func TestTriedError(t *testing.T) {
	got := tried{Name: "mounts: x", Text: "mounts: x: open_tree", Errno: syscall.EPERM}.err()
	if got == nil || got.Error() != "mounts: x: open_tree: operation not permitted" {
		t.Errorf("got %v", got)
	}
	if err := (tried{Name: "proc"}).err(); err != nil {
		t.Errorf("one that worked: %v", err)
	}
}
