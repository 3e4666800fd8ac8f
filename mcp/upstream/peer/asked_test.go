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

const asks = `{"elicitation":{},"sampling":{},"roots":{}}`

// A request of the server reaches the handler with the owner of the only open call. A
// request whose owner is not certain is refused.
func TestRequestsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Request
		c, s := connect(t, wire.Legacy, Config{Capabilities: json.RawMessage(asks), OnRequest: func(_ context.Context, r Request) (json.RawMessage, error) {
			got = append(got, r)
			if r.Method == "roots/list" {
				return nil, wire.Errorf(wire.InvalidParams, "no roots")
			}
			return json.RawMessage("{\n\"action\":\"accept\"}"), nil
		}})
		ask := func(id, method string) message {
			t.Helper()
			s.say(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"message":"x","new":1}}`, id, method)
			m := s.next()
			if string(m.ID) != id {
				t.Errorf("the answer is %s, want the id %s", m.raw, id)
			}
			return m
		}
		refused := func(m message, code int64, want string) {
			t.Helper()
			if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, want) {
				t.Errorf("got %s, want error %d with %q", m.raw, code, want)
			}
		}
		refused(ask(`"a"`, "elicitation/create"), -32600, "no call is open")
		refused(ask(`"a"`, "sampling/createMessage"), -32600, "no call is open")
		refused(ask(`1`, "roots/list"), -32602, "no roots") // the request belongs to no call
		refused(ask(`1`, "tools/call"), -32601, "tools/call")
		if m := ask(`2`, "ping"); string(m.Result) != "{}" {
			t.Errorf("ping was answered %s", m.raw)
		}
		nobody := list(t, c) // the list belongs to no session
		ml := s.want("tools/list")
		refused(ask(`"a"`, "elicitation/create"), -32600, "no call of a session is open")
		s.result(ml, `{"tools":[]}`)
		if r := <-nobody; r.err != nil {
			t.Error(r.err)
		}
		a := invoke(t.Context(), c, "a", `{}`, CallOptions{Owner: "ann"})
		ma := s.want("a")
		if m := ask(`"q"`, "elicitation/create"); m.raw != `{"jsonrpc":"2.0","id":"q","result":{ "action":"accept"}}` {
			t.Errorf("got %s", m.raw)
		}
		a2 := invoke(t.Context(), c, "a", `{}`, CallOptions{Owner: "ann"})
		ma2 := s.want("a")
		ask(`3`, "sampling/createMessage")
		b := invoke(t.Context(), c, "b", `{}`, CallOptions{Owner: "bob"})
		mb := s.want("b")
		refused(ask(`4`, "elicitation/create"), -32600, "several sessions")
		refused(ask(`5`, "sampling/createMessage"), -32600, "several sessions")
		s.result(ma, `{}`)
		s.result(ma2, `{}`)
		good(t, a)
		good(t, a2)
		ask(`6`, "sampling/createMessage")
		s.result(mb, `{}`)
		good(t, b)
		var all []string
		for _, r := range got {
			all = append(all, r.Method+" "+r.Owner)
			if string(r.Params) != `{"message":"x","new":1}` {
				t.Errorf("got params %s", r.Params)
			}
		}
		if want := "[roots/list  elicitation/create ann sampling/createMessage ann sampling/createMessage bob]"; fmt.Sprint(all) != want {
			t.Errorf("the handler got %v, want %v", all, want)
		}
		if st := c.Stats(); st.Refused != 6 {
			t.Errorf("%+v", st)
		}
	})
}

// A request for which the client does not have the capability a capability is refused, even if the handler
// could answer it.
func TestOnlyWhatIsOffered(t *testing.T) {
	for _, cfg := range []Config{
		{OnRequest: func(context.Context, Request) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }},
		{OnRequest: func(context.Context, Request) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }, Capabilities: json.RawMessage(`{"elicitation":null,"sampling":true,"roots":[]}`)},
		{Capabilities: json.RawMessage(asks)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Legacy, cfg)
			done := invoke(t.Context(), c, "a", `{}`, CallOptions{})
			ma := s.want("a")
			for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
				s.say(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)
				if m := s.next(); m.Error == nil || m.Error.Code != -32601 {
					t.Errorf("%s: got %s", method, m.raw)
				}
			}
			s.result(ma, `{}`)
			good(t, done)
		})
	}
}

// A request ends when the server cancels it, when its call ends, and when the connection
// ends.
func TestRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 32)
		c, s := connect(t, wire.Legacy, Config{Capabilities: json.RawMessage(asks), OnRequest: func(ctx context.Context, _ Request) (json.RawMessage, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return json.RawMessage(`{}`), nil
		}})
		ask := func(id int) {
			s.say(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{}}`, id)
			synctest.Wait()
		}
		a := invoke(t.Context(), c, "a", `{}`, CallOptions{Owner: "ann"})
		ma := s.want("a")
		ask(1)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
		// this id is not an id of the server's request
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, ma.ID)
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		synctest.Wait()
		if len(causes) != 0 {
			t.Error("another cancel ended the request")
		}
		s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		is(t, "cancel", <-causes, errWithdrawn)
		synctest.Wait()
		s.quiet() // a cancelled request gets no answer

		ask(3)
		ask(3)
		if m := s.next(); m.Error == nil || !strings.Contains(m.Error.Message, "already in flight") {
			t.Errorf("the same id again: %s", m.raw)
		}
		for i := range 20 {
			ask(10 + i)
		}
		for range 5 {
			if m := s.next(); m.Error == nil || !strings.Contains(m.Error.Message, "16 requests already wait") {
				t.Errorf("too many: %s", m.raw)
			}
		}
		s.result(ma, `{}`)
		good(t, a)
		for range 16 {
			is(t, "end of the call", <-causes, errCallOver)
			if m := s.next(); m.Error == nil || !strings.Contains(m.Error.Message, "the call that the request belonged to has ended") {
				t.Errorf("end of the call: %s", m.raw)
			}
		}
		b := invoke(t.Context(), c, "b", `{}`, CallOptions{Owner: "bob"})
		s.want("b")
		ask(40)
		c.Close()
		is(t, "Close", <-causes, ErrClosed)
		is(t, "the call", (<-b).err, ErrClosed)
	})
}

