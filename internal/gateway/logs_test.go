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
)

// logging returns a server that logs lines during each call, and announces the capability
// logging.
func logging(lines ...string) upstreams.Server {
	acts := []upstreams.Act{}
	for _, line := range lines {
		acts = append(acts, upstreams.Notify("notifications/message", line))
	}
	return upstreams.Server{
		Results: map[string]json.RawMessage{
			"initialize":       json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`),
			"logging/setLevel": json.RawMessage(`{}`),
		},
		Rules: []upstreams.Rule{
			{On: "tools/call", Has: `"echo"`, Do: append(acts, upstreams.Answer())},
			{On: "logging/setLevel", Do: []upstreams.Act{upstreams.Notify("notifications/message", `{"level":"alert","data":"told"}`), upstreams.Answer()}},
		},
	}
}

// messages returns the log messages that the client has received.
func (c *client) messages() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.logs, "\n")
}

// GW23: the log messages of a server reach a client that has set a level, if they have at
// least this level. They carry the name of the server and arrive before the answer. The
// server gets the level.
func TestLogsOfServers(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": logging(
		`{"level":"warning","data":{"a":[1]},"x":1}`, `{"level":"info","logger":"db\u001b[1m","data":"low"}`, `{"level":"odd","data":1}`, `{"level":"error"}`)})
	g.wants("mcp_s_echo", `{}`, false)
	if got := g.messages(); got != "" {
		t.Errorf("a client that has set no level got %s", got)
	}
	g.ask("logging/setLevel", `{"level":"notice"}`)
	g.wants("mcp_s_echo", `{}`, false)
	const told, warning = `{"level":"alert","logger":"s","data":"told"}`, `{"level":"warning","logger":"s","data":{"a":[1]}}`
	g.wantsMessages(told, warning)
	g.ask("logging/setLevel", `{"level":"debug"}`)
	g.wants("mcp_s_echo", `{}`, false)
	g.wantsMessages(told, warning, told, warning, `{"level":"info","logger":"s/db [1m","data":"low"}`)
}

// wantsMessages waits for log messages. The message that a server sends about a new level
// belongs to no call, so it may arrive after the call that set the level.
func (g *gated) wantsMessages(want ...string) {
	g.t.Helper()
	slices.Sort(want)
	var got []string
	if !testenv.Until(20*time.Second, func() bool {
		got = strings.Split(g.messages(), "\n")
		slices.Sort(got)
		return slices.Equal(got, want)
	}) {
		g.t.Errorf("got %q, want %q", got, want)
	}
}

// A message that may belong to calls of two clients goes to neither client. A message that
// belongs to no call goes only to the clients that have used the server. The messages that
// are left out are counted.
func TestLogsOfTwoClients(t *testing.T) {
	s := logging()
	say := func(text string) upstreams.Act {
		return upstreams.Notify("notifications/message", fmt.Sprintf(`{"level":"error","data":%q}`, text))
	}
	s.Rules = append(s.Rules,
		upstreams.Rule{On: "tools/call", Has: `"pair"`, Do: []upstreams.Act{upstreams.Gather(2), say("of a pair"), upstreams.Answer()}},
		upstreams.Rule{On: "tools/call", Has: `"later"`, Do: []upstreams.Act{upstreams.Answer(), say("of nobody")}},
		upstreams.Rule{On: "tools/call", Has: `"flood"`, Do: []upstreams.Act{upstreams.Repeat(30, say("flood")), upstreams.Answer()}},
	)
	s.Tools = []upstreams.Tool{upstreams.Echo, {Name: "pair"}, {Name: "later"}, {Name: "flood"}}
	g := gate(t, "", "", map[string]upstreams.Server{"s": s})
	var other, idle client
	other.connect(t, g.cfg.Server)
	idle.connect(t, g.cfg.Server)
	for _, c := range []*client{&g.client, &other, &idle} {
		c.ask("logging/setLevel", `{"level":"info"}`)
	}
	g.wants("mcp_s_echo", `{}`, false)
	first := g.begin("tools/call", `{"name":"mcp_s_pair","arguments":{}}`)
	other.ask("tools/call", `{"name":"mcp_s_pair","arguments":{}}`)
	<-first
	if mine, theirs := strings.Count(g.messages(), "of a pair"), strings.Count(other.messages(), "of a pair"); mine+theirs != 1 {
		t.Errorf("the clients got %d and %d messages, want one that was certain: %s\n%s", mine, theirs, g.messages(), other.messages())
	}
	g.wants("mcp_s_later", `{}`, false)
	for _, c := range []*client{&g.client, &other} {
		if !testenv.Until(10*time.Second, func() bool { return strings.Contains(c.messages(), "of nobody") }) {
			t.Errorf("a client that uses the server got %s", c.messages())
		}
	}
	if got := g.messages(); !strings.Contains(got, "belljar has left out 1 of the log messages") {
		t.Errorf("nobody is told of the message of either: %s", got)
	}
	g.wants("mcp_s_flood", `{}`, false)
	lost := 0
	for line := range strings.Lines(g.messages()) {
		_, text, _ := strings.Cut(line, "left out ")
		n := 0
		_, _ = fmt.Sscanf(text, "%d of the log messages of the server s:", &n)
		lost += n
	}
	if got := strings.Count(g.messages(), `"flood"`); got != 4 || lost != 1+26 {
		t.Errorf("%d of 30 messages came, and %d were left out, one of them before: %s", got, lost, g.messages())
	}
	if got := idle.messages(); got != "" {
		t.Errorf("a client that does not use the server got %s", got)
	}
}

// If the policy redacts the answers to a client, this client gets no log messages: they may
// contain a secret.
func TestLogsThatAreRedacted(t *testing.T) {
	g := gate(t, "", `rules: [{id: clean, match: {tool: mcp_s_secret}, decision: allow, obligations: {redact: [tokens]}}]`, map[string]upstreams.Server{"s": {
		Results: logging().Results, Tools: []upstreams.Tool{upstreams.Echo, {Name: "secret"}},
		Rules: upstreams.On("tools/call", upstreams.Notify("notifications/message", `{"level":"error","data":"x"}`), upstreams.Answer()),
	}})
	g.ask("logging/setLevel", `{"level":"debug"}`)
	g.wants("mcp_s_secret", `{}`, false)
	if got := g.messages(); got != "" {
		t.Errorf("got %s", got)
	}
	g.wants("mcp_s_echo", `{}`, false) // the messages of the server may belong to the call before
	if got := g.messages(); got != "" {
		t.Errorf("got %s", got)
	}
}

// The number of recorded sessions is bounded, and ended sessions are forgotten first.
func TestListenersKeepLittle(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: decider{}})
	if err != nil {
		t.Fatal(err)
	}
	var l listeners
	for i := range 2 * listenersMost {
		s, err := server.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.put(s, "info")
		if i < listenersMost/2 {
			s.Close()
		} else {
			t.Cleanup(s.Close)
		}
	}
	if n := len(l.levels); n != listenersMost {
		t.Errorf("%d sessions are kept", n)
	}
	if n := len(l.all("")); n != listenersMost {
		t.Errorf("%d open sessions are kept", n)
	}
}
