package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp"
)

const cancelOf = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`

func TestPanicEndsOneCall(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	c.send(call("1", "panic", `{}`))
	a := c.next()
	if !strings.Contains(string(a.Result), `"isError":true`) || !strings.Contains(a.text(), "internal error in call c-") {
		t.Errorf("a panic answered %s", a.raw)
	}
	if strings.Contains(a.raw, "secret") {
		t.Errorf("a panic told its text: %s", a.raw)
	}
	c.send(call("2", "echo", `{"text":"alive"}`))
	if a := c.next(); a.text() != "alive" {
		t.Errorf("the next call answered %s", a.raw)
	}
}

// The texts of a tool's error are content, with isError (W17).
func TestErrorIsToldToTheAgent(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	c.send(call("1", "fail", `{}`))
	if a := c.next(); a.text() != "it did not work; try echo" || !strings.Contains(a.raw, `"isError":true`) {
		t.Errorf("answered %s", a.raw)
	}
}

func TestRefusal(t *testing.T) {
	ty := newToy(t, structured)
	c := ty.connect(t)
	c.greet(revLegacy)
	for _, tt := range []struct{ text, want string }{
		{"forbidden fruit", "it is forbidden"},
		{"ask me", "a person must approve it"},
	} {
		c.send(call("1", "echo", fmt.Sprintf(`{"text":%q}`, tt.text)))
		a := c.next()
		for _, want := range []string{tt.want, "Nothing was run.", "Call id c-"} {
			if !strings.Contains(a.text(), want) {
				t.Errorf("%s: answered %q, want it to hold %q", tt.text, a.text(), want)
			}
		}
		for _, want := range []string{`"isError":true`, `"structuredContent":{"refusal":{"decision":"denied"`, `"call_id":"c-`} {
			if !strings.Contains(a.raw, want) {
				t.Errorf("%s: answered %s, want it to hold %s", tt.text, a.raw, want)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	ty := newToy(t)
	c := ty.connect(t)
	c.greet(revLegacy)
	c.send(call(`"a"`, "hang", `{}`), call("1", "hang", `{}`))
	<-ty.running
	<-ty.running
	// The same id in another spelling names the same request.
	c.send(fmt.Sprintf(cancelOf, `"\u0061"`))
	if err := <-ty.cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is %v, want context.Canceled", err)
	}
	// The id can be used again immediately, and the server sends nothing more for the
	// cancelled call.
	c.send(call(`"a"`, "echo", `{"text":"again"}`))
	if a := c.next(); string(a.ID) != `"a"` || a.text() != "again" {
		t.Errorf("after the cancel came %s", a.raw)
	}
	close(ty.free)
	if a := c.next(); string(a.ID) != "1" || a.text() != "free" {
		t.Errorf("the other call answered %s", a.raw)
	}
	c.in.Close()
	for line := range c.line {
		t.Errorf("an answer too many: %s", line)
	}
}

func TestDuplicateID(t *testing.T) {
	ty := newToy(t)
	c := ty.connect(t)
	c.greet(revLegacy)
	c.send(call("1", "hang", `{}`))
	<-ty.running
	c.send(call("1", "echo", `{"text":"x"}`))
	if a := c.next(); a.short() != "1: -32600" || !strings.Contains(a.raw, "already in flight") {
		t.Errorf("the second of an id answered %s", a.raw)
	}
	close(ty.free)
	if a := c.next(); a.text() != "free" {
		t.Errorf("the first of an id answered %s", a.raw)
	}
	c.send(call("1", "echo", `{"text":"x"}`))
	if a := c.next(); a.text() != "x" {
		t.Errorf("an id that is free again answered %s", a.raw)
	}
}

// TestQueue sends requests at the same time, up to the limit, and checks the order of the
// answers (W4, L3).
func TestQueue(t *testing.T) { synctest.Test(t, testQueue) }

func testQueue(t *testing.T) {
	ty := newToy(t, func(c *mcp.Config) { c.Limits = mcp.Limits{Running: 2, Queue: 3} })
	c := ty.connect(t)
	c.greet(revLegacy)
	synctest.Wait() // until the place of initialize is free
	for i := range 5 {
		c.send(call(fmt.Sprint(i), "hang", `{}`))
	}
	c.send(call("5", "hang", `{}`), modern("6", "tools/list", ``))
	for _, want := range []string{"5: -32003", "6: -31003"} {
		a := c.next()
		if a.short() != want || !strings.Contains(a.raw, `"limit":"in_flight"`) || !strings.Contains(a.raw, `"retryAfterMs":`) {
			t.Errorf("one too many answered %s, want %s", a.raw, want)
		}
	}
	<-ty.running
	<-ty.running
	// When everything is full, a ping is still answered, and a cancel frees a place, both
	// in the queue and among the running calls.
	c.send(req("7", "ping"))
	if a := c.next(); a.short() != "7: ok" {
		t.Errorf("ping answered %s", a.raw)
	}
	c.send(fmt.Sprintf(cancelOf, "3"), call("8", "echo", `{"text":"x"}`))
	c.send(fmt.Sprintf(cancelOf, "0"))
	<-ty.cancelled
	<-ty.running // call 2 took the place of call 0
	close(ty.free)
	got := map[string]bool{}
	for range 4 {
		got[c.next().short()] = true
	}
	for _, want := range []string{"1: ok", "2: ok", "4: ok", "8: ok"} {
		if !got[want] {
			t.Errorf("got %v, want %s among them", got, want)
		}
	}
	c.close()
}

// TestRate checks the limits of 1000 requests in one burst and 100 per second (L4, C2).
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ty := newToy(t)
		c := ty.connect(t)
		c.greet(revLegacy) // uses one of the 1000
		for i := range 1050 {
			c.send(call(fmt.Sprint(i), "echo", `{"text":"x"}`))
		}
		var ok, refused int
		for range 1050 {
			switch a := c.next(); {
			case a.Error == nil:
				ok++
			case a.Error.Code == -32003 && strings.Contains(a.raw, `"limit":"rate"`) && strings.Contains(a.raw, `"retryAfterMs":10`):
				refused++
			default:
				t.Fatalf("answered %s", a.raw)
			}
		}
		if ok != 999 || refused != 51 {
			t.Errorf("%d calls were served and %d refused, want 999 and 51", ok, refused)
		}
		c.send(req("1", "ping"))
		if a := c.next(); a.short() != "1: ok" {
			t.Errorf("ping answered %s", a.raw)
		}
		time.Sleep(time.Second) // fake time: 100 more requests are allowed
		for i := range 101 {
			c.send(call(fmt.Sprint(i), "echo", `{"text":"x"}`))
		}
		ok = 0
		for range 101 {
			if a := c.next(); a.Error == nil {
				ok++
			}
		}
		if ok != 100 {
			t.Errorf("%d calls were served after a second, want 100", ok)
		}
		c.close()
	})
}

