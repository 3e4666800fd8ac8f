package approval

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/state"
)

// writeUntilKilled is a process that asks, answers and uses, and says of each
// step that it is acknowledged.
func writeUntilKilled(dir string) {
	store := state.New(dir)
	d, err := New(Config{Store: store, Place: "/p", Event: func(e Event) { fmt.Println(e.Kind, e.Approval.ID) }})
	ctx := context.Background()
	p, err2 := policies.Parse("policy.yaml", []byte(policyText))
	for n := 0; err == nil && err2 == nil; n++ {
		command := fmt.Sprintf("git push %d-%d", os.Getpid(), n)
		f := policies.Facts{Tenant: strconv.Itoa(os.Getpid()), Session: "s", Tool: "Bash", Command: command, Args: map[string]any{"command": command}}
		r := Request{CallID: "c", Principal: "p", Facts: f, Decision: p.Decide(f)}
		var a Approval
		if a, _, err = d.Ask(ctx, r); err != nil {
			break
		}
		yes := n%3 != 0
		if _, err = d.Answer(ctx, a.ID, Reply{Yes: yes, By: "me"}); err == nil && yes {
			_, err = d.Use(ctx, a.ID, r)
		}
	}
	fmt.Println("error", err, err2)
	os.Exit(1)
}

// TestKillWhileWriting kills a process two hundred times while it writes: what
// it said is acknowledged must be there, and a yes that was used is used.
func TestKillWhileWriting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	last := make(map[string]string) // state that was acknowledged, by id
	states := map[string]string{"asked": "pending", "given": "approved", "refused": "declined", "used": "used"}
	total := 0
	for i := range 200 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "APPROVAL_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); {
			kind, id, _ := strings.Cut(lines.Text(), " ")
			if kind == "error" {
				t.Error(lines.Text())
				break
			}
			if kind == "expired" {
				continue
			}
			last[id] = states[kind]
			total++
			if n++; n == 1+i%7 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
	}
	d := opened(t, dir)
	d.Desk.cfg.Now = time.Now
	lost := 0
	order := map[State]int{Pending: 0, Approved: 1, Declined: 1, Used: 2}
	for id, want := range last {
		a, err := d.Get(t.Context(), id)
		// A step that was done and not yet told is no loss.
		if err != nil || order[a.State] < order[State(want)] || a.State != State(want) && want == "declined" {
			t.Errorf("%s was acknowledged as %s and is %q, %v", id, want, a.State, err)
			lost++
		}
	}
	t.Logf("200 kills, %d acknowledged steps of %d approvals, %d lost", total, len(last), lost)
	if total < 200 {
		t.Errorf("only %d steps were acknowledged", total)
	}
}
