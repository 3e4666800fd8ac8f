package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

const formsMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// modernCall returns a call of a client that shows forms. more is added to its params.
func modernCall(id int, args, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%s,%s%s}}`, id, args, formsMeta, more)
}

// A modern client is asked in the result of its call, and answers when it makes the call
// again.
func TestAModernClientIsAskedByAResult(t *testing.T) {
	pending := mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending, Rule: "publish", Scopes: []string{"once"}, Shown: []string{"runs: x"}, Left: time.Minute}
	yes := pending
	yes.State = mcp.ApprovalApproved
	gate := &judged{d: policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1", Reason: "A person decides.", Obligations: policies.Obligations{Ask: policies.Asking{ReturnAfter: time.Millisecond}}}}
	p := &person{asked: pending, waited: yes, used: []bool{true}}
	// TrustClients, because this test answers faster than a person
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver, cfg.TrustClients = gate, p, true })
	c := ty.connect(t)
	c.send(modernCall(1, `{"text":"hi","loud":true}`, ""))
	first := c.next()
	var asks struct {
		Type     string `json:"resultType"`
		State    string `json:"requestState"`
		Requests map[string]struct {
			Method string `json:"method"`
			Params struct {
				Mode, Message   string
				RequestedSchema struct {
					Properties map[string]struct{ Enum []string }
				}
			} `json:"params"`
		} `json:"inputRequests"`
	}
	if err := json.Unmarshal(first.Result, &asks); err != nil || asks.Type != "input_required" || asks.Requests["ap-1"].Method != "elicitation/create" ||
		strings.Join(asks.Requests["ap-1"].Params.RequestedSchema.Properties["answer"].Enum, "|") != "no|yes, this once" {
		t.Fatalf("the call returned %s, %v", first.raw, err)
	}
	if strings.Contains(first.raw, `"content"`) {
		t.Errorf("the result asks, and has content: %s", first.raw)
	}
	if len(p.answers)+len(p.waits) != 0 {
		t.Errorf("it was answered %v, and waited %v", p.answers, p.waits)
	}
	bring := func(state, answer string) string {
		return fmt.Sprintf(`,"requestState":%q,"inputResponses":{"ap-1":{"action":"accept","content":{"answer":%q,"note":"go"}}}`, state, answer)
	}
	// The state is that of another call, was changed, or is missing.
	for i, send := range []string{
		modernCall(2, `{"text":"other"}`, bring(asks.State, "yes, this once")),
		modernCall(3, `{"text":"hi","loud":true}`, bring("x"+asks.State, "yes, this once")),
		modernCall(4, `{"text":"hi","loud":true}`, bring("", "yes, this once")),
	} {
		c.send(send)
		if a := c.next(); a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, "requestState") {
			t.Errorf("%d: %s, want -32602 about requestState", i, a.raw)
		}
	}
	if len(p.answers) != 0 {
		t.Fatalf("an answer was taken from a foreign state: %v", p.answers)
	}
	// The same members in another order are the same arguments.
	c.send(modernCall(5, `{"loud":true,"text":"hi"}`, bring(asks.State, "yes, this once")))
	if a := c.next(); a.text() != "hi" {
		t.Errorf("with the answer: %s", a.raw)
	}
	for i := range p.answers {
		p.answers[i].Took, p.answers[i].Itself = 0, false // the time depends on the machine
	}
	if len(p.answers) != 1 || p.answers[0] != (mcp.ClientAnswer{Yes: true, Scope: "once", Note: "go", Client: "t 1"}) {
		t.Errorf("the answer that was taken: %+v", p.answers)
	}
}

// A modern client that shows no forms cannot be asked.
func TestAClientWithoutForms(t *testing.T) {
	ask := policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver = &judged{d: ask}, &person{} })
	c := ty.connect(t)
	c.send(strings.Replace(modernCall(1, `{"text":"hi"}`, ""), `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, 1))
	if a := c.next(); !strings.Contains(a.text(), "no approver is connected") {
		t.Errorf("it was answered %s", a.raw)
	}
}

