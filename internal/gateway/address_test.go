package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
)

// opener returns a server that asks for an address to be opened at each call of echo. Its
// text contains control characters.
func opener(params string, then ...upstreams.Act) map[string]upstreams.Server {
	return map[string]upstreams.Server{"s": {
		Tools: []upstreams.Tool{upstreams.Echo, {Name: upstreams.ReceivedTool}},
		Rules: []upstreams.Rule{{On: "tools/call", Has: `"echo"`, Do: append(append([]upstreams.Act{upstreams.Ask("elicitation/create", params)}, then...), upstreams.Answer())}},
	}}
}

const toOpen = `{"mode":"url","message":"Log in \u001b]52;c;x\u0007 please\u202e","url":"https://LOGIN.example./a?b=c","elicitationId":"e-1"}`

// person makes the client answer all questions with an action. It returns a channel with
// the questions.
func (g *gated) person(action string) <-chan message {
	asked := make(chan message, 16)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks = func(m message) any {
		asked <- m
		return map[string]any{"action": action, "content": map[string]string{"x": "not for the server"}}
	}
	return asked
}

// openingParams are the params of a question in URL mode.
type openingParams struct {
	Mode, Message, URL, ElicitationID string
}

// wantOpening checks a question that a person gets.
func wantOpening(t *testing.T, raw json.RawMessage) (p openingParams) {
	t.Helper()
	if err := json.Unmarshal(raw, &p); err != nil || p.Mode != "url" || p.URL != "https://login.example/a?b=c" {
		t.Errorf("the client got %s, %v", raw, err)
	}
	for _, want := range []string{"The server s asks", "the host login.example in", p.URL, "The server says: Log in ^[]52;c;x^G please\\u202e"} {
		if !strings.Contains(p.Message, want) {
			t.Errorf("the person reads %q, want %q in it", p.Message, want)
		}
	}
	if strings.Contains(string(raw), "requestedSchema") {
		t.Errorf("an address has a form: %s", raw)
	}
	return p
}

// GW24: a server may ask the person to open an address. The client gets the name of the
// server and the host of the address. The server gets only the answer whether the person
// agrees. The client is notified when the server is done.
func TestServersAskToOpenAddresses(t *testing.T) {
	g := gate(t, "", "", opener(toOpen, upstreams.Notify("notifications/elicitation/complete", `{"elicitationId":"e-2"}`),
		upstreams.Notify("notifications/elicitation/complete", `{"elicitationId":"e-1"}`), upstreams.Notify("notifications/elicitation/complete", `{"elicitationId":"e-1"}`)))
	g.names()
	for _, action := range []string{"accept", "decline", "cancel"} {
		asked := g.person(action)
		g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
		p := wantOpening(t, (<-asked).Params)
		if !g.received(t, `"id":"ask-`, `"result":{"action":"`+action+`"}`) {
			t.Errorf("the server has not got %s alone", action)
		}
		var told []message
		testenv.Until(20*time.Second, func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			told = slices.Clone(g.told)
			return len(told) > 0
		})
		g.mu.Lock()
		told, g.told = g.told, nil
		g.mu.Unlock()
		if len(told) != 1 || p.ElicitationID == "" || !strings.Contains(string(told[0].Params), `{"elicitationId":"`+p.ElicitationID+`"}`) {
			t.Errorf("the client asked about %q was told %+v", p.ElicitationID, told)
		}
	}
}

