package peer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
)

// A log message is passed to the only open call, before that call's answer, and otherwise
// to the handler of notifications. If a message may belong to either of two calls, neither
// call gets it.
func TestLogsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ofNone []Notification
		c, s := connect(t, wire.Legacy, Config{OnNotification: func(n Notification) { ofNone = append(ofNone, n) }})
		var first, second []string
		into := func(to *[]string) CallOptions {
			return CallOptions{Session: fmt.Sprintf("%p", to), Log: func(p json.RawMessage, lost int) { *to = append(*to, fmt.Sprintf("%s %d", p, lost)) }}
		}
		log := func(text string) {
			s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, text)
		}
		log("idle")
		synctest.Wait()
		one := invoke(t.Context(), c, "tools/call", `{}`, into(&first))
		m := s.want("tools/call")
		log("alone")
		synctest.Wait()
		two := invoke(t.Context(), c, "tools/call", `{}`, into(&second))
		o := s.want("tools/call")
		log("of either")
		synctest.Wait()
		s.result(o, `{}`)
		good(t, two)
		log("at the end")
		s.result(m, `{}`)
		good(t, one)
		if fmt.Sprint(first) != `[{"level":"info","data":"alone"} 0 {"level":"info","data":"at the end"} 0]` || len(second) != 0 {
			t.Errorf("the calls got %v and %v", first, second)
		}
		if len(ofNone) != 2 || ofNone[0].Owner != "" || ofNone[1].Owner != "" || ofNone[0].Shared || !ofNone[1].Shared || !strings.Contains(string(ofNone[1].Params), "of either") {
			t.Errorf("the handler got %v", ofNone)
		}
	})
}

// Most messages of a server that logs too much are dropped. Their number is reported with
// the next message that passes, or else at the end of the call.
func TestLogsTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle []Notification
		c, s := connect(t, wire.Legacy, Config{OnNotification: func(n Notification) { idle = append(idle, n) }})
		flood := func(n int) {
			for i := range n {
				s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
			}
			synctest.Wait()
		}
		passed, lost := 0, 0
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Log: func(p json.RawMessage, n int) {
			if lost += n; p != nil {
				passed++
			}
		}})
		m := s.want("tools/call")
		flood(1000)
		time.Sleep(2 * time.Second) // new messages may pass again
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, strings.Repeat("x", mostLog))
		s.result(m, `{}`)
		good(t, done)
		if passed != perSecond || passed+lost != 1001 {
			t.Errorf("%d messages passed and %d were lost, of 1001", passed, lost)
		}

		flood(100)
		if len(idle) != perSecond {
			t.Fatalf("%d messages passed at once", len(idle))
		}
		time.Sleep(2 * time.Second)
		flood(1)
		if last := idle[len(idle)-1]; len(idle) != perSecond+1 || last.Lost != 100-perSecond {
			t.Errorf("%d messages passed; the last says that %d were lost", len(idle), last.Lost)
		}
	})
}

// If a call does not read its log messages, only few of them are kept.
func TestLogsKeepLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		hold := make(chan struct{})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Log: func(json.RawMessage, int) { <-hold }})
		m := s.want("tools/call")
		for i := range 100 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		c.mu.Lock()
		for _, cl := range c.open {
			if len(cl.logs.lines) != mostLogs {
				t.Errorf("%d messages wait", len(cl.logs.lines))
			}
		}
		c.mu.Unlock()
		close(hold)
		s.result(m, `{}`)
		good(t, done)
	})
}

// A modern server gets the level with the request; the caller's own member of that name is
// not passed on. A legacy server gets neither.
func TestLevelOfACall(t *testing.T) {
	for era, want := range map[wire.Era]string{wire.Modern: `"warning"`, wire.Legacy: ""} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, era, Config{})
			for _, level := range []string{"warning", ""} {
				done := invoke(t.Context(), c, "tools/call", `{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}`, CallOptions{Level: level})
				m := s.want("tools/call")
				if got := string(m.Params.Meta[wire.LevelKey]); level != "" && got != want || level == "" && got != "" {
					t.Errorf("era %v, level %q: the server got %q", era, level, got)
				}
				s.result(m, `{"content":[],"resultType":"complete"}`)
				good(t, done)
			}
		})
	}
}
