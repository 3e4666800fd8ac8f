package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
)

// npmEnv is set if servers may be fetched from npm.
const npmEnv = "BELLJAR_TEST_UPSTREAMS"

// npmServer is a server from npm, and calls of its tools whose results can be
// compared. In args and calls, /workspace is the workspace.
type npmServer struct {
	name, pack string
	args       []string
	env        map[string]string
	profile    string // lines of the policy's profile
	calls      []npmCall
}

type npmCall struct{ tool, args string }

// npmServers are popular servers that need no account, including one with a browser (G9).
// Two of them need the internet for every answer, so an error is compared for them.
var npmServers = []npmServer{
	{name: "everything", pack: "@modelcontextprotocol/server-everything@2026.8.31", calls: []npmCall{
		{"echo", `{"message":"héllo"}`},
		{"get-structured-content", `{"location":"Chicago"}`},
		{"get-tiny-image", `{}`},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`},
		{"get-resource-links", `{"count":2}`},
		{"get-sum", `{"a":"x"}`},
	}},
	{name: "filesystem", pack: "@modelcontextprotocol/server-filesystem@2026.8.31", args: []string{"/workspace"}, profile: "{fs: {workspace: ro}}", calls: []npmCall{
		{"read_text_file", `{"path":"/workspace/note.txt"}`},
		{"list_directory", `{"path":"/workspace"}`},
	}},
	{name: "memory", pack: "@modelcontextprotocol/server-memory@2026.8.31", calls: []npmCall{
		{"create_entities", `{"entities":[{"name":"Ann","entityType":"person","observations":["sings"]}]}`},
		{"read_graph", `{}`},
	}},
	{name: "thinking", pack: "@modelcontextprotocol/server-sequential-thinking@2026.8.31", calls: []npmCall{
		{"sequentialthinking", `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`},
	}},
	{name: "playwright", pack: "@playwright/mcp@0.0.83", args: []string{"--headless", "--no-sandbox", "--isolated", "--executable-path", "CHROMIUM"}, calls: []npmCall{
		{"browser_navigate", `{"url":"data:text/html,<title>T</title><h1>hi</h1>"}`},
		{"browser_evaluate", `{"function":"() => document.title + document.querySelector('h1').textContent"}`},
	}},
	{name: "devtools", pack: "chrome-devtools-mcp@1.11.0", args: []string{"--headless", "--isolated", "--executablePath", "CHROMIUM", "--chromeArg=--no-sandbox"}, calls: []npmCall{{"list_pages", `{}`}}},
	{name: "context7", pack: "@upstash/context7-mcp@4.1.1", calls: []npmCall{{"resolve-library-id", `{}`}}},
	{name: "hello", pack: "mcp-hello-world@1.1.2", calls: []npmCall{{"echo", `{"message":"x"}`}, {"add", `{"a":2,"b":3}`}}},
	{name: "chart", pack: "@antv/mcp-server-chart@0.9.10", env: map[string]string{"VIS_REQUEST_SERVER": "http://127.0.0.1:9/"}, calls: []npmCall{
		{"generate_pie_chart", `{"data":[{"category":"a","value":1}]}`},
	}},
	{name: "commands", pack: "mcp-server-commands@0.5.0", calls: []npmCall{{"run_command", `{"command":"echo hi"}`}}},
}

// arguments returns the arguments for npx, with workspace in place of /workspace.
func (n npmServer) arguments(chromium, workspace string) []string {
	args := []string{"-y", n.pack}
	for _, a := range n.args {
		args = append(args, strings.ReplaceAll(strings.ReplaceAll(a, "CHROMIUM", chromium), "/workspace", workspace))
	}
	return args
}

// npmPeer is a client of a server over pipes that gets each answer unchanged.
type npmPeer struct {
	t       *testing.T
	in      io.Writer
	mu      sync.Mutex
	answers map[int]chan json.RawMessage // guarded by mu
	changed chan struct{}                // has an entry after a change of the list of tools
	over    chan struct{}
}

// meet shakes hands with a server.
func meet(t *testing.T, in io.Writer, out io.Reader) *npmPeer {
	t.Helper()
	c := &npmPeer{t: t, in: in, answers: make(map[int]chan json.RawMessage), changed: make(chan struct{}, 1), over: make(chan struct{})}
	go func() {
		defer close(c.over)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			c.got(line)
		}
	}()
	// The capabilities are those that belljar sends to servers: some servers list fewer
	// tools for others.
	c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *npmPeer) got(line []byte) {
	var m struct {
		ID     *int   `json:"id"`
		Method string `json:"method"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch {
	case m.Method == "notifications/tools/list_changed":
		select {
		case c.changed <- struct{}{}:
		default:
		}
	case m.ID != nil && m.Method == "":
		c.mu.Lock()
		answer := c.answers[*m.ID]
		c.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// ask returns the answer to a request, without its id.
func (c *npmPeer) ask(method, params string) (answer map[string]any) {
	c.t.Helper()
	here := make(chan json.RawMessage, 1)
	c.mu.Lock()
	id := len(c.answers) + 1
	c.answers[id] = here
	c.mu.Unlock()
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	select {
	case line := <-here:
		numbers := json.NewDecoder(bytes.NewReader(line))
		numbers.UseNumber()
		if err := numbers.Decode(&answer); err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		delete(answer, "id")
		return answer
	case <-c.over:
		c.t.Fatalf("%s %s: the server has ended", method, params)
	case <-time.After(3 * time.Minute):
		c.t.Fatalf("%s %s: no answer", method, params)
	}
	return nil
}

// list returns all pages of a list, and the _meta of the last.
func (c *npmPeer) list(method, member string) (all []map[string]any, meta string) {
	c.t.Helper()
	for cursor := `{}`; ; {
		answer := c.ask(method, cursor)
		page, ok := answer["result"].(map[string]any)
		if !ok {
			return all, ""
		}
		items, _ := page[member].([]any)
		for _, item := range items {
			if object, ok := item.(map[string]any); ok {
				all = append(all, object)
			}
		}
		text, err := json.Marshal(page["_meta"])
		if err != nil {
			c.t.Fatal(err)
		}
		next, _ := page["nextCursor"].(string)
		if next == "" {
			return all, string(text)
		}
		cursor = fmt.Sprintf(`{"cursor":%q}`, next)
	}
}

// npmLists are the lists of definitions, and the member of a definition that belljar writes
// itself.
var npmLists = []struct{ method, member, ours string }{
	{"tools/list", "tools", "name"},
	{"prompts/list", "prompts", "name"},
	{"resources/list", "resources", "uri"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate"},
}

// volatile matches what differs from one run of a server to the next.
var volatile = regexp.MustCompile(`page-[0-9TZ-]+`)

// asCompared returns an answer in a form that can be compared.
func asCompared(answer map[string]any, workspace string) string {
	if result, ok := answer["result"].(map[string]any); ok {
		if meta, ok := result["_meta"].(map[string]any); ok {
			if delete(meta, "belljar.dev/upstream"); len(meta) == 0 {
				delete(result, "_meta")
			}
		}
	}
	text, _ := json.MarshalIndent(answer, "", " ") // no error: the answer was read from JSON
	return volatile.ReplaceAllString(strings.ReplaceAll(string(text), workspace, "/workspace"), "…")
}

// npmSays contains what a server answers to a client that connects to it directly.
type npmSays struct {
	lists   map[string]map[string]string // definitions, by member and by name or URI
	answers []string
}

// direct starts a server without belljar, and collects all its answers.
func (n npmServer) direct(t *testing.T, p *place, chromium string) npmSays {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npx", n.arguments(chromium, p.ws)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "npm_config_cache="+filepath.Join(p.dir, "npm"), "npm_config_audit=false")
	for name, value := range n.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &stderr, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the children of npx would outlive it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said directly:\n%s", n.name, stderr.String())
		}
	}()
	c := meet(t, in, out)
	says := npmSays{lists: make(map[string]map[string]string)}
	for _, l := range npmLists {
		items, _ := c.list(l.method, l.member)
		says.lists[l.member] = make(map[string]string)
		for _, item := range items {
			name, _ := item[l.ours].(string)
			delete(item, l.ours)
			says.lists[l.member][name] = asCompared(item, p.ws)
		}
	}
	for _, call := range n.calls {
		args := strings.ReplaceAll(call.args, "/workspace", p.ws)
		says.answers = append(says.answers, asCompared(c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, call.tool, args)), p.ws))
	}
	return says
}

// native finds the server's own name of a definition that belljar lists under another name.
func native(member, server, ours string, of map[string]string) (name string, ok bool) {
	for name := range of {
		full := "mcp_" + server + "_" + regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "_")
		if strings.HasPrefix(member, "resource") {
			scheme, rest, _ := strings.Cut(name, ":")
			full = "mcp+" + server + "://" + scheme + "/" + rest
		}
		if full == ours {
			return name, true
		}
	}
	return "", false
}

