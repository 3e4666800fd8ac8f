package claim

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A process is found by its own name while it runs. It is not found after its end, or by
// the name of another process that had the same pid.
func TestRuns(t *testing.T) {
	self, err := Process()
	if err != nil {
		t.Fatal(err)
	}
	if !Runs(self) {
		t.Errorf("this process does not run by its name %q", self)
	}
	for _, other := range []string{self + "1", strconv.Itoa(os.Getpid()) + ".1", strconv.Itoa(os.Getpid()), "", "self", "0.0", "x.y"} {
		if Runs(other) {
			t.Errorf("a process runs by the name %q", other)
		}
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	start, err := startTime(pid)
	if err != nil || !Runs(pid+"."+start) {
		t.Errorf("a process that runs since %q does not run: %v", start, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if Runs(pid + "." + start) {
		t.Error("a process that was waited for runs")
	}
}

// A directory with several owners is abandoned when the last of them has ended. A directory
// without an owner is abandoned.
func TestJoin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	first, err := Make(dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Join(dir)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, yes := Abandoned(dir); yes {
		t.Error("what another one still has is abandoned")
	}
	second.Close()
	last, yes := Abandoned(dir)
	if !yes {
		t.Fatal("what nobody has is not abandoned")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	last.Close()
	if _, err := Join(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("joined what is gone: %v", err)
	}
}

// A directory is abandoned when the process that made it has ended, and not before.
func TestAbandoned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	f, err := Make(dir, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, yes := Abandoned(dir); yes {
		t.Error("what this process holds is abandoned")
	}
	if _, err := Make(dir, 0o700); !os.IsExist(err) {
		t.Errorf("made twice: %v", err)
	}
	f.Close()
	first, yes := Abandoned(dir)
	if !yes {
		t.Fatal("what nobody holds is not abandoned")
	}
	if _, yes := Abandoned(dir); yes {
		t.Error("two were told so")
	}
	first.Close()
	for _, path := range []string{dir + "/absent", "/proc/self/exe"} {
		if _, yes := Abandoned(path); yes {
			t.Errorf("%s is abandoned", path)
		}
	}
}

// A process that makes a directory gets it in the end, also while another process removes
// abandoned directories.
func TestMakeWhileOthersSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	for range 500 {
		var sweeping sync.WaitGroup
		sweeping.Go(func() {
			for range 20 { // a real process sweeps only once, when it starts
				if f, yes := Abandoned(dir); yes {
					_ = os.Remove(dir)
					f.Close()
				}
			}
		})
		f, err := Make(dir, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		sweeping.Wait()
		if err := os.Remove(dir); err != nil {
			t.Fatalf("what was made is gone: %v", err)
		}
		f.Close()
	}
}
