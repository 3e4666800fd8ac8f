package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// hostile are programs that try to outlive their call.
var hostile = []string{
	"setsid sleep 1000 & true",
	"(setsid bash -c '(sleep 1000 &) ; sleep 1000' &) ; true",
	"trap '' TERM INT HUP QUIT; sleep 1000",
	"sleep 1000 & kill -STOP $!; kill -STOP $$",
	"while :; do sleep 0.01 & done",
	"f() { sleep 0.1; f & f & }; f; sleep 1000",
	"nohup bash -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 & disown -a",
	"exec 1>&- 2>&-; sleep 1000",
	"yes | head -c 50M & sleep 1000",
	"echo x > x; mkdir -p d; rm -r x d",
	":() { : | : & }; :; sleep 1000",
	"trap '' TERM; while :; do setsid bash -c 'sleep 1000 & sleep 1000' & done",
	"for i in 1 2 3 4 5 6 7 8; do (while :; do (:) & done) & done; wait",
	"(exec -a belljar-init sleep 1000) & exec -a '' sleep 1000",
	"kill -9 -1",
	"kill -9 $$",
	"exit 3",
}

// calls is how many calls the test makes on a usual machine; `make survivors`
// asks for twenty times as many.
const calls = 500

// callsEnv is the environment variable that overrides calls.
const callsEnv = "BELLJAR_TEST_CALLS"

// After any number of hostile calls nothing is left: no process in the box, no file in the
// workspace. TestMain looks for cgroups, mounts, descriptors and processes on the host.
// BenchmarkDeadline measures how long after its deadline a tree is gone.
func TestSurvivors(t *testing.T) {
	b, dir := openBox(t, policytest.GrantWith(t, "pids: 256, memory: 512MiB, output: 1MiB"))
	var mu sync.Mutex
	var late []time.Duration
	count, why := map[string]int{}, map[string]int{}
	// A fixed seed: a failure can be repeated.
	random := rand.New(rand.NewPCG(1, 2))
	// A slow machine gets longer deadlines, because no command would come to its hostile
	// part otherwise, and fewer calls.
	patience := testenv.Patience(t)
	calls := max(100, calls/int(patience))
	if text := os.Getenv(callsEnv); text != "" {
		var err error
		if calls, err = strconv.Atoi(text); err != nil || calls < 100 {
			t.Fatalf("%s is %q, want a number from 100 on", callsEnv, text)
		}
	}
	work := make(chan func(), 4)
	var wg sync.WaitGroup
	for range cap(work) {
		wg.Go(func() {
			for f := range work {
				f()
			}
		})
	}
	for range calls {
		script := hostile[random.IntN(len(hostile))]
		timeout := time.Duration(20+random.IntN(150)) * time.Millisecond * patience
		vanish := random.IntN(4) == 0
		work <- func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if vanish {
				// The client leaves in the middle.
				gone := time.AfterFunc(timeout/2, cancel)
				defer gone.Stop()
			}
			var r sandbox.Result
			var err error
			testenv.Until(200*time.Millisecond*patience, func() bool { // another call may use all processes
				r, err = b.Run(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: script, Timeout: timeout})
				return !errors.Is(err, unix.EAGAIN)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				// The box had no free process for a long time, or the call was cancelled at
				// the start: nothing ran.
				count["refused"]++
				why[err.Error()]++
				return
			}
			count[r.Status.String()]++
			if r.Status == sandbox.TimedOut {
				late = append(late, r.Wall-timeout)
			}
		}
	}
	close(work)
	wg.Wait()
	t.Logf("%v; refused were %v", count, why)
	if count["timed_out"] < calls/10 || count["exited"] < calls/10 || count["killed"] < calls/100 || count["refused"] > calls/3 {
		t.Errorf("the mix is off, so little was shown: %v", count)
	}
	left := b.Processes()
	// A process that is about to end may need a little time.
	if !testenv.Until(5*time.Second*patience, func() bool { left = b.Processes(); return len(left) == 0 }) {
		t.Errorf("left in the box: %q", left)
	}
	// The search must see a command that runs.
	shell(t, b, "sleep 1000 & sleep 0.01")
	j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "echo up; exec sleep 1000", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if seen := b.Processes(); len(seen) == 0 {
		t.Error("a command that runs is not seen, so the absence of others shows nothing")
	}
	j.Kill(0)
	slices.Sort(late)
	t.Logf("gone after the deadline: median %v, p99 %v, max %v", late[len(late)/2], late[len(late)*99/100], late[len(late)-1])
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 2 {
		t.Errorf("left in the workspace: %v, %v", entries, err)
	}
}

// childEnv makes the test binary a supervisor that is about to be killed.
const childEnv = "SANDBOX_TEST_CHILD"

// child runs programs that try to outlive a supervisor, reports that, and waits. The marker
// is in the arguments of all that it starts.
func child(marker string) {
	dir, err := os.MkdirTemp("", "")
	if err == nil {
		err = runChild(dir, marker)
	}
	fmt.Println(err)
	os.Exit(1)
}

func runChild(dir, marker string) error {
	s, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		return err
	}
	p := policies.Default()
	for i := range 3 {
		g := p.Decide(policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}).Grant
		b, err := s.Open(context.Background(), fmt.Sprint(i), g)
		if err != nil {
			return err
		}
		for _, script := range []string{
			"trap '' TERM INT HUP; (setsid sleep 1000." + marker + " &); sleep 2000." + marker,
			"kill -STOP $$; : " + marker,
			"while :; do sleep 0.05; : " + marker + "; done",
		} {
			if _, err := b.Start(context.Background(), sandbox.Cmd{Grant: g, Shell: script, Timeout: 10 * time.Minute}); err != nil {
				return err
			}
		}
	}
	os.RemoveAll(dir)
	fmt.Println("ready")
	select {}
}

// The boxes of a supervisor that is killed die with it, and its keeper removes the cgroups.
func TestSupervisorKilled(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	marker := fmt.Sprint(os.Getpid())
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+marker)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the supervisor said %q, %v", line, err)
	}
	pid := cmd.Process.Pid
	if got := testenv.Traces(t, marker, pid); len(got) < 9 {
		t.Fatalf("before the kill only %d traces are seen, so their absence would show nothing: %v", len(got), got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	testenv.NoTraces(t, marker, pid)
}
