package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/policies"
)

// limited returns a policy for the hosts, with limits that change has set.
func limited(change func(*policies.EgressLimits), hosts ...string) *policies.Egress {
	e := allowing(hosts...)
	change(&e.Limits)
	return e
}

func TestLimitsMustBound(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example")})
	before := d.current.Load()
	for name, change := range map[string]func(*policies.EgressLimits){
		"connections 0":  func(l *policies.EgressLimits) { l.Conns = 0 },
		"connections -1": func(l *policies.EgressLimits) { l.Conns = -1 },
		"rate 0":         func(l *policies.EgressLimits) { l.Rate = 0 },
		"rate NaN":       func(l *policies.EgressLimits) { l.Rate = math.NaN() },
		"rate +Inf":      func(l *policies.EgressLimits) { l.Rate = math.Inf(1) },
		"bytes 0":        func(l *policies.EgressLimits) { l.Bytes = 0 },
		"idle 0s":        func(l *policies.EgressLimits) { l.Idle = 0 },
		"life -1ns":      func(l *policies.EgressLimits) { l.Life = -1 },
	} {
		e := limited(change, "a.example")
		if _, err := New(Config{Egress: e}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New with %s: got %v", name, err)
		}
		if err := d.Set(e); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Set with %s: got %v", name, err)
		}
	}
	zeroPort := allowing("a.example")
	zeroPort.Allow[0].Ports = []uint16{443, 0}
	for _, e := range []*policies.Egress{nil, zeroPort} {
		if _, err := New(Config{Egress: e}); err == nil {
			t.Errorf("New with %+v: got no error", e)
		}
		if err := d.Set(e); err == nil {
			t.Errorf("Set with %+v: got no error", e)
		}
	}
	if d.current.Load() != before {
		t.Error("a change that was refused has changed the policy")
	}
	// A policy that allows nothing needs no limits.
	if err := d.Set(&policies.Egress{}); err != nil {
		t.Error(err)
	}
	_, err := d.Dial(t.Context(), "tcp", "a.example:443")
	if r, ok := errors.AsType[*Refused](err); !ok || r.Record.Reason != `profile "dev" has no network` {
		t.Errorf("got %v", err)
	}
}

func TestConnsAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told records
		d := open(t, Config{Record: told.add, Egress: limited(func(l *policies.EgressLimits) { l.Conns, l.Rate = 3, 5 }, "a.example")})
		begin := func(want string) *flow {
			t.Helper()
			f, err := d.begin(t.Context())
			d.turnAway(err, netip.AddrPort{})
			if r, ok := errors.AsType[*Refused](err); ok != (want != "") || ok && !strings.Contains(r.Record.Reason, want) {
				t.Fatalf("got %v, want %q", err, want)
			}
			return f
		}
		// A burst may have twice the rate, but no more than three connections at the same
		// time.
		var flows []*flow
		for range 3 {
			flows = append(flows, begin(""))
		}
		begin("at the same time (3)")
		for range 7 {
			flows[0].end(nil)
			flows[0].end(nil) // releases one slot, not two
			flows = append(flows[1:], begin(""))
		}
		flows[0].end(nil)
		begin("5 new connections in a second")
		time.Sleep(200 * time.Millisecond)
		flows[0] = begin("")
		for _, f := range flows {
			f.end(nil)
		}
		begin("5 new connections in a second")
		time.Sleep(time.Hour)
		for range 3 {
			flows = append(flows, begin(""))
		}
		begin("at the same time (3)")
		for _, f := range flows {
			f.end(nil)
		}
		if n := d.caps.conns.Load(); n != 0 {
			t.Errorf("got %d connections left", n)
		}
		refused := 0
		for _, r := range told.list() {
			if !r.Allowed {
				refused++
			}
		}
		if refused != 3 { // three of four refusals: two equal ones within throttleFor are recorded once
			t.Errorf("got %d records of refused connections, want 3", refused)
		}
	})
}

