package mcp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// teller adds a note to each result, named after the call's text, and records the fate of
// each note.
type teller struct {
	mu    sync.Mutex
	fates map[string][]bool
	moved chan struct{} // closed and replaced when a fate changes
}

func newTeller() *teller { return &teller{fates: make(map[string][]bool), moved: make(chan struct{})} }

func (tl *teller) Before(context.Context, mcp.Call, policies.Facts) *policies.Refusal { return nil }

func (tl *teller) After(_ context.Context, _ mcp.Call, f policies.Facts, _ mcp.Outcome) mcp.Beside {
	name, _ := f.Args["text"].(string)
	return mcp.Beside{Content: []mcp.Content{{Text: "note of " + name}}, Receipts: []mcp.Receipt{func(_ context.Context, received bool) {
		tl.mu.Lock()
		defer tl.mu.Unlock()
		tl.fates[name] = append(tl.fates[name], received)
		close(tl.moved)
		tl.moved = make(chan struct{})
	}}}
}

// is waits until the fates of all notes are the wanted ones.
func (tl *teller) is(t testing.TB, when string, want map[string]bool) {
	t.Helper()
	most := time.NewTimer(20 * time.Second)
	defer most.Stop()
	for {
		tl.mu.Lock()
		same, text, moved := len(tl.fates) == len(want), fmt.Sprint(tl.fates), tl.moved
		for name, fate := range want {
			same = same && slices.Equal(tl.fates[name], []bool{fate})
		}
		tl.mu.Unlock()
		if same {
			return
		}
		select {
		case <-moved:
		case <-most.C:
			t.Fatalf("%s: the notes are %s, want %v", when, text, want)
		}
	}
}

// newTold returns a toy whose results have notes, and which has a tool that returns a
// result although its call was cancelled.
func newTold(t testing.TB, change ...func(*mcp.Config)) (*site, *teller) {
	tl := newTeller()
	s := newSite(t, append(change, func(c *mcp.Config) {
		c.Around = tl
		c.Limits.Response = 64 << 10
		c.Limits.Burst, c.Limits.Rate = 1e9, 1e9
	})...)
	mcp.AddTool(s.Server, mcp.Tool{Name: "stubborn", Description: "answers when it is set free or cancelled"},
		func(ctx context.Context, call mcp.Call, in echoInput) (*mcp.Result, error) {
			s.running <- call.ID
			select {
			case <-ctx.Done():
			case <-s.free:
			}
			return mcp.Text("%s", strings.Repeat("x", 10*max(0, in.Nested.Depth))), nil
		})
	return s, tl
}

// toldWire is a way to make calls in one session.
type toldWire struct {
	call   func(name string)       // makes a call and reads the result
	start  func(name, args string) // starts a call of stubborn, and does not wait
	read   func(name string)       // reads the result of the started call
	cancel func(name string)       // cancels the started call
	leave  func(name string)       // closes the connection of the started call; over HTTP
	quiet  func()                  // sends a request that no agent sends
	end    func()                  // ends the session
}

func lineWire(t testing.TB, s *site, odd bool) toldWire {
	c := s.connect(t)
	c.greet(revLegacy)
	line := func(name, tool, args string) string {
		text := call(`"`+name+`"`, tool, args)
		if odd { // the sdk answers a call with an unknown member
			text = strings.Replace(text, `"params":{`, `"params":{"odd":1,`, 1)
		}
		return text
	}
	early := make(map[string]bool)
	read := func(name string) {
		t.Helper()
		for !early[name] {
			early[strings.Trim(string(c.next().ID), `"`)] = true
		}
		delete(early, name)
	}
	return toldWire{
		call: func(name string) {
			t.Helper()
			c.send(line(name, "echo", fmt.Sprintf(`{"text":%q}`, name)))
			read(name)
		},
		start: func(name, args string) {
			c.send(line(name, "stubborn", fmt.Sprintf(`{"text":%q%s}`, name, args)))
			<-s.running
		},
		read: read,
		cancel: func(name string) {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, name))
		},
		quiet: func() {
			t.Helper()
			c.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			read("p")
			c.send(`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`)
			read("l")
		},
		end: c.close,
	}
}

func webWire(t testing.TB, s *site) toldWire {
	headers := s.greet()
	type running struct {
		stop context.CancelFunc
		over chan error
	}
	started := make(map[string]running)
	post := func(ctx context.Context, body string) error {
		res, err := http.DefaultClient.Do(s.request(ctx, "POST", strings.NewReader(body), headers...))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
		return err
	}
	return toldWire{
		call: func(name string) {
			t.Helper()
			if err := post(t.Context(), call(`"`+name+`"`, "echo", fmt.Sprintf(`{"text":%q}`, name))); err != nil {
				t.Fatal(err)
			}
		},
		start: func(name, args string) {
			ctx, stop := context.WithCancel(t.Context())
			r := running{stop, make(chan error, 1)}
			started[name] = r
			go func() { r.over <- post(ctx, call(`"`+name+`"`, "stubborn", fmt.Sprintf(`{"text":%q%s}`, name, args))) }()
			<-s.running
		},
		read: func(name string) {
			t.Helper()
			if err := <-started[name].over; err != nil {
				t.Fatal(err)
			}
			started[name].stop()
		},
		cancel: func(name string) {
			t.Helper()
			if err := post(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, name)); err != nil {
				t.Fatal(err)
			}
			<-started[name].over
			started[name].stop()
		},
		leave: func(name string) {
			started[name].stop()
			<-started[name].over
		},
		quiet: func() {
			t.Helper()
			if err := post(t.Context(), `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`); err != nil {
				t.Fatal(err)
			}
		},
		end: func() { s.do("DELETE", "", headers...) },
	}
}

