package upstreams

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) {
	Main()
	// A process that a server leaves behind becomes a child of this process, which waits
	// for its end.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	list        = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	ping        = `{"jsonrpc":"2.0","id":"ping","method":"ping"}`
	pong        = `{"jsonrpc":"2.0","id":"ping","result":{}}`
)

func call(id, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"echo","arguments":%s,"_meta":{"progressToken":"p"}}}`, id, args)
}

func called(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"text":%q,"type":"text"}]}}`, id, text)
}

// client is the client of a server in this process or in another one.
type client struct {
	*testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	errs io.Reader
	wait func() int
	cmd  *exec.Cmd // nil for a server in this process
	mark string
}

// send writes messages in one piece, so that they arrive together.
func (c *client) send(messages ...string) {
	c.Helper()
	if _, err := io.WriteString(c.in, strings.Join(messages, "\n")+"\n"); err != nil {
		c.Fatal(err)
	}
}

// line returns the next line of the server.
func (c *client) line() string {
	c.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.Fatalf("got %.100q and %v, want a line", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// want checks that the next lines of the server begin with the wanted lines.
func (c *client) want(lines ...string) {
	c.Helper()
	for _, want := range lines {
		if got := c.line(); !strings.HasPrefix(got, want) {
			c.Fatalf("got %.300q, want %.300q", got, want)
		}
	}
}

// until reads lines up to a line that begins with want. It returns the number of lines
// before that line.
func (c *client) until(want string) (n int) {
	c.Helper()
	for ; !strings.HasPrefix(c.line(), want); n++ {
	}
	return n
}

// ended checks that the server ends with a status, and writes nothing more.
func (c *client) ended(status int) {
	c.Helper()
	if rest, err := io.ReadAll(c.out); err != nil || len(rest) > 0 {
		c.Fatalf("got %.100q and %v, want the end of output", rest, err)
	}
	if got := c.wait(); got != status {
		c.Errorf("got the exit status %d, want %d", got, status)
	}
}

// listed requests the list of tools, and returns the tools.
func (c *client) listed() (tools []struct {
	Name, Description string
	InputSchema       json.RawMessage
},
) {
	c.Helper()
	c.send(list)
	var answer struct {
		ID     int
		Result struct{ Tools json.RawMessage }
	}
	if err := json.Unmarshal([]byte(c.line()), &answer); err != nil || answer.ID != 2 {
		c.Fatalf("got id %d and %v, want a list of tools", answer.ID, err)
	}
	if err := json.Unmarshal(answer.Result.Tools, &tools); err != nil {
		c.Fatal(err)
	}
	return tools
}

// pids returns the processes that have the client's mark, with the server's process first.
func (c *client) pids() (all []int) {
	c.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range entries {
		var pid int
		if n, _ := fmt.Sscan(e.Name(), &pid); n == 1 && strings.Contains(procFile(e.Name(), "cmdline"), c.mark) {
			all = append(all, pid)
		}
	}
	slices.SortFunc(all, func(a, b int) int {
		if c.cmd != nil && (a == c.cmd.Process.Pid || b == c.cmd.Process.Pid) {
			if a == c.cmd.Process.Pid {
				return -1
			}
			return 1
		}
		return a - b
	})
	return all
}

// procFile returns a file of a process in /proc; empty for a process that is gone.
func procFile(pid any, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%v/%s", pid, name))
	return string(text)
}

// output returns the file or pipe that is the standard output of a process.
func output(pid any) string {
	to, _ := os.Readlink(fmt.Sprintf("/proc/%v/fd/1", pid))
	return to
}

// children checks that n processes run in addition to the server, and returns them.
func (c *client) children(n int) []int {
	c.Helper()
	c.send(ping)
	c.want(pong) // the acts at the start are done before the server answers
	all := c.pids()
	if len(all) != n+1 || all[0] != c.cmd.Process.Pid {
		c.Fatalf("got the processes %v of the server %d, want %d beside it", all, c.cmd.Process.Pid, n)
	}
	return all[1:]
}

// outlives closes the server's input, and checks that the processes which the server has
// started still run after its end.
func (c *client) outlives(children []int) {
	c.Helper()
	c.in.Close()
	if got := c.wait(); got != 0 {
		c.Errorf("got the exit status %d, want 0", got)
	}
	if got := c.pids(); !slices.Equal(got, children) {
		c.Errorf("after the end of the server: got the processes %v, want %v", got, children)
	}
}

// inProcess starts a server in this process, and returns its client.
func inProcess(t *testing.T, s Server) *client {
	p := s.Start(t)
	return &client{T: t, in: p.In, out: bufio.NewReader(p.Out), errs: p.Err, wait: p.Wait}
}

// asProcess starts a server in its own process, and returns its client. At the end of the
// test it kills this process, and all processes with the server's mark.
func asProcess(t *testing.T, s Server) *client {
	if s.Mark == "" {
		t.Fatal("a server without a mark: its processes cannot be told from others")
	}
	argv := s.Command(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, toErrs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = toOut, toErrs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toOut.Close()
	toErrs.Close()
	c := &client{T: t, in: in, out: bufio.NewReader(out), errs: errs, cmd: cmd, mark: s.Mark}
	waited := false
	c.wait = func() int {
		if !waited {
			_ = cmd.Wait() // the exit status is read below
			waited = true
		}
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		for {
			all := c.pids()
			for _, pid := range all {
				// FindProcess opens a pidfd, so the process that is checked after it is the
				// process that is killed.
				if p, err := os.FindProcess(pid); err == nil && strings.Contains(procFile(pid, "cmdline"), c.mark) {
					_ = p.Kill() // the process may be gone
				}
			}
			if len(all) == 0 {
				break
			}
		}
		c.wait()
		for { // all of them are now dead children of this process
			if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
				break
			}
		}
		out.Close()
		errs.Close()
	})
	return c
}

// shown contains a function for each server of Misbehaving. The function checks that the
// server behaves as its name says.
var shown = map[string]func(*client){
	"answers nothing": func(c *client) {
		c.send(initialize, ping, list)
		c.in.Close()
		c.ended(0)
	},
	"never answers initialize": func(c *client) {
		c.send(initialize, ping)
		c.want(pong)
	},
	"never answers a call": func(c *client) {
		c.send(call("5", `{}`), ping)
		c.want(pong)
	},
	"dies at its start": func(c *client) {
		text, err := bufio.NewReader(c.errs).ReadString('\n')
		if err != nil || !strings.Contains(text, "left-pad") {
			c.Errorf("got %q and %v on standard error", text, err)
		}
		c.ended(1)
	},
	"answers initialize and dies": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"`)
		c.ended(1)
	},
	"exits with 0 after its first answer": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":`)
		c.ended(0)
	},
	"dies at each call": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":`)
		c.send(call("5", `{}`))
		if text, err := bufio.NewReader(c.errs).ReadString('\n'); err != nil || !strings.HasPrefix(text, "panic") {
			c.Errorf("got %q and %v on standard error", text, err)
		}
		c.ended(2)
	},
	"answers initialize with the id 0": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion"`)
		c.send(call("5", `{"a":1}`))
		c.want(called("5", `{"a":1}`))
	},
	"answers a call with the id 0": func(c *client) {
		c.send(call("5", `{"a":1}`))
		c.want(called("0", `{"a":1}`))
	},
	"answers two calls with the id 0": func(c *client) {
		c.send(call("5", `{"a":1}`), ping)
		c.want(pong)
		c.send(call("6", `{"a":2}`))
		c.want(called("0", `{"a":2}`), called("0", `{"a":1}`))
	},
	"answers with the id null": func(c *client) {
		c.send(call("5", `{}`))
		c.want(called("null", `{}`))
	},
	"answers twice": func(c *client) {
		c.send(call("5", `{}`))
		c.want(called("5", `{}`), called("5", `{}`))
	},
	"answers what nobody has asked": func(c *client) {
		c.send(ping)
		if n := c.until(pong); n != 20 {
			c.Errorf("got %d answers, want 20", n)
		}
	},
	"writes noise before its first message": func(c *client) {
		c.want("", "Starting the server...", "listening on stdio")
		c.send(ping)
		c.want(pong)
	},
	"writes noise between messages": func(c *client) {
		for range 2 {
			c.send(ping)
			c.want("DEBUG a request has come", pong)
		}
	},
	"begins with a byte order mark": func(c *client) {
		c.send(ping)
		c.want("\ufeff" + pong)
		c.send(ping)
		c.want(pong)
	},
	"ends lines with CR LF": func(c *client) {
		c.send(ping)
		c.want(pong + "\r")
	},
	"frames messages by their length": func(c *client) {
		c.send(ping)
		c.want(fmt.Sprintf("Content-Length: %d\r", len(pong)), "\r")
		got := make([]byte, len(pong))
		if _, err := io.ReadFull(c.out, got); err != nil || string(got) != pong {
			c.Errorf("got %q and %v, want %q", got, err, pong)
		}
	},
	"writes a line without an end": func(c *client) {
		c.send(ping)
		c.want(pong)
		c.send(call("5", `{}`))
		line := make([]byte, 12<<20)
		if _, err := io.ReadFull(c.out, line); err != nil || bytes.IndexByte(line, '\n') >= 0 {
			c.Errorf("got %v, and a line end at %d", err, bytes.IndexByte(line, '\n'))
		}
	},
	"floods its standard output": func(c *client) {
		c.want(slices.Repeat([]string{"spam"}, 10_000)...)
		c.send(ping)
		c.until(pong)
	},
	"floods its standard error": func(c *client) {
		text := make([]byte, 1<<20)
		if _, err := io.ReadFull(c.errs, text); err != nil || !bytes.HasPrefix(text, bytes.Repeat([]byte("spam\n"), 2)) {
			c.Errorf("got %.20q and %v", text, err)
		}
		c.send(ping)
		c.want(pong)
	},
	"floods list_changed": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":`)
		c.send(initialized)
		c.want(slices.Repeat([]string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, 1000)...)
		c.send(ping)
		c.until(pong)
	},
	"floods progress": func(c *client) {
		c.send(call("5", `{}`))
		c.want(slices.Repeat([]string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`}, 1000)...)
		c.want(called("5", `{}`))
	},
	"changes a definition after the first list": func(c *client) {
		first, second, third := c.listed(), c.listed(), c.listed()
		if first[0].Name != second[0].Name || first[0].Description == second[0].Description || second[0].Description != third[0].Description {
			c.Errorf("got %v, then %v, then %v", first, second, third)
		}
	},
	"lists another tool from the second list on": func(c *client) {
		if first, second := c.listed(), c.listed(); len(first) != 1 || len(second) != 2 {
			c.Errorf("got %v, then %v", first, second)
		}
	},
	"shows one client another list": func(c *client) {
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":`)
		before := c.listed()
		c.send(strings.Replace(initialize, `"test"`, `"claude-ai"`, 1))
		c.want(`{"jsonrpc":"2.0","id":1,"result":`)
		if after := c.listed(); before[0].Description == after[0].Description {
			c.Errorf("got %v, then %v", before, after)
		}
	},
	"asks for input without an open call": func(c *client) {
		c.send(initialized)
		c.want(`{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"Paste your token"`)
	},
	"asks for sampling without an open call": func(c *client) {
		c.send(initialized)
		c.want(`{"jsonrpc":"2.0","id":"ask-1","method":"sampling/createMessage","params":{"messages":[`)
	},
	"lists 10,000 tools": func(c *client) {
		names := make(map[string]bool)
		for _, tool := range c.listed() {
			names[tool.Name] = true
		}
		if len(names) != 10_000 || !names["tool0"] || !names["tool9999"] {
			c.Errorf("got %d names", len(names))
		}
	},
	"lists a tool of 5 MiB": func(c *client) {
		if got := c.listed(); len(got) != 2 || len(got[1].Description) != 5<<20 {
			c.Errorf("got %d tools", len(got))
		}
	},
	"lists a schema of 1,000 levels": func(c *client) {
		if got := c.listed(); len(got) != 2 || bytes.Count(got[1].InputSchema, []byte(`"properties":{"a":`)) != 1000 {
			c.Errorf("got %d tools", len(got))
		}
	},
	"lists a schema of another host": func(c *client) {
		if got := c.listed(); len(got) != 2 || !bytes.Contains(got[1].InputSchema, []byte(`"$ref":"http://169.254.169.254/`)) {
			c.Errorf("got %v", got)
		}
	},
	"lists schemas that refer in rings": func(c *client) {
		var schema struct {
			Defs map[string]struct {
				Ref string `json:"$ref"`
			} `json:"$defs"`
		}
		got := c.listed()
		if err := json.Unmarshal(got[1].InputSchema, &schema); err != nil || len(schema.Defs) != 300 {
			c.Fatalf("got %d definitions and %v", len(schema.Defs), err)
		}
		at := "d0"
		for range 300 {
			at = strings.TrimPrefix(schema.Defs[at].Ref, "#/$defs/")
		}
		if at != "d0" {
			c.Errorf("after 300 references: got %s, want d0", at)
		}
	},
	"lists a pattern that backtracks": func(c *client) {
		if got := c.listed(); len(got) != 2 || !bytes.Contains(got[1].InputSchema, []byte(`(a+)+$`)) {
			c.Errorf("got %v", got)
		}
	},
	"lists strange names": func(c *client) {
		var names []string
		for _, tool := range c.listed() {
			names = append(names, tool.Name)
		}
		for _, want := range []string{"Bash", "", "a\x00b", "../x", strings.Repeat("n", 500), "mcp_x_y", "🔔", "\u202ecba"} {
			if !slices.Contains(names, want) {
				c.Errorf("got %q, want %q among them", names, want)
			}
		}
		c.send(strings.Replace(call("5", `{}`), `"echo"`, `"a\u0000b"`, 1))
		c.want(called("5", `{}`))
	},
	"ignores signals and the end of its input": func(c *client) {
		c.send(ping)
		c.want(pong)
		var ignored uint64
		for line := range strings.Lines(procFile(c.cmd.Process.Pid, "status")) {
			if mask, ok := strings.CutPrefix(line, "SigIgn:\t"); ok {
				fmt.Sscanf(mask, "%x", &ignored)
			}
		}
		for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
			if ignored&(1<<(signal-1)) == 0 {
				c.Errorf("signal %v is not ignored: the mask is %x", signal, ignored)
			}
		}
		c.in.Close()
		if text, err := bufio.NewReader(c.errs).ReadString('\n'); err != nil || text != "the end of input, and the server continues\n" {
			c.Errorf("got %q and %v on standard error", text, err)
		}
		if got := c.pids(); len(got) != 1 {
			c.Errorf("after the end of input: got the processes %v, want the server", got)
		}
	},
	"forks": func(c *client) {
		all := c.children(1)
		if p := testenv.Processes()[all[0]]; p.Parent != c.cmd.Process.Pid || p.Session == p.PID {
			c.Errorf("got %+v, want a child in the session of the server", p)
		}
		pipe := output(c.cmd.Process.Pid)
		c.outlives(all)
		if got := output(all[0]); got != pipe || !strings.HasPrefix(pipe, "pipe:") {
			c.Errorf("its standard output is %s, want the server's %s", got, pipe)
		}
	},
	"forks at each call": func(c *client) {
		c.children(0)
		c.send(call("5", `{}`), call("6", `{}`))
		c.want(called("5", `{}`), called("6", `{}`))
		c.outlives(c.children(2))
	},
	"leaves its session": func(c *client) {
		all := c.children(1)
		if p := testenv.Processes()[all[0]]; p.Session != p.PID {
			c.Errorf("got %+v, want a session of its own", p)
		}
		c.outlives(all)
	},
	"becomes a daemon": func(c *client) {
		all := c.children(1)
		if p := testenv.Processes()[all[0]]; p.Parent != os.Getpid() || p.Session != p.PID {
			c.Errorf("got %+v, want the parent %d and a session of its own", p, os.Getpid())
		}
		if got := output(all[0]); got != os.DevNull {
			c.Errorf("its standard output is %s", got)
		}
		c.outlives(all)
	},
	"starts itself again": func(c *client) {
		all := c.children(2)
		keeper, kept := all[0], all[1]
		if testenv.Processes()[keeper].Parent == kept {
			keeper, kept = kept, keeper
		}
		p, err := os.FindProcess(kept)
		if err != nil {
			c.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			c.Fatal(err)
		}
		if !testenv.Until(time.Minute, func() bool {
			now := c.pids()
			return len(now) == 3 && !slices.Contains(now, kept) && slices.Contains(now, keeper)
		}) {
			c.Errorf("after the end of %d: got the processes %v, want another one beside %d", kept, c.pids(), keeper)
		}
	},
	"becomes many and lives on": func(c *client) {
		c.children(5)
		c.in.Close()
		if text, err := bufio.NewReader(c.errs).ReadString('\n'); err != nil || !strings.HasPrefix(text, "the end of input") {
			c.Errorf("got %q and %v on standard error", text, err)
		}
		if got := c.pids(); len(got) != 6 {
			c.Errorf("after the end of input: got the processes %v, want 6", got)
		}
	},
}

