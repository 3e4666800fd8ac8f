package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream/names"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// GW-A29: a server with a network reaches neither this machine nor the networks around it,
// under whatever name, unless the policy names the address. The server has no Docker
// socket.
func TestUpstreamDoesNotReachThisMachine(t *testing.T) {
	var reached atomic.Int32
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reached.Add(1); !strings.HasPrefix(r.Host, "host.belljar.internal:") {
			t.Errorf("it reached this machine as %s", r.Host)
		}
		fmt.Fprintln(w, "here")
	}))
	t.Cleanup(here.Close)
	u, err := url.Parse(here.URL)
	if err != nil {
		t.Fatal(err)
	}
	for net, want := range map[string]string{
		`{mode: proxy, allow: [example.com]}`: "",
		// proves that the listener can be reached at all
		`{mode: proxy, allow_private: ["host.belljar.internal:` + u.Port() + `"]}`: "host.belljar.internal:HTTP/1.1 200 OK",
	} {
		reached.Store(0)
		w := boxedUpstreams(t, "reaches: {profile: {net: "+net+"}}")
		w.port = u.Port()
		got, err := w.ask(t, "reaches")
		if err != nil {
			t.Fatalf("%s: %v", net, err)
		}
		if text := strings.TrimSpace(fmt.Sprint(got["got"])); want == "" && reached.Load() != 0 || want != "" && (reached.Load() == 0 || !strings.Contains(text, want)) || strings.Contains(text, "docker") {
			t.Errorf("%s: it got %q, and this machine %d requests", net, text, reached.Load())
		}
	}
}

// GW-A27: a server does not get more memory than its limit, and other servers still answer.
func TestGreedyServer(t *testing.T) {
	testenv.NeedCgroups(t)
	w := boxedUpstreams(t, "greedy: {profile: {limits: {memory: 64MiB, tmp: 16MiB}}}")
	if _, err := w.ask(t, "plain"); err != nil {
		t.Fatal(err)
	}
	if got, err := w.ask(t, "greedy"); err == nil && got["has"] == fmt.Sprint(300<<20) || err != nil && !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v %v, want an error about memory, or less than it wanted", got, err)
	}
	if _, err := w.ask(t, "plain"); err != nil {
		t.Errorf("beside it: %v", err)
	}
}

// GW-A27: a server gets no more processes, disk space and processor time than its limits,
// and other servers still answer.
func TestGreedyServersAreBounded(t *testing.T) {
	testenv.NeedCgroups(t)
	for name, of := range map[string]struct {
		limits      string
		least, most float64
	}{
		"forks": {"pids: 40", 20, 80}, // number of processes, with those of the box itself
		"fills": {"tmp: 8MiB", 1 << 20, 8 << 20},
		"spins": {"cpu: 0.2", 1_500_000, 1e12}, // microseconds that 600 ms of processor time take
	} {
		t.Run(name, func(t *testing.T) {
			w := boxedUpstreams(t, name+": {profile: {limits: {"+of.limits+"}}}")
			if _, err := w.ask(t, "plain"); err != nil {
				t.Fatal(err)
			}
			got, err := w.ask(t, name)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := got["has"].(string)
			if has, err := strconv.ParseFloat(text, 64); err != nil || has < of.least || has > of.most {
				t.Errorf("with %s it has %q, want %v to %v", of.limits, text, of.least, of.most)
			}
			if _, err := w.ask(t, "plain"); err != nil {
				t.Errorf("beside it: %v", err)
			}
		})
	}
}