// The timeout of a call does not run while a person thinks.
func TestTimeoutWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{Capabilities: json.RawMessage(asks), OnRequest: func(context.Context, Request) (json.RawMessage, error) {
			time.Sleep(10 * time.Minute)
			return json.RawMessage(`{}`), nil
		}})
		done := invoke(t.Context(), c, "a", `{}`, CallOptions{Timeout: time.Minute, Owner: "ann"})
		m := s.want("a")
		time.Sleep(30 * time.Second)
		s.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)
		s.next()
		time.Sleep(59 * time.Second)
		s.result(m, `{}`)
		good(t, done)

		began := time.Now()
		done = invoke(t.Context(), c, "a", `{}`, CallOptions{Timeout: time.Minute, Owner: "ann"})
		s.want("a")
		s.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)
		is(t, "the call", (<-done).err, ErrTimeout)
		if took := time.Since(began); took != 11*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// A server that repeats requests which are answered immediately does not extend its timeout
// for ever.
func TestTimeoutOfAServerThatAsksForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := connect(t, wire.Legacy, Config{Capabilities: json.RawMessage(asks), OnRequest: func(context.Context, Request) (json.RawMessage, error) {
			return json.RawMessage(`{"roots":[]}`), nil
		}})
		began := time.Now()
		done := invoke(t.Context(), c, "a", `{}`, CallOptions{Timeout: time.Minute, Owner: "ann"})
		s.want("a")
		for n := 0; n < 100 && len(done) == 0; n++ {
			s.say(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, n)
			time.Sleep(50 * time.Second)
			synctest.Wait()
		}
		if len(done) == 0 {
			t.Fatalf("the call is open after %v", time.Since(began))
		}
		is(t, "the call", (<-done).err, ErrTimeout)
		if took, most := time.Since(began), 10*time.Minute; took > most {
			t.Errorf("took %v, want at most %v", took, most)
		}
	})
}

