package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakes returns a directory of programs that record their calls in the file "calls", one
// line for each call. The test puts the directory first in PATH. The program id prints 0,
// the UID of root. The function calls returns the text of the file.
func fakes(t *testing.T, names ...string) (dir string, calls func() string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range append(names, "id") {
		text := "#!/bin/sh\necho " + name + " \"$@\" >>" + filepath.Join(dir, "calls") + "\n"
		if name == "id" {
			text = "#!/bin/sh\necho 0\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func() string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
}

// The script names the packages before it installs them, and a person can refuse.
func TestNeedAsksBeforeItInstalls(t *testing.T) {
	for _, c := range []struct{ answer, installs string }{{"", "install -y"}, {"yes", "install -y"}, {"no", ""}} {
		dir, calls := fakes(t, "apt-get")
		cmd := exec.CommandContext(t.Context(), "../../scripts/need", "bash", "no-such-program")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "INSTALL="+c.answer)
		said, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("INSTALL=%s: got status 0, and the program is missing", c.answer)
		}
		got := calls()
		if did := strings.Contains(got, "install -y"); did != (c.installs != "") {
			t.Errorf("INSTALL=%s: apt-get was called so:\n%s", c.answer, got)
		}
		if !strings.Contains(string(said), "missing packages: no-such-program") {
			t.Errorf("INSTALL=%s: got %q, want it to name the package", c.answer, said)
		}
	}
}

// make run checks WORKSPACE before it builds or installs anything.
func TestMakeRunChecksTheWorkspaceFirst(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not there")
	}
	dir, calls := fakes(t, "go", "apt-get")
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "run", "WORKSPACE=/no/such/place")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "WORKSPACE /no/such/place is not a directory; make it, or name another one with make run WORKSPACE=DIR") {
		t.Errorf("got %v and %q", err, said)
	}
	if got := calls(); got != "" {
		t.Errorf("before that it called\n%s", got)
	}
}
