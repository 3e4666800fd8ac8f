// Package testenv defines what a test needs of its machine, and checks that the tests of a
// package leave nothing behind.
//
// A test calls Need in its first line. If a need is not met, the test is skipped with a
// line that gives the reason. It fails instead if TEST_REQUIRE requires the need:
// TEST_REQUIRE is "all", or a list of needs by name, separated by commas. A package that
// starts processes, goroutines or mounts calls Main from its TestMain.
package testenv

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Thing is something that a test may need of the machine, or of the user that runs it.
type Thing struct {
	Name string // name in TEST_REQUIRE

	// either is the name of a set of things that exclude each other on one machine or for
	// one user. For such a set, TEST_REQUIRE=all requires only one thing: the tests that
	// need another one run on another machine, or as another user.
	either string
	// optional reports whether TEST_REQUIRE=all does not require the thing, because only a
	// guest of internal/vmtest has it or CI does without it. TEST_REQUIRE with its name
	// still requires it.
	optional bool
	lack     func() string // returns what is missing; empty if the need is met
}

// The things that tests may need.
var (
	Root           = Thing{Name: "root", either: "who", lack: lackRoot}
	User           = Thing{Name: "user", either: "who", lack: lackUser}
	UserNamespaces = Thing{Name: "userns", lack: lackUserNamespaces}
	Cgroup1        = Thing{Name: "cgroup1", either: "cgroup", lack: lackCgroup1}
	Cgroup2        = Thing{Name: "cgroup2", either: "cgroup", lack: lackCgroup2}
	Loop           = Thing{Name: "loop", either: "storage", lack: lackLoop}
	ProjectQuota   = Thing{Name: "prjquota", either: "storage", lack: lackProjectQuota}
	Bash           = Thing{Name: "bash", lack: lackProgram("bash")}
	Bwrap          = Thing{Name: "bwrap", lack: lackProgram("bwrap")}
	Curl           = Thing{Name: "curl", lack: lackProgram("curl")}
	Git            = Thing{Name: "git", lack: lackProgram("git")}
	Go             = Thing{Name: "go", lack: lackProgram("go")}
	Nginx          = Thing{Name: "nginx", lack: lackProgram("nginx")}
	Caddy          = Thing{Name: "caddy", optional: true, lack: lackCaddy}
	Make           = Thing{Name: "make", lack: lackProgram("make")}
	Apt            = Thing{Name: "apt", lack: lackProgram("apt-get")}
	Perl           = Thing{Name: "perl", lack: lackProgram("perl")}
	Python         = Thing{Name: "python", lack: lackProgram("python3")}
	Npm            = Thing{Name: "npm", lack: lackProgram("npm")}
	Node           = Thing{Name: "node", lack: lackNode(18)} // 18 is the first version with fetch
	Node22         = Thing{Name: "node22", lack: lackNode(22)}
	Libseccomp     = Thing{Name: "libseccomp", lack: lackLibseccomp}
	Chromium       = Thing{Name: "chromium", lack: lackChromium}
	Tun            = Thing{Name: "tun", lack: lackTun}
	Login          = Thing{Name: "login", optional: true, lack: lackLogin}
	Systemd        = Thing{Name: "systemd", optional: true, lack: lackSystemd}
)

// all returns all things, to find the alternatives of one.
func all() []Thing {
	return []Thing{Root, User, UserNamespaces, Cgroup1, Cgroup2, Loop, ProjectQuota, Bash, Bwrap, Curl, Git, Go, Nginx, Caddy, Make, Apt, Perl, Python, Npm, Node, Node22, Libseccomp, Chromium, Tun, Login, Systemd}
}

// Missing returns what the machine lacks for n; empty if n is met.
func (n Thing) Missing() string { return n.lack() }

