package mcp_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"belljar.dev/mcp"
)

// mostFlood is the memory that a client may make the server use, in addition to its idle
// state.
const mostFlood = 64 << 20

// heap returns the memory that a garbage collection has found in use, in bytes. Memory that
// was allocated since then does not count, because a flood continues meanwhile: on a
// machine with one core this was tens of MB of garbage.
func heap() uint64 {
	runtime.GC()
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(found)
	return found[0].Value.Uint64() + found[1].Value.Uint64()
}

// TestFlood sends 20,000 calls that do not end, lines of 20 MB, and calls that are large
// themselves. All the time, the server must answer pings and cancels, and must not use more
// memory than mostFlood.
func TestFlood(t *testing.T) {
	// There is no limit on the rate, so that the limits on the requests in flight apply.
	ty := newToy(t, func(c *mcp.Config) { c.Limits.Rate, c.Limits.Burst = 1e9, 1<<30 })
	c := ty.connect(t)
	c.greet(revLegacy)
	// The client's own lines are made before idle is measured, because they do not count.
	long20 := append(bytes.Repeat([]byte("z"), 20_000_000), '\n')
	large := fmt.Sprintf(`{"x":%q}`, strings.Repeat("y", 1_000_000)) // hang has no argument x, but the server must read it
	idle := heap()

	const calls = 20_000
	go func() {
		for i := range calls {
			line := call(fmt.Sprint(i), "hang", `{}`)
			if i%1000 == 999 {
				line = call(fmt.Sprint(i), "hang", large)
			}
			if _, err := io.WriteString(c.in, line+"\n"); err != nil {
				return
			}
			if i%100 == 99 {
				io.WriteString(c.in, req(fmt.Sprintf(`"ping-%d"`, i), "ping")+"\n")
			}
			if i%5000 == 4999 {
				c.in.Write(long20)
			}
		}
		io.WriteString(c.in, req(`"end"`, "ping")+"\n")
	}()
	var refused, pings, long int
	var worst uint64
	for a := c.next(); string(a.ID) != `"end"`; a = c.next() {
		switch {
		case a.Error != nil && a.Error.Code == -32003:
			refused++
		case a.Error != nil && string(a.ID) == "null":
			long++
		case strings.HasPrefix(string(a.ID), `"ping-`) && a.Error == nil:
			pings++
		default:
			t.Fatalf("answered %.200s", a.raw)
		}
		if refused%4000 == 1 {
			worst = max(worst, heap())
		}
	}
	worst = max(worst, heap())
	if pings != calls/100 || long != calls/5000 {
		t.Errorf("%d pings and %d long lines were answered, want %d and %d", pings, long, calls/100, calls/5000)
	}
	if want := calls - 128 - 1024; refused != want {
		t.Errorf("%d calls were refused, want %d", refused, want)
	}
	if worst > idle+mostFlood {
		t.Errorf("the server held %d MB above its idle state, want at most %d", (worst-idle)>>20, mostFlood>>20)
	}
	t.Logf("%d MB above idle at the worst", (worst-min(worst, idle))>>20)

	// Every running call can be cancelled, and then the next calls run.
	for range 128 {
		<-ty.running
	}
	for i := range 128 {
		c.send(fmt.Sprintf(cancelOf, fmt.Sprint(i)))
	}
	for range 128 {
		<-ty.cancelled
		<-ty.running
	}
	started := time.Now()
	c.send(req(`"last"`, "ping"))
	if a := c.next(); a.short() != `"last": ok` {
		t.Errorf("ping answered %s", a.raw)
	}
	if took := time.Since(started); took > time.Second {
		t.Errorf("the ping took %v", took)
	}
	close(ty.free)
}

// TestLargeCallsAreBounded checks that the running and the waiting calls are also limited
// by their bytes, because each keeps its message.
func TestLargeCallsAreBounded(t *testing.T) {
	ty := newToy(t)
	c := ty.connect(t)
	c.greet(revLegacy)
	large := fmt.Sprintf(`{"text":%q}`, strings.Repeat("y", 1_000_000))
	go func() {
		for i := range 40 {
			if _, err := io.WriteString(c.in, call(fmt.Sprint(i), "hold", large)+"\n"); err != nil {
				return
			}
		}
		io.WriteString(c.in, req(`"end"`, "ping")+"\n")
	}()
	refused := 0
	for a := c.next(); string(a.ID) != `"end"`; a = c.next() {
		if a.Error == nil || a.Error.Code != -32003 {
			t.Fatalf("answered %.200s", a.raw)
		}
		refused++
	}
	if refused != 40-8-8 {
		t.Errorf("%d calls of 1 MB were refused, want 24: 8 MiB run and 8 MiB wait", refused)
	}
	close(ty.free)
	for range 16 {
		if a := c.next(); a.text() != "1000000" {
			t.Errorf("a call in its turn answered %.200s", a.raw)
		}
	}
}
