package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/images/imagetest"
	"belljar.dev/sandbox/limit"
)

// imageWorld returns a supervisor whose store has the image "test".
func imageWorld(t testing.TB, r imagetest.Runtime, layers ...[]byte) (*sandbox.Supervisor, *images.Store) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	store, err := images.Open(images.Config{Dir: filepath.Join(state, "images")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Import(t.Context(), "test", images.Source{Path: imagetest.Layout(t, r, layers...)}); err != nil {
		t.Fatal(err)
	}
	s, _ := worldOf(t, sandbox.Config{State: state})
	return s, store
}

func imageGrant(t testing.TB, more string) policies.Grant {
	t.Helper()
	return policytest.GrantProfile(t, "fs: {image: test, workspace: rw"+more+"}")
}

// layersOf returns an image in two layers: the second layer hides and changes what is in
// the first.
func layersOf(t testing.TB, programs ...string) [][]byte {
	t.Helper()
	base := imagetest.HostRoot(t, programs...)
	base = append(base,
		imagetest.File("etc/motd", "old\n", 0o644), imagetest.File("etc/gone", "", 0o644), imagetest.File("etc/passwd", "root:x:0:0::/:/bin/sh\n", 0o644),
		imagetest.File("srv/secret", "readable\n", 0o600), imagetest.Link("home", "/srv"), imagetest.Link("workspace", "/etc"),
		imagetest.Link("proc/x", "/"), imagetest.Link("etc/hosts", "/srv/secret"), imagetest.File("dev/null", "no device", 0o644))
	top := imagetest.Tar(t, imagetest.File("etc/motd", "new\n", 0o644), imagetest.File("etc/.wh.gone", "", 0), imagetest.Link("tmp", "/srv"), imagetest.Link("run", "/nowhere"))
	return [][]byte{imagetest.Tar(t, base...), top}
}

func TestImage(t *testing.T) {
	s, _ := imageWorld(t, imagetest.Runtime{
		Env: []string{"FROM=image", "BOTH=image", "HOME=/root", "BASH_ENV=/etc/motd"}, User: "postgres", WorkingDir: "/srv/app",
	}, layersOf(t, "bash", "cat", "ls", "id", "touch", "mkdir")...)
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test, workspace: rw}\nenv: {BOTH: profile}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ script, want string }{
		{"cat /etc/motd; ls /etc/gone 2>/dev/null || echo hidden", "new\nhidden\n"},
		{"cat /srv/secret", "readable\n"},
		{"id -u; id -un", "1000\nagent\n"},
		{"cat /etc/hosts", "127.0.0.1 localhost belljar\n::1 localhost\n"},
		{"echo $FROM $BOTH $HOME $USER; pwd", "image profile /home/agent agent\n/workspace\n"},
		{"echo x >/workspace/x && cat /workspace/x", "x\n"},
		{"for d in /tmp /home/agent /run/user /dev/shm /var/tmp; do echo x > $d/x || echo $d; done; cat /tmp/x", "x\n"},
		{"for d in / /etc /usr /srv /srv/app /usr/bin /home /proc; do touch $d/x 2>/dev/null && echo $d; done; true", ""},
		{"mkdir /new 2>/dev/null; echo x 2>/dev/null >/etc/motd; echo x 2>/dev/null >/etc/passwd; echo $?", "1\n"},
		{"echo x > /dev/null; cat /dev/null; ls -d /proc/self", "/proc/self\n"},
		{"cd /srv/app; pwd", "/srv/app\n"},
	} {
		for _, way := range []string{"cold", "warm"} {
			if way == "warm" && !b.WaitWarm() {
				t.Fatal("there is no warm shell")
			}
			if _, out := shell(t, b, tt.script); out != tt.want {
				t.Errorf("%s, %s: got %q, want %q", way, tt.script, out, tt.want)
			}
		}
	}
}

