package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

func TestProcesses(t *testing.T) {
	child := exec.CommandContext(t.Context(), "cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	all := Processes()
	is := func(pid int) func(Process) bool { return func(p Process) bool { return p.PID == pid } }
	if got := all[child.Process.Pid]; got.Parent != os.Getpid() || got.Session != all[os.Getpid()].Session || ticks(t, got) < ticks(t, all[os.Getpid()]) {
		t.Errorf("the child is %+v, and this process %+v", got, all[os.Getpid()])
	}
	below := Below(all, os.Getpid())
	for _, pid := range []int{os.Getpid(), child.Process.Pid} {
		if !slices.ContainsFunc(below, is(pid)) {
			t.Errorf("process %d is not below this one: %+v", pid, below)
		}
	}
	if slices.ContainsFunc(below, is(os.Getppid())) {
		t.Errorf("the parent %d is below this process: %+v", os.Getppid(), below)
	}
	in.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if got, there := Processes()[child.Process.Pid]; there && got.Parent == os.Getpid() {
		t.Errorf("a process that has ended is there: %+v", got)
	}
}

// ticks returns the start time of a process as a number. As texts, 99 and 100 would be in
// the wrong order.
func ticks(t *testing.T, p Process) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(p.Began, 10, 64)
	if err != nil {
		t.Errorf("process %d began at %q", p.PID, p.Began)
	}
	return n
}
