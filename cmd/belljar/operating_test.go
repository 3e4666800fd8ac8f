package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// operatingUser does what an ordinary user does.
const operatingUser = "vmoperator"

// block is a fenced piece of a document.
type block struct {
	info, text string
}

// blocks returns those of a file.
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

// The commands of the page for operators do what it says, from the first to the last,
// and leave nothing behind: on a host with systemd, by root and by a user.
func TestOperating(t *testing.T) {
	testenv.Need(t, testenv.Systemd, testenv.Curl)
	source := operatingSource(t)
	before := traces(t)
	makeOperator(t)
	ran := 0
	var output string
	for _, b := range blocks(t, "../../docs/operating.md") {
		var cmd *exec.Cmd
		switch b.info {
		default:
			continue // only shown
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
		cmd.Dir = source
		cmd.Stdin = strings.NewReader(b.text)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		output = strings.ReplaceAll(said.String(), `\n`, "\n") // in JSON
		t.Logf("%s", said.String())
		if err != nil {
			log, _ := exec.Command("journalctl", "--no-pager", "-n", "40").CombinedOutput()
			t.Fatalf("%v:\n%s\nThe journal:\n%s", err, b.text, log)
		}
	}
	const least = 10
	if ran < least {
		t.Errorf("%d blocks of commands were run, want at least %d", ran, least)
	}
	var left []string
	if !testenv.Until(time.Minute, func() bool {
		left = left[:0]
		for _, name := range traces(t) {
			if !strings.Contains("\n"+strings.Join(before, "\n")+"\n", "\n"+name+"\n") {
				left = append(left, name)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("these are left:\n%s", strings.Join(left, "\n"))
	}
}

// operatingSource is a directory with what the page expects in the source: the
// documents, and the program, which is this test when its name is belljar.
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

// traces lists the files, cgroups and users that have the name of belljar, outside of
// its source.
func traces(t *testing.T) (all []string) {
	t.Helper()
	for _, top := range []string{"/etc", "/home", "/run", "/usr/local/bin", "/var/backups", "/var/lib", "/sys/fs/cgroup"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(d.Name(), "belljar") {
				all = append(all, path)
			}
			return nil // what goes meanwhile is not there
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := user.Lookup("belljar"); err == nil {
		all = append(all, "the user belljar")
	}
	out, _ := exec.Command("pgrep", "-l", "belljar").Output() // 1 if there is none
	for line := range strings.Lines(string(out)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "belljar.test") { // is this
			all = append(all, "the process "+strings.TrimSpace(line))
		}
	}
	return all
}