// A modern server asks in its result. The call is made again with the answers and the
// state, byte for byte.
func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c, s := connect(t, wire.Modern, Config{OnRequest: func(_ context.Context, r Request) (json.RawMessage, error) {
			got = append(got, r.Owner+" "+r.Method+" "+string(r.Params))
			return fmt.Appendf(nil, `{"action":"accept","n":%d}`, len(got)), nil
		}})
		o := CallOptions{Owner: "ann", Capabilities: json.RawMessage(`{"elicitation":{},"roots":{}}`)}
		done := invoke(t.Context(), c, "tools/call", `{"name":"x","arguments":{"a":1},"_meta":{"x":1}}`, o)
		first := s.want("tools/call")
		if string(first.Params.Meta["io.modelcontextprotocol/clientCapabilities"]) != `{"elicitation":{},"roots":{}}` {
			t.Errorf("the server got %s", first.raw)
		}
		s.result(first, `{"resultType":"input_required","inputRequests":{"q\u0031":{"method":"elicitation/create","params":{"message":"m","new":[1]}},"\"":{"method":"roots/list"}},"requestState":"s\u0074\"\u0000"}`)
		second := s.want("tools/call")
		if string(second.ID) == string(first.ID) {
			t.Error("the second request has the id of the first")
		}
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"x","arguments":{"a":1},"inputResponses":{"q1":{"action":"accept","n":1},"\"":{"action":"accept","n":2}},"requestState":"s\u0074\"\u0000","_meta":`, second.ID)
		if !strings.HasPrefix(second.raw, want) {
			t.Errorf("the server got\n%s, want\n%s…", second.raw, want)
		}
		// The next round has no state: the state of the previous round must not be sent
		// again.
		s.result(second, `{"resultType":"input_required","inputRequests":{"q2":{"method":"elicitation/create"}}}`)
		third := s.want("tools/call")
		if third.Params.RequestState != nil || string(third.Params.InputResponses) != `{"q2":{"action":"accept","n":3}}` {
			t.Errorf("the server got %s", third.raw)
		}
		// The round after that has only a state.
		began := time.Now()
		s.result(third, `{"resultType":"input_required","requestState":"later"}`)
		fourth := s.want("tools/call")
		if took := time.Since(began); took != time.Second || fourth.Params.InputResponses != nil || string(fourth.Params.RequestState) != `"later"` {
			t.Errorf("after %v the server got %s", took, fourth.raw)
		}
		s.result(fourth, `{"resultType":"complete","content":[]}`)
		if r := good(t, done); r != `{"resultType":"complete","content":[]}` {
			t.Errorf("got %s", r)
		}
		if want := `[ann elicitation/create {"message":"m","new":[1]} ann roots/list  ann elicitation/create ]`; fmt.Sprint(got) != want {
			t.Errorf("the handler got %v, want %v", got, want)
		}
	})
}

func TestInputIsBounded(t *testing.T) {
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"q%d":{"method":"roots/list"}`, i))
		}
		return `{"resultType":"input_required","inputRequests":{` + strings.Join(all, ",") + `}}`
	}
	broken := errors.New("nobody is there")
	for _, tt := range []struct{ name, result, want string }{
		{"without an end", many(1), "asked for input 8 times"},
		{"too many questions", many(17), "more than 16 questions"},
		{"nothing at all", `{"resultType":"input_required"}`, "neither"},
		{"not offered", `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage"}}}`, "does not have the capability sampling"},
		{"not a request", `{"resultType":"input_required","inputRequests":{"q":{"method":"tools/call"}}}`, "no method"},
		{"no method", `{"resultType":"input_required","inputRequests":{"q":7}}`, "no method"},
		{"no object", `{"resultType":"input_required","inputRequests":[1]}`, "must be an object"},
		{"state not a string", `{"resultType":"input_required","requestState":{}}`, "must be a string"},
		{"large state", `{"resultType":"input_required","requestState":"` + strings.Repeat("x", 300<<10) + `"}`, "must be a string of at most"},
		{"nobody answers", `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create"}}}`, broken.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, wire.Modern, Config{Capabilities: json.RawMessage(`{"elicitation":{},"roots":{}}`), OnRequest: func(_ context.Context, r Request) (json.RawMessage, error) {
				if r.Method == "roots/list" {
					return json.RawMessage(`{}`), nil
				}
				return nil, broken
			}})
			done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
			go func() {
				for m := range s.got {
					s.result(m, tt.result)
				}
			}()
			if got := failed(t, done); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
			c.Close()
		})
	}
	// Other methods cannot ask, and a legacy server cannot either. Without a handler, the
	// caller gets the result.
	handler := func(context.Context, Request) (json.RawMessage, error) { return nil, broken }
	for _, tt := range []struct {
		era     wire.Era
		method  string
		handler func(context.Context, Request) (json.RawMessage, error)
	}{{wire.Modern, "tools/list", handler}, {wire.Legacy, "tools/call", handler}, {wire.Modern, "tools/call", nil}} {
		synctest.Test(t, func(t *testing.T) {
			c, s := connect(t, tt.era, Config{OnRequest: tt.handler})
			done := invoke(t.Context(), c, tt.method, `{}`, CallOptions{})
			s.result(s.want(tt.method), many(1))
			if r := good(t, done); r != many(1) {
				t.Errorf("got %s", r)
			}
		})
	}
	// Close ends a call that waits for the answer to a question.
	synctest.Test(t, func(t *testing.T) {
		cause := make(chan error, 1)
		c, s := connect(t, wire.Modern, Config{Capabilities: json.RawMessage(asks), OnRequest: func(ctx context.Context, _ Request) (json.RawMessage, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		}})
		done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
		s.result(s.want("tools/call"), many(1))
		synctest.Wait()
		c.Close()
		is(t, "the question", <-cause, ErrClosed)
		failed(t, done)
	})
}