// gathered waits until each server has been started, and returns all lists of belljar.
func gathered(t *testing.T, c *npmPeer) map[string][]map[string]any {
	t.Helper()
	for late := time.After(8 * time.Minute); ; {
		tools, meta := c.list("tools/list", "tools")
		if !strings.Contains(meta, "it is starting") && !strings.Contains(meta, "it cannot be used now: the server is started again") {
			if strings.Contains(meta, "belljar.dev/upstreams") {
				t.Errorf("not all servers are there: %s", meta)
			}
			all := map[string][]map[string]any{"tools": tools}
			for _, l := range npmLists[1:] {
				all[l.member], _ = c.list(l.method, l.member)
			}
			return all
		}
		select {
		case <-c.changed:
		case <-c.over:
			t.Fatal("belljar has ended")
		case <-late:
			t.Fatalf("servers are still starting: %s", meta)
		}
	}
}

// egressSince returns how often something outside was reached, according to the audit log
// without its first from bytes, and the size of the log.
func egressSince(t *testing.T, p *place, from int64) (asked int, size int64) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.state, "audit", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log[from:]) {
		var r struct{ Kind, Verdict string }
		if json.Unmarshal(line, &r) == nil && r.Kind == "egress" && r.Verdict == "allow" {
			asked++
		}
	}
	return asked, int64(len(log))
}