// At the end of the input, the server waits for running calls (W12, L5).
func TestDrainAtEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ty := newToy(t)
		c := ty.connect(t)
		c.greet(revLegacy)
		c.send(call("1", "hang", `{}`))
		<-ty.running
		c.in.Close()
		synctest.Wait()
		time.Sleep(29 * time.Second)
		close(ty.free)
		if a := c.next(); a.text() != "free" {
			t.Errorf("a call in flight at EOF answered %s", a.raw)
		}
		if err := <-c.done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		if id := <-ty.ended; id == "" {
			t.Error("the session has no id")
		}
		c.close()
	})
}

func TestDrainHasAnEnd(t *testing.T) {
	for _, how := range []string{"EOF", "context"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ty := newToy(t)
				c := ty.connect(t)
				c.greet(revLegacy)
				c.send(call("1", "hang", `{}`), modern("2", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
				<-ty.running
				synctest.Wait()
				started := time.Now()
				if how == "EOF" {
					c.in.Close()
				} else {
					c.stop()
				}
				if err := <-ty.cancelled; !errors.Is(err, mcp.ErrShutdown) {
					t.Errorf("the cause is %v, want ErrShutdown", err)
				}
				if took := time.Since(started); took != 30*time.Second {
					t.Errorf("the call was cancelled after %v, want 30s", took)
				}
				var got string
				for line := range c.line {
					got += line + "\n"
				}
				if !strings.Contains(got, "was ended: the server is shutting down") {
					t.Errorf("the end of the call was answered %q", got)
				}
				if err := <-c.done; err != nil {
					t.Errorf("ServeStdio: %v", err)
				}
				c.close()
			})
		})
	}
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ty := newToy(t)
		c := ty.connect(t)
		c.greet(revLegacy)
		c.send(call("1", "hang", `{}`))
		<-ty.running
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ty.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown with a call that does not end: %v, want DeadlineExceeded", err)
		}
		if err := <-ty.cancelled; !errors.Is(err, mcp.ErrShutdown) {
			t.Errorf("the cause is %v, want ErrShutdown", err)
		}
		if _, err := ty.Open(t.Context()); !errors.Is(err, mcp.ErrShutdown) {
			t.Errorf("Open after Shutdown: %v, want ErrShutdown", err)
		}
		if err := ty.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown twice: %v", err)
		}
		c.close()
	})
}