// A tool asks with the same code in both eras.
func TestAToolAsks(t *testing.T) {
	ty := newToy(t)
	mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
		said := make(chan mcp.FormAnswer, 1)
		how := call.Ask(ctx, mcp.Offer{
			ID: "q-1", Left: time.Minute, Form: mcp.Form{Message: "Which?", Fields: []mcp.Field{{Name: "it", Options: []string{"A", "B"}, Many: true}}},
			Over: func(ctx context.Context) { <-ctx.Done() },
			Take: func(_ context.Context, a mcp.FormAnswer) error { said <- a; return nil },
		})
		if how != mcp.AskedNow {
			return mcp.Text("how %d", how), nil
		}
		a := <-said
		return mcp.Text("%s %v", a.Action, a.Content["it"]), nil
	})
	t.Run("legacy", func(t *testing.T) {
		c := ty.connect(t)
		c.send(strings.Replace(fmt.Sprintf(hello, "2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		c.next()
		c.send(initialized, call("1", "asks", "{}"))
		q := c.next()
		if q.Method != "elicitation/create" {
			t.Fatalf("the server sent %s", q.raw)
		}
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"it":["B"]}}}`, q.ID))
		if a := c.next(); a.text() != "accept [B]" {
			t.Errorf("answered %s", a.raw)
		}
	})
	t.Run("modern", func(t *testing.T) {
		c := ty.connect(t)
		send := strings.Replace(modernCall(1, "{}", "%s"), `"echo"`, `"asks"`, 1)
		c.send(fmt.Sprintf(send, ""))
		var asks struct{ RequestState string }
		if err := json.Unmarshal(c.next().Result, &asks); err != nil {
			t.Fatal(err)
		}
		c.send(fmt.Sprintf(send, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q-1":{"action":"accept","content":{"it":["B"]}}}`, asks.RequestState)))
		if a := c.next(); a.text() != "accept [B]" {
			t.Errorf("answered %s", a.raw)
		}
	})
}

// A client that declines in a few milliseconds has shown the question to nobody. So other
// people are asked. If there are no others, the answer states that the client answered.
func TestAClientAnswersItself(t *testing.T) {
	for _, tt := range []struct {
		name, action string
		took         time.Duration
		elsewhere    bool
		want         string
	}{
		{"a person says no", "decline", time.Second, true, "decline by the client test 0 in 1 s"},
		{"a machine says no", "decline", 7 * time.Millisecond, true, "others are asked"},
		{"a machine puts it away", "cancel", 0, true, "others are asked"},
		{"a machine says no, and there is nobody else", "decline", 7 * time.Millisecond, false, "decline by the client test 0 in 7 ms"},
		{"a machine says yes", "accept", 7 * time.Millisecond, true, "others are asked"},
		{"just not a person", "decline", 199 * time.Millisecond, true, "others are asked"},
		{"just a person", "decline", 200 * time.Millisecond, true, "decline by the client test 0 in 200 ms"},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(tt.name+", "+era, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ty := newToy(t)
					mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
						said := make(chan mcp.FormAnswer, 1)
						ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
						defer cancel()
						call.Ask(ctx, mcp.Offer{
							ID: "q-1", Left: time.Minute, Form: mcp.Form{Message: "Yes?"},
							Over: func(over context.Context) { <-over.Done() },
							Take: func(_ context.Context, a mcp.FormAnswer) error {
								if a.Itself() && tt.elsewhere {
									return mcp.ErrItself
								}
								said <- a
								return nil
							},
						})
						select {
						case a := <-said:
							return mcp.Text("%s by %s", a.Action, mcp.Answerer(a.Client, a.Took)), nil
						case <-ctx.Done():
							return mcp.Text("others are asked"), nil
						}
					})
					c := ty.connect(t)
					defer c.close()
					answer := fmt.Sprintf(`{"action":%q,"content":{}}`, tt.action)
					if era == "legacy" {
						c.send(strings.Replace(fmt.Sprintf(hello, "2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
						c.next()
						c.send(initialized, call("1", "asks", "{}"))
						asked := c.next()
						time.Sleep(tt.took)
						c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, answer))
					} else {
						modern := strings.NewReplacer(`"name":"t","version":"1"`, `"name":"test","version":"0"`, `"name":"echo"`, `"name":"asks"`)
						c.send(modern.Replace(modernCall(1, "{}", "")))
						var asks struct {
							State string `json:"requestState"`
						}
						if err := json.Unmarshal(c.next().Result, &asks); err != nil {
							t.Fatal(err)
						}
						time.Sleep(tt.took)
						c.send(modern.Replace(modernCall(2, "{}", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q-1":%s}`, asks.State, answer))))
					}
					if got := c.next(); got.text() != tt.want {
						t.Errorf("got %s, want %q", got.raw, tt.want)
					}
				})
			})
		}
	}
}

// An answer that a client gives by itself does not count. After a few such questions the
// client is not asked again, so that a call does not have to wait for it.
func TestAClientThatAnswersItselfIsAskedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ty := newToy(t)
		mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			call.Ask(ctx, mcp.Offer{
				ID: "q-1", Left: time.Minute, Form: mcp.Form{Message: "Yes?"},
				Over: func(over context.Context) { <-over.Done() },
				Take: func(context.Context, mcp.FormAnswer) error { return mcp.ErrItself },
			})
			<-ctx.Done()
			return mcp.Text("others are asked"), nil
		})
		c := ty.connect(t)
		defer c.close()
		c.send(strings.Replace(fmt.Sprintf(hello, "2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		c.next()
		c.send(initialized)
		asked := 0
		for i := range 8 {
			c.send(call(fmt.Sprint(i+1), "asks", "{}"))
			got := c.next()
			if got.Method != "" {
				asked++
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, got.ID))
				got = c.next()
			}
			if got.text() != "others are asked" {
				t.Fatalf("call %d: got %s", i, got.raw)
			}
		}
		if asked != 4 {
			t.Errorf("the client was asked %d times of 8, want 4", asked)
		}
	})
}

