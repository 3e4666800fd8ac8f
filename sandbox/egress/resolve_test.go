package egress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/policies/policytest"
)

func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &answers{known: map[string][]string{
			"a.example":    {"1.1.1.1", "::ffff:2.2.2.2"},
			"zone.example": {"fe80::1%eth0", "1.1.1.1"},
		}}
		for i := range 3 * maxAnswers {
			resolver.known["many.example"] = append(resolver.known["many.example"], fmt.Sprintf("1.1.1.%d", i))
		}
		l := newLookups(resolver)
		find := func(name string) string {
			addrs, err := l.find(t.Context(), name)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(addrs)
		}
		if got := find("a.example"); got != "[1.1.1.1 2.2.2.2]" {
			t.Errorf("got %s", got)
		}
		if got := find("zone.example"); got != "[1.1.1.1]" {
			t.Errorf("got %s with a zone", got)
		}
		if addrs, err := l.find(t.Context(), "many.example"); err != nil || len(addrs) != maxAnswers {
			t.Errorf("got %d addresses of many, %v", len(addrs), err)
		}

		// An answer is remembered for answerFor. A failed look-up is not remembered.
		for step, want := range []int{3, 3, 4, 4, 5, 6} {
			switch step {
			case 1:
				time.Sleep(answerFor - time.Millisecond)
				find("a.example")
			case 2:
				time.Sleep(time.Millisecond)
				find("a.example")
			case 3:
				find("a.example")
			case 4, 5:
				if got := find("none.example"); !strings.Contains(got, "no such host") {
					t.Errorf("got %s", got)
				}
			}
			if n := resolver.lookups(); n != want {
				t.Fatalf("step %d: got %d look-ups, want %d", step, n, want)
			}
		}
		for i := range 3 * maxAnswered {
			resolver.known[fmt.Sprint(i)] = []string{"1.1.1.1"}
			find(fmt.Sprint(i))
		}
		if n := len(l.answered); n > maxAnswered {
			t.Errorf("got %d names remembered, want at most %d", n, maxAnswered)
		}
	})
}

// A resolver that does not answer blocks a bounded number of look-ups, for a bounded time.
func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := stuck{make(chan struct{}, 10*lookupsAtOnce)}
		l := newLookups(resolver)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 2 * lookupsAtOnce {
			all.Go(func() {
				if _, err := l.find(t.Context(), fmt.Sprint(i)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		if n := len(resolver.asked); n != lookupsAtOnce {
			t.Errorf("got %d asked at once, want %d", n, lookupsAtOnce)
		}
		all.Wait()
		if took := time.Since(began); took != lookupTime {
			t.Errorf("took %v, want %v", took, lookupTime)
		}
	})
}

// The host's own loopback has a name, which is not looked up. It is reached on the ports
// that allow_private names.
func TestHostName(t *testing.T) {
	port := echo(t)
	e := policytest.Egress(t, fmt.Sprintf("mode: proxy\nallow_private: [\"%s:%d\"]", HostName, port))
	d := open(t, Config{Egress: e, Resolver: &answers{known: map[string][]string{HostName: {"1.1.1.1"}}}})
	c, err := d.Dial(t.Context(), "tcp", fmt.Sprintf("%s:%d", HostName, port))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c, err := d.Dial(t.Context(), "tcp", fmt.Sprintf("%s:%d", HostName, port+1)); err == nil {
		c.Close()
		t.Error("another port of the host was reached")
	}
}