func TestBytes(t *testing.T) {
	p := echo(t)
	var told records
	e := private(limited(func(l *policies.EgressLimits) { l.Bytes = 1000 }), at("a.example", p))
	d := open(t, Config{Egress: e, Record: told.add, Resolver: &answers{known: map[string][]string{"a.example": {"127.0.0.1"}}}})
	c, err := d.Dial(t.Context(), "tcp", at("a.example", p))
	if err != nil {
		t.Fatal(err)
	}
	ping(t, c, strings.Repeat("x", 500))
	_, err = c.Write([]byte("x"))
	if r, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(r.Record.Reason, "the 1000 bytes") {
		t.Errorf("got %v after 1001 bytes, want a refusal", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection goes on")
	}
	c.Close()
	_, err = d.Dial(t.Context(), "tcp", at("a.example", p))
	if r, ok := errors.AsType[*Refused](err); !ok || strings.Contains(r.Record.Refusal(), "more slowly") {
		t.Errorf("got %v for the next connection, want a refusal with other advice than to be slow", err)
	}
	// Another policy gives the box no new bytes, unless its limit is higher.
	more := private(limited(func(l *policies.EgressLimits) { l.Bytes = 1002 }), at("a.example", p))
	for e, want := range map[*policies.Egress]bool{e: false, more: true} {
		if err := d.Set(e); err != nil {
			t.Fatal(err)
		}
		c, err := d.Dial(t.Context(), "tcp", at("a.example", p))
		if (err == nil) != want {
			t.Errorf("got %v with %d bytes", err, e.Limits.Bytes)
		}
		if err == nil {
			c.Close()
		}
	}
	if r := told.list()[0]; r.Allowed || r.Rule != ruleLimits || r.Sent != 501 || r.Received != 500 {
		t.Errorf("got record %+v", r)
	}
	if n := Carried(d); n != 1001 {
		t.Errorf("the door carried %d bytes, want 1001", n)
	}
}

// A refusal is recorded as one, even if the door was closed or the time was up before the
// flow ended.
func TestRefusalOutlastsOtherCauses(t *testing.T) {
	for _, cause := range []error{ErrClosed, errIdle, errLife} {
		var told records
		d := open(t, Config{
			Egress: allowing("a.example", "inner.example"), Record: told.add,
			Resolver: &answers{known: map[string][]string{"inner.example": {"10.1.2.3"}}},
		})
		for _, name := range []string{"evil.example", "inner.example"} {
			f, err := d.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.connect(t.Context(), host(t, name), 443)
			f.shut(cause)
			f.end(err)
		}
		list := told.list()
		if len(list) != 2 {
			t.Fatalf("%v: got %d records, want 2: %+v", cause, len(list), list)
		}
		for _, r := range list {
			if r.Allowed || r.Rule == "" || strings.Contains(r.Reason, cause.Error()) {
				t.Errorf("%v: got record %+v, want a refusal", cause, r)
			}
		}
	}
}

// A flow ends if it is silent for too long, or open for too long.
func TestIdleAndLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told records
		d := open(t, Config{Record: told.add, Egress: limited(func(l *policies.EgressLimits) { l.Idle, l.Life = time.Minute, time.Hour }, "a.example")})
		start := func() (*flow, net.Conn) {
			f, err := d.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.rec.Host = host(t, "a.example")
			box, door := net.Pipe()
			f.own(func() { door.Close() })
			return f, box
		}
		// until reads to the end, and returns how long that took.
		until := func(c net.Conn) time.Duration {
			began := time.Now()
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Fatal("got a byte")
			}
			return time.Since(began)
		}

		f, c := start()
		if took := until(c); took != time.Minute {
			t.Errorf("a silent flow: ended after %v", took)
		}
		if err := f.count(1, 0); !errors.Is(err, errIdle) {
			t.Errorf("got %v, want %v", err, errIdle)
		}
		late := false
		f.own(func() { late = true })
		if !late {
			t.Error("what a flow got after its end was not closed")
		}
		f.end(nil)
		if r := told.list()[0]; !r.Allowed || r.Reason != "the connection was silent for too long (1m0s)" || r.Took != time.Minute {
			t.Errorf("got record %+v", r)
		}

		f, c = start()
		time.Sleep(50 * time.Second)
		if err := f.count(1, 1); err != nil {
			t.Error(err)
		}
		if took := until(c); took != time.Minute {
			t.Errorf("a flow that spoke once: ended %v after it did", took)
		}
		f.end(nil)

		f, c = start()
		began := time.Now()
		for f.count(1, 0) == nil {
			time.Sleep(31 * time.Second)
		}
		until(c)
		f.end(nil)
		if took := time.Since(began); took < time.Hour || took > time.Hour+31*time.Second {
			t.Errorf("a busy flow: ended after %v", took)
		}
		if r := told.list()[2]; !strings.Contains(r.Reason, "open for too long") {
			t.Errorf("got record %+v", r)
		}
	})
}

