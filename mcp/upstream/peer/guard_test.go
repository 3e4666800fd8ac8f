package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
)

// C5: An answer with a wrong id is accepted while exactly one request is open and no
// cancelled request may still be answered.
func TestWrongID(t *testing.T) {
	for _, tt := range []struct {
		name  string
		id    string // id of the server's answer; %d stands for the right one
		fault string // "error" if the answer is an error
		taken bool
	}{
		{"zero", `0`, "", true},
		{"far away", `99999`, "", true},
		{"negative", `-7`, "", true},
		{"a string", `"%d"`, "", true},
		{"a fraction", `1.5`, "error", true},
		{"null of an error", `null`, "error", true},
		{"null", `null`, "", false},
		{"of a request before", `1`, "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{Timeout: time.Second})
			m := s.want("tools/call")
			id := strings.ReplaceAll(tt.id, "%d", string(m.ID))
			if tt.fault != "" {
				s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"mine"}}`, id)
			} else {
				s.say(`{"jsonrpc":"2.0","id":%s,"result":{"mine":1}}`, id)
			}
			r := <-done
			if taken := !errors.Is(r.err, ErrTimeout); taken != tt.taken {
				t.Errorf("%s: taken is %v, want %v", tt.name, taken, tt.taken)
			}
			if st := c.Stats(); tt.taken != (st.WrongID == 1) || tt.taken == (st.Unasked == 1) {
				t.Errorf("%s: %+v", tt.name, st)
			}
		})
	}
	t.Run("two open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			a := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			b := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			s.want("tools/call")
			s.want("tools/call")
			s.say(`{"jsonrpc":"2.0","id":0,"result":{}}`)
			for _, done := range []<-chan reply{a, b} {
				if got := failed(t, done); !strings.Contains(got, "1 answers whose ids match no open request") {
					t.Errorf("got %q", got)
				}
			}
		})
	})
	t.Run("after a cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			done := invoke(t.Context(), c, "tools/call", `{"name":"secret"}`, CallOptions{Timeout: time.Second})
			s.want("tools/call")
			is(t, "the first call", (<-done).err, ErrTimeout)
			s.want("notifications/cancelled")
			done = invoke(t.Context(), c, "tools/call", `{"name":"other"}`, CallOptions{Timeout: time.Second})
			s.want("tools/call")
			s.say(`{"jsonrpc":"2.0","id":0,"result":{"secret":1}}`) // the answer to the first call, too late
			is(t, "the second call", (<-done).err, ErrTimeout)
		})
	})
	t.Run("too many cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range mostCancelled + 1 {
				done := invoke(ctx, c, "tools/call", `{}`, CallOptions{})
				is(t, "a call", (<-done).err, context.Canceled)
				synctest.Wait()
				for len(s.got) > 0 {
					s.next()
				}
			}
			c.mu.Lock()
			n := len(c.cancelled)
			c.mu.Unlock()
			if n > mostCancelled {
				t.Errorf("%d ids are remembered", n)
			}
		})
	})
}

// Messages of a server that cannot be used are skipped and counted. Too many of them in a
// row end the connection.
func TestBadMessages(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for name, bad := range map[string]string{
		"log line":          "Server is listening",
		"JSON, no message":  `{"level":"info","msg":"x"}`,
		"half":              `{"jsonrpc":"2.0","id":1,"result":{`,
		"number":            `5`,
		"batch":             `[{"jsonrpc":"2.0","method":"notifications/x"}]`,
		"no version":        `{"id":1,"result":{}}`,
		"params not object": `{"jsonrpc":"2.0","method":"x","params":[1]}`,
		"not UTF-8":         "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}",
		"member twice":      `{"jsonrpc":"2.0","method":"notifications/x","method":"notifications/y"}`,
		"deep":              `{"jsonrpc":"2.0","method":"x","params":{"a":` + deep + `}}`,
		"deeper":            strings.Repeat("[", 1<<20),
		"large":             `{"jsonrpc":"2.0","method":"x","params":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"unasked":           `{"jsonrpc":"2.0","id":77,"result":{}}`,
		"null id":           `{"jsonrpc":"2.0","id":null,"result":{}}`,
		"request of null":   `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		"escape codes":      "\x1b]52;c;AAAA\x07\x1b[2J",
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{OnNotification: func(n Notification) { t.Errorf("%s: got %+v", name, n) }})
			for range 15 {
				s.say("%s", bad)
			}
			synctest.Wait() // otherwise the last bad message could be taken for the answer with a wrong id
			done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			s.result(s.want("tools/call"), `{"ok":1}`)
			good(t, done)
			if st := c.Stats(); st.Bad != 15 || strings.ContainsAny(st.Last, "\x1b\x07") || len(st.Last) > 4*mostShown || st.Last == "" {
				t.Errorf("%s: %+v", name, st)
			}
			for range 16 {
				s.say("%s", bad)
			}
			<-c.Done()
			contains(t, name, c.Err(), "16 messages in a row that cannot be used; the last: "+c.Stats().Last)
		})
	}
}

func TestFraming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		m := s.want("tools/call")
		s.say("\ufeff \t{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\r", m.ID)
		good(t, done)
		for range mostBlank / 2 {
			s.say("\r")
		}
		done = invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		s.result(s.want("tools/call"), `{}`)
		good(t, done)
		for range mostBlank + 1 {
			s.say("")
		}
		<-c.Done()
		contains(t, "blank lines", c.Err(), "empty lines in a row")
	})
	// Before the first message the server may write some noise, such as a banner.
	synctest.Test(t, func(t *testing.T) {
		c, _, err := dial(t, Config{}, func(s *server) {
			for range 60 {
				s.say("%s", strings.Repeat("#", 1<<10))
			}
			s.say(`{"level":"info"}`)
			s.greet(wire.Legacy)
		})
		if err != nil || c.Stats().Bad != 61 {
			t.Errorf("got %v", err)
		}
	})
	for noise, want := range map[string]string{
		strings.Repeat(strings.Repeat("#", 1<<10)+"\n", 65): "more than 65536 bytes before its first message",
		strings.Repeat("#", 70<<10) + "\n":                  "more than 65536 bytes before its first message",
		strings.Repeat("#", 11<<20) + "\n":                  "more than 65536 bytes before its first message",
		"Content-Length: 40\r\n\r\n{}":                      "Content-Length headers, like a language server",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, err := dial(t, Config{}, func(s *server) {
				go func() { fmt.Fprint(s.out, noise) }()
				synctest.Wait()
			})
			contains(t, fmt.Sprintf("%.20q", noise), err, want)
		})
	}
}

// In revision 2025-03-26 a server may send batches.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c, s, err := dial(t, Config{OnNotification: func(n Notification) { got = append(got, n.Method) }}, func(s *server) {
			s.fail(s.want("server/discover"), -32601, "no")
			s.initialize(strings.Replace(helloLegacy, "2025-11-25", wire.BatchRevision, 1))
		})
		if err != nil {
			t.Fatal(err)
		}
		a := invoke(t.Context(), c, "a", `{}`, CallOptions{})
		ma := s.want("a")
		b := invoke(t.Context(), c, "b", `{}`, CallOptions{})
		mb := s.want("b")
		s.say(`[{"jsonrpc":"2.0","id":%s,"result":{"b":1}},{"jsonrpc":"2.0","method":"notifications/x"}, 7, {"jsonrpc":"2.0","id":%s,"result":{"a":1}}]`, mb.ID, ma.ID)
		if ra, rb := good(t, a), good(t, b); ra != `{"a":1}` || rb != `{"b":1}` {
			t.Errorf("got %s and %s", ra, rb)
		}
		synctest.Wait()
		if fmt.Sprint(got) != "[notifications/x]" || c.Stats().Bad != 1 {
			t.Errorf("got %v, %+v", got, c.Stats())
		}
	})
}

// A call whose answer cannot be used ends immediately.
func TestSpoiledAnswers(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":2}}`:                                    `"a" occurs twice`,
		`{"jsonrpc":"2.0","id":%d,"result":{"a":` + "\"\x01\"" + `}}`:                         "control character",
		`{"jsonrpc":"2.0","id":%d,"result":{"a":` + deep + `}}`:                               "nested deeper than 128",
		`{"jsonrpc":"2.0","id":%d,"result":{"a":"` + strings.Repeat("x", 10<<20) + `"}}`:      "more than 10485760 bytes",
		`{"result":{"a":"` + strings.Repeat("x", 10<<20) + `"},"jsonrpc":"2.0","id":%d}`:      "more than 10485760 bytes",
		`{"jsonrpc":"2.0","id":%d,"result":{"a":` + strings.Repeat("[", 5000) + deep + `}} }`: "cannot be used",
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, Config{})
			began := time.Now()
			done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			m := s.want("tools/call")
			go s.say("%s", strings.Replace(answer, "%d", string(m.ID), 1))
			if got := failed(t, done); !strings.Contains(got, want) {
				if strings.Contains(answer, "}} }") && time.Since(began) > 0 {
					return // the answer is too broken for its id to be certain
				}
				t.Errorf("%.60s: got %q, want %q", answer, got, want)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%.60s: took %v", answer, took)
			}
			done = invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			s.result(s.want("tools/call"), `{}`)
			good(t, done)
		})
	}
}

