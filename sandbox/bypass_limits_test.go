package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
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

// bounded is an attempt to exceed a limit of a profile.
type bounded struct {
	bypass
	limits string
	// records is a part of the reason of a record. It is set if the end of the connection
	// does not count as a refusal.
	records string
}

// bypassLimits returns attempts to use more of the door than a profile allows.
func bypassLimits() []bounded {
	return []bounded{
		{bypass{name: "more bytes", act: muchData, says: "has sent and received the 65536 bytes that the profile lets through in its life"}, "bytes: 64KiB", ""},
		{bypass{name: "more connections at once", act: atOnce(20), says: "as many connections are open as the profile lets through at the same time (4)"}, "connections: 4", ""},
		{bypass{name: "more connections through the proxy at once", act: proxiedAtOnce(20), says: "as many connections are open as the profile lets through at the same time (4)"}, "connections: 4", ""},
		{bypass{name: "more connections in a second", act: oneByOne(60), says: "connect to allowed.example:80 refused, the profile lets through only 5 new connections in a second"}, "rate: 5", ""},
		{bypass{name: "a connection that says nothing", act: lasts("allowed.example:80", "", 0), fails: "ended"}, "idle: 300ms", "the connection was silent for too long"},
		{bypass{name: "a connection to the proxy that says nothing", act: lasts(doorProxy, "", 0), fails: "ended"}, "idle: 300ms", ""},
		{bypass{name: "a request that comes a byte at a time", act: lasts("judged.example:80", get("judged.example", "/v1/x", "X: "+strings.Repeat("x", 1000)), 20*time.Millisecond), fails: "ended"}, "idle: 300ms", "the connection was silent for too long"},
		{bypass{name: "a request to the proxy that comes a byte at a time", act: lasts(doorProxy, get("allowed.example", "http://allowed.example/", "X: "+strings.Repeat("x", 1000)), 20*time.Millisecond), fails: "ended"}, "idle: 300ms", ""},
		{bypass{name: "a ClientHello that comes a byte at a time", act: lasts("allowed.example:443", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("x", 400), 20*time.Millisecond), fails: "ended"}, "idle: 300ms", "the connection was silent for too long"},
		{bypass{name: "a connection that talks for ever", act: lasts("allowed.example:80", strings.Repeat("hello\n", 1000), 20*time.Millisecond), fails: "ended"}, "life: 500ms", "the connection was open for too long"},
		{bypass{name: "a thousand connections that say nothing", act: crowd("allowed.example:80", 1000), says: "as many connections are open as the profile lets through at the same time (16)"}, "connections: 16, rate: 100000", ""},
		{bypass{name: "a thousand connections to the proxy that say nothing", act: crowd(doorProxy, 1000), says: "as many connections are open as the profile lets through at the same time (16)"}, "connections: 16, rate: 100000", ""},
		{bypass{name: "a hundred connections to the resolver that say nothing", act: crowd(doorHost+":53", 100), fails: "were ended"}, "", ""},
		{bypass{name: "more names below an allowed one than in a minute", act: manyNames, says: "too many names that no rule spells out, which are 300 in a minute"}, "", ""},
	}
}

const limitsPolicy = `version: 1
defaults: {decision: allow}
profiles:
  dev:
    fs: {system: true, workspace: ro}
    net:
      mode: proxy
      allow: [allowed.example, {host: judged.example, ports: [80], methods: [GET], paths: ["/v1/**"]}, "*.wild.example"]
      limits: {%s}
`

// TestBypassLimits tries to exceed the limits, in a box for each attempt, while another box
// is still served.
func TestBypassLimits(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n := newInternet(t)
	var kept records
	s, dir := worldOf(t, sandbox.Config{Resolver: n.names, Egress: kept.add})
	addProber(t, dir)
	open := func(id, limits string) *sandbox.Box {
		if limits == "" {
			limits = "rate: 1000"
		}
		g := policytest.GrantFor(t, fmt.Sprintf(limitsPolicy, limits), policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"})
		b, err := s.Open(t.Context(), id, g)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := open("other", "")
	p := place{Token: n.token}
	t.Run("each", func(t *testing.T) {
		for _, b := range bypassLimits() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				box := open(b.name, b.limits)
				defer box.Close()
				n.goesThrough(t, b.bypass, p)
				n.isHeld(t, box, b.bypass, p)
				if b.records != "" && !kept.tells(b.name, b.records) {
					t.Errorf("no record says %q: %+v", b.records, kept.of(b.name))
				}
				served := bypass{name: stillServed, act: allBypassActs()[stillServed]}
				if o, _ := served.inside(t, other, &p); !o.Through {
					t.Errorf("another box is served no more: %s", o.Detail)
				}
			})
		}
	})
}

// records contains the records of doors, by box.
type records struct {
	mu  sync.Mutex
	all map[string][]egress.Record
}

func (r *records) add(box string, rec egress.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string][]egress.Record{}
	}
	r.all[box] = append(r.all[box], rec)
}

