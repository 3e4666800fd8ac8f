package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/sandbox"
)

// BenchmarkRun measures the smallest calls: a plain fork and exec, the same in a box, and
// the same in other sandboxes on this host (scripts/peers installs them).
func BenchmarkRun(b *testing.B) {
	const tail = 2
	for _, task := range []struct {
		name  string
		argv  []string
		shell string
		limit float64
	}{
		{"echo", []string{"/bin/bash", "-c", "echo hi"}, "echo hi", 1.15},
		{"true", []string{"/bin/true"}, "", 1.1},
	} {
		b.Run(task.name, func(b *testing.B) {
			warm, _ := openBox(b, grant(b))
			cold, _ := openCold(b, grant(b))
			env := environment(b, cold)
			ways := []way{
				{name: "raw", run: func() { rawRun(b, "/", env, task.argv...) }},
				{name: "box", run: func() { boxRun(b, cold, sandbox.Cmd{Argv: task.argv}) }, limit: task.limit, tail: tail},
			}
			if task.shell != "" {
				c := sandbox.Cmd{Shell: task.shell}
				ways = append(ways,
					way{name: "box-shell", run: func() { boxRun(b, cold, c) }, limit: task.limit, tail: tail},
					way{name: "box-warm", run: func() { boxRun(b, warm, c) }, limit: 0.33, rest: func() {
						if !warm.WaitWarm() {
							b.Fatal("no warm shell came")
						}
					}})
			}
			race(b, 300, append(ways, peers(b, env, task.argv)...)...)
		})
	}
}

// environment returns the environment that a box gives its commands. The other sandboxes
// get it too, since a locale alone makes a command a tenth slower.
func environment(b *testing.B, box *sandbox.Box) []string {
	b.Helper()
	_, text := shell(b, box, "env")
	return strings.Split(strings.TrimSpace(text), "\n")
}

// peers returns the ways of other sandboxes to run argv, with a root of their own and the
// namespaces that a box has. It leaves out sandboxes that this host does not have, or that
// do not work on it.
func peers(b *testing.B, env, argv []string) []way {
	b.Helper()
	all := []struct {
		name  string
		every int
		argv  func() ([]string, error)
	}{
		{"bwrap", 1, func() ([]string, error) { return bwrap("", argv), nil }},
		{"nsjail", 1, func() ([]string, error) {
			return append([]string{"nsjail", "-Mo", "-Q", "-R", "/usr", "-s", "usr/bin:/bin", "-s", "usr/lib:/lib", "-s", "usr/lib64:/lib64", "-T", "/tmp", "--"}, argv...), nil
		}},
		{"runc-run", 5, func() ([]string, error) {
			bundle, err := runcBundle(b, env, argv)
			return []string{"runc", "--root", filepath.Join(bundle, "state"), "run", "-b", bundle, fmt.Sprintf("belljar-bench-%d", os.Getpid())}, err
		}},
		{"runc-exec", 5, func() ([]string, error) { return runcExec(b, env, argv) }},
		{"srt", 30, func() ([]string, error) { return append([]string{"srt", "--"}, argv...), nil }},
	}
	var ways []way
	for _, p := range all {
		if _, err := exec.LookPath(strings.Split(p.name, "-")[0]); err != nil {
			b.Logf("%s is not here", p.name)
			continue
		}
		line, err := p.argv()
		dir := b.TempDir() // srt leaves files in its working directory
		run := func() error { return peerRun(dir, env, line) }
		if err == nil {
			err = run()
		}
		if err != nil {
			b.Logf("%s does not work here: %v", p.name, err)
			continue
		}
		ways = append(ways, way{name: p.name, every: p.every, run: func() {
			if err := run(); err != nil {
				b.Fatal(err)
			}
		}})
	}
	return ways
}

// peerRun makes one call of a peer, whose output must be empty or that of the task.
func peerRun(dir string, env, argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if text := string(out); err != nil || text != "" && text != "hi\n" {
		return fmt.Errorf("%q: %w: %q, %q", argv, err, text, said.String())
	}
	return nil
}

// bwrap returns bubblewrap's command line for a private root, with a workspace if workspace
// is not empty.
func bwrap(workspace string, argv []string) []string {
	line := []string{
		"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
	}
	if workspace != "" {
		line = append(line, "--bind", workspace, "/workspace", "--chdir", "/workspace")
	}
	return append(line, argv...)
}

// runcBundle makes the bundle that runc runs: a root that only contains the host's /usr,
// and a configuration without capabilities.
func runcBundle(b *testing.B, env, argv []string) (string, error) {
	b.Helper()
	dir := b.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, name := range []string{"usr", "proc", "dev", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return "", err
		}
	}
	type object = map[string]any
	var namespaces []object
	for _, name := range []string{"pid", "network", "ipc", "uts", "mount"} {
		namespaces = append(namespaces, object{"type": name})
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2",
		"process":    object{"args": argv, "env": env, "cwd": "/", "user": object{"uid": 1000, "gid": 1000}, "noNewPrivileges": true},
		"root":       object{"path": "rootfs", "readonly": true},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}},
		},
		"linux": object{"namespaces": namespaces},
	})
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
}

// runcExec starts a container that sleeps until the benchmark ends, and returns the command
// line that runs argv in it.
func runcExec(b *testing.B, env, argv []string) ([]string, error) {
	b.Helper()
	bundle, err := runcBundle(b, env, []string{"/bin/sleep", "1000"})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("belljar-bench-exec-%d", os.Getpid())
	runc := func(arg ...string) *exec.Cmd {
		return exec.Command("runc", append([]string{"--root", filepath.Join(bundle, "state")}, arg...)...)
	}
	if err := runc("run", "-d", "-b", bundle, name).Run(); err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		if err := runc("delete", "--force", name).Run(); err != nil {
			b.Errorf("runc delete: %v", err)
		}
	})
	return runc(append([]string{"exec", name}, argv...)...).Args, nil
}
