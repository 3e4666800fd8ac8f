package sandbox_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// Each bomb ends in a clear result, the server's memory does not grow, and a neighbour is
// answered meanwhile.
func TestBombs(t *testing.T) {
	s, _ := world(t)
	g := policytest.GrantWith(t, "memory: 256MiB, pids: 128, cpu: 1, tmp: 64MiB, tmp_files: 1000, open_files: 1024, output: 8MiB, wall: 1h")
	b, err := s.Open(t.Context(), "bomber", g)
	if err != nil {
		t.Fatal(err)
	}
	neighbour, err := s.Open(t.Context(), "neighbour", g)
	if err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	idle := testenv.Resident(t, os.Getpid())
	memory := s.Limits()[policies.LimitMemory] == limit.Enforced
	patience := testenv.Patience(t)
	flood := int64(1<<30) / int64(patience)
	tests := []struct {
		name, script string
		timeout      time.Duration
		want         func(r sandbox.Result, out string) bool
	}{
		{
			"fork 5000", "for i in $(seq 5000); do sleep 1000 & done 2>/dev/null; echo end",
			6 * time.Second,
			func(r sandbox.Result, out string) bool {
				return r.Status == sandbox.Exited || r.Status == sandbox.TimedOut
			},
		},
		{
			"fork for ever", ":(){ :|:& };: 2>/dev/null",
			6 * time.Second,
			func(r sandbox.Result, _ string) bool {
				return r.Status == sandbox.Exited || r.Status == sandbox.TimedOut
			},
		},
		{
			"count the forks", `perl -e 'for ($n = 0; $n < 5000; $n++) { defined($p = fork) or last; $p or sleep(1000), exit } print $n'`,
			time.Minute * patience,
			func(r sandbox.Result, out string) bool {
				n, err := strconv.Atoi(out)
				return err == nil && n > 64 && n < 128+16 // 16 is above what cgroup.spare adds
			},
		},
		{
			"4 GB of memory", "head -c 4G /dev/zero | tail -n 1",
			time.Minute * patience,
			func(r sandbox.Result, _ string) bool { return r.Status == sandbox.OOM },
		},
		{
			"2 GB to /tmp", "head -c 2G /dev/zero > /tmp/x; echo code $?; rm /tmp/x",
			time.Minute * patience,
			func(r sandbox.Result, out string) bool {
				return r.Status == sandbox.Exited && strings.Contains(out, "No space left on device")
			},
		},
		{
			"many files", "cd /tmp && mkdir m && for i in $(seq 2000); do : > m/$i || break; done 2>&1 | tail -1; rm -r m",
			time.Minute * patience,
			func(r sandbox.Result, out string) bool { return strings.Contains(out, "No space left on device") },
		},
		{
			"100k descriptors", "for i in $(seq 100000); do exec {fd}</dev/null || break; done 2>&1 | tail -1",
			time.Minute * patience,
			func(r sandbox.Result, out string) bool { return strings.Contains(out, "Too many open files") },
		},
		{
			"1 GB of output", fmt.Sprintf("head -c %d /dev/zero; echo end", flood),
			time.Minute * patience,
			func(r sandbox.Result, _ string) bool { return r.Status == sandbox.Exited && r.Output.Size() == flood+4 },
		},
		{
			"all the CPU", "for i in 1 2 3 4; do (while :; do :; done) & done; sleep 1",
			time.Minute * patience,
			func(r sandbox.Result, _ string) bool { return r.Status == sandbox.Exited },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Contains(tt.script, "perl") {
				testenv.Need(t, testenv.Perl)
			}
			j, err := b.Start(t.Context(), sandbox.Cmd{Grant: g, Shell: tt.script, Timeout: tt.timeout})
			if err != nil {
				t.Fatal(err)
			}
			if r, out := shell(t, neighbour, "echo here"); out != "here\n" || r.Status != sandbox.Exited {
				t.Errorf("the neighbour got %v, %q", r.Status, out)
			}
			r, err := j.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := r.Output.Cut(1000)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.want(r, string(c.Text)) {
				t.Errorf("%v, code %d, memory held: %v, output %q", r.Status, r.Code, memory, c.Text)
			}
			if grown := testenv.Resident(t, os.Getpid()) - idle; grown > 64<<20 {
				t.Errorf("%d MiB above idle, want at most 64", grown>>20)
			}
			if _, out := shell(t, b, "echo after"); out != "after\n" {
				t.Errorf("the next command gave %q", out)
			}
		})
	}
}

// Memory that processes share counts like their own memory, also if the memory is only
// sampled.
func TestSharedMemoryIsHeld(t *testing.T) {
	testenv.Need(t, testenv.Python)
	b, _ := openBox(t, policytest.GrantWith(t, "memory: 256MiB, tmp: 16MiB"))
	r, out := shell(t, b, `python3 -c 'import mmap, time; m = mmap.mmap(-1, 512 << 20); [m.write(bytes(1 << 20)) for n in range(512)]; time.sleep(30)'; echo end`)
	if r.Status != sandbox.OOM {
		t.Errorf("got %v, code %d, %q", r.Status, r.Code, out)
	}
}

// The kernel kills one process for memory. The command to which the process belonged ends
// as a whole and reports that, and its neighbour continues.
func TestOOMEndsTheCommand(t *testing.T) {
	testenv.Need(t, testenv.Perl)
	b, _ := openBox(t, policytest.GrantWith(t, "memory: 128MiB, tmp: 16MiB"))
	neighbour, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 60", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := shell(t, b, "perl -e '$x = \"x\" x (512 << 20); sleep 100' & wait; sleep 100")
	if r.Status != sandbox.OOM {
		t.Errorf("got %v after %v, want oom", r.Status, r.Wall)
	}
	if neighbour.Status() != sandbox.Running {
		t.Errorf("the neighbour is %v", neighbour.Status())
	}
	neighbour.Kill(0)
}