func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ty := newToy(t)
		inR, inW := io.Pipe()
		_, outW := io.Pipe() // no goroutine reads the output
		done := make(chan error, 1)
		go func() { done <- ty.ServeStdio(t.Context(), inR, outW) }()
		if _, err := io.WriteString(inW, req("1", "ping")+"\n"); err != nil {
			t.Fatal(err)
		}
		inW.Close()
		if err := <-done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		outW.Close()
	})
}

func TestClientThatIsGone(t *testing.T) {
	ty := newToy(t)
	c := ty.connect(t)
	c.greet(revLegacy)
	c.send(call("1", "hang", `{}`))
	<-ty.running
	c.out.Close()
	c.send(req("2", "ping"))
	if err := <-c.done; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeStdio: %v", err)
	}
	if err := <-ty.cancelled; !errors.Is(err, mcp.ErrShutdown) {
		t.Errorf("the cause is %v, want ErrShutdown", err)
	}
}

// The server insists on initialized only if StrictInit is set. The name of the notification
// may come without its prefix (W10, C4).
func TestStrictInit(t *testing.T) {
	c := newToy(t, func(c *mcp.Config) { c.StrictInit = true }).connect(t)
	c.send(fmt.Sprintf(hello, revLegacy))
	c.next()
	c.send(req("1", "tools/list"), req("2", "ping"))
	for _, want := range []string{"1: -32600", "2: ok"} {
		if a := c.next(); a.short() != want {
			t.Errorf("before initialized: %s, want %s", a.raw, want)
		}
	}
	c.send(`{"jsonrpc":"2.0","method":"initialized"}`, req("3", "tools/list"))
	if a := c.next(); a.short() != "3: ok" {
		t.Errorf("after initialized: %s", a.raw)
	}
}

// An answer has at most 10 MiB (L2).
func TestResponseLimit(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	c.send(call("1", "big", `{"bytes":11000000}`))
	if a := c.next(); a.short() != "1: -32603" || !strings.Contains(a.raw, "10485760") {
		t.Errorf("11 MB answered %.200s", a.raw)
	}
	c.send(call("2", "big", `{"bytes":9000000}`))
	if a := c.next(); len(a.text()) != 9_000_000 {
		t.Errorf("9 MB answered %d bytes", len(a.text()))
	}
}

