package sandbox_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// Two policies that differ in two things, the method and the path of what they allow. A
// verdict that took one of these from each policy would allow GET /b or POST /a, which
// neither policy does.
const regrantPolicy = `version: 1
defaults: {decision: allow, profile: dev}
profiles:
  dev:
    fs: {system: true, workspace: ro}
    publish: [%s]
    net:
      mode: proxy
      allow: [{host: judged.example, ports: [80], methods: [%s], paths: ["%s/**"]}, %s]
      limits: {connections: 256, rate: 100000}
`

func regrantPolicies(t testing.TB) (a, b string) {
	t.Helper()
	return fmt.Sprintf(regrantPolicy, "3000, 3001", "GET", "/a", "allowed.example"), fmt.Sprintf(regrantPolicy, "3001", "POST", "/b", "other.example")
}

// parsed returns the policy of that text.
func parsed(t testing.TB, text string) *policies.Policy {
	t.Helper()
	p, err := policies.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdicts is what a program in a box saw of two policies.
type verdicts struct {
	A, B   int      // number of connections under the one policy and under the other
	Mixed  []string // what neither policy allows
	Faults []string
}

// mixes names the act that looks for verdicts that mix two policies, until its standard
// input ends.
const mixes = "mixed verdicts"

// mixture makes connections with several requests each. All requests of one connection must
// be judged under one policy.
func mixture(p *place) (string, error) {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	addr, err := p.lookUp("judged.example")
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	var all verdicts
	var wait sync.WaitGroup
	for n := range 6 {
		wait.Go(func() {
			for i := n; !isClosed(stop); i++ {
				var v verdicts
				v.try(addr, i)
				mu.Lock()
				all.A, all.B = all.A+v.A, all.B+v.B
				if len(all.Mixed)+len(all.Faults) < 20 {
					all.Mixed, all.Faults = append(all.Mixed, v.Mixed...), append(all.Faults, v.Faults...)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	text, err := json.Marshal(all)
	return string(text), err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// try makes one connection. Its first request shows whether the connection is under the
// expected policy. If it is, the other requests must be judged under it too.
func (v *verdicts) try(addr string, i int) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, "80"), bypassPatience)
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(bypassPatience))
	in := bufio.NewReader(c)
	served := func(method, path string) bool {
		if _, err := io.WriteString(c, request(method, "judged.example", path+"/fast", "Content-Length: 0")); err != nil {
			v.Faults = append(v.Faults, err.Error())
			return false
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			v.Faults = append(v.Faults, err.Error())
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	}
	switch i % 4 {
	case 0, 1: // first a request that one policy allows, then one of the other policy
		own, other := [2]string{"GET", "/a"}, [2]string{"POST", "/b"}
		if i%4 == 1 {
			own, other = other, own
		}
		if !served(own[0], own[1]) {
			return
		}
		if i%4 == 0 {
			v.A++
		} else {
			v.B++
		}
		for range 3 {
			if !served(own[0], own[1]) {
				v.Mixed = append(v.Mixed, fmt.Sprintf("%v was let through and then refused on one connection", own))
				return
			}
		}
		if served(other[0], other[1]) {
			v.Mixed = append(v.Mixed, fmt.Sprintf("%v and %v were let through on one connection", own, other))
		}
	case 2:
		if served("GET", "/b") {
			v.Mixed = append(v.Mixed, "GET /b")
		}
	case 3:
		if served("POST", "/a") {
			v.Mixed = append(v.Mixed, "POST /a")
		}
	}
}

// TestRegrantUnderLoad changes the policy a thousand times while a program in
// the box connects as fast as it can.
func TestRegrantUnderLoad(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n := newInternet(t)
	progress := make(chan struct{}, 1)
	var kept records
	s, dir := worldOf(t, sandbox.Config{Resolver: n.names, Egress: func(box string, r egress.Record) {
		if r.Proto == "http" && r.Allowed {
			kept.add(r.Method+" "+r.Path, egress.Record{})
		}
		select {
		case progress <- struct{}{}:
		default:
		}
	}})
	addProber(t, dir)
	one, two := regrantPolicies(t)
	a, b := parsed(t, one), parsed(t, two)
	box, err := s.Open(t.Context(), "dev", policytest.GrantFor(t, one, policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(place{Token: n.token})
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	job, err := box.Start(t.Context(), sandbox.Cmd{Grant: box.Grant(), Argv: []string{"/workspace/" + bypassName, mixes}, In: r, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	changes := max(1000/int(testenv.Patience(t)), 200)
	late := time.After(40 * time.Second)
	for i := range changes {
		if i%2 == 0 {
			s.Regrant(t.Context(), b)
		} else {
			s.Regrant(t.Context(), a)
		}
		if i%100 == 50 {
			if err := box.SetEgress(t.Context(), &policies.Egress{Allow: []policies.EgressRule{{Host: "*", Ports: []uint16{80}}}}); err == nil {
				t.Error("a policy without limits is taken")
			}
		}
		for range 4 {
			select {
			case <-progress: // a connection was judged meanwhile
			case <-job.Done():
				t.Fatalf("the program has ended after %d changes", i)
			case <-late:
				t.Fatalf("%d changes in 40 s", i)
			}
		}
	}
	w.Close()
	result, err := job.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	var v verdicts
	out := read(t, result.Output)
	if json.Unmarshal([]byte(out), &o) != nil || json.Unmarshal([]byte(o.Detail), &v) != nil {
		t.Fatalf("the program said %q", out)
	}
	if len(v.Mixed) > 0 || len(v.Faults) > 0 {
		t.Errorf("mixed: %q, faults: %q", v.Mixed, v.Faults)
	}
	if v.A == 0 || v.B == 0 {
		t.Errorf("%d connections were under the one policy and %d under the other: want some of both", v.A, v.B)
	}
	for _, wrong := range []string{"GET /b/fast", "POST /a/fast"} {
		if got := len(kept.of(wrong)); got > 0 {
			t.Errorf("%s is on record as let through %d times", wrong, got)
		}
	}
	t.Logf("%d changes; %d connections under the one policy, %d under the other", changes, v.A, v.B)
}

// regranted returns a supervisor whose policy changes, and a function that opens a box to
// test what it can reach.
func regranted(t *testing.T) (n *internet, s *sandbox.Supervisor, open func(id string) *sandbox.Box) {
	t.Helper()
	n = newInternet(t)
	s, dir := worldOf(t, sandbox.Config{Resolver: n.names})
	addProber(t, dir)
	one, _ := regrantPolicies(t)
	return n, s, func(id string) *sandbox.Box {
		b, err := s.Open(t.Context(), id, policytest.GrantFor(t, one, policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// lets reports whether a program in a box gets the answer of a host, and returns what the
// door said about it.
func (n *internet) lets(t *testing.T, b *sandbox.Box, name string) (bool, string) {
	t.Helper()
	o, r := (&bypass{name: name}).inside(t, b, &place{Token: n.token})
	said := o.Detail
	for _, rec := range r.Blocked {
		said += "\n" + rec.Refusal()
	}
	return o.Through, said
}

// A box that is opened while the policy changes gets the newest policy.
func TestRegrantReachesBoxesThatAreBeingOpened(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n, s, open := regranted(t)
	one, two := regrantPolicies(t)
	a, b := parsed(t, one), parsed(t, two)
	const rounds = 5
	for round := range rounds {
		var wait sync.WaitGroup
		stop := make(chan struct{})
		wait.Go(func() {
			for !isClosed(stop) {
				s.Regrant(t.Context(), a)
				s.Regrant(t.Context(), b)
			}
		})
		boxes := []*sandbox.Box{open(fmt.Sprint("first ", round)), open(fmt.Sprint("second ", round))}
		close(stop)
		wait.Wait()
		for _, box := range boxes {
			if ok, said := n.lets(t, box, "an allowed name"); ok {
				t.Errorf("round %d: the old policy holds: %s", round, said)
			}
			if ok, said := n.lets(t, box, "a name that no rule allows"); !ok {
				t.Errorf("round %d: the new policy does not hold: %s", round, said)
			}
			box.Close()
		}
	}
}

// If the profile no longer exists, or requires what a box cannot be given later, nothing
// leaves the box, and its ports are not published any more.
func TestRegrantClosesWhatIsNoLongerAllowed(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n, s, open := regranted(t)
	one, two := regrantPolicies(t)
	box := open("dev")
	publish := func(port uint16) *sandbox.Published {
		p, err := box.Publish(t.Context(), port, netip.MustParseAddrPort("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	gone, stays := publish(3000), publish(3001)
	taken := func(p *sandbox.Published) bool {
		c, err := net.Dial("tcp", p.At.String())
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if !taken(gone) || !taken(stays) {
		t.Fatal("what was published is not there")
	}
	s.Regrant(t.Context(), parsed(t, two))
	if taken(gone) || !taken(stays) || len(box.Published()) != 1 {
		t.Errorf("port 3000 open: %v, want closed; port 3001 open: %v; published: %v", taken(gone), taken(stays), box.Published())
	}
	if _, err := box.Publish(t.Context(), 3000, netip.MustParseAddrPort("127.0.0.1:0")); err == nil {
		t.Error("port 3000 can be published again")
	}
	for name, text := range map[string]string{
		"the profile is gone":   strings.ReplaceAll(one, "dev", "nobody"),
		"it has no network":     "version: 1\ndefaults: {decision: allow, profile: dev}\nprofiles: {dev: {fs: {system: true, workspace: ro}, net: {mode: none}}}\n",
		"TLS is opened instead": strings.Replace(one, "mode: proxy", "mode: proxy\n      tls: intercept", 1),
	} {
		t.Run(name, func(t *testing.T) {
			s.Regrant(t.Context(), parsed(t, one))
			if ok, said := n.lets(t, box, "an allowed name"); !ok {
				t.Fatalf("before: %s", said)
			}
			s.Regrant(t.Context(), parsed(t, text))
			ok, said := n.lets(t, box, "an allowed name")
			if ok || !strings.Contains(said, `profile "dev" has no network`) {
				t.Errorf("got %v, %s", ok, said)
			}
		})
	}
	// A box that was made without a network is not given one later.
	s.Regrant(t.Context(), parsed(t, one))
	if ok, said := n.lets(t, box, "an allowed name"); !ok {
		t.Errorf("the profile is back, and the box does not have it: %s", said)
	}
}
