package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
)

// The ways out by files are no wider if the workspace is an overlay.
func TestEscapeFromAnOverlay(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	if err := escape.NewWorkspace(dir); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Workspace: dir, State: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	policy := strings.ReplaceAll(escapePolicy, "workspace: rw", "workspace: overlay")
	grant := func(tenant, profile string) policies.Grant {
		return policytest.GrantFor(t, policy, policies.Facts{Tenant: tenant, Tool: "Bash", Command: "true", Profile: profile})
	}
	suite, err := escape.Open(t.Context(), escape.Config{
		Supervisor: s, Workspace: dir,
		Attacker: grant("attacker", ""), Neighbour: grant("neighbour", ""), Slow: grant("attacker", "slow"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	tried := 0
	for _, p := range suite.Probes() {
		if p.Category != escape.Filesystem {
			continue
		}
		tried++
		t.Run(p.ID, func(t *testing.T) {
			if inside := suite.Inside(t.Context(), p); !p.Held(inside) {
				t.Errorf("%s: got through %v, want %v: %s %v", p.Name, inside.Through, p.Works, inside.Detail, inside.Err)
			}
		})
	}
	if tried < 10 {
		t.Errorf("%d probes were tried", tried)
	}
}

// Nothing that a box can do to its layer, and nothing that was planted in the workspace,
// leads out of the box.
func TestOverlayHolds(t *testing.T) {
	testenv.Need(t, testenv.Perl)
	s, dir, state := overlaid(t)
	outside := t.TempDir()
	write(t, outside+"/secret", "secret\n")
	write(t, dir+"/.git-hooks", "mine\n")
	write(t, dir+"/content", "mine\n")
	for _, name := range []string{"redirected", "opaque"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "file"), "mine\n")
	}
	for _, x := range [][3]string{
		{"redirected", "user.overlay.redirect", outside},
		{"opaque", "user.overlay.opaque", "y"},
		{"content", "user.overlay.metacopy", ""},
		{"content", "user.overlay.redirect", outside + "/secret"},
	} {
		if err := unix.Setxattr(filepath.Join(dir, x[0]), x[1], []byte(x[2]), 0); err != nil {
			t.Skipf("set %s: %v", x[1], err)
		}
	}
	if err := os.Symlink(outside, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), "box", overlayGrant(t))
	if err != nil {
		t.Fatal(err)
	}
	_, out := shell(t, b, lines(
		"cat content redirected/file redirected/secret opaque/file link/secret 2>&1",
		"mknod w c 0 0 && echo made a whiteout", "mknod -m 666 null c 1 3 && echo made a device",
		fmt.Sprintf(`perl -e 'for my $n ("user.overlay.redirect", "user.overlay.opaque", "trusted.overlay.opaque") { my ($name, $dir, $value) = ($n, "opaque", "y"); syscall(%d, $dir, $name, $value, 1, 0) }'`, unix.SYS_SETXATTR),
		"cat opaque/file",
		"mount -t overlay x /mnt && echo mounted; umount /workspace && echo unmounted",
		"cat /proc/self/mountinfo | grep ' /workspace '",
		"ln -sfn "+outside+" opaque/link; echo x > link/new; echo y > redirected/new; true",
	))
	for _, bad := range []string{"\nsecret\n", "made a", "mounted\n", outside, state, dir} {
		if strings.Contains("\n"+out, bad) {
			t.Errorf("%q is in: %s", bad, out)
		}
	}
	if strings.Count(out, "mine\n") != 3 { // redirected/file, opaque/file twice
		t.Errorf("got %s", out)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"added opaque/link", "added redirected/new"}, changes(t, state, "box", dir)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