func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, got := make(chan struct{}), []Notification(nil)
		c, s := connect(t, wire.Legacy, Config{OnNotification: func(n Notification) {
			<-hold
			got = append(got, n)
		}})
		s.say(`{"jsonrpc":"2.0","method":"notifications/first"}`)
		synctest.Wait() // the first notification is being delivered
		for range 10_000 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			s.say(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		}
		for i := range 1000 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:%d","more":[1]}}`, i)
		}
		synctest.Wait()
		if st := c.Stats(); st.Merged != 2*9999 || st.Dropped != 1000-254 {
			t.Errorf("%+v", st)
		}
		close(hold)
		synctest.Wait()
		if len(got) != 257 || got[1].Method != "notifications/tools/list_changed" || got[2].Method != "notifications/prompts/list_changed" ||
			string(got[3].Params) != `{"uri":"x:0","more":[1]}` || string(got[256].Params) != `{"uri":"x:253","more":[1]}` {
			t.Errorf("got %d, %v", len(got), got)
		}
		// A notification that was delivered is not merged with a later one.
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		synctest.Wait()
		if len(got) != 258 {
			t.Errorf("got %d, want one more", len(got))
		}
	})
	// Large notifications are bounded by their bytes.
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		c, s := connect(t, wire.Legacy, Config{OnNotification: func(Notification) { <-hold }})
		for range 20 {
			s.say(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"%s"}}`, strings.Repeat("x", 1000<<10))
		}
		synctest.Wait()
		if st := c.Stats(); st.Dropped < 14 || c.inbox.bytes > mostQueued {
			t.Errorf("%+v, %d bytes wait", st, c.inbox.bytes)
		}
		close(hold)
	})
}

// At most four log messages per second pass for a call. They have the owner of the open
// call.
func TestLogMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Notification
		c, s := connect(t, wire.Legacy, Config{OnNotification: func(n Notification) { got = append(got, n) }})
		log := func() {
			for range 50 {
				s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			}
			synctest.Wait()
		}
		owners := func() (all []string) {
			for _, n := range got {
				all = append(all, n.Owner)
			}
			got = nil
			return all
		}
		log()
		if o := owners(); fmt.Sprintf("%q", o) != `["" "" "" ""]` {
			t.Errorf("without a call: %q", o)
		}
		a := invoke(t.Context(), c, "a", `{}`, CallOptions{Owner: "ann"})
		ma := s.want("a")
		log()
		if o := owners(); fmt.Sprintf("%q", o) != `["ann" "ann" "ann" "ann"]` {
			t.Errorf("with one call: %q", o)
		}
		time.Sleep(time.Second)
		b := invoke(t.Context(), c, "b", `{}`, CallOptions{Owner: "bob"})
		mb := s.want("b")
		log()
		if o := owners(); fmt.Sprintf("%q", o) != `["" "" "" ""]` {
			t.Errorf("with calls of two: %q", o)
		}
		s.result(ma, `{}`)
		s.result(mb, `{}`)
		good(t, a)
		good(t, b)
	})
}

// garbage is an endless output of a server. most bounds the bytes that can be read, and
// read counts them.
type garbage struct {
	chunk []byte
	read  int
	most  int
}

func (g *garbage) Read(b []byte) (int, error) {
	if g.read >= g.most {
		return 0, io.EOF
	}
	n := 0
	for n < len(b) {
		k := copy(b[n:], g.chunk[g.read%len(g.chunk):])
		n += k
		g.read += k
	}
	return n, nil
}

// heap returns how many bytes of memory were in use after the latest garbage collection.
func heap() uint64 {
	runtime.GC()
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(found)
	return found[0].Value.Uint64() + found[1].Value.Uint64()
}

// nowhere is a writer that discards everything.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

// A server that writes without end is cut off, and memory does not grow meanwhile.
func TestFlood(t *testing.T) {
	const flood = 1 << 30
	note := `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 4000) + `"}}` + "\n"
	for _, tt := range []struct {
		name, chunk, want string
	}{
		{"no line break", strings.Repeat("x", 4096), "without a line break"},
		{"brackets", strings.Repeat("[", 4096), "without a line break"},
		{"open strings", strings.Repeat(`{"a":"`, 1000), "without a line break"},
		{"long lines", strings.Repeat(" x", 1<<20+1) + "\n", "in a row"},
		{"short lines", "x\n", "in a row"},
		{"empty lines", "\n", "empty lines in a row"},
		{"notifications", note, "ended"},
		{"requests", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", "ended"},
		{"answers", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", "in a row"},
	} {
		most := flood
		if tt.want == "ended" {
			most = 4 << 20 // good messages take more time to handle, and do not end the connection
		}
		hold := make(chan struct{})
		before := heap()
		out := &garbage{chunk: []byte(tt.chunk), most: most}
		c, _, err := begin(t.Context(), Pipes{In: nowhere{}, Out: out}, Config{OnNotification: func(Notification) { <-hold }, Limits: Limits{Answer: 2 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.heard.any = true // so that the output does not count as noise before the first message
		c.mu.Unlock()
		var worst uint64
		look := time.NewTicker(20 * time.Millisecond)
		for over := false; !over; {
			select {
			case <-c.Done():
				over = true
			case <-look.C:
			}
			if now := heap(); now > before {
				worst = max(worst, now-before)
			}
		}
		contains(t, tt.name, c.Err(), tt.want)
		if worst > 24<<20 {
			t.Errorf("%s: memory grew by %d MB", tt.name, worst>>20)
		}
		look.Stop()
		close(hold)
		c.Close()
		t.Logf("%s: %d MB read, memory grew by at most %d MB", tt.name, out.read>>20, worst>>20)
	}
}

// held is a reader whose reads block until play is closed.
type held struct {
	io.Reader
	play chan struct{}
}

func (h *held) Read(b []byte) (int, error) {
	<-h.play
	return h.Reader.Read(b)
}

// FuzzGuard lets a server write anything, cut anywhere, while calls are open: nothing may
// panic or hang, and no answer may reach the wrong call.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":[1,{}]}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"x","data":[]}}`,
		`{"jsonrpc":"2.0","id":0,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"x"}}`, `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping"}`, `[{"jsonrpc":"2.0","id":3,"result":{}},5]`, "Content-Length: 5\r\n\r\n{}", "\ufeff{}\r\n",
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, strings.Repeat("[", 300), `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}`,
	} {
		f.Add([]byte(s+"\n"+s+"\n"), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, setup uint8) {
		out := io.Reader(bytes.NewReader(text))
		play := make(chan struct{})
		if setup&16 != 0 {
			out = iotest.HalfReader(out)
		}
		c, _, err := begin(t.Context(), Pipes{In: nowhere{}, Out: &held{out, play}}, Config{
			Capabilities:   json.RawMessage(`{"elicitation":{},"roots":{}}`),
			OnRequest:      func(context.Context, Request) (json.RawMessage, error) { return json.RawMessage("{\n}"), nil },
			OnNotification: func(Notification) {},
			Limits:         Limits{Answer: 4 << 10, Message: 1 << 10},
		})
		if err != nil {
			t.Fatal(err)
		}
		info := &Info{Revision: wire.BatchRevision}
		if setup&1 != 0 {
			info = &Info{Era: wire.Modern, Revision: wire.ModernRevision}
		}
		c.info.Store(info)
		var calls []*call
		for i := range int(setup>>1) % 4 {
			r, err := newRequest("tools/call", nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			cl := newCall(r, CallOptions{Owner: fmt.Sprint(i % 2), Progress: func(json.RawMessage) {}}, time.Minute)
			cl.list = setup&8 != 0
			if err := c.send(t.Context(), cl, r, nil); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, cl)
		}
		close(play)
		<-c.Done()
		c.Close()
		for _, cl := range calls {
			select {
			case <-cl.ended:
			default:
				t.Fatal("a call has not ended")
			}
			if cl.err == nil && !json.Valid(cl.result) {
				t.Fatalf("a call returned %q", cl.result)
			}
			c.show(cl)
			wantsInput(info.Era, "tools/call", cl.result)
			(&Listing{}).page(cl.result, "a", c.cfg.Limits, new(int))
		}
		if n := len(c.asked); n != 0 {
			t.Fatalf("%d requests of the server are left", n)
		}
	})
}

// The error for an answer that has a member twice contains the member's name, but not all
// of a name that is as long as an answer: agents read the error.
func TestAnErrorNamesNoLongMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		name := strings.Repeat("long", 1<<18)
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{%[2]q:1,%[2]q:2}}`, s.want("tools/call").ID, name)
		if got := failed(t, done); !strings.Contains(got, "twice") || len(got) > 1000 {
			t.Errorf("the error has %d bytes: %.200s", len(got), got)
		}
	})
}

// Waiting notifications, and progress that was not shown, keep only their params in memory,
// and not the rest of their messages.
func TestWhatWaitsKeepsNoMessages(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","x":"` + strings.Repeat("x", 1000) + `","method":"notifications/message","params":{"data":1}}`)
	params := line[bytes.LastIndexByte(line, '{') : len(line)-1]
	b := inbox{most: 4, more: make(chan struct{}, 1)}
	b.add(Notification{Method: "notifications/message", Params: params})
	cl := &call{id: 1, progress: func(json.RawMessage) {}, wake: make(chan struct{}, 1)}
	g := guard{&Conn{table: table{open: map[int64]*call{1: cl}}}}
	step := []byte(`{"progressToken":1,"progress":2}`)
	g.progressed(step)
	clear(line)
	clear(step)
	if n, _ := b.take(); string(n.Params) != `{"data":1}` || cap(n.Params) > 100 {
		t.Errorf("a notification waits with the params %q, in %d bytes of memory", n.Params, cap(n.Params))
	}
	if got := string(cl.steps[0]); got != `{"progressToken":1,"progress":2}` {
		t.Errorf("a step of progress waits as %q", got)
	}
}
