package browser_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
)

// TestTakenOver checks a process that has taken over a whole browser, and not only a
// renderer in it: its box lets nothing out, and it sees nothing of the workspace, the host
// or another tenant. TestEscape in package sandbox shows that each of these acts succeeds
// outside.
func TestTakenOver(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	if err := escape.NewWorkspace(dir); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of := func(tenant string) policies.Grant {
		g, err := (&rig{t: t, port: 1}).grant(tenant).ForBrowser(policies.BrowserBox{Nested: true})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	suite, err := escape.Open(t.Context(), escape.Config{Supervisor: s, Workspace: dir, Attacker: of("attacker"), Neighbour: of("neighbour")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	wanted := []escape.Category{escape.Filesystem, escape.Proc, escape.Devices, escape.Credentials, escape.Namespaces, escape.Syscalls, escape.Network, escape.Tenants}
	// The box has the parts of Chrome's own sandbox, and TestNestedNamespaces shows that
	// they cannot be misused. It has no workspace that could be found. How a CPU is shared
	// cannot be seen.
	other := []string{"N01", "N02", "N05", "N06", "F18", "T26"}
	held := map[escape.Category]int{}
	for _, p := range suite.Probes() {
		if !slices.Contains(wanted, p.Category) || slices.Contains(other, p.ID) {
			continue
		}
		t.Run(p.ID, func(t *testing.T) {
			inside := suite.Inside(t.Context(), p)
			if !p.Held(inside) {
				t.Errorf("%s: inside got through %v, want %v: %s %v", p.Name, inside.Through, p.Works, inside.Detail, inside.Err)
			}
			held[p.Category]++
		})
	}
	t.Log(held)
}

// TestRenderer checks that a renderer, in which the page's own code runs, has less than its
// box: no files, a network without even the door, no other processes, no rights, and
// Chrome's own system call filter on top of the box's.
func TestRenderer(t *testing.T) {
	r := newRig(t, browser.Config{})
	t.Setenv("BELLJAR_TEST_SECRET", "a-secret-of-the-host")
	r.page("/", "<!doctype html><p>x")
	r.must(browser.Request{URL: r.url("/")})
	all := processes(t)
	if len(all["renderer"]) == 0 || len(all[""]) == 0 {
		t.Fatalf("no renderer: %v", all)
	}
	box := look(t, all[""][0])
	looked := 0
	for _, pid := range all["renderer"] {
		p := look(t, pid)
		if p.spaces["net"] == "" && ends(pid) {
			continue // it belonged to the page before
		}
		looked++
		for _, space := range []string{"user", "pid", "net"} {
			if p.spaces[space] == box.spaces[space] || p.spaces[space] == "" {
				t.Errorf("renderer %d: its %s namespace is %q, that of the browser %q", pid, space, p.spaces[space], box.spaces[space])
			}
		}
		for _, rights := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if v := p.status[rights]; strings.Trim(v, "0") != "" {
				t.Errorf("renderer %d: %s is %s", pid, rights, v)
			}
		}
		if p.status["NoNewPrivs"] != "1" || number64(t, p.status["Seccomp_filters"]) <= number64(t, box.status["Seccomp_filters"]) {
			t.Errorf("renderer %d: NoNewPrivs %s, %s filters, the browser %s", pid, p.status["NoNewPrivs"], p.status["Seccomp_filters"], box.status["Seccomp_filters"])
		}
		// The namespaces are those of the host, the box, Chrome's zygote, and the renderer
		// itself.
		if n := len(strings.Fields(p.status["NSpid"])); n < 4 {
			t.Errorf("renderer %d: pid namespaces %q, want one below that of its box's browser", pid, p.status["NSpid"])
		}
		for id := range strings.FieldsSeq(p.status["Uid"] + " " + p.status["Gid"]) {
			if id == "0" || os.Getuid() != 0 && id != strconv.Itoa(os.Getuid()) {
				t.Errorf("renderer %d: it runs as %s of the host", pid, id)
			}
		}
		if os.Getuid() == 0 && len(p.root) > 0 {
			t.Errorf("renderer %d: it sees the files %q", pid, p.root)
		}
		if strings.Contains(p.environ, "a-secret-of-the-host") {
			t.Errorf("renderer %d has the host's environment", pid)
		}
		for _, f := range p.open {
			own := slices.ContainsFunc(strings.Fields(p.status["NSpid"]), func(n string) bool { return strings.HasPrefix(f, "/proc/"+n+"/stat") })
			if strings.HasPrefix(f, "/") && !own && !strings.HasPrefix(f, "/usr/") && !strings.HasPrefix(f, "/dev/") && !strings.HasPrefix(f, "/memfd:") && !strings.HasPrefix(f, "/tmp/") {
				t.Errorf("renderer %d: it has %s open", pid, f)
			}
		}
		t.Logf("renderer %d: root %q, pids %q, filters %s, open %q", pid, p.root, p.status["NSpid"], p.status["Seccomp_filters"], p.open)
	}
	if looked == 0 {
		t.Error("each renderer ended before it was looked at")
	}
}

// ends reports whether a process ends by itself within a few seconds.
func ends(pid int) bool {
	return testenv.Until(3*time.Second, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err != nil
	})
}

// process is what /proc of the host says about a process.
type process struct {
	status  map[string]string
	spaces  map[string]string
	root    []string // names of the files in its root directory
	environ string
	open    []string
}

func look(t *testing.T, pid int) process {
	t.Helper()
	p := process{status: map[string]string{}, spaces: map[string]string{}}
	at := fmt.Sprintf("/proc/%d/", pid)
	status, _ := os.ReadFile(at + "status") // empty if the process has ended
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		p.status[key] = strings.TrimSpace(value)
	}
	for _, space := range []string{"user", "pid", "net", "mnt"} {
		p.spaces[space], _ = os.Readlink(at + "ns/" + space)
	}
	if files, err := os.ReadDir(at + "root"); err == nil {
		for _, f := range files {
			p.root = append(p.root, f.Name())
		}
	}
	environ, _ := os.ReadFile(at + "environ")
	p.environ = string(environ)
	if files, err := os.ReadDir(at + "fd"); err == nil {
		for _, f := range files {
			to, _ := os.Readlink(at + "fd/" + f.Name())
			p.open = append(p.open, to)
		}
	}
	return p
}

func number64(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
