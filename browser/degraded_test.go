package browser_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// unnestedEnv has the test be run in a process to which the host allows boxes and
// no namespaces like those of Chrome's own sandbox.
const unnestedEnv = "BELLJAR_TEST_UNNESTED"

// unnest does that by a filter for system calls, as some hosts do by a security
// module: a user namespace is made with a mount namespace, or not at all.
func unnest() error {
	const (
		number = 0  // seccomp_data.nr
		flags  = 16 // seccomp_data.args[0]
	)
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_UNSHARE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: flags, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWNS, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_NEWUSER, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	})
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return errno
	}
	return nil
}

// Where Chrome's own sandbox cannot work, a page is loaded only if the policy
// takes that, is marked, and is behind the walls of its box; and the doctor says
// so. Where it can, degraded is no other word for off.
func TestDegraded(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	unnested := os.Getenv(unnestedEnv) != ""
	if !unnested {
		defer func() {
			c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestDegraded$", "-test.v", "-test.timeout=2m")
			c.Env = append(os.Environ(), unnestedEnv+"=1")
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("where no namespaces nest: %v", err)
			}
			t.Logf("where no namespaces nest:\n%s", out)
		}()
	}
	r := newRig(t, browser.Config{})
	if unnested {
		if err := unnest(); err != nil {
			t.Fatal(err)
		}
	}
	r.page("/", "<!doctype html><p>x")
	grant := func(mode string) policies.Grant {
		return policytest.GrantFor(t, strings.NewReplacer("PORT", strings.TrimPrefix(r.web.URL, "http://127.0.0.1:"), "MODE", mode).Replace(`version: 1
defaults: {decision: allow, profile: pages}
profiles: {pages: {browser: MODE, net: {mode: proxy, allow_private: ["site.example:PORT"]}}}
`), policies.Facts{Tenant: mode, Tool: "ReadDocs"})
	}
	l, err := r.pool.Load(t.Context(), grant("sandboxed"), browser.Request{URL: r.url("/")})
	switch {
	case unnested && (browser.KindOf(err) != browser.KindAbsent || !strings.Contains(err.Error(), "belljar browser doctor")):
		t.Errorf("sandboxed: got %+v, %v; want a refusal that says who knows more", l, err)
	case !unnested && (err != nil || l.Degraded):
		t.Errorf("sandboxed: got %+v, %v", l, err)
	}
	l, err = r.pool.Load(t.Context(), grant("degraded"), browser.Request{URL: r.url("/")})
	if err != nil || l.Degraded != unnested {
		t.Errorf("degraded: got %+v, %v; want degraded %v", l, err, unnested)
	}
	bare := 0
	for _, b := range r.sup.Boxes() {
		if g := b.Grant(); !g.NestsNamespaces() {
			bare++
		}
	}
	if unnested != (bare == 1) {
		t.Errorf("%d boxes without nesting; degraded %v", bare, unnested)
	}
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	checks := browser.Examine(t.Context(), s, policytest.GrantProfile(t, "browser: degraded"), "")
	for _, c := range checks {
		t.Logf("%+v", c)
		if own := c.Name == "its own sandbox"; own && c.OK == unnested || !own && !c.OK {
			t.Errorf("doctor: %+v", c)
		}
	}
}
