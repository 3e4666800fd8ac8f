package sandbox_test

import (
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// The usage of a box grows with its commands.
func TestBoxUsage(t *testing.T) {
	b, _ := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: ro}"))
	before := b.Used()
	if _, out := shell(t, b, "head -c 3000000 /dev/zero >/tmp/three; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"); out != "" {
		t.Fatal(out)
	}
	j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "a=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ready; sleep 600", Timeout: time.Minute * testenv.Patience(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Kill(0)
	if !testenv.Until(30*time.Second*testenv.Patience(t), func() bool { return read(t, j.Output()) != "" }) {
		t.Fatal("the task has written nothing")
	}
	used := b.Used()
	if used.CPU <= before.CPU || used.CPU < 1 {
		t.Errorf("processor time was %v, and is %v", before.CPU, used.CPU)
	}
	if used.Processes <= before.Processes || used.Processes < 2 {
		t.Errorf("there were %d processes, and are %d", before.Processes, used.Processes)
	}
	if used.Memory < 15_000_000 {
		t.Errorf("memory was %d, and is %d", before.Memory, used.Memory)
	}
	if grown := used.Disk - before.Disk; parks() && (grown < 3_000_000 || grown > 4_000_000) {
		t.Errorf("a file of 3,000,000 bytes in /tmp: %d more are stored", grown)
	}
}