// Each kind of misbehaviour happens, in this process and in another one.
func TestMisbehaving(t *testing.T) {
	all := Misbehaving("")
	for name := range shown {
		if _, ok := all[name]; !ok {
			t.Errorf("%s is shown, and is not a server", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, show := all[name], shown[name]
		if show == nil {
			t.Errorf("%s: nothing shows that it does so", name)
			continue
		}
		if !s.NeedsProcess() {
			t.Run(name, func(t *testing.T) { show(inProcess(t, s)) })
		}
		t.Run(name+", as a process", func(t *testing.T) { show(asProcess(t, Misbehaving(testenv.Seconds())[name])) })
	}
}

// A server without rules behaves well, both in this process and in its own process.
func TestTheZeroServerBehavesWell(t *testing.T) {
	for _, start := range []func(*testing.T, Server) *client{inProcess, asProcess} {
		c := start(t, Server{Mark: testenv.Seconds()})
		c.send(initialize)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"upstream","version":"1"}}}`)
		c.send(initialized, list)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"echo","description":"Returns its arguments","inputSchema":{"type":"object"}}]}}`)
		c.send(call("5", `{"a":"b"}`))
		c.want(called("5", `{"a":"b"}`))
		c.send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"none"}}`, "", "{", `{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`)
		c.want(`{"jsonrpc":"2.0","id":6,"error":{"code":-32602`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601`)
		c.send(`{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
		c.want(`{"jsonrpc":"2.0","id":8,"error":{"code":-32601`)
		c.in.Close()
		c.ended(0)
	}
}

// All fields of Server other than Mark and Framing have their effect.
func TestServer(t *testing.T) {
	s := Server{
		Name: "other", Instructions: "Be kind.", Modern: true,
		Tools: []Tool{
			{Name: "t", Description: "d", Schema: json.RawMessage(`{"type":"object","required":["a"]}`), More: json.RawMessage(`{"annotations":{"readOnlyHint":true},"title":"T"}`), Result: json.RawMessage(`{"content":[],"isError":true}`)},
			{Name: "n", Times: 2},
		},
		Results: map[string]json.RawMessage{"prompts/list": json.RawMessage(`{"prompts":[{"name":"p"}]}`)},
		Rules: []Rule{
			{On: "tools/call", Has: `"n0"`, Do: []Act{Ask("elicitation/create", `{"message":"who?"}`), Answer()}},
			{On: "tools/call", Has: `"n1"`, Nth: 2, Do: []Act{Fail(-32000, "no")}},
			{On: "prompts/get", Do: []Act{Gather(2), Fail(-1, "late")}},
		},
	}
	c := inProcess(t, s)
	c.send(initialize)
	c.want(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"instructions":"Be kind.","serverInfo":{"name":"other","version":"1"}}}`)
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	c.send(`{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{` + modern + `}}`)
	c.want(`{"jsonrpc":"2.0","id":3,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"instructions":"Be kind.","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"other","version":"1"}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}`)
	c.send(list)
	c.want(`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","required":["a"]},"annotations":{"readOnlyHint":true},"title":"T"},` +
		`{"name":"n0","description":"","inputSchema":{"type":"object"}},{"name":"n1","description":"","inputSchema":{"type":"object"}}]}}`)
	tool := func(id int, name, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}%s}}`, id, name, more)
	}
	c.send(tool(4, "t", ","+modern))
	c.want(`{"jsonrpc":"2.0","id":4,"result":{"content":[],"isError":true,"resultType":"complete"}}`)
	c.send(`{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`)
	c.want(`{"jsonrpc":"2.0","id":5,"result":{"prompts":[{"name":"p"}]}}`)

	// Only the second call with n1 fails.
	c.send(tool(6, "n1", ""))
	c.want(called("6", `{}`))
	c.send(tool(7, "n1", ""))
	c.want(`{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no"}}`)
	c.send(tool(8, "n1", ""))
	c.want(called("8", `{}`))

	// The question in a call must be answered before the call is answered. Other requests
	// are answered in the meantime.
	c.send(tool(9, "n0", ""))
	c.want(`{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"who?"}}`)
	c.send(ping, `{"jsonrpc":"2.0","id":"ask-0","result":{}}`, ping)
	c.want(pong, pong)
	c.send(`{"jsonrpc":"2.0","id":"ask-1","result":{"action":"decline"}}`)
	c.want(called("9", `{}`))

	// The last gathered message is answered first.
	c.send(`{"jsonrpc":"2.0","id":10,"method":"prompts/get"}`, ping)
	c.want(pong)
	c.send(`{"jsonrpc":"2.0","id":11,"method":"prompts/get"}`)
	c.want(`{"jsonrpc":"2.0","id":11,"error":`, `{"jsonrpc":"2.0","id":10,"error":`)

	c.send(tool(12, ReceivedTool, ""))
	if got := c.line(); !strings.Contains(got, `\"action\":\"decline\"`) || !strings.Contains(got, `\"method\":\"initialize\"`) {
		t.Errorf("got %s, want all that was sent", got)
	}
}

// A server in the process of a test can be closed whatever it does, and its messages and
// exit status can be read.
func TestPeer(t *testing.T) {
	for name, s := range Misbehaving("") {
		if s.NeedsProcess() {
			continue
		}
		p := s.Start(t)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = io.WriteString(p.In, initialize+"\n") // some servers end before the write, or do not read it
		}()
		p.Close()
		p.Close()
		<-written
		if got, err := p.Out.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: read %d bytes after its end", name, got)
		}
	}
	p := Server{Rules: On(Ended, Linger())}.Start(t)
	if _, err := io.WriteString(p.In, ping+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(p.Out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if got := p.Received(); !slices.Equal(got, []string{ping}) {
		t.Errorf("received %q, want %q", got, ping)
	}
	p.In.Close()
	p.Close()
	if got := p.Wait(); got != 0 {
		t.Errorf("got the exit status %d, want 0", got)
	}
}

// Time in a bubble advances while a server in the bubble does not answer.
func TestPeerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Server{Rules: On("initialize", Complain("nobody reads this"))}.Start(t)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = p.Out.Read(make([]byte, 1))
		}()
		if _, err := io.WriteString(p.In, initialize+"\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-answered:
			t.Error("got an answer")
		case <-time.After(time.Hour):
		}
		p.Close()
		<-answered
	})
}

// check finds the servers that cannot run.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		acts            []Act
		inside, outside bool // whether it can run in the process of a test, or as a process
	}{
		{[]Act{Answer(), Forever(Print("x"), Repeat(3, Complain("y")))}, true, true},
		{[]Act{Fork()}, false, true},
		{[]Act{Repeat(2, Daemon())}, false, true},
		{[]Act{IgnoreSignals()}, false, true},
		{[]Act{Forever(Answer())}, false, false},
		{[]Act{Forever(Repeat(2, Exit(1)))}, false, false},
		{[]Act{Forever(Forever(Print("x")))}, false, false},
	} {
		s := Server{Rules: On(Started, tt.acts...)}
		if got := s.check(false) == nil; got != tt.inside {
			t.Errorf("%v in the process of a test: got %v, want %v", tt.acts, got, tt.inside)
		}
		if got := s.check(true) == nil; got != tt.outside {
			t.Errorf("%v as a process: got %v, want %v", tt.acts, got, tt.outside)
		}
	}
}
