package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// operatingUser is the name of an ordinary user.
const operatingUser = "vmoperator"

// block is a fenced block of a document.
type block struct {
	info, text string
}

// blocks returns the blocks of a file.
func blocks(t *testing.T, file string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for line := range strings.Lines(string(text)) {
		if info, ok := strings.CutPrefix(line, "```"); ok {
			if fenced = !fenced; fenced {
				all = append(all, block{info: strings.TrimSpace(info)})
			}
			continue
		}
		if fenced {
			all[len(all)-1].text += line
		}
	}
	return all
}

// TestOperating checks that the commands of the page for operators do what the page says,
// from the first to the last, and leave nothing behind: on a host with systemd, as root and
// as a user.
func TestOperating(t *testing.T) {
	testenv.Need(t, testenv.Systemd, testenv.Curl)
	source := operatingSource(t)
	before := traces(t)
	makeOperator(t)
	runPage(t, "../../docs/operating.md", source, 10)
	nothingLeft(t, before)
}

// TestPackages checks the same for the page about packages, with the packages that `make
// packages` has made.
func TestPackages(t *testing.T) {
	testenv.Need(t, testenv.Systemd, testenv.Curl)
	sums, err := filepath.Abs("../../bin/packages/SHA256SUMS")
	if err == nil {
		_, err = os.Stat(sums)
	}
	if err != nil {
		t.Skipf("make packages has made none: %v", err)
	}
	// Otherwise the manual pages of the whole host would be indexed again, each through a
	// program outside that keeps it open. Without this file they are not.
	if err := os.Remove("/var/lib/man-db/auto-update"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	before := traces(t)
	runPage(t, "../../docs/packages.md", filepath.Dir(sums), 5)
	nothingLeft(t, before)
}

// TestFrontAndWorkerUnits checks the same for the page about the front and a worker of a
// fleet.
func TestFrontAndWorkerUnits(t *testing.T) {
	testenv.Need(t, testenv.Systemd, testenv.Curl)
	source := operatingSource(t)
	before := traces(t)
	runPage(t, "../../docs/fleet-systemd.md", source, 10)
	nothingLeft(t, before)
}

// runPage runs the commands of a page in a directory. It fails if the page has fewer blocks
// of commands than least.
func runPage(t *testing.T, page, dir string, least int) {
	t.Helper()
	ran := 0
	var output string
	for _, b := range blocks(t, page) {
		var cmd *exec.Cmd
		switch b.info {
		default:
			continue // the block is only shown
		case "output":
			for line := range strings.Lines(b.text) {
				if !strings.Contains(output, strings.TrimSpace(line)) {
					t.Fatalf("the last block printed\n%s\nwhich has no %q", output, line)
				}
			}
			continue
		case "sh":
			cmd = exec.Command("bash", "-euxo", "pipefail")
		case "sh as user":
			cmd = exec.Command("runuser", "-u", operatingUser, "--", "bash", "-euxo", "pipefail")
			u, err := user.Lookup(operatingUser)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), "HOME="+u.HomeDir, "XDG_RUNTIME_DIR=/run/user/"+u.Uid)
		}
		ran++
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader(b.text)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		output = strings.ReplaceAll(said.String(), `\n`, "\n") // JSON writes a line end as \n
		t.Logf("%s", said.String())
		if err != nil {
			log, _ := exec.Command("journalctl", "--no-pager", "-n", "40").CombinedOutput()
			t.Fatalf("%v:\n%s\nThe journal:\n%s", err, b.text, log)
		}
	}
	if ran < least {
		t.Errorf("%d blocks of commands were run, want at least %d", ran, least)
	}
}

// nothingLeft checks that there are no more traces than before.
func nothingLeft(t *testing.T, before []string) {
	t.Helper()
	var left []string
	if !testenv.Until(time.Minute, func() bool {
		left = left[:0]
		for _, name := range traces(t) {
			if !slices.Contains(before, name) {
				left = append(left, name)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("these are left:\n%s", strings.Join(left, "\n"))
	}
}

// operatingSource returns a directory with what the page expects in the source: the
// documents, and the program, which is this test binary under the name belljar.
func operatingSource(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "source") //nolint:usetesting // t.TempDir is in one that is for root alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"chmod 755 " + dir, "install -D -m 755 " + self + " " + dir + "/bin/belljar", "cp -r ../../docs " + dir + "/docs", "chmod -R a+rX " + dir,
	} {
		if out, err := exec.Command("bash", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	return dir
}

// makeOperator makes the ordinary user, whose service manager runs.
func makeOperator(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("useradd", "--create-home", operatingUser).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("loginctl", "enable-linger", operatingUser).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u, err := user.Lookup(operatingUser)
	if err != nil {
		t.Fatal(err)
	}
	if !testenv.Until(2*time.Minute, func() bool {
		_, err := os.Stat("/run/user/" + u.Uid + "/systemd/private")
		return err == nil
	}) {
		t.Fatal("the user's service manager has not started")
	}
}

// traces lists the files, cgroups and users that have the name of belljar, outside of its
// source.
func traces(t *testing.T) (all []string) {
	t.Helper()
	for _, top := range []string{"/etc", "/home", "/run", "/usr/local/bin", "/var/backups", "/var/lib", "/sys/fs/cgroup"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(d.Name(), "belljar") {
				all = append(all, path)
			}
			return nil // a file that disappears meanwhile is not listed
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"/usr/bin/belljar*", "/usr/lib/systemd/*/belljar*", "/usr/share/doc/belljar*", "/usr/share/man/man1/belljar*", "/usr/share/bash-completion/completions/belljar"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if _, err := user.Lookup("belljar"); err == nil {
		all = append(all, "the user belljar")
	}
	out, _ := exec.Command("pgrep", "-l", "belljar").Output() // pgrep fails with 1 if it finds nothing
	for line := range strings.Lines(string(out)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "belljar.test") { // this is the test itself
			all = append(all, "the process "+strings.TrimSpace(line))
		}
	}
	return all
}
