package sandbox_test

import (
	"errors"
	"fmt"
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

// totalled returns a grant for a tenant under a policy with these totals.
func totalled(t testing.TB, tenant, limits, totals string) policies.Grant {
	t.Helper()
	return policytest.GrantFor(t, fmt.Sprintf(
		"version: 1\ndefaults: {decision: allow}\nprofiles:\n  test: {fs: {system: true, workspace: rw}, limits: {%s}}\ntotals: {%s}\n", limits, totals),
		policies.Facts{Tenant: tenant, Tool: "Bash", Command: "true"})
}

// background starts a script as a job.
func background(t testing.TB, b *sandbox.Box, script string) *sandbox.Job {
	t.Helper()
	j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: script, Timeout: time.Minute, Background: true})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestTenantsProcessesAreBounded checks that fork bombs in several boxes of one tenant stay
// within the tenant's total of processes, that one more box is refused, and that another
// tenant does not notice.
func TestTenantsProcessesAreBounded(t *testing.T) {
	testenv.NeedCgroups(t)
	testenv.Need(t, testenv.Perl)
	const total = 200
	s, _ := world(t)
	g := totalled(t, "bomber", "pids: 150, wall: 1m", fmt.Sprintf("pids: %d", total))
	neighbour, err := s.Open(t.Context(), "neighbour", totalled(t, "neighbour", "pids: 150", "pids: 150"))
	if err != nil {
		t.Fatal(err)
	}
	const script = `perl -e '$| = 1; for ($n = 0; $n < 1000; $n++) { defined($p = fork) or last; $p or sleep(1000), exit } print "$n\n"; sleep 1000'`
	sum, refused := 0, 0
	for i := range 3 {
		b, err := s.Open(t.Context(), "bomb-"+strconv.Itoa(i), g)
		var refusal *limit.Refusal
		if errors.As(err, &refusal) && errors.Is(err, limit.ErrTooMany) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(firstLine(t, background(t, b, script)))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if refused != 1 {
		t.Errorf("%d boxes were refused, want the one for whose init there is no room", refused)
	}
	if sum > total || sum < total/2 {
		t.Errorf("the boxes made %d processes, want at most %d, and not far from it", sum, total)
	}
	if _, out := shell(t, neighbour, "for i in $(seq 100); do true & done; wait; echo here"); out != "here\n" {
		t.Errorf("the neighbour got %q", out)
	}
}

// firstLine returns the first line that a job writes. It returns earlier if the job ends.
func firstLine(t testing.TB, j *sandbox.Job) string {
	t.Helper()
	for {
		text, _, _, err := j.Output().Read(0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if line, _, ok := strings.Cut(string(text), "\n"); ok {
			return line
		}
		if j.Status() != sandbox.Running {
			return ""
		}
		if err := j.Output().Wait(t.Context(), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTenantsMemoryIsBounded checks that two boxes of one tenant, each within its own
// memory limit, cannot exceed the tenant's total.
func TestTenantsMemoryIsBounded(t *testing.T) {
	testenv.NeedCgroups(t)
	testenv.Need(t, testenv.Perl)
	s, _ := world(t)
	g := totalled(t, "hungry", "memory: 256MiB, tmp: 16MiB", "memory: 288MiB")
	jobs := make([]*sandbox.Job, 2)
	for i := range jobs {
		b, err := s.Open(t.Context(), "hungry-"+strconv.Itoa(i), g)
		if err != nil {
			t.Fatal(err)
		}
		jobs[i] = background(t, b, `perl -e '$| = 1; vec($x, (200 << 20) - 1, 8) = 1; print "full\n"; sleep 1000'`)
		if i == 0 && firstLine(t, jobs[0]) != "full" {
			t.Fatal("one box alone found no room")
		}
	}
	select {
	case <-jobs[0].Done():
	case <-jobs[1].Done():
	case <-time.After(time.Minute):
		t.Fatal("both boxes together hold 400 MiB of the tenant's 288 MiB")
	}
	if jobs[0].Status() != sandbox.OOM && jobs[1].Status() != sandbox.OOM {
		t.Errorf("got %v and %v, want one to run out of memory", jobs[0].Status(), jobs[1].Status())
	}
}

func TestTenantsBoxesAreCounted(t *testing.T) {
	s, _ := world(t)
	g := totalled(t, "many", "", "boxes: 2")
	var boxes []*sandbox.Box
	for i := range 2 {
		b, err := s.Open(t.Context(), strconv.Itoa(i), g)
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, b)
	}
	_, err := s.Open(t.Context(), "third", g)
	var refusal *limit.Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, limit.ErrTooMany) || !strings.Contains(refusal.Message, `2 boxes of tenant "many" are open`) {
		t.Errorf("a third box: got %v, want a refusal", err)
	}
	if _, err := s.Open(t.Context(), "other", totalled(t, "other", "", "boxes: 2")); err != nil {
		t.Errorf("another tenant's box: %v", err)
	}
	if err := boxes[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "third", g); err != nil {
		t.Errorf("a third box when one was closed: %v", err)
	}
}
