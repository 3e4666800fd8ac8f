package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/mcp"
)

// Only a few questions to the model of a client are open at the same time, and they do not
// reduce the number of questions to its person.
func TestQuestionsToAModelAreApart(t *testing.T) {
	const most = 4
	ty := newToy(t)
	lost := make(chan string, 16)
	mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
		ask := func(id string, form mcp.Form) {
			call.Ask(ctx, mcp.Offer{
				ID: id, Left: time.Minute, Form: form, Lost: func() { lost <- id },
				Over: func(ctx context.Context) { <-ctx.Done() },
				Take: func(context.Context, mcp.FormAnswer) error { return nil },
			})
		}
		for i := range most + 1 {
			ask(fmt.Sprint("model-", i), mcp.Form{Sample: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":1}`)})
		}
		for i := range 8 {
			ask(fmt.Sprint("person-", i), mcp.Form{Message: "Which?"})
		}
		ask("one-more", mcp.Form{Message: "Which?", URL: "https://a.example/"})
		return mcp.Text("asked"), nil
	})
	c := ty.connect(t)
	c.send(strings.Replace(fmt.Sprintf(hello, "2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}}`, 1))
	c.next()
	c.send(initialized, call("1", "asks", "{}"))
	asked := make(map[string]int)
	for range most + 8 + 1 { // one more for the answer
		m := c.next()
		asked[m.Method]++
	}
	if asked["sampling/createMessage"] != most || asked["elicitation/create"] != 8 || asked[""] != 1 {
		t.Errorf("the client got %v", asked)
	}
	for _, want := range []string{"model-4", "one-more"} {
		if got := <-lost; got != want {
			t.Errorf("%s was not asked, want %s", got, want)
		}
	}
}

// A client that opens addresses gets an address in the form of its era, even if it shows no
// forms.
func TestAddresses(t *testing.T) {
	ty := newToy(t)
	mcp.AddTool(ty.Server, mcp.Tool{Name: "asks", Description: "asks"}, func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
		said := make(chan mcp.FormAnswer, 1)
		how := call.Ask(ctx, mcp.Offer{
			ID: "q-1", Left: time.Minute, Form: mcp.Form{Message: "a.example?", URL: "https://a.example/"},
			Over: func(ctx context.Context) { <-ctx.Done() },
			Take: func(_ context.Context, a mcp.FormAnswer) error { said <- a; return nil },
		})
		if how != mcp.AskedNow {
			return mcp.Text("how %d of %d", how, call.Opens()), nil
		}
		a := <-said
		mcp.AddressDone(call.Session, "q-1")
		return mcp.Text("%s, forms %v, opens %d", a.Action, call.Asks(), call.Opens()), nil
	})
	for capabilities, want := range map[string]string{`{"elicitation":{"url":{}}}`: "accept, forms false, opens 1", `{"elicitation":{}}`: "how 0 of 0", `{}`: "how 0 of 0"} {
		t.Run("legacy "+capabilities, func(t *testing.T) {
			c := ty.connect(t)
			c.send(strings.Replace(fmt.Sprintf(hello, "2025-11-25"), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
			c.next()
			c.send(initialized, call("1", "asks", "{}"))
			m := c.next()
			if strings.HasPrefix(want, "accept") {
				if m.Method != "elicitation/create" || !strings.Contains(m.raw, `"mode":"url"`) || !strings.Contains(m.raw, `"url":"https://a.example/"`) || !strings.Contains(m.raw, `"elicitationId":"q-1"`) || strings.Contains(m.raw, "requestedSchema") {
					t.Fatalf("the client got %s", m.raw)
				}
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, m.ID))
				if m = c.next(); m.raw != `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"q-1"}}` {
					t.Errorf("the client got %s", m.raw)
				}
				m = c.next()
			}
			if m.text() != want {
				t.Errorf("answered %s, want %s", m.raw, want)
			}
		})
	}
	for capabilities, want := range map[string]string{`{"elicitation":{"url":{}}}`: "accept, forms false, opens 2", `{"elicitation":{"form":{}}}`: "how 0 of 0", `{"elicitation":{"url":null}}`: "how 0 of 0"} {
		t.Run("modern "+capabilities, func(t *testing.T) {
			c := ty.connect(t)
			send := strings.NewReplacer(`"echo"`, `"asks"`, `{"elicitation":{}}`, capabilities).Replace(modernCall(1, "{}", "%s"))
			c.send(fmt.Sprintf(send, ""))
			m := c.next()
			if strings.HasPrefix(want, "accept") {
				var asks struct{ RequestState string }
				if err := json.Unmarshal(m.Result, &asks); err != nil || !strings.Contains(m.raw, `"mode":"url"`) || strings.Contains(m.raw, "elicitationId") {
					t.Fatalf("the client got %s, %v", m.raw, err)
				}
				c.send(fmt.Sprintf(send, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q-1":{"action":"accept"}}`, asks.RequestState)))
				m = c.next()
			}
			if m.text() != want {
				t.Errorf("answered %s, want %s", m.raw, want)
			}
		})
	}
}