// TestMeant checks which host an address stands for: a name, or the address itself.
func TestMeant(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example", "b.example")})
	d.names.most = 1
	addr, _ := d.names.give(host(t, "a.example"))
	begin := func() *flow {
		f, err := d.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := begin()
	if h, err := f.meant(netip.AddrPortFrom(addr, 443)); err != nil || h.Name() != "a.example" {
		t.Errorf("got %v, %v", h, err)
	}
	if _, ok := d.names.give(host(t, "b.example")); ok {
		t.Error("an address was taken from a name that is in use")
	}
	f.end(nil)
	if _, ok := d.names.give(host(t, "b.example")); !ok {
		t.Error("a name was kept after its last flow")
	}
	f = begin()
	_, err := f.meant(netip.AddrPortFrom(addr, 443))
	if r, ok := errors.AsType[*Refused](err); !ok || r.Record.what() != "connect to 198.18.0.1:443" || !strings.Contains(r.Record.Instead, "Look the name up again") {
		t.Errorf("got %v of an address that lost its name", err)
	}
	f.end(err)
	for _, literal := range []string{"1.2.3.4:443", "[::ffff:1.2.3.4]:443"} {
		f = begin()
		if h, err := f.meant(netip.MustParseAddrPort(literal)); err != nil || h.String() != "1.2.3.4" {
			t.Errorf("%s: got %v, %v", literal, h, err)
		}
		f.end(nil)
	}
}

// While the policy changes a thousand times, each flow is judged by one policy: one of the
// two that take turns, never by a part of each, and never by a policy that was refused.
func TestSetUnderLoad(t *testing.T) {
	p := echo(t)
	policy := func(method string, idle time.Duration) *policies.Egress {
		e := private(limited(func(l *policies.EgressLimits) { l.Idle = idle }), at("a.example", p))
		e.Allow = []policies.EgressRule{{Host: "a.example", Ports: []uint16{p}, Methods: []string{method}}}
		return e
	}
	get, post := policy("GET", time.Minute), policy("POST", time.Hour)
	bad := policy("PUT", 0)
	d := open(t, Config{Egress: get, Resolver: &answers{known: map[string][]string{"a.example": {"127.0.0.1"}}}})

	var done atomic.Bool
	var total atomic.Int64
	var flows, gets [4]int
	var workers sync.WaitGroup
	for i := range flows {
		workers.Go(func() {
			for !done.Load() {
				got, err := judged(d, host(t, "a.example"), p)
				if err != nil {
					t.Error(err)
					return
				}
				flows[i]++
				total.Add(1)
				if got {
					gets[i]++
				}
			}
		})
	}
	for i := range 1000 {
		e := []*policies.Egress{get, post, bad}[i%3]
		if err := d.Set(e); (err == nil) != (e != bad) {
			t.Errorf("set: got %v", err)
		}
		for before := total.Load(); total.Load() == before && !t.Failed(); {
			runtime.Gosched() // some flow ends between any two changes
		}
	}
	done.Store(true)
	workers.Wait()
	t.Logf("%v flows, of which under the first policy %v", flows, gets)
}

// judged connects one flow and judges requests of several methods on it. It returns an
// error if the verdicts are not those of one policy, and reports whether the policy allowed
// GET.
func judged(d *Door, h policies.Host, p uint16) (get bool, err error) {
	f, err := d.begin(context.Background())
	if err != nil {
		return false, err
	}
	defer func() { f.end(err) }()
	c, err := f.connect(context.Background(), h, p)
	if err != nil {
		return false, err
	}
	defer c.Close()
	for range 5 {
		get, post, put := f.judge("GET", "/") == nil, f.judge("POST", "/") == nil, f.judge("PUT", "/") == nil
		want := f.snap.limits.Idle == time.Minute
		if get != want || post == want || put || !f.requests() {
			return false, fmt.Errorf("got GET %v, POST %v, PUT %v under limits of GET: %v", get, post, put, want)
		}
	}
	return f.judge("GET", "/") == nil, nil
}

// judge records a refused request with its details; served records an allowed one.
func TestJudge(t *testing.T) {
	var told records
	e := allowing()
	e.Allow = []policies.EgressRule{{Host: "a.example", Ports: []uint16{443}, Methods: []string{"GET"}, Paths: []string{"/v1/**"}}}
	d := open(t, Config{Egress: e, Record: told.add})
	f, err := d.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.rec.Host, f.rec.Port = host(t, "a.example"), 443
	if err := f.judge("GET", "/v1/x?secret=1"); err != nil {
		t.Error(err)
	}
	f.served(time.Now(), "GET", "/v1/x?secret=1", "github", 3, 4, nil)
	err = f.judge("DELETE", "/v1/x\r\nevil?y")
	if r, ok := errors.AsType[*Refused](err); !ok || r.Record.what() != `DELETE a.example:443/v1/x\r\nevil` {
		t.Errorf("got %v", err)
	}
	f.end(nil)
	list := told.list()
	if len(list) != 3 {
		t.Fatalf("got %d records, want 3: %+v", len(list), list)
	}
	if r := list[0]; !r.Allowed || r.Proto != "http" || r.Method != "GET" || r.Path != "/v1/x" || r.Secret != "github" || r.Sent != 3 || r.Received != 4 {
		t.Errorf("got %+v", r)
	}
	if r := list[1]; r.Allowed || r.Method != "DELETE" || r.Secret != "" {
		t.Errorf("got %+v", r)
	}
	if r := list[2]; !r.Allowed || r.Proto != "tcp" || r.Method != "" {
		t.Errorf("got %+v", r)
	}
}

// A client whose connection is closed asks immediately why. The refusal must have been
// recorded by then.
func TestRefusalIsRecordedBeforeTheClientSeesIt(t *testing.T) {
	for name, limits := range map[string]policies.EgressLimits{
		"of the connection": wide,
		"of further bytes":  {Conns: 64, Rate: 1e6, Bytes: 100, Idle: time.Minute, Life: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			cut := make(chan struct{})
			early := false
			s := serve(t, echo(t), func(c *Config) {
				c.Egress.Limits = limits
				c.Record = func(r Record) {
					if r.Allowed {
						return
					}
					select {
					case <-cut:
						early = true
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
			target, text := site, strings.Repeat("x", 200)
			if limits == wide {
				target = "denied.example"
			}
			c := s.dial(t, target, s.port)
			c.Write([]byte(text))
			io.Copy(io.Discard, c)
			close(cut)
			s.d.Close()
			if early {
				t.Error("the client saw the end of the connection before it was recorded")
			}
		})
	}
}