func TestProgress(t *testing.T) {
	for _, tt := range []struct{ name, send string }{
		{"legacy", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{},"_meta":{"progressToken":"tok"}}}`},
		{"modern", strings.Replace(modern("1", "tools/call", `"name":"steps","arguments":{},`), `"_meta":{`, `"_meta":{"progressToken":"tok",`, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newToy(t).connect(t)
			c.greet(revLegacy)
			c.send(tt.send)
			for i := range 3 {
				a := c.next()
				want := fmt.Sprintf(`"step %d"`, i+1)
				if a.Method != "notifications/progress" || !strings.Contains(a.raw, want) || !strings.Contains(a.raw, `"progressToken":"tok"`) {
					t.Errorf("got %s, want the progress %s", a.raw, want)
				}
			}
			a := c.next()
			for _, want := range []string{`"text":"done"`, `"type":"image"`, `"cG5n"`, `"type":"resource_link"`, `"note://7"`} {
				if !strings.Contains(a.raw, want) {
					t.Errorf("the answer is %s, want it to hold %s", a.raw, want)
				}
			}
		})
	}
}

// A message of a subscription contains the client's own id of the subscription, because the
// inspector waits a minute for an acknowledgement that it recognises.
func TestSubscriptionHasTheClientsID(t *testing.T) {
	c := newToy(t).connect(t)
	c.send(modern(`"listen:0"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
	a := c.next()
	for _, want := range []string{"notifications/subscriptions/acknowledged", `"io.modelcontextprotocol/subscriptionId":"listen:0"`} {
		if !strings.Contains(a.raw, want) {
			t.Errorf("the acknowledgement is %s, want it to hold %s", a.raw, want)
		}
	}
}

// The newest revision has no handshake (C7).
func TestModern(t *testing.T) {
	c := newToy(t).connect(t)
	for _, tt := range []struct {
		name, send string
		want       []string
	}{
		{"discover", modern("1", "server/discover", ``), []string{`"supportedVersions":["2026-07-28"`, `"prompts":{`, `"tools":{`, `"name":"toy"`}},
		{"list", modern("2", "tools/list", ``), []string{`"inputSchema":{`, `"ttlMs":300000`, `"resultType":"complete"`, `"anthropic/maxResultSizeChars":500000`}},
		{"call", modern("3", "tools/call", `"name":"echo","arguments":{"text":"hi"},`), []string{`"text":"hi"`, `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo"`}},
		{"call without arguments", modern("4", "tools/call", `"name":"steps",`), []string{`"text":"done"`}},
		{"unknown tool", modern("5", "tools/call", `"name":"ecko",`), []string{`-32602`, `did you mean`, `echo`}},
		{"no prompts", modern("7", "prompts/list", ``), []string{`"prompts":[]`}},
		{"read", modern("6", "resources/read", `"uri":"note://7",`), []string{`"text":"seven"`}},
	} {
		c.send(tt.send)
		a := c.next()
		for _, want := range tt.want {
			if !strings.Contains(a.raw, want) {
				t.Errorf("%s answered %s, want it to hold %s", tt.name, a.raw, want)
			}
		}
	}
}

// A call of this process passes the same gate as a call of a client (G1).
func TestCallInProcess(t *testing.T) {
	ty := newToy(t)
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"hi"}`))
	if err != nil || r.Content[0].Text != "hi" {
		t.Errorf("Call: %+v, %v", r, err)
	}
	if _, err := ty.Call(t.Context(), session, "ecko", nil); err == nil || !strings.Contains(err.Error(), `did you mean "echo"`) {
		t.Errorf("Call of an unknown tool: %v", err)
	}
	if r, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"forbidden"}`)); err != nil || !r.IsError {
		t.Errorf("Call that the policy denies: %+v, %v", r, err)
	}
	if n := ty.gate.calls.Load(); n != 2 {
		t.Errorf("the gate saw %d calls, want 2", n)
	}
	var order []int
	session.OnEnd(func() { order = append(order, 1) })
	session.OnEnd(func() { order = append(order, 2) })
	session.Close()
	session.Close()
	session.OnEnd(func() { order = append(order, 3) })
	if fmt.Sprint(order) != "[2 1 3]" {
		t.Errorf("OnEnd ran %v, want [2 1 3]", order)
	}
	if _, err := ty.Call(t.Context(), session, "echo", nil); err == nil {
		t.Error("Call in a session that has ended was served")
	}
}

func TestNewNamesTheField(t *testing.T) {
	if _, err := mcp.New(mcp.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Gate") {
		t.Errorf("New without a gate: %v", err)
	}
}

// There is no heartbeat: the server sends nothing to a silent client, and serves it when it
// sends a request again (W13).
func TestNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newToy(t).connect(t)
		c.greet(revLegacy)
		time.Sleep(time.Hour) // fake time
		select {
		case line := <-c.line:
			t.Errorf("without being asked it said %s", line)
		default:
		}
		c.send(req("1", "ping"))
		if a := c.next(); a.short() != "1: ok" {
			t.Errorf("ping answered %s", a.raw)
		}
		c.close()
	})
}
