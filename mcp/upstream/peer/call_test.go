package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
)

// Params and results are passed on as they were written: unknown members, numbers that no
// float can represent, escapes and the order of keys.
func TestCallChangesNothing(t *testing.T) {
	for era, trio := range map[wire.Era]string{
		wire.Legacy: "",
		wire.Modern: `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"belljar","version":"0"},"io.modelcontextprotocol/clientCapabilities":{}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, era, Config{})
			const before = `"zz":1,"name":"a\u0062 <&>","arguments":{"n":12345678901234567890.10,"a":[1, 2],"\u0000":null},"future":{"x":[]}`
			done := invoke(t.Context(), c, "tools/call", `{`+before+`,"_meta":{"traceparent":"00-1","progressToken":"theirs","io.modelcontextprotocol/clientInfo":{"name":"x"}}}`, CallOptions{})
			m := s.want("tools/call")
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s,"_meta":{"belljar.dev/depth":1%s,"traceparent":"00-1"}}}`, m.ID, before, trio)
			if m.raw != want {
				t.Errorf("the server got\n%s, want\n%s", m.raw, want)
			}
			const result = `{"content":[{"type":"new","blob":"\u00e9","_meta":{"a":1}}],  "structuredContent":{"n":1e400},"isError":false,"_meta":{"x":{}},"more":[null]}`
			s.result(m, result)
			if got := good(t, done); got != result {
				t.Errorf("got %s, want %s", got, result)
			}

			// A line break between values would end the message, so it is replaced.
			done = invoke(t.Context(), c, "x/y", "{\n\"a\":{\r\n\"b\": 1}}", CallOptions{})
			m = s.want("x/y")
			if !strings.Contains(m.raw, `"a":{  "b": 1}`) {
				t.Errorf("the server got %s", m.raw)
			}
			s.result(m, `{}`)
			good(t, done)
		})
	}
}

func TestErrorIsThatOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		done := invoke(t.Context(), c, "tools/call", `{"name":"x"}`, CallOptions{})
		m := s.want("tools/call")
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"log in first","data":{"url":"https://x.example","n":[1]},"more":1}}`, m.ID)
		r := <-done
		e, ok := errors.AsType[*Error](r.err)
		if !ok || e.Code != -32042 || r.err.Error() != "log in first" || string(e.Data) != `{"url":"https://x.example","n":[1]}` {
			t.Errorf("got %#v", r.err)
		}
		for _, tt := range []struct{ answer, want string }{
			{`"error":5`, "not an object"},
			{`"error":{}`, "without a message"},
			{`"error":{"code":"x","message":7}`, "without a message"},
			{`"result":7`, "not an object"},
			{`"result":null`, "not an object"},
		} {
			done = invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			s.say(`{"jsonrpc":"2.0","id":%s,%s}`, s.want("tools/call").ID, tt.answer)
			if got := failed(t, done); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.answer, got, tt.want)
			}
		}
	})
}

func TestBadParamsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		for _, params := range []string{`[]`, `5`, `{`, `{"a":1,"a":2}`, "{\"a\":\"\n\"}", "\xff", `{} {}`} {
			if _, err := c.Call(t.Context(), "x", json.RawMessage(params), CallOptions{}); err == nil {
				t.Errorf("params %q were sent", params)
			}
		}
		_, err := c.Call(t.Context(), "x", json.RawMessage(`{"a":"`+strings.Repeat("x", 11<<20)+`"}`), CallOptions{})
		contains(t, "large params", err, "limit")
		s.quiet()
		if n := len(c.table.open); n != 0 {
			t.Errorf("%d calls are open", n)
		}
	})
}

// A call that has passed four belljar servers is not passed on: a server may be its own
// upstream.
func TestLoopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		params, hops := `{"name":"x"}`, 0
		for ; hops < 10; hops++ { // each hop gets what the previous hop has sent
			done := invoke(t.Context(), c, "tools/call", params, CallOptions{})
			synctest.Wait()
			if len(s.got) == 0 {
				is(t, "the loop", (<-done).err, ErrLoop)
				break
			}
			m := s.want("tools/call")
			var got struct{ Params json.RawMessage }
			if err := json.Unmarshal([]byte(m.raw), &got); err != nil {
				t.Fatal(err)
			}
			params = string(got.Params)
			s.result(m, `{}`)
			good(t, done)
		}
		if hops != 4 {
			t.Errorf("the call was passed on %d times, want 4", hops)
		}
		_, err := c.Call(t.Context(), "x", nil, CallOptions{Depth: 4})
		is(t, "depth as an option", err, ErrLoop)
		_, err = c.List(t.Context(), "tools/list", "tools", CallOptions{Depth: 4})
		is(t, "depth of a list", err, ErrLoop)
	})
}

// The server gets a cancel immediately, with the id under which it got the call, and only
// while the call is open.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the client is gone")
		done := invoke(ctx, c, "tools/call", `{"name":"slow"}`, CallOptions{})
		m := s.want("tools/call")
		began := time.Now()
		cancel(gone)
		n := s.want("notifications/cancelled")
		if string(n.Params.RequestID) != string(m.ID) {
			t.Errorf("the cancel names %s, want %s", n.Params.RequestID, m.ID)
		}
		is(t, "the call", (<-done).err, gone)
		if took := time.Since(began); took != 0 {
			t.Errorf("the cancel took %v", took)
		}
		// An answer that still arrives is dropped, and does not count as a fault.
		other := invoke(t.Context(), c, "tools/call", `{"name":"other"}`, CallOptions{})
		o := s.want("tools/call")
		s.result(m, `{"late":true}`)
		s.result(m, `{"late":"again"}`)
		s.result(o, `{"mine":true}`)
		if got := good(t, other); got != `{"mine":true}` {
			t.Errorf("got %s", got)
		}
		if st := c.Stats(); st.Late != 1 || st.Unasked != 1 {
			t.Errorf("%+v, want one late answer and one to nothing", st)
		}
		// After the answer, no cancel is sent to the server.
		ctx, cancel = context.WithCancelCause(t.Context())
		done = invoke(ctx, c, "tools/call", `{}`, CallOptions{})
		s.result(s.want("tools/call"), `{}`)
		good(t, done)
		cancel(gone)
		synctest.Wait()
		s.quiet()
	})
}

// A call that the server does not answer is cancelled, and no longer counts as open.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{Limits: Limits{Open: 1}})
		began := time.Now()
		done := invoke(t.Context(), c, "tools/call", `{"name":"x"}`, CallOptions{})
		m := s.want("tools/call")
		_, err := c.Call(t.Context(), "tools/call", nil, CallOptions{})
		is(t, "one call too many", err, ErrBusy)
		n := s.want("notifications/cancelled")
		if took := time.Since(began); took != 120*time.Second || string(n.Params.RequestID) != string(m.ID) {
			t.Errorf("after %v the client sent %s", took, n.raw)
		}
		err = (<-done).err
		is(t, "the call", err, ErrTimeout)
		contains(t, "the call", err, "tools/call: the server did not answer in time, within 2m0s: meanwhile it sent nothing that could be used")
		for _, want := range []string{"meanwhile it sent one other message", "it sent 2 other messages"} {
			done = invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Timeout: 500 * time.Millisecond})
			s.want("tools/call")
			s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			if strings.Contains(want, "2") {
				s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			}
			s.want("notifications/cancelled")
			err = (<-done).err
			is(t, "the call", err, ErrTimeout)
			contains(t, "the call", err, want)
		}
		if took := time.Since(began); took != 121*time.Second {
			t.Errorf("took %v", took)
		}
		done = invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Timeout: -1})
		m = s.want("tools/call")
		time.Sleep(24 * time.Hour)
		s.result(m, `{}`)
		good(t, done)
	})
}

// A server that does not read its input does not block a caller longer than the call's
// timeout, and Close does not wait for the server.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, pipes := newServer(t)
		s.in.Close()
		deaf := &deafWriter{closed: make(chan struct{})}
		pipes.In = deaf
		c, life, err := begin(t.Context(), pipes, Config{})
		if err != nil {
			t.Fatal(err)
		}
		_ = life
		c.info.Store(&Info{})
		params := `{"a":"` + strings.Repeat("x", 600<<10) + `"}`
		var all []<-chan reply
		for range 8 {
			all = append(all, invoke(t.Context(), c, "tools/call", params, CallOptions{}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		given := invoke(ctx, c, "tools/call", params, CallOptions{})
		synctest.Wait()
		cancel()
		is(t, "a call that waits to be sent", (<-given).err, context.Canceled)
		for _, done := range all {
			if r := <-done; !errors.Is(r.err, ErrTimeout) && !errors.Is(r.err, errUnread) {
				t.Errorf("got %v", r.err)
			}
		}
		c.mu.Lock()
		open := len(c.open)
		c.mu.Unlock()
		if open != 0 {
			t.Errorf("%d calls are open", open)
		}
		waiting := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		synctest.Wait()
		c.Close()
		is(t, "a call at Close", (<-waiting).err, ErrClosed)
	})
}

// deafWriter is a writer that blocks until it is closed.
type deafWriter struct{ closed chan struct{} }

func (d *deafWriter) Write([]byte) (int, error) {
	<-d.closed
	return 0, errors.New("closed")
}

func (d *deafWriter) Close() error {
	close(d.closed)
	return nil
}

func TestEndOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		s.want("tools/call")
		s.out.Close()
		is(t, "an open call", (<-done).err, ErrEnded)
		<-c.Done()
		is(t, "Err", c.Err(), ErrEnded)
		_, err := c.Call(t.Context(), "x", nil, CallOptions{})
		is(t, "a later call", err, ErrEnded)
		c.Close()
		c.Close()
		is(t, "Err after Close", c.Err(), ErrEnded)
	})
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		s.want("tools/call")
		c.Close()
		is(t, "an open call", (<-done).err, ErrClosed)
		if _, more := <-s.got; more {
			t.Error("the server still hears something")
		}
	})
}

// Progress reaches the call that it belongs to, at most four messages per second, and no
// message after the call.
func TestProgress(t *testing.T) {
	for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, era, Config{})
			var times []time.Time
			var last string
			begin := time.Now()
			done := invoke(t.Context(), c, "tools/call", `{"name":"a"}`, CallOptions{Progress: func(p json.RawMessage) {
				times = append(times, time.Now())
				last = string(p)
			}})
			m := s.want("tools/call")
			var others int
			other := invoke(t.Context(), c, "tools/call", `{"name":"b"}`, CallOptions{Progress: func(json.RawMessage) { others++ }})
			o := s.want("tools/call")
			if string(m.Params.Meta["progressToken"]) == string(o.Params.Meta["progressToken"]) {
				t.Fatal("two calls have the same token")
			}
			for i := range 1000 { // a hundred messages per second
				s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"x","new":[1]}}`, m.Params.Meta["progressToken"], i)
				s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody","progress":%d}}`, i)
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(2 * time.Second) // so that the waiting progress is shown
			synctest.Wait()
			if last != `{"progress":999,"message":"x","new":[1]}` {
				t.Errorf("the last was %s", last)
			}
			s.result(m, `{}`)
			good(t, done)
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.Params.Meta["progressToken"])
			s.result(o, `{}`)
			good(t, other)
			if others != 0 {
				t.Errorf("the other call got %d", others)
			}
			if n := len(times); n < 40 || n > 48 {
				t.Errorf("%d messages in 10 s", n)
			}
			for i := range times {
				if i >= 4 && times[i].Sub(times[i-4]) < time.Second {
					t.Errorf("message %d came %v after the fourth before it", i, times[i].Sub(times[i-4]))
				}
			}
			if times[0] != begin {
				t.Errorf("the first came after %v", times[0].Sub(begin))
			}
		})
	}
}

