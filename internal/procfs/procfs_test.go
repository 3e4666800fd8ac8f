package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// A process is alive by its own name, and neither after its end nor by the name of
// another that had its pid.
func TestAlive(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(self) {
		t.Errorf("this process is not alive by its name %q", self)
	}
	for _, other := range []string{self + "1", strconv.Itoa(os.Getpid()) + ".1", strconv.Itoa(os.Getpid()), "", "self", "0.0", "x.y"} {
		if Alive(other) {
			t.Errorf("a process is alive by the name %q", other)
		}
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	start, err := startTime(pid)
	if err != nil || !Alive(pid+"."+start) {
		t.Errorf("a process that runs since %q is not alive: %v", start, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if Alive(pid + "." + start) {
		t.Error("a process that was waited for is alive")
	}
}

// Write fails where there is no such file, and makes none.
func TestWriteMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	if err := Write(path, "x"); err == nil {
		t.Error("a file that does not exist was written")
	}
	if _, err := Open(path); err == nil {
		t.Error("a file that does not exist was opened")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a file was made")
	}
}