// A client of 2026-07-28 is asked by the result of its call, and a server of that revision
// asks by its result too.
func TestAddressesInAResult(t *testing.T) {
	modern := map[string]upstreams.Server{"s": {Modern: true, Rules: []upstreams.Rule{
		{On: "tools/call", Has: `"action":"accept"`, Do: []upstreams.Act{upstreams.Answer()}},
		{On: "tools/call", Has: "inputResponses", Do: []upstreams.Act{upstreams.Fail(-32603, "not accepted")}},
	}}}
	ask := `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":` + toOpen + `}},"requestState":"z"}`
	for name, servers := range map[string]map[string]upstreams.Server{"legacy": opener(toOpen), "modern": modern} {
		t.Run(name, func(t *testing.T) {
			if name == "modern" { // its first answer contains the question
				s := servers["s"]
				s.Rules = append([]upstreams.Rule{{On: "tools/call", Nth: 1, Do: []upstreams.Act{upstreams.AnswerWith(ask)}}}, s.Rules...)
				servers["s"] = s
			}
			g := gate(t, "", "", servers)
			g.names()
			m := g.modernWith(`{"elicitation":{"url":{}}}`, "")
			var r asks
			if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Requests) != 1 {
				t.Fatalf("got %s %+v", m.Result, m.Error)
			}
			for id, raw := range r.Requests {
				var q struct{ Params json.RawMessage }
				if err := json.Unmarshal(raw, &q); err != nil {
					t.Fatal(err)
				}
				if p := wantOpening(t, q.Params); p.ElicitationID != "" {
					t.Errorf("2026-07-28 has no elicitationId, got %s", raw)
				}
				m = g.modernWith(`{"elicitation":{"url":{}}}`, `"inputResponses":{"`+id+`":{"action":"accept"}},"requestState":"`+r.State+`",`)
			}
			if !strings.Contains(string(m.Result), `{\"x\":1}`) {
				t.Errorf("after the answer: got %s %+v", m.Result, m.Error)
			}
		})
	}
}

// modernWith calls echo as a client of 2026-07-28 with capabilities.
func (g *gated) modernWith(capabilities, more string) message {
	return g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1},`+more+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}`)
}

// demanding returns a server whose first call fails because addresses must be opened first.
func demanding(data string) map[string]upstreams.Server {
	return map[string]upstreams.Server{"s": {Rules: []upstreams.Rule{{On: "tools/call", Nth: 1, Do: []upstreams.Act{upstreams.FailWith(-32042, "open this first", data)}}}}}
}

// A server of 2025-11-25 may let a call fail until addresses were opened. A client that
// knows this error gets it with the addresses in the form that belljar shows. A client of
// 2026-07-28 is asked by the result of its call, and the call is made again if the person
// agrees.
func TestAddressesThatAreDemanded(t *testing.T) {
	data := `{"elicitations":[` + toOpen + `],"more":"javascript:alert(1)"}`
	t.Run("by an error", func(t *testing.T) {
		g := gate(t, "", "", demanding(data))
		g.names()
		m := g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1}}`)
		var of struct {
			Error struct {
				Data struct {
					More         any
					Elicitations []json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(m.raw, &of); err != nil || m.Error == nil || m.Error.Code != -32042 || len(of.Error.Data.Elicitations) != 1 || of.Error.Data.More != nil {
			t.Fatalf("got %s, %v", m.raw, err)
		}
		if p := wantOpening(t, of.Error.Data.Elicitations[0]); p.ElicitationID == "" || p.ElicitationID == "e-1" {
			t.Errorf("the id is %q", p.ElicitationID)
		}
	})
	for answer, want := range map[string]string{"accept": `{\"x\":1}`, "decline": "has not agreed"} {
		t.Run("by a result, "+answer, func(t *testing.T) {
			g := gate(t, "", "", demanding(data))
			g.names()
			m := g.modernWith(`{"elicitation":{"url":{}}}`, "")
			var r asks
			if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Requests) != 1 {
				t.Fatalf("got %s %+v", m.Result, m.Error)
			}
			for id := range r.Requests {
				m = g.modernWith(`{"elicitation":{"url":{}}}`, `"inputResponses":{"`+id+`":{"action":"`+answer+`"}},"requestState":"`+r.State+`",`)
			}
			if !strings.Contains(string(m.raw), want) {
				t.Errorf("got %s, want %s in it", m.raw, want)
			}
		})
	}
	t.Run("of a client without a browser", func(t *testing.T) {
		g := gate(t, "", "", demanding(data))
		g.names()
		if m := g.modernWith(`{"elicitation":{}}`, ""); !strings.Contains(string(m.Result), "does not open addresses") || strings.Contains(string(m.raw), "login.example") {
			t.Errorf("got %s", m.raw)
		}
	})
	t.Run("too many, or bad ones", func(t *testing.T) {
		for _, list := range []string{strings.Repeat(toOpen+",", addressesMost) + toOpen, strings.ReplaceAll(toOpen, "https:", "http:"), "", "1"} {
			g := gate(t, "", "", demanding(`{"elicitations":[`+list+`]}`))
			g.names()
			m := g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1}}`)
			if text, failed := said(m); !failed || m.Error != nil || !strings.Contains(text, "the call was not made") || strings.Contains(string(m.raw), "/a?b") {
				t.Errorf("%s: got %s", list, m.raw)
			}
		}
	})
}

// GW-A46: addresses of this machine and its network, of other schemes, and those that look
// like something else, are not passed on.
func TestAddressesThatAreRefused(t *testing.T) {
	for _, url := range []string{
		"", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://login.example/", "HTTP://login.example/", "ftp://login.example/", "//login.example/", "login.example",
		"https://localhost/", "https://x.localhost/", "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/",
		"https://10.0.0.1/", "https://169.254.169.254/latest", "https://8.8.8.8/", "https://intranet/", "https://printer.local/", "https://x.internal/", "https://router.home.arpa/",
		"https://user@login.example/", "https://login.example@evil.example/", `https://login.example\@evil.example/`, `https:\\login.example`, "https:login.example", "https:///login.example/",
		"https://löгin.example/", "https://login.example/\u202etxt", "https://login.example/a b", "https://login.example/\n", " https://login.example/", "https://login.example/\x7f",
		"https://login.example/" + strings.Repeat("a", addressBytes), "https://login.example:x/", "https://-a.example/", "https://%6cogin.example/",
	} {
		params, err := json.Marshal(map[string]string{"mode": "url", "message": "m", "url": url, "elicitationId": "1"})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := readAddress(params); err == nil {
			t.Errorf("%q is passed on as %q", url, a.URL)
		}
	}
	for url, host := range map[string]string{"https://login.example/a#b": "login.example", "https://a.b.example:8443/": "a.b.example", "HTTPS://xn--lgin-5qa.Example/": "xn--lgin-5qa.example"} {
		a, err := readAddress(json.RawMessage(fmt.Sprintf(`{"url":%q}`, url)))
		if f := a.form("s"); err != nil || !strings.Contains(f.Message, "the host "+host+" in") || strings.Contains(f.Message, "look like others") != strings.Contains(host, "xn--") {
			t.Errorf("%s: got %q, %v", url, f.Message, err)
		}
	}
}