// A few quick steps all arrive, since they are not more than the pace allows.
func TestProgressInABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		var got []string
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Progress: func(p json.RawMessage) { got = append(got, string(p)) }})
		m := s.want("tools/call")
		for i := range 3 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta["progressToken"], i)
		}
		s.result(m, `{}`)
		good(t, done)
		if fmt.Sprint(got) != `[{"progress":0} {"progress":1} {"progress":2}]` {
			t.Errorf("got %v", got)
		}
	})
}

// If the caller does not read progress, only the next few steps are kept.
func TestProgressKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		hold, n := make(chan struct{}), 0
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Progress: func(json.RawMessage) {
			n++
			<-hold
		}})
		m := s.want("tools/call")
		for i := range 10_000 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta["progressToken"], i)
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"message":"%s"}}`, m.Params.Meta["progressToken"], strings.Repeat("x", mostProgress))
		synctest.Wait()
		c.mu.Lock()
		for _, cl := range c.open {
			if len(cl.steps) != perSecond || !strings.Contains(string(cl.steps[perSecond-1]), `"progress":9999`) {
				t.Errorf("%d steps wait", len(cl.steps))
			}
		}
		c.mu.Unlock()
		if st := c.Stats(); st.Dropped != 10_000-1-perSecond+1 {
			t.Errorf("%+v", st)
		}
		close(hold)
		s.result(m, `{}`)
		good(t, done)
		if n > perSecond {
			t.Errorf("%d steps were shown at once", n)
		}
	})
}