func onToldWires(t *testing.T, f func(t *testing.T, s *site, tl *teller, w toldWire)) {
	for _, name := range []string{"stdio", "stdio through the sdk", "HTTP"} {
		t.Run(name, func(t *testing.T) {
			s, tl := newTold(t)
			if name == "HTTP" {
				f(t, s, tl, webWire(t, s))
			} else {
				f(t, s, tl, lineWire(t, s, name != "stdio"))
			}
		})
	}
}

// TestReceipts checks that the next call shows that a result has arrived, and that calls in
// flight at the same time and requests that clients send without their agent do not. A
// result is lost if the call was cancelled, if the answer is too large, or if the session
// ends first.
func TestReceipts(t *testing.T) {
	onToldWires(t, func(t *testing.T, s *site, tl *teller, w toldWire) {
		w.call("a")
		w.quiet()
		tl.is(t, "after a list", map[string]bool{})
		w.call("b")
		tl.is(t, "after the next call", map[string]bool{"a": true})

		w.start("c", "")
		tl.is(t, "after a call has come", map[string]bool{"a": true, "b": true})
		w.start("d", "")
		s.free <- struct{}{}
		s.free <- struct{}{}
		w.read("c")
		w.read("d")
		tl.is(t, "after two calls side by side", map[string]bool{"a": true, "b": true})
		w.call("e")
		tl.is(t, "after the call behind them", map[string]bool{"a": true, "b": true, "c": true, "d": true})

		w.start("f", "")
		w.cancel("f")
		tl.is(t, "after a cancelled call", map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": false})
		w.start("g", `,"nested":{"depth":10000}`)
		s.free <- struct{}{}
		w.read("g")
		tl.is(t, "after an answer above the limit", map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": false, "g": false})
		w.call("h")
		w.end()
		tl.is(t, "at the end", map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": false, "g": false, "h": false})
	})
}

// TestReceiptOfAClosedConnection checks that a call whose connection is closed continues,
// and that its result is lost.
func TestReceiptOfAClosedConnection(t *testing.T) {
	s, tl := newTold(t)
	w := webWire(t, s)
	w.start("a", "")
	w.leave("a")
	<-s.cut
	w.call("b")
	tl.is(t, "while the call goes on", map[string]bool{})
	s.free <- struct{}{}
	tl.is(t, "after its end", map[string]bool{"a": false})
	w.call("c")
	tl.is(t, "after another call", map[string]bool{"a": false, "b": true})
}

// TestReceiptsOfRandomTalk checks that the fate of each result is reported once, whatever a
// client does. A result has arrived if a call arrived after it was written; otherwise it is
// lost.
func TestReceiptsOfRandomTalk(t *testing.T) {
	n, r := testenv.Cases(t, 40)
	onToldWires(t, func(t *testing.T, s *site, tl *teller, first toldWire) {
		first.end()
		for i := range n / 3 {
			talk(t, s, tl, i, r)
		}
	})
}

// talk has one random conversation, and computes the fates that are expected.
func talk(t *testing.T, s *site, tl *teller, i int, r *rand.Rand) {
	t.Helper()
	var w toldWire
	if strings.HasSuffix(t.Name(), "HTTP") {
		w = webWire(t, s)
	} else {
		w = lineWire(t, s, strings.HasSuffix(t.Name(), "sdk"))
	}
	tl.mu.Lock()
	clear(tl.fates)
	tl.mu.Unlock()
	want, there, running := make(map[string]bool), []string{}, ""
	called := func() {
		for _, name := range there {
			want[name] = true
		}
		there = nil
	}
	var log []string
	for step := range 2 + r.IntN(12) {
		name, do := fmt.Sprintf("%d-%d", i, step), r.IntN(6)
		if running == "" && (do == 2 || do == 3) {
			do = 1
		} else if running != "" && do == 1 {
			do = 0
		}
		log = append(log, fmt.Sprintf("%d %s", do, name))
		switch do {
		case 0:
			called()
			w.call(name)
			there = append(there, name)
		case 1:
			called()
			args := ""
			if r.IntN(4) == 0 {
				args = `,"nested":{"depth":10000}`
				want[name] = false
			}
			w.start(name, args)
			running = name
		case 2:
			s.free <- struct{}{}
			w.read(running)
			if _, lost := want[running]; !lost {
				there = append(there, running)
			}
			running = ""
		case 3:
			w.cancel(running)
			want[running] = false
			running = ""
		default:
			w.quiet()
		}
		if running == "" || strings.HasPrefix(log[len(log)-1], "0") {
			sofar := make(map[string]bool)
			for name, fate := range want {
				if name != running {
					sofar[name] = fate
				}
			}
			tl.is(t, fmt.Sprint("after ", log), sofar)
		}
	}
	for _, name := range there {
		want[name] = false
	}
	if running != "" {
		want[running] = false
		w.cancel(running)
	}
	w.quiet() // its answer is written after all earlier answers, whose fates are recorded before
	w.end()
	<-s.ended
	tl.is(t, fmt.Sprint("at the end of ", log), want)
}