// Need skips the test if one of the things is missing, or fails it if TEST_REQUIRE requires
// that thing. It must be called in the first line of a test.
func Need(t testing.TB, things ...Thing) {
	t.Helper()
	for _, n := range things {
		why := n.lack()
		if why == "" {
			continue
		}
		if required(os.Getenv("TEST_REQUIRE"), n, all()) {
			t.Fatalf("needs %s, and TEST_REQUIRE=%s asks for it: %s", n.Name, os.Getenv("TEST_REQUIRE"), why)
		}
		t.Skipf("needs %s: %s", n.Name, why)
	}
}

// Have reports whether the machine has all of the things. It returns an error if a missing
// one is required by TEST_REQUIRE.
func Have(things ...Thing) (bool, error) {
	for _, n := range things {
		why := n.lack()
		if why == "" {
			continue
		}
		if required(os.Getenv("TEST_REQUIRE"), n, all()) {
			return false, fmt.Errorf("needs %s, and TEST_REQUIRE=%s asks for it: %s", n.Name, os.Getenv("TEST_REQUIRE"), why)
		}
		return false, nil
	}
	return true, nil
}

// NeedForExamples skips the examples of a package if one of the things is missing, and
// prints a line with the reason. If TEST_REQUIRE requires that thing, it ends the process
// instead. An example cannot skip itself. NeedForExamples must be called in TestMain,
// before Main.
func NeedForExamples(things ...Thing) {
	flag.Parse()
	for _, n := range things {
		why := n.lack()
		switch {
		case why == "":
			continue
		case required(os.Getenv("TEST_REQUIRE"), n, all()):
			fmt.Fprintf(os.Stderr, "FAIL: the examples need %s, and TEST_REQUIRE=%s asks for it: %s\n", n.Name, os.Getenv("TEST_REQUIRE"), why)
			os.Exit(1)
		}
		skip := "^Example"
		if old := flag.Lookup("test.skip").Value.String(); old != "" {
			skip += "|" + old
		}
		fmt.Fprintf(os.Stderr, "--- SKIP: the examples need %s: %s\n", n.Name, why)
		_ = flag.Set("test.skip", skip) // the value is a valid text, which is compiled later
		return
	}
}

// NeedCgroups skips the test if this user has no cgroups of either version, because none is
// delegated to the user. Root always has some.
func NeedCgroups(t testing.TB) {
	t.Helper()
	if Cgroup1.Missing() != "" && Cgroup2.Missing() != "" {
		Need(t, Root)
	}
}

// required reports whether a missing n is a failure. want is the value of TEST_REQUIRE.
func required(want string, n Thing, known []Thing) bool {
	for name := range strings.SplitSeq(want, ",") {
		switch strings.TrimSpace(name) {
		case n.Name:
			return true
		case "all":
			if n.optional {
				continue
			}
			if n.either == "" {
				return true
			}
			met := false
			for _, other := range known {
				met = met || other.either == n.either && other.lack() == ""
			}
			if !met {
				return true
			}
		}
	}
	return false
}

func lackRoot() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "the tests run as uid " + strconv.Itoa(os.Geteuid()) + ", not as root"
}

func lackUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	return "the tests run as root; `make test` runs them as an ordinary user too"
}

func lackProgram(name string) func() string {
	return func() string {
		if _, err := exec.LookPath(name); err != nil {
			return "no " + name + " on the PATH; `make test` as root installs it"
		}
		return ""
	}
}

// lackCaddy looks for Caddy, which no script of belljar installs.
func lackCaddy() string {
	if _, err := exec.LookPath("caddy"); err != nil {
		return "no caddy on the PATH; Debian has it in the package caddy"
	}
	return ""
}

// lackUserNamespaces makes a user namespace. Whether this is allowed depends on sysctls, on
// security modules and on the container around us.
func lackUserNamespaces() string {
	out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput() //nolint:noctx // answers at once or is broken
	if err != nil {
		return "unshare --user --map-root-user: " + err.Error() + ": " + strings.TrimSpace(string(out))
	}
	return ""
}