// Without a workspace, commands start in the directory that the image names, unless a mount
// of the box or of the profile hides it.
func TestImageStartDir(t *testing.T) {
	const home = "/home/agent"
	layers, mounted := [][]byte{imagetest.Tar(t, imagetest.HostRoot(t, "bash")...)}, t.TempDir()
	for _, tt := range []struct{ dir, profile, want string }{
		{"", "fs: {image: test}", "/tmp"},
		{"/srv/app", "fs: {image: test}", "/srv/app"},
		{"/srv/app", "fs: {image: test, workspace: rw}", "/workspace"},
		{"/", "fs: {image: test}", "/tmp"},
		{"/opt", "fs: {image: test, read: [" + mounted + ":/opt/x]}", "/opt"},
		{"/opt/x/y", "fs: {image: test, read: [" + mounted + ":/opt/x]}", "/tmp"},
		{"/run/app", "fs: {image: test}", "/tmp"},
		{"/var/tmp/app", "fs: {image: test}", "/tmp"},
		{home, "fs: {image: test}", home},
		{home + "/app", "fs: {image: test}", "/tmp"},
	} {
		s, _ := imageWorld(t, imagetest.Runtime{WorkingDir: tt.dir}, layers...)
		g := policytest.GrantProfile(t, tt.profile)
		before := s.Home().StartDir(g)
		b, err := s.Open(t.Context(), "box", g)
		if err != nil {
			t.Fatal(err)
		}
		r, out := shell(t, b, "pwd")
		if before != tt.want || b.StartDir() != tt.want || r.Code != 0 || out != tt.want+"\n" {
			t.Errorf("%s of %q: %q before the box, %q in it, and pwd %q; want %q", tt.profile, tt.dir, before, b.StartDir(), out, tt.want)
		}
	}
}

// The host's own directories must not be visible.
func TestImageHidesHost(t *testing.T) {
	s, store := imageWorld(t, imagetest.Runtime{}, layersOf(t, "bash", "ls", "cat")...)
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test}"))
	if err != nil {
		t.Fatal(err)
	}
	_, out := shell(t, b, "pwd; ls -a /; ls /etc")
	for _, name := range []string{"root", "boot", "shadow", "fstab", "own", "image"} {
		for line := range strings.Lines(out) {
			if strings.TrimSpace(line) == name {
				t.Errorf("%s is to be seen in\n%s", name, out)
			}
		}
	}
	if !strings.HasPrefix(out, "/tmp\n") {
		t.Errorf("without a workspace it starts in\n%s", out)
	}
	// The image of an open box is in use.
	if err := store.Remove(t.Context(), "test"); !errors.Is(err, images.ErrInUse) {
		t.Errorf("the image of an open box is removed: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(t.Context(), "test"); err != nil {
		t.Error(err)
	}
	var refusal *limit.Refusal
	if _, err := s.Open(t.Context(), "next", policytest.GrantProfile(t, "fs: {image: test}")); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "belljar image import test") {
		t.Errorf("got %v, want a refusal that says how to import", err)
	}
}

