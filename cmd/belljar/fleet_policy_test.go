package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/fleet/bus/bustest"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies/audit"
)

// TestFleetPolicy checks a policy that an operator gives to a fleet: it holds at the front
// and at each worker, for calls that arrive while it is put, after a restart, and at a
// worker that was not running. A policy with a fault changes nothing, and no client can put
// a policy.
func TestFleetPolicy(t *testing.T) {
	g := newGrid(t)
	f := g.front("front")
	one := g.worker("w1", f)
	run := func(status int, args ...string) string {
		t.Helper()
		cmd := g.command(append([]string{"fleet", "policy"}, append(args, "--state", g.path("front"))...)...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != status {
			t.Fatalf("fleet policy %q: status %d, want %d:\n%s", args, cmd.ProcessState.ExitCode(), status, out)
		}
		return string(out)
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !regexp.MustCompile(w).MatchString(out) {
				t.Errorf("%s\nwant %q", out, w)
			}
		}
	}
	write := func(name, text string) string {
		if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return g.path(name)
	}
	says(run(1, "get"), "no policy was given to this fleet")
	says(run(0, "status"), `front +of its file +\S+ +holds`, `w1 +of its file +\S+ +holds`)
	says(run(1, "put", write("bad.yaml", strings.Replace(gridPolicy, "decision: allow", "decision: maybe", 1))), "nothing was changed", `bad.yaml:2:\d+`, `decision: maybe`, `\^`)
	says(run(1, "put", write("files.yaml", strings.Replace(gridPolicy, "tenants:", "projects: {/srv: [./more.yaml]}\ntenants:", 1))), "nothing was changed")
	says(run(1, "put", write("none.yaml", "version: 1\nprofiles: {box: {fs: {system: true}}}\ndefaults: {decision: allow}\n")), "names no tenants")
	says(run(1, "put", write("large.yaml", gridPolicy+strings.Repeat("# more\n", 80_000))), "524,?288")
	{
		const body = `{"number":9,"text":"version: 1"}`
		req, _ := http.NewRequest(http.MethodPost, f.url+"/link/policy", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer one")
		res, err := gridClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode < 400 {
			t.Errorf("a client gives a policy: %v", res)
		}
	}

	// While calls run, the next policy is put: it refuses what the one before allows.
	next := strings.Replace(gridPolicy, "tenants:", "rules: [{id: no-date, match: {tool: Bash, command: date}, decision: deny, reason: The time is secret.}]\ntenants:", 1)
	next = strings.Replace(next, "  b: {token: \"${env:TOKEN_TWO}\"}\n", "", 1)
	var refused, allowed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for i := range 10 {
		calling.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				switch a := ask(ctx, f.url+"/mcp", "one", fmt.Sprintf("%d-%d", i, n), "date"); {
				case ctx.Err() != nil || a.lost: // a busy machine stops a worker for longer than a ping may take
				case a.err != nil || a.status != http.StatusOK && a.status != http.StatusServiceUnavailable:
					t.Errorf("%+v", a)
				case strings.Contains(a.text, "The time is secret"):
					refused.Add(1)
				case a.status == http.StatusOK:
					allowed.Add(1)
				}
			}
		})
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		if !testenv.Until(40*time.Second*testenv.Patience(t), ok) {
			stop()
			t.Fatalf("no %s: %d allowed, %d refused\n%s", what, allowed.Load(), refused.Load(), g.log("w1"))
		}
	}
	wait("calls", func() bool { return allowed.Load() > 0 })
	if a := ask(t.Context(), f.url+"/mcp", "two", "b", "date"); a.status != http.StatusOK {
		t.Errorf("tenant b before it is taken out: %+v", a)
	}
	out := run(0, "put", write("next.yaml", next))
	if a := ask(t.Context(), f.url+"/mcp", "two", "b", "date"); a.status != http.StatusUnauthorized {
		t.Errorf("a tenant that the policy has no more is let in by the front: %+v", a)
	}
	held := time.Now()
	says(out, `front +1 +\S+ +holds`, `w1 +1 +\S+ +holds`)
	wait("refusals", func() bool { return refused.Load() > 20 })
	stop()
	calling.Wait()
	digests := make(map[string]time.Time)
	if err := audit.Read(t.Context(), g.path("w1/state/audit"), audit.Filter{Kind: audit.KindDecision}, func(e audit.Entry) error {
		var d struct {
			Policy string `json:"policy_sha256"`
		}
		if err := json.Unmarshal(e.Raw, &d); err != nil {
			return err
		}
		digests[d.Policy] = e.Time
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, at := range digests {
		if at.After(held.Add(5 * time.Second)) {
			late++
		}
	}
	if len(digests) != 2 || late > 1 {
		t.Errorf("S14: calls were decided by the policies %v; the last was put before %v", digests, held)
	}

	if got := run(0, "get"); got != next {
		t.Errorf("got %q", got)
	}
	two := g.worker("w2", f)
	one.end()
	one = g.worker("w1", f)
	wait("the policy at both workers", func() bool { return strings.Contains(g.log("w2"), "is in force from now on") })
	says(run(0, "status"), `front +1 `, `w1 +1 +\S+ +holds`, `w2 +1 +\S+ +holds`)
	wait("a refusal after a start", func() bool {
		return strings.Contains(ask(t.Context(), f.url+"/mcp", "one", "r", "date").text, "time is secret")
	})

	// The front knows the policy after a restart as well, and gives the next policy a
	// higher number.
	f.end()
	f = g.front("front")
	two.end()
	one.end()
	g.worker("w1", f)
	says(run(0, "put", write("last.yaml", next+"# again\n")), `front +2 `, `w1 +2 +\S+ +holds`)
	says(run(0, "status", "--json"), `"node": "w1",\s+"number": 2`)
	if got, err := os.ReadDir(g.path("w1/state/fleet-policy")); err != nil || len(got) != 1 || got[0].Name() != "2.yaml" {
		t.Errorf("a worker keeps %v, %v", got, err)
	}
	// A worker with a policy that can no longer be used does not start, because another
	// policy may allow more.
	if err := os.WriteFile(g.path("w2/state/fleet-policy/1.yaml"), []byte("version: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := g.command(append([]string{"work", "--name", "w2", "--places", g.path("w2"), "--policy", g.path("policy.yaml"), "--fleet-policy", "--front", "https://" + f.link}, g.cert("w2", "--worker")...)...)
	broken, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(broken), "policy 1 of the fleet") || !strings.Contains(string(broken), "to start with the policy of --policy") {
		t.Errorf("a worker whose policy is damaged starts: %s", broken)
	}
}

// TestFleetPolicyUnwanted checks that nobody can replace the policy of a front or a worker
// that was not started for policies of the fleet: not over the link, not by NATS, and not
// with a policy from an earlier start.
func TestFleetPolicyUnwanted(t *testing.T) {
	g := newGrid(t)
	g.files = true
	f := g.front("front")
	g.worker("w1", f)
	put := func() string {
		t.Helper()
		out, _ := g.command("fleet", "policy", "put", g.path("policy.yaml"), "--state", g.path("front")).CombinedOutput()
		return string(out)
	}
	if out := put(); !strings.Contains(out, "started without --fleet-policy") {
		t.Errorf("a front that was not started for it puts a policy:\n%s", out)
	}
	f.end()
	g.files = false
	f = g.front("front")
	g.files = true
	w := g.worker("w2", f)
	if out := put(); !strings.Contains(out, "w2 refuses it:") || !strings.Contains(out, "it was started without --fleet-policy") {
		t.Errorf("a worker that was not started for it takes a policy:\n%s", out)
	}
	if _, err := os.Stat(g.path("w2/state/fleet-policy")); err == nil {
		t.Error("it keeps the policy")
	}
	w.end()
	f.end()
	g.front("front") // the front has the policy of its earlier start
	out, _ := g.command("fleet", "policy", "status", "--state", g.path("front")).CombinedOutput()
	if !regexp.MustCompile(`front +of its file`).Match(out) {
		t.Errorf("the policy of a start before holds:\n%s", out)
	}
}

// TestFleetPolicyOfFronts checks that a policy that one of several fronts gives to the
// fleet holds at all of them, and that their audit logs say who put it. A front that starts
// later gets it too. A front that shares nothing with the other front of its worker cannot
// put one.
func TestFleetPolicyOfFronts(t *testing.T) {
	g := newGrid(t)
	nats := strings.Join(bustest.Start(t, 1).Addresses(), ",")
	fronts := []*node{g.front("front1", "--nats", nats), g.front("front2", "--nats", nats)}
	g.worker("w1", fronts...)
	policy := func(status int, front string, args ...string) string {
		t.Helper()
		cmd := g.command(append([]string{"fleet", "policy"}, append(args, "--state", g.path(front))...)...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != status {
			t.Fatalf("fleet policy %q: status %d, want %d:\n%s\n%s", args, cmd.ProcessState.ExitCode(), status, out, g.log(front))
		}
		return string(out)
	}
	put := func(front, comment string) string {
		t.Helper()
		if err := os.WriteFile(g.path("next.yaml"), []byte(gridPolicy+comment), 0o600); err != nil {
			t.Fatal(err)
		}
		return policy(0, front, "put", g.path("next.yaml"))
	}
	everywhere := func(comment string, fronts ...string) {
		t.Helper()
		for _, front := range fronts {
			if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
				out, _ := g.command("fleet", "policy", "get", "--state", g.path(front)).Output()
				return string(out) == gridPolicy+comment
			}) {
				t.Fatalf("%s does not have %q:\n%s", front, comment, g.log(front))
			}
		}
	}
	put("front1", "# one\n")
	everywhere("# one\n", "front1", "front2")
	if out := put("front2", "# two\n"); !regexp.MustCompile(`w1 +2 +\S+ +holds`).MatchString(out) {
		t.Errorf("the second policy:\n%s", out)
	}
	everywhere("# two\n", "front1", "front2")
	for _, node := range []string{"front1", "front2", "w1/state"} {
		who := ""
		if err := audit.Read(t.Context(), g.path(node+"/audit"), audit.Filter{Kind: audit.KindPolicy}, func(e audit.Entry) error {
			who += string(e.Raw)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(who, "policy 2 of the fleet, put by ") {
			t.Errorf("the log of %s does not say who put the policy: %s", node, who)
		}
	}
	g.front("front3", "--nats", nats)
	everywhere("# two\n", "front3")
	alone := g.front("alone")
	g.worker("w2", alone, fronts[0])
	if out := policy(1, "alone", "put", g.path("next.yaml")); !strings.Contains(out, "nothing was changed") || !strings.Contains(out, "has 2 fronts") {
		t.Errorf("a front that shares nothing puts a policy:\n%s", out)
	}
}
