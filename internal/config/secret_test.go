package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// hidden is a value that no error may repeat.
const hidden = "hunter2-hunter2"

func TestReadSecret(t *testing.T) {
	testenv.Need(t, testenv.Bash)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bash := func(script string) policies.Secret { return policies.Secret{Command: []string{"bash", "-c", script}} }
	t.Setenv("BELLJAR_TEST_SECRET", hidden)
	t.Setenv("BELLJAR_TEST_EMPTY", "")
	t.Setenv("BELLJAR_TEST_LINES", hidden+"\nX: y")
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("plain", hidden+"\n", 0o600), link); err != nil {
		t.Fatal(err)
	}
	base := onHost(t)
	base.Boxes = hostexec.WrittenIn(t.TempDir(), filepath.Dir(file("written/x", "", 0o600)))
	if err := os.Symlink(file("proper", hidden, 0o600), filepath.Join(dir, "written", "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		secret policies.Secret
		want   string // part of the error; empty if no error is wanted
	}{
		{"a variable", policies.Secret{Env: "BELLJAR_TEST_SECRET"}, ""},
		{"a variable that is not set", policies.Secret{Env: "BELLJAR_TEST_NONE"}, "belljar's environment has no variable BELLJAR_TEST_NONE"},
		{"an empty variable", policies.Secret{Env: "BELLJAR_TEST_EMPTY"}, "it is empty"},
		{"a variable of two lines", policies.Secret{Env: "BELLJAR_TEST_LINES"}, "line break or control character"},
		{"a file", policies.Secret{File: file("a", hidden, 0o600)}, ""},
		{"a file that ends its line", policies.Secret{File: file("b", hidden+"\r\n", 0o400)}, ""},
		{"a link to a file", policies.Secret{File: link}, ""},
		{"a file that the group can read", policies.Secret{File: file("c", hidden, 0o640)}, "others can read or write"},
		{"a file that all can read", policies.Secret{File: file("d", hidden, 0o604)}, "run chmod 600 on it"},
		{"a file that others can write", policies.Secret{File: file("e", hidden, 0o602)}, "others can read or write"},
		{"an empty file", policies.Secret{File: file("f", "\n", 0o600)}, "it is empty"},
		{"a large file", policies.Secret{File: file("g", strings.Repeat(hidden, 1<<13), 0o600)}, "longer than 65536 bytes"},
		{"a file with a NUL", policies.Secret{File: file("h", hidden+"\x00", 0o600)}, "control character"},
		{"no file", policies.Secret{File: filepath.Join(dir, "none")}, "no such file"},
		{"a directory", policies.Secret{File: dir}, "is not a regular file"},
		{"a pipe", policies.Secret{File: pipe}, "is not a regular file"},
		{"a device", policies.Secret{File: "/dev/zero"}, "is not a regular file"},
		{"a file that a box can write", policies.Secret{File: file("written/own", hidden, 0o600)}, "which a box can write"},
		{"a link that a box can write", policies.Secret{File: filepath.Join(dir, "written/link")}, "which a box can write"},
		{"a command that a box can write", policies.Secret{Command: []string{file("written/program", "#!/bin/sh\necho "+hidden, 0o700)}}, "which a box can write"},
		{"a command that runs what a box can write", policies.Secret{Command: []string{"bash", file("written/script", "echo "+hidden, 0o700)}}, "which a box can write"},
		{"a command by a relative path", policies.Secret{Command: []string{"./x"}}, "depends on the working directory"},
		{"a command", bash("echo " + hidden), ""},
		{"a command that reads its input", bash("cat; echo " + hidden), ""},
		{"a command that fails", bash("echo " + hidden + "; echo " + hidden + " >&2; exit 3"), "run bash: exit status 3"},
		{"a command that says nothing", bash("echo " + hidden + " >&2"), "it is empty"},
		{"a command that says too much", bash("for i in {1..9000}; do echo " + hidden + "; done"), "it printed more than 65536 bytes"},
		{"a command of several lines", bash("echo " + hidden + "; echo x"), "line break or control character"},
		{"a command that is killed", bash("echo " + hidden + "; kill -9 $$"), "signal: killed"},
		{"no command of that name", policies.Secret{Command: []string{"belljar-no-such-program", hidden}}, "run belljar-no-such-program: "},
		{"nothing", policies.Secret{}, "the policy does not say where it is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "a command that is killed" && os.Geteuid() == 0 && base.Cgroup == "" {
				t.Skip("process 1 of a pid namespace cannot kill itself")
			}
			got, err := ReadSecret(t.Context(), "token", tt.secret, base)
			switch {
			case tt.want == "" && (err != nil || got != hidden):
				t.Errorf("got %q, %v", got, err)
			case tt.want != "" && (err == nil || got != "" || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "secret token: ")):
				t.Errorf("got %q, %v, want an error with %q", got, err, tt.want)
			case err != nil && strings.Contains(err.Error(), hidden):
				t.Errorf("the error has the value: %v", err)
			}
		})
	}
}

// onHost returns how programs run on this machine in tests.
func onHost(t *testing.T) hostexec.Program {
	return hostexec.Program{Dir: "/", Boxes: hostexec.WrittenIn(), Inherit: os.Environ(), Cgroup: testenv.CgroupDir(t)}
}

// A command that does not end in time is killed.
func TestReadSecretHasPatience(t *testing.T) {
	testenv.Need(t, testenv.Bash)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := ReadSecret(ctx, "token", policies.Secret{Command: []string{"bash", "-c", "echo " + hidden + "; exec sleep 60"}}, onHost(t))
	if err == nil || strings.Contains(err.Error(), hidden) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A file of another user is refused, whatever its mode is.
func TestReadSecretOfAnotherUser(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(hidden), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSecret(t.Context(), "token", policies.Secret{File: path}, onHost(t)); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %q, %v", got, err)
	}
}