// GW-A11: a schema with a pattern that takes exponential time is listed, and does not make
// a call slower: arguments are not matched with the pattern.
func TestPatternsOfSchemas(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}`
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Tools: []upstreams.Tool{{Name: "pattern", Schema: json.RawMessage(schema)}}}})
	if tools, notes := g.list(); !strings.Contains(string(tools["mcp_s_pattern"]), schema) {
		t.Fatalf("got the tools %s and the notes %q", tools, notes)
	}
	args := `{"a":"` + strings.Repeat("a", 1<<16) + `!"}`
	g.wants("mcp_s_pattern", args, false, args)
}

// An entry is faulty if its name is the one that the pins of another entry's fetch have:
// the two would share their pins.
func TestNameOfAFetch(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {}, "s" + InstallPins: {}})
	if got := g.names(); got != "mcp_s_echo" {
		t.Errorf("got the tools %q", got)
	}
	if _, notes := g.list(); !strings.Contains(notes["s"+InstallPins], "reserved for the pins") {
		t.Errorf("clients are told %q", notes)
	}
}

// GW29: with expose: search, the list contains one tool of the server, which finds the
// other tools, also if the policy offers only some of them. The other tools can be called
// as usual.
func TestToolsThatAreFound(t *testing.T) {
	g := gate(t, `servers: {s: {expose: search, tools: {allow: [echo, weather]}}}`, "", map[string]upstreams.Server{"r": {}, "s": {Tools: []upstreams.Tool{
		upstreams.Echo, {Name: "weather", Description: "What the sky does"}, {Name: "hidden", Description: "What the sky hides"},
	}}})
	if !testenv.Until(testenv.Patience(t)*10*time.Second, func() bool { return g.names() == "mcp_r_echo mcp_s_search_tools" }) {
		t.Fatalf("got the tools %q", g.names())
	}
	g.wants("mcp_s_search_tools", `{"query":"sky"}`, false, "1 of the 2 tools", `"name":"mcp_s_weather"`, "What the sky does")
	g.wants("mcp_s_weather", `{"x":1}`, false, "1")
	g.wants("mcp_s_hidden", `{}`, true, "unknown tool")
}

// GW-A8: a call of a tool that was listed with another definition than the server has now
// does not reach the server, although both definitions are trusted.
func TestCallOfAnotherDefinition(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {}})
	g.names()
	call := mcp.Call{ID: "c-1", Session: g.session.Load(), Grant: g.policy.Load().Decide(policies.Facts{Tenant: "local", Tool: "mcp_s_echo", Upstream: "s"}).Grant}
	if _, err := g.calls.run(t.Context(), call, names.Tool{Server: "s", Native: "echo"}, pin.Digest{}, json.RawMessage(`{"x":1}`)); err == nil || !strings.Contains(err.Error(), "another definition") {
		t.Errorf("got %v", err)
	}
}

// A call that times out reports what its server did in the meantime: whether it sent
// anything, and, separate from belljar's own words, the last complete line that it wrote to
// stderr. An incomplete line may be half a secret. The line of a server that principals
// share may be about another principal's call.
func TestWhatASilentServerDid(t *testing.T) {
	g := gate(t, "servers: {s: {timeout: {call: 1s}}, q: {timeout: {call: 1s}}, shared: {timeout: {call: 1s}, share: tenant}}", "", map[string]upstreams.Server{
		"s":      {Rules: upstreams.On("tools/call", upstreams.Complain("waiting for \x1b[1ma lock. Go on\nthe key is abc"))},
		"shared": {Rules: upstreams.On("tools/call", upstreams.Complain("for somebody else\n"))},
		"q":      {Rules: upstreams.On("tools/call", upstreams.Notify("notifications/message", `{"level":"info","data":"x"}`))},
	})
	const advice = "What it had done until then stays done. Retry with less work, or go on without the tool"
	if text, failed := g.call("mcp_s_echo", `{}`); !failed || text != "the server s did not answer within 1s, and was told to stop: its process runs, and meanwhile it sent nothing that could be used. "+advice+".\nThe last line that it wrote to stderr:\n  waiting for ^[[1ma lock. Go on" {
		t.Errorf("got %q", text)
	}
	g.wants("mcp_q_echo", `{}`, true, "its process runs, and meanwhile it sent one other message. "+advice+".\nIt has written no line to stderr")
	if text, _ := g.call("mcp_shared_echo", `{}`); !strings.Contains(text, "meanwhile it sent nothing that could be used. "+advice) || strings.Contains(text, "somebody else") || strings.Contains(text, "stderr") {
		t.Errorf("of a shared server it says %q", text)
	}
}

// A line that a server wrote to stderr during the call of one client is in no list that
// other clients get, however the server is shared.
func TestListsHaveNoLineOfACall(t *testing.T) {
	for _, share := range []string{"session", "principal", "tenant"} {
		g := gate(t, "servers: {s: {share: "+share+"}}", "", map[string]upstreams.Server{
			"s": {Rules: upstreams.On("tools/call", upstreams.Complain("for one client\n"), upstreams.Exit(1))},
		})
		g.names()
		text, failed := g.call("mcp_s_echo", `{}`)
		if !failed || strings.Contains(text, "for one client") != (share != "tenant") {
			t.Errorf("share: %s: the call says %q", share, text)
		}
		var note string
		if !testenv.Until(testenv.Patience(t)*10*time.Second, func() bool {
			_, notes := g.list()
			note = notes["s"]
			return strings.Contains(note, "belljar upstream logs s")
		}) || strings.Contains(note, "for one client") {
			t.Errorf("share: %s: the list says %q", share, note)
		}
	}
}