// endsWithAll ends belljar as clients do. The test fails if any of its processes is left a
// second later.
func (s *serving) endsWithAll(t *testing.T, p *place) {
	t.Helper()
	pid, begun := s.cmd.Process.Pid, time.Now()
	before := testenv.Below(testenv.Processes(), pid)
	s.in.Close()
	s.wg.Wait() // wait until belljar has ended
	s.stop()
	took := time.Since(begun)
	var left []string
	testenv.Until(time.Second, func() bool {
		left = testenv.Traces(t, p.state, pid)
		now := testenv.Processes()
		for _, one := range before {
			if is, runs := now[one.PID]; runs && is.Began == one.Began {
				left = append(left, fmt.Sprintf("process %d (%s)", one.PID, one.Name))
			}
		}
		return len(left) == 0
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, p.dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	copies, err := filepath.Glob(filepath.Join(p.state, "upstreams", "*", "scratch-*"))
	if err != nil {
		t.Fatal(err)
	}
	if left = append(left, copies...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	t.Logf("%d processes were there, and the end took %v", len(before), took.Round(time.Millisecond))
}

// TestNpmServers checks that servers from npm work as they do without belljar, with the
// configuration file of another client: they list and answer the same, need no network once
// they are fetched, and nothing is left of them. The test needs the network: make
// test-upstreams.
func TestNpmServers(t *testing.T) {
	if os.Getenv(npmEnv) == "" {
		t.Skipf("servers are fetched from npm only where %s is set: make test-upstreams", npmEnv)
	}
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Node, testenv.Npm, testenv.Chromium)
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	p.file(t, "ws/note.txt", "a note\n")
	file := map[string]any{}
	profiles := ""
	for _, n := range npmServers {
		file[n.name] = map[string]any{"command": "npx", "args": n.arguments(chromium, "/workspace"), "env": n.env}
		if n.profile != "" {
			profiles += fmt.Sprintf("    %s: {profile: %s}\n", n.name, n.profile)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"mcpServers": file}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	p.file(t, "claude_desktop_config.json", string(text))
	// A mirror of the registry may have its own address, with a certificate that only this
	// host trusts.
	p.policy = p.file(t, "policy.yaml", `version: 1
defaults: {decision: allow, profile: offline}
profiles: {offline: {fs: {system: true, workspace: rw}}}
upstreams:
  from: claude_desktop_config.json
  wait: 60s
  defaults:
    install: {mode: proxy, tls: intercept, allow: [registry.npmjs.org], allow_private: [registry.npmjs.org]}
    timeout: {install: 8m, handshake: 2m}
  servers:
`+profiles)
	directly := make(map[string]npmSays)
	for _, n := range npmServers {
		directly[n.name] = n.direct(t, p, chromium)
	}

	rows := make([]npmRow, len(npmServers))
	var from int64
	for round := range 2 {
		begun := time.Now()
		s := p.start(t, wire{})
		c := meet(t, s.in, s.out)
		lists := gathered(t, c)
		t.Logf("run %d: all servers were there after %v", round+1, time.Since(begun).Round(time.Millisecond))
		for i, n := range npmServers {
			rows[i].add(compared(t, n, directly[n.name], lists, c))
		}
		s.endsWithAll(t, p)
		var asked int
		if asked, from = egressSince(t, p, from); round == 0 && asked == 0 || round == 1 && asked > 0 {
			t.Errorf("in run %d, %d requests left boxes", round+1, asked)
		} else {
			t.Logf("run %d: %d requests left boxes", round+1, asked)
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "package\ttools\tprompts\tresources\ttemplates\tcalls\tdifferences")
	var sum npmRow
	for i, n := range npmServers {
		rows[i].print(w, n.pack)
		sum.add(rows[i])
	}
	sum.print(w, "all, in two runs")
	w.Flush()
	t.Logf("what was compared with a direct connection:\n%s", table.String())
}

// npmRow counts what was compared.
type npmRow struct {
	definitions map[string]int // number of definitions by member
	calls       int
	differ      int
}

func (r *npmRow) add(more npmRow) {
	if r.definitions == nil {
		r.definitions = make(map[string]int)
	}
	for member, n := range more.definitions {
		r.definitions[member] += n
	}
	r.calls += more.calls
	r.differ += more.differ
}

func (r *npmRow) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s", name)
	for _, l := range npmLists {
		fmt.Fprintf(w, "\t%d", r.definitions[l.member])
	}
	fmt.Fprintf(w, "\t%d\t%d\n", r.calls, r.differ)
}

// compared compares what a server answers through belljar with what it answers directly.
func compared(t *testing.T, n npmServer, direct npmSays, lists map[string][]map[string]any, c *npmPeer) npmRow {
	t.Helper()
	row := npmRow{definitions: make(map[string]int)}
	for _, l := range npmLists {
		seen := make(map[string]bool)
		for _, item := range lists[l.member] {
			ours, _ := item[l.ours].(string)
			name, ok := native(l.member, n.name, ours, direct.lists[l.member])
			if !ok {
				if l.member == "tools" && strings.HasPrefix(ours, "mcp_"+n.name+"_") {
					row.differ++
					t.Errorf("%s: it has no tool for %s", n.name, ours)
				}
				continue
			}
			seen[name] = true
			row.definitions[l.member]++
			same := make(map[string]any)
			for k, v := range item {
				if k != l.ours {
					same[k] = v
				}
			}
			if diff := cmp.Diff(direct.lists[l.member][name], asCompared(same, "/workspace")); diff != "" {
				row.differ++
				t.Errorf("%s, %s %s (-direct +belljar):\n%s", n.name, l.member, name, diff)
			}
		}
		for name := range direct.lists[l.member] {
			if !seen[name] {
				row.differ++
				t.Errorf("%s: of %s, %s is missing", n.name, l.member, name)
			}
		}
	}
	if !slices.ContainsFunc(lists["tools"], func(item map[string]any) bool {
		name, _ := item["name"].(string)
		return strings.HasPrefix(name, "mcp_"+n.name+"_")
	}) {
		return row
	}
	for i, call := range n.calls {
		name := "mcp_" + n.name + "_" + call.tool
		got := asCompared(c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, call.args)), "/workspace")
		// the message names the upstream that the error comes from
		got = strings.Replace(got, `"message": "upstream `+n.name+": ", `"message": "`, 1)
		row.calls++
		if diff := cmp.Diff(direct.answers[i], got); diff != "" {
			row.differ++
			t.Errorf("%s %s (-direct +belljar):\n%s", n.name, call.tool, diff)
		}
	}
	return row
}