func (r *records) of(box string) []egress.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]egress.Record(nil), r.all[box]...)
}

// tells waits for a record with the reason. The record comes shortly after the connection
// has ended.
func (r *records) tells(box, reason string) bool {
	return testenv.Until(2*bypassPatience, func() bool {
		return slices.ContainsFunc(r.of(box), func(rec egress.Record) bool { return strings.Contains(rec.Reason, reason) })
	})
}

// stillServed is the name of an act that uses no more than is allowed.
const stillServed = "what is allowed"

// allBypassActs returns all acts by name.
func allBypassActs() map[string]func(*place) (string, error) {
	acts := map[string]func(*place) (string, error){
		stillServed:       asks("allowed.example:80", get("allowed.example", "/")),
		"an allowed name": asks("allowed.example:80", "hello\n"),
		mixes:             mixture,
		serves:            serveAll,
		searches:          search,
	}
	for _, b := range allBypasses() {
		acts[b.name] = b.act
	}
	for _, b := range bypassLimits() {
		acts[b.name] = b.act
	}
	return acts
}

// muchData asks for a large answer and reads all of it.
func muchData(p *place) (string, error) {
	c, err := p.dial("allowed.example:80")
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, get("allowed.example", "/big")); err != nil {
		return "", err
	}
	got, err := io.CopyN(io.Discard, c, large)
	if err != nil {
		return "", fmt.Errorf("%d bytes came: %w", got, err)
	}
	return "all of it", nil
}

// conns are connections that stay open together.
type conns []net.Conn

func (c conns) close() {
	for _, one := range c {
		one.Close()
	}
}

// atOnce opens many connections, which must all be open and served at the same time.
func atOnce(many int) func(*place) (string, error) {
	return func(p *place) (string, error) {
		var open conns
		defer func() { open.close() }()
		for i := range many {
			c, err := p.dial("allowed.example:80")
			if err != nil {
				return "", fmt.Errorf("connection %d: %w", i+1, err)
			}
			open = append(open, c)
			if _, err := p.askOn(c, "hello\n"); err != nil {
				return "", fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		return fmt.Sprintf("%d connections", many), nil
	}
}

func proxiedAtOnce(many int) func(*place) (string, error) {
	return func(p *place) (string, error) {
		var open conns
		defer func() { open.close() }()
		for i := range many {
			c, err := p.dial(doorProxy)
			if err != nil {
				return "", err
			}
			open = append(open, c)
			if err := tunnelOn(c, "allowed.example:80"); err != nil {
				return "", fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		return fmt.Sprintf("%d tunnels", many), nil
	}
}

// oneByOne makes many connections, one after the other.
func oneByOne(many int) func(*place) (string, error) {
	return func(p *place) (string, error) {
		for i := range many {
			if _, err := p.ask("allowed.example:80", "hello\n"); err != nil {
				return "", fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		return fmt.Sprintf("%d connections", many), nil
	}
}

// lasts keeps a connection open, sends the text on it a byte at a time, and reads what
// comes. Outside, the connection must stay open for a second. Inside, lasts waits longer,
// because there the connection must end.
func lasts(target, text string, pace time.Duration) func(*place) (string, error) {
	return func(p *place) (string, error) {
		c, err := p.dial(target)
		if err != nil {
			return "", err
		}
		defer c.Close()
		long := time.Second
		if !p.Outside {
			long = 4 * bypassPatience
		}
		_ = c.SetDeadline(time.Now().Add(long))
		stop := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			for i := range len(text) {
				select {
				case <-stop:
					return
				case <-time.After(pace):
				}
				if _, err := io.WriteString(c, text[i:i+1]); err != nil {
					return
				}
			}
		})
		_, err = io.Copy(io.Discard, c)
		close(stop)
		wait.Wait()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Sprintf("open for %v", long), nil
		}
		return "", fmt.Errorf("ended: %w", errors.Join(err, io.EOF))
	}
}

// crowd opens many connections that send nothing.
func crowd(target string, many int) func(*place) (string, error) {
	return func(p *place) (string, error) {
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			return "", err
		}
		addr, err := p.lookUp(host)
		if err != nil {
			return "", err
		}
		var mu sync.Mutex
		var wait sync.WaitGroup
		var open conns
		defer func() { open.close() }()
		ended := 0
		for range many {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, port), bypassPatience)
			if err != nil {
				ended++
				continue
			}
			open = append(open, c)
			wait.Go(func() {
				_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ended++
			})
		}
		wait.Wait()
		if ended > 0 {
			return "", fmt.Errorf("%d of %d connections were ended", ended, many)
		}
		return fmt.Sprintf("%d connections", many), nil
	}
}

// manyNames looks up names that were not looked up before.
func manyNames(p *place) (string, error) {
	if p.Outside {
		return "any resolver answers any number of questions", nil
	}
	for i := range 310 {
		if _, err := p.lookUp(fmt.Sprintf("data-%d.wild.example", i)); err != nil {
			return "", fmt.Errorf("name %d: %w", i+1, err)
		}
	}
	return "310 names", nil
}