// lackLogin looks for a login session of an ordinary user on a host with systemd.
func lackLogin() string {
	if why := lackUser(); why != "" {
		return why
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !loginScope.Match(text) {
		return "the tests do not run in a login session of systemd; `make test-vm-systemd` runs them in one"
	}
	return ""
}

var loginScope = regexp.MustCompile(`(?m)^0::/user\.slice/user-\d+\.slice/session-\w+\.scope$`)

// lackSystemd looks for root in a guest whose services the tests may change.
func lackSystemd() string {
	if why := lackRoot(); why != "" {
		return why
	}
	if _, err := os.Stat("/run/systemd/system/vmtest.service"); err != nil {
		return "the tests do not run in a guest with systemd; `make test-vm-systemd` runs them in one"
	}
	return ""
}

// lackNode looks for a Node.js of at least a major version.
func lackNode(least int) func() string {
	return func() string {
		path, err := exec.LookPath("node")
		if err != nil {
			return "no node on the PATH"
		}
		out, err := exec.Command(path, "--version").Output() //nolint:noctx // answers at once or is broken
		if err != nil {
			return "node --version: " + err.Error()
		}
		version := strings.TrimSpace(string(out))
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		if n, err := strconv.Atoi(major); err != nil || n < least {
			return fmt.Sprintf("node is %s, older than %d", version, least)
		}
		return ""
	}
}

// lackLibseccomp looks for what a build against libseccomp needs.
func lackLibseccomp() string {
	out, err := exec.Command("gcc", "-xc", "-E", "-include", "seccomp.h", "/dev/null").CombinedOutput() //nolint:noctx // answers at once or is broken
	if err != nil {
		_, cause, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "gcc with seccomp.h: " + err.Error() + ": " + cause + "; `make test` as root installs them"
	}
	return ""
}

func lackCgroup2() string {
	for _, dir := range cgroupDirs() {
		controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil || !strings.Contains(string(controllers), "memory") {
			continue
		}
		if writable(dir) {
			return ""
		}
		return dir + " is not writable for uid " + strconv.Itoa(os.Geteuid())
	}
	return "no cgroup v2 tree with a memory controller"
}

func lackCgroup1() string {
	for _, dir := range cgroupDirs() {
		if _, err := os.Stat(filepath.Join(dir, "memory.limit_in_bytes")); err != nil {
			continue
		}
		if writable(dir) {
			return ""
		}
		return dir + " is not writable for uid " + strconv.Itoa(os.Geteuid())
	}
	return "no cgroup v1 memory controller"
}

// cgroupDirs returns this process's own directory, and the mount point, of every mounted
// hierarchy.
func cgroupDirs() []string {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	path := make(map[string]string) // path by list of controllers; the key "" is for the v2 tree
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			path[parts[1]] = parts[2]
		}
	}
	var dirs []string
	for line := range strings.Lines(string(info)) {
		mount, super, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(super)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		at := strings.ReplaceAll(fields[4], `\040`, " ") // the kernel writes a space as \040
		switch kind[0] {
		case "cgroup2":
			dirs = append(dirs, filepath.Join(at, path[""]), at)
		case "cgroup":
			for controllers, dir := range path {
				if controllers != "" && strings.Contains(","+kind[2]+",", ","+controllers+",") {
					dirs = append(dirs, filepath.Join(at, dir), at)
				}
			}
		}
	}
	return dirs
}

// writable reports whether a directory can be made in dir. It tries, because the mode does
// not show a read-only mount.
func writable(dir string) bool {
	probe, err := os.MkdirTemp(dir, "testenv-probe-")
	if err != nil {
		return false
	}
	return os.Remove(probe) == nil
}

// lackChromium looks for Chromium by common names. Package browser knows more of
// them, but this package may import nothing.
func lackChromium() string {
	for _, name := range []string{"chromium-headless-shell", "chrome-headless-shell", "headless_shell", "chromium", "chromium-browser"} {
		if _, err := exec.LookPath(name); err == nil {
			return ""
		}
	}
	return "no Chromium"
}

// lackTun opens the device with which programs make network interfaces.
func lackTun() string {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	return ""
}