// Another principal of the same tenant cannot use the state of a call.
func TestStatesOfOthers(t *testing.T) {
	pending := mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending, Rule: "publish", Left: time.Minute}
	p := &person{asked: pending, waited: pending}
	_, with := newOffice(t, "tenants: {a: {}}\n")
	s := newSite(t, with, func(cfg *mcp.Config) {
		cfg.Gate, cfg.Approver, cfg.TrustClients = &judged{d: policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}}, p, true
	})
	ask := func(who, more string) reply {
		return s.do("POST", modernCall(1, `{"text":"hi"}`, more), append(modernHeaders("tools/call", "echo"), "Authorization", "Bearer token-a/"+who)...)
	}
	var asks struct {
		State string `json:"requestState"`
	}
	first := ask("ann", "")
	if err := json.Unmarshal(first.last().Result, &asks); err != nil || asks.State == "" {
		t.Fatal(first.raw, err)
	}
	bring := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"ap-1":{"action":"accept","content":{"answer":"yes, this once"}}}`, asks.State)
	if got := ask("bob", bring); !strings.Contains(got.raw, "requestState") || len(p.answers) != 0 {
		t.Errorf("another principal: %s, and %d answers were taken", got.raw, len(p.answers))
	}
	if got := ask("ann", bring); len(p.answers) != 1 {
		t.Errorf("the control: %s, and %d answers were taken", got.raw, len(p.answers))
	}
}

// If a form comes back immediately with the default answer no, and the command line can be
// asked, the answer does not count. If nobody else can be asked, the client's no counts.
func TestAnApprovalThatTheClientAnswersItself(t *testing.T) {
	pending := mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending, Rule: "publish", Left: time.Minute}
	for _, tt := range []struct {
		ways    []string
		content string
		trust   bool
		answers int
		yes     bool
	}{
		{ways: []string{"command line"}, content: `{"answer":"no"}`},
		{ways: []string{"command line"}, content: `{"answer":"yes, this once"}`},
		{content: `{"answer":"no"}`, answers: 1},
		{content: `{"answer":"yes, this once"}`, answers: 1},
		{ways: []string{"command line"}, content: `{"answer":"yes, this once"}`, trust: true, answers: 1, yes: true},
		{content: `{"answer":"yes, this once"}`, trust: true, answers: 1, yes: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &person{ways: tt.ways, asked: pending, waited: pending}
			gate := &judged{d: policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}}
			c := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver, cfg.TrustClients = gate, p, tt.trust }).connect(t)
			defer c.close()
			c.send(modernCall(1, `{"text":"hi"}`, ""))
			var asks struct {
				State string `json:"requestState"`
			}
			if err := json.Unmarshal(c.next().Result, &asks); err != nil {
				t.Fatal(err)
			}
			c.send(modernCall(2, `{"text":"hi"}`, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"ap-1":{"action":"accept","content":%s}}`, asks.State, tt.content)))
			if got := c.next(); !strings.HasPrefix(got.text(), "WAITING for approval ap-1") || len(p.answers) != tt.answers {
				t.Errorf("%v, %s: %d answers were taken, want %d: %s", tt.ways, tt.content, len(p.answers), tt.answers, got.raw)
			}
			for _, a := range p.answers {
				if a.Itself == tt.trust || a.Yes != tt.yes || a.Client != "t 1" {
					t.Errorf("%v, %s: the answer is %+v, want that of the client t 1 itself, yes %v", tt.ways, tt.content, a, tt.yes)
				}
			}
		})
	}
}

// The questions of a call may come from many goroutines, because an upstream may ask
// several at the same time, and also after the call has returned.
func TestManyQuestionsOfOneCall(t *testing.T) {
	ty := newToy(t)
	const many = 500
	var asking sync.WaitGroup
	mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
		ask := func(id string) {
			call.Ask(ctx, mcp.Offer{ID: id, Left: time.Minute, Form: mcp.Form{Message: "Yes?"}, Over: func(context.Context) {}, Take: func(context.Context, mcp.FormAnswer) error { return nil }})
		}
		var first sync.WaitGroup
		for i := range many {
			first.Go(func() { ask(fmt.Sprint("q-", i)) })
			asking.Go(func() { ask(fmt.Sprint("q-", i)) })
		}
		first.Wait()
		return mcp.Text("done"), nil
	})
	c := ty.connect(t)
	c.send(strings.ReplaceAll(modernCall(1, "{}", ""), `"echo"`, `"asks"`))
	var asks struct {
		Requests map[string]any `json:"inputRequests"`
	}
	if got := c.next(); json.Unmarshal(got.Result, &asks) != nil || len(asks.Requests) != many {
		t.Errorf("got %d questions: %.200s", len(asks.Requests), got.raw)
	}
	asking.Wait()
}