// If agents can write the entry of a server, the server cannot have an address opened: the
// capabilities that it gets do not contain url.
func TestAddressesOfAgents(t *testing.T) {
	for trusted, want := range map[bool]string{true: `{"elicitation":{"form":{},"url":{}}}`, false: `{"elicitation":{}}`} {
		s := &server{Server: upstream.Server{Name: "s", Trusted: trusted}}
		if got := string(offersOf(s, offersAt{true, true, true})); got != want {
			t.Errorf("trusted is %v: it is offered %s", trusted, got)
		}
		c := &conn{server: s}
		if got := c.whyNoAddress(mcp.Call{Session: new(mcp.Session)}); strings.Contains(got, "agents can write the file") == trusted {
			t.Errorf("trusted is %v: got %q", trusted, got)
		}
	}
}

// An answer that arrives too quickly for a person does not count as one.
func TestAnswersTooQuickForAPerson(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	for name, params := range map[string]string{"address": toOpen, "form": `{"message":"x","requestedSchema":{"type":"object","properties":{"x":{"type":"string"}}}}`} {
		t.Run(name, func(t *testing.T) {
			g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir(), doubts: true}
			g.use("", "")
			g.open(g.write(opener(params)))
			g.names()
			asked := g.person("accept")
			g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
			if len(asked) != 1 || !g.received(t, `"id":"ask-1"`, `"result":{"action":"cancel"}`) {
				t.Error("the server has got another answer")
			}
		})
	}
}

// The number of remembered addresses is bounded.
func TestOpeningsAreFew(t *testing.T) {
	var o askedAddresses
	for i := range 3 * askedAddressesMost {
		o.put(fmt.Sprint(i), askedAddress{})
	}
	o.put("", askedAddress{})
	o.put(strings.Repeat("x", addressBytes+1), askedAddress{})
	if len(o.of) != askedAddressesMost || len(o.order) != askedAddressesMost {
		t.Errorf("%d and %d are remembered", len(o.of), len(o.order))
	}
}
