package fleet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf contains the policy of the fleet at a worker that is tested.
type shelf struct {
	mu   sync.Mutex
	has  Policy // guarded by mu
	says string // guarded by mu: why it refuses every policy; empty if it accepts them
	n    int    // guarded by mu: number of policies that have arrived

	answer chan struct{} // if not nil, policies after the first are answered only when it is closed
}

func (s *shelf) take(_ context.Context, g Policy) error {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if s.answer != nil && n > 1 {
		<-s.answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.says != "" {
		return &Refusal{s.says}
	}
	s.has = g
	return nil
}

func (s *shelf) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has.Number
}

// shelved links a worker that accepts policies of the fleet, or refuses them with a reason.
func shelved(r *rig, name, refuses string) (*mill, *shelf) {
	r.t.Helper()
	s := &shelf{says: refuses, answer: make(chan struct{})}
	if refuses == "" {
		s.answer = nil
	}
	r.configure = func(cfg *WorkerConfig) { cfg.TakePolicy, cfg.PolicyNumber = s.take, s.number }
	defer func() { r.configure = nil }()
	return r.worker(name, r.cert(name, WorkerDNS(name)), echo(name)), s
}

// Each worker gets the newest policy of the fleet, also a worker that connects later. A
// worker that refuses a policy gets it once, and the front has the reason.
func TestPolicyOfAFleet(t *testing.T) {
	r := newRig(t, nil)
	_, one := shelved(r, "w1", "")
	_, no := shelved(r, "w2", "line 3: it has a fault")
	r.worker("w3", r.cert("w3", WorkerDNS("w3")), echo("w3")) // this worker does not support policies of a fleet
	r.front.Give(Policy{Number: 2, Text: "two"})
	r.front.Give(Policy{Number: 1, Text: "one"}) // too late: an older policy
	_, later := shelved(r, "w4", "")
	for name, s := range map[string]*shelf{"w1": one, "w4": later} {
		r.until("the policy at "+name, func() bool { return s.number() == 2 })
	}
	state := func() (all string) {
		for _, w := range r.front.Info().Workers {
			all += fmt.Sprintf("%s %d %.30s,", w.Name, w.Number, w.Refused)
		}
		return all
	}
	const want = "w1 2 ,w2 0 line 3: it has a fault\n,w3 0 this worker takes no policy of,w4 2 ,"
	r.until("what the front knows of it", func() bool { return state() == want })
	if next, err := r.front.NextPolicy(); next != 3 || err != nil || r.front.Info().Number != 2 {
		t.Errorf("the next number is %d, %v", next, err)
	}
	r.front.roster.wake()
	r.front.Give(Policy{Number: 3, Text: "three"})
	r.until("the third policy", func() bool { return one.number() == 3 && later.number() == 3 })
	asked := func() int {
		no.mu.Lock()
		defer no.mu.Unlock()
		return no.n
	}
	r.until("the request to w2", func() bool { return asked() == 2 })
	if got := r.front.Info().Workers[1].Refused; got != "" {
		t.Errorf("w2 has not answered to the third policy, and refuses it: %s", got)
	}
	close(no.answer)
	r.until("the answer of w2", func() bool { return r.front.Info().Workers[1].Refused != "" })

	// A worker that has had an older policy for a minute gets no new places.
	takes := func() (names string) {
		for _, l := range r.front.roster.takers() {
			names += l.Name + " "
		}
		return names
	}
	r.until("what the workers say of it", func() bool { return strings.HasPrefix(state(), "w1 3 ,w2 0 ") && strings.HasSuffix(state(), "w4 3 ,") })
	if got := takes(); got != "w1 w2 w3 w4 " {
		t.Errorf("new places go to %s", got)
	}
	r.front.roster.mu.Lock()
	r.front.roster.policySince = time.Now().Add(-2 * behindWait)
	for _, l := range r.front.roster.links {
		l.since = time.Now().Add(-2 * behindWait)
	}
	r.front.roster.mu.Unlock()
	if got := takes(); got != "w1 w4 " || !r.front.Info().Workers[1].Behind {
		t.Errorf("new places go to %s", got)
	}
	if got := asked(); got != 2 {
		t.Errorf("w2 was asked %d times about two policies", got)
	}
}

// No request of a client can give a policy to a worker, and a text that is not a policy is
// refused.
func TestPolicyOfAStranger(t *testing.T) {
	r := newRig(t, nil)
	m, s := shelved(r, "w1", "")
	const body = `{"number":7,"text":"mine"}`
	send := func(method, body string, header ...string) int {
		req := httptest.NewRequest(method, policyPath, strings.NewReader(body))
		for _, name := range header {
			req.Header.Set(name, "a")
		}
		rec := httptest.NewRecorder()
		m.serve(rec, overLink(req))
		return rec.Code
	}
	for name, got := range map[string]int{
		"in a place": send("POST", body, PlaceHeader), "of a caller": send("POST", body, CallerHeader), "by GET": send("GET", body),
		"no number": send("POST", `{"text":"mine"}`), "the last number": send("POST", `{"number":18446744073709551615,"text":"mine"}`), "no JSON": send("POST", "mine"),
		"too long":          send("POST", `{"number":7,"text":"`+strings.Repeat("x", MaxPolicy+1)+`"}`),
		"far too long":      send("POST", `{"number":7,"text":"`+strings.Repeat("x", MaxPolicyJSON)+`"}`),
		"through the front": status(r, policyPath, body),
	} {
		if got < 400 || s.n > 0 {
			t.Errorf("%s: %d, and %d policies have come", name, got, s.n)
		}
	}
	if status(r, "/p/.."+policyPath, body); s.n > 0 { // this is the path of a place
		t.Error("a path of a place brings a policy")
	}
	if got := send("POST", body); got != http.StatusNoContent || s.number() != 7 {
		t.Errorf("by the front: %d", got)
	}
}

// status sends a POST request to a path of a front, and returns the status.
func status(r *rig, path, body string) int {
	req, _ := http.NewRequest(http.MethodPost, r.http.URL, strings.NewReader(body))
	req.URL.Path = path
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// If several fronts share nothing, none of them gives a policy: the others would have
// another one.
func TestPolicyOfOneFront(t *testing.T) {
	r := newRig(t, func(cfg *FrontConfig) { cfg.Workers = []string{"w1"} })
	if _, err := r.front.NextPolicy(); err == nil || !strings.Contains(err.Error(), "--nats") {
		t.Errorf("with --workers: %v", err)
	}
	r = newRig(t, nil)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"))
	r.front.roster.mu.Lock()
	r.front.roster.links[m.cfg.Name].Fronts = 2
	r.front.roster.mu.Unlock()
	if _, err := r.front.NextPolicy(); err == nil || !strings.Contains(err.Error(), "has 2 fronts") {
		t.Errorf("with a worker of two fronts: %v", err)
	}
	// Whatever number a worker reports, there is always a next number, and no worker gets
	// the last possible number.
	for said, want := range map[uint64]uint64{41: 42, maxAhead + 1: 1, 1<<64 - 1: 1} {
		r.front.cfg.SharedClaims = true
		r.front.roster.mu.Lock()
		r.front.roster.links[m.cfg.Name].number = said
		r.front.roster.mu.Unlock()
		if next, err := r.front.NextPolicy(); next != want || err != nil {
			t.Errorf("a worker says that it has policy %d: the next one is %d, want %d: %v", said, next, want, err)
		}
	}
	if _, err := r.front.NextPolicy(); err != nil {
		t.Errorf("with NATS: %v", err)
	}
}