// Boxes share an image and nothing else, and do not change it.
func TestImageIsShared(t *testing.T) {
	s, store := imageWorld(t, imagetest.Runtime{}, layersOf(t, "bash", "cat")...)
	one, err := s.Open(t.Context(), "one", imageGrant(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Open(t.Context(), "two", imageGrant(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	shell(t, one, "echo one > /tmp/x; echo one > ~/x")
	if _, out := shell(t, two, "cat /tmp/x ~/x 2>/dev/null; cat /etc/motd"); out != "new\n" {
		t.Errorf("the other box sees %q", out)
	}
	tree, err := store.Use("test")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, name := range []string{"etc/belljar.bash", "tmp/x", "home/agent"} {
		if _, err := os.Lstat(filepath.Join(tree.Root, name)); err == nil {
			t.Errorf("the image has %s", name)
		}
	}
}

// A box with an image can have a layer over the workspace, and mounts wherever the policy
// wants them.
func TestImageWithTheRest(t *testing.T) {
	s, _ := imageWorld(t, imagetest.Runtime{}, layersOf(t, "bash", "cat", "ls")...)
	place := t.TempDir()
	if err := os.Chmod(place, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(place, "given"), "given\n")
	if err := os.Chmod(filepath.Join(place, "given"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t,
		"fs: {image: test, workspace: overlay, read: ['"+place+":/usr/lib/deep/place', '"+place+"/given:/srv/secret']}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ script, want string }{
		{"cat /usr/lib/deep/place/given; echo and; cat /srv/secret", "given\nand\ngiven\n"},
		{"echo x >/workspace/x; cat /workspace/x", "x\n"},
		{"ls -d /usr/bin /bin /etc/motd 2>/dev/null | while read -r _; do echo +; done", "+\n+\n"},
	} {
		if _, out := shell(t, b, tt.script); out != tt.want {
			t.Errorf("%s: got %q, want %q", tt.script, out, tt.want)
		}
	}
}

// The box's own name resolution replaces that of the image.
func TestImageWithADoor(t *testing.T) {
	s, _ := imageWorld(t, imagetest.Runtime{}, imagetest.Tar(t, append(imagetest.HostRoot(t, "bash"), imagetest.Link("etc/resolv.conf", "/run/resolv.conf"))...))
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test}\nnet: {mode: proxy, allow: [files.example]}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, out := shell(t, b, "read -r word _ </etc/resolv.conf; echo $word"); out != "nameserver\n" {
		t.Errorf("got %q", out)
	}
}

// If an image has no bash, its sh runs scripts, and keeps their last directory, status and
// line numbers.
func TestImageWithoutBash(t *testing.T) {
	dash := append(imagetest.HostRoot(t, "dash", "id"), imagetest.Link("bin/sh", "/bin/dash"))
	s, _ := imageWorld(t, imagetest.Runtime{WorkingDir: "/srv"}, imagetest.Tar(t, dash...))
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test}"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, out := shell(t, b, "echo $0 $SHELL; pwd\ncd /etc; (exit 7)")
		if want := "sh /bin/sh\n/srv\n"; out != want || r.Code != 7 || r.Dir != "/etc" {
			t.Errorf("got %q, code %d in %q", out, r.Code, r.Dir)
		}
		if r, out := shell(t, b, "\nnosuch; x() { nosuch; }"); out != "sh: 2: nosuch: not found\n" || r.Code != 0 {
			t.Errorf("got %q, code %d", out, r.Code)
		}
		if r, out := shell(t, b, "echo x\nfi"); !strings.Contains(out, "sh: 2: Syntax error") || r.Code != 2 {
			t.Errorf("got %q, code %d", out, r.Code)
		}
	}
}

// An image without any shell runs programs, and its box refuses scripts and says why.
func TestImageWithoutShell(t *testing.T) {
	s, _ := imageWorld(t, imagetest.Runtime{Env: []string{"PATH=/opt"}}, imagetest.Tar(t, append(imagetest.HostRoot(t, "id"), imagetest.Link("opt/whoever", "../bin/id"))...))
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {image: test}"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := sandbox.Cmd{Grant: b.Grant(), Argv: []string{"whoever", "-u"}, Timeout: 10 * time.Second}
	r, err := b.Run(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if out := read(t, r.Output); out != "1000\n" {
		t.Errorf("got %q", out)
	}
	cmd.Argv, cmd.Shell = nil, "id"
	var refusal *limit.Refusal
	if _, err := b.Run(t.Context(), cmd); !errors.As(err, &refusal) || !strings.Contains(err.Error(), `image "test" of the box has neither`) {
		t.Errorf("got %v, want a refusal that names the image", err)
	}
}

// BenchmarkOpenImage compares boxes with an image to those that see the host's system
// directories.
func BenchmarkOpenImage(b *testing.B) {
	for name, profile := range map[string]string{"image": "fs: {image: test}", "system": "fs: {system: true}"} {
		b.Run(name, func(b *testing.B) {
			s, _ := imageWorld(b, imagetest.Runtime{}, layersOf(b, "bash")...)
			g := policytest.GrantProfile(b, profile)
			var closing time.Duration
			for b.Loop() {
				box, err := s.Open(b.Context(), "box", g)
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if err := box.Close(); err != nil {
					b.Fatal(err)
				}
				closing += time.Since(start)
			}
			b.ReportMetric(float64(closing.Nanoseconds())/float64(b.N), "close-ns/op")
		})
	}
}

// BenchmarkRunImage compares a command in a box with an image to one in a box that sees the
// host's system directories.
func BenchmarkRunImage(b *testing.B) {
	for name, profile := range map[string]string{"image": "fs: {image: test}", "system": "fs: {system: true}"} {
		b.Run(name, func(b *testing.B) {
			s, _ := imageWorld(b, imagetest.Runtime{}, layersOf(b, "bash", "id")...)
			box, err := s.Open(b.Context(), "box", policytest.GrantProfile(b, profile))
			if err != nil {
				b.Fatal(err)
			}
			cmd := sandbox.Cmd{Grant: box.Grant(), Argv: []string{"id"}, Timeout: 10 * time.Second}
			for b.Loop() {
				if _, err := box.Run(b.Context(), cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
