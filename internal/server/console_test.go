package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// page is a person at the console of an estate.
type page struct {
	t     *testing.T
	url   string
	token string
}

// withConsole returns an estate whose server has a console, and a person who is logged in
// at the console. The policy is the given text, followed by the tenants of the estate.
func withConsole(t *testing.T, policy string) (*estate, *page) {
	t.Helper()
	e := newEstate(t)
	put(t, e.policy, policy+e.tenants(""))
	cfg := e.config()
	cfg.Service.Console = "127.0.0.1:0"
	e.serve(cfg)
	link, code, _ := strings.Cut(e.ConsoleLink(), "#")
	p := &page{t: t, url: link + "api/v1/"}
	status, text := p.do("POST", "login", map[string]string{"code": code})
	var in struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(text, &in); err != nil || status != http.StatusOK {
		t.Fatalf("login: %d %s", status, text)
	}
	p.token = in.Token
	return e, p
}

// do sends a request.
func (p *page) do(method, path string, body any) (int, []byte) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, got
}

// get reads the JSON at a path.
func (p *page) get(path string, into any) {
	p.t.Helper()
	if status, text := p.do("GET", path, nil); status != http.StatusOK || json.Unmarshal(text, into) != nil {
		p.t.Fatalf("%s: %d %s", path, status, text)
	}
}

// A server without a console opens no port for one.
func TestNoConsole(t *testing.T) {
	e := servedEstate(t)
	if e.console != nil || e.counts != nil || e.ConsoleLink() != "" {
		t.Error("there is a console that nobody asked for")
	}
}

// Each view of the console of a running server can be read.
func TestViewsOfTheConsole(t *testing.T) {
	e, p := withConsole(t, estatePolicy)
	if got := e.bash("a", "/mcp", "echo seen"); !strings.Contains(got, "seen") {
		t.Fatal(got)
	}
	var me struct {
		Person, Role string
		Views        []string
	}
	p.get("me", &me)
	if me.Person != control.Self() || me.Role != "operator" || len(me.Views) < 12 {
		t.Errorf("got %+v", me)
	}
	paths := map[string]string{"overview": "stats", "history": "approvals?all=1"}
	for _, view := range me.Views {
		path := paths[view]
		if path == "" {
			path = view
		}
		var any json.RawMessage
		p.get(path, &any)
	}
	var stats struct {
		Calls console.Calls
	}
	p.get("stats", &stats)
	if n := len(stats.Calls.Allow); n == 0 || stats.Calls.Allow[n-1] == 0 && (n < 2 || stats.Calls.Allow[n-2] == 0) {
		t.Errorf("no call is counted: %+v", stats.Calls)
	}
	var boxes []control.Box
	p.get("boxes", &boxes)
	if len(boxes) != 1 || boxes[0].Tenant != "a" || boxes[0].MemoryLimit == 0 {
		t.Fatalf("boxes: %+v", boxes)
	}
	own, err := control.Each[[]control.Box](t.Context(), e.State, "/boxes") // what ps --json prints
	if err != nil || len(own) != 1 || len(own[0].Said) != 1 {
		t.Fatal(own, err)
	}
	for _, b := range []*control.Box{&boxes[0], &own[0].Said[0]} { // values that change between two requests
		b.Memory, b.CPU, b.Processes, b.Network, b.Disk = 0, 0, 0, 0, 0
	}
	if is, want := fmt.Sprintf("%+v", boxes), fmt.Sprintf("%+v", own[0].Said); is != want {
		t.Errorf("boxes are %s, and `belljar ps` has %s", is, want)
	}
	if status, text := p.do("GET", "browser/nosuch/picture", nil); status != http.StatusNotFound {
		t.Errorf("a browser that does not exist: %d %s", status, text)
	}
	if status, text := p.do("POST", "search/nosuch/test", struct{}{}); status != http.StatusNotFound {
		t.Errorf("an engine that does not exist: %d %s", status, text)
	}
	if status, text := p.do("POST", "boxes/"+boxes[0].ID+"/kill", struct{}{}); status != http.StatusOK {
		t.Errorf("kill: %d %s", status, text)
	}
	if p.get("boxes", &boxes); len(boxes) != 0 {
		t.Errorf("after the end of the box: %+v", boxes)
	}
	if status, text := p.do("POST", "boxes/s-nosuch/kill", struct{}{}); status != http.StatusNotFound {
		t.Errorf("a box that does not exist: %d %s", status, text)
	}
	if got := e.bash("a", "/mcp", "echo again"); !strings.Contains(got, "again") {
		t.Errorf("the next call: %s", got)
	}
}

// An agent can enter the console neither with its token for the server nor over the network
// of its box. The policy allows the port of the console, but no private address (WC-A15,
// WC-A16).
func TestAgentsStayOutOfTheConsole(t *testing.T) {
	const policy = `version: 1
defaults: {decision: allow, profile: box}
profiles: {box: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow: ["*"], %s}}}
`
	e, p := withConsole(t, fmt.Sprintf(policy, "ports: [80]"))
	agent := &page{t, p.url, "token-a"}
	for _, r := range [][2]string{{"GET", "me"}, {"GET", "inbox"}, {"POST", "approvals/ap-1/answer"}, {"GET", "audit"}, {"GET", "events"}} {
		if status, text := agent.do(r[0], r[1], struct{}{}); status != http.StatusForbidden {
			t.Errorf("%s %s by an agent: %d %s", r[0], r[1], status, text)
		}
	}
	at := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/api/v1/")
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1", "localhost", egress.HostName} // the last name is this machine, through the door
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			hosts = append(hosts, ip.IP.String())
		}
	}
	reload := func(keys string) {
		put(t, e.policy, fmt.Sprintf(policy, keys)+e.tenants(""))
		e.reloader.reload(t.Context())
		if refused := e.reloader.status.info().Refused; refused != "" {
			t.Fatalf("a policy with %s: %s\n%s", keys, refused, e.log)
		}
	}
	isPage := func(got string) bool {
		return strings.Contains(got, "Content-Security-Policy") || strings.Contains(got, "<!doctype")
	}
	// read returns a script that requests target from an address. target is a path, or a
	// URL if a proxy is used.
	read := func(at, target, host string) string {
		return fmt.Sprintf(`exec 2>&1; (exec 3<>/dev/tcp/%s && printf 'GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n' >&3 && cat <&3); echo over`, strings.Replace(at, ":", "/", 1), target, host, port)
	}
	// The control: the same script does read the page outside of a box, and through the
	// proxy if the policy allows the address.
	if got, err := exec.CommandContext(t.Context(), "bash", "-c", read("127.0.0.1:"+port, "/", "127.0.0.1")).CombinedOutput(); err != nil || !isPage(string(got)) {
		t.Errorf("outside of a box: %v, %s", err, got)
	}
	reload(fmt.Sprintf(`allow_private: ["127.0.0.1:%s"]`, port))
	if got := e.bash("a", "/mcp", read(sandbox.Proxy, "http://127.0.0.1:"+port+"/", "127.0.0.1")); !isPage(got) {
		t.Errorf("from a box whose policy names the console: %s", got)
	}
	reload(fmt.Sprintf("ports: [%s]", port))
	for _, host := range hosts {
		if got := e.bash("a", "/mcp", read(host+":"+port, "/", "127.0.0.1")); !strings.Contains(got, "over") || isPage(got) {
			t.Errorf("from a box to %s: %s", host, got)
		}
		if got := e.bash("a", "/mcp", read(sandbox.Proxy, "http://"+host+":"+port+"/", host)); !strings.Contains(got, "403 Forbidden") || isPage(got) {
			t.Errorf("from a box to %s by the proxy: %s", host, got)
		}
	}
	e.closed()
	text, err := os.ReadFile(filepath.Join(e.dir, "state", "audit", "audit.jsonl"))
	if err != nil || !bytes.Contains(text, []byte(`"reason":"console"`)) || !bytes.Contains(text, []byte("approvals/{id}/answer")) {
		t.Errorf("the refusals are not in the log: %v", err)
	}
}

// A yes from a person at the console lets the call run, and the log contains the name of
// the person.
func TestApprovalAtTheConsole(t *testing.T) {
	e, p := withConsole(t, `version: 1
defaults: {decision: ask, profile: box}
profiles: {box: {fs: {system: true, workspace: rw}}}
`)
	said := make(chan string, 1)
	go func() { said <- e.bash("a", "/mcp", "echo it-ran") }()
	var in struct {
		Approvals []struct {
			approval.Approval
			Version string
		}
	}
	for len(in.Approvals) == 0 {
		p.get("inbox", &in)
		if t.Context().Err() != nil {
			return
		}
	}
	one := in.Approvals[0]
	if one.Tool != "Bash" || one.Tenant != "a" || len(one.Shown.Commands) == 0 {
		t.Errorf("got %+v", one)
	}
	if status, text := p.do("POST", "approvals/"+one.ID+"/answer", map[string]any{"yes": true, "version": one.Version}); status != http.StatusOK {
		t.Fatalf("yes: %d %s", status, text)
	}
	got := <-said
	if !strings.Contains(got, "it-ran") { // if the call did not wait, the agent repeats it
		got = e.bash("a", "/mcp", "echo it-ran")
	}
	if !strings.Contains(got, "it-ran") {
		t.Errorf("after the yes: %s", got)
	}
	if status, _ := p.do("POST", "approvals/"+one.ID+"/answer", map[string]any{"yes": true, "version": one.Version}); status != http.StatusConflict {
		t.Errorf("a second yes: %d", status)
	}
	e.closed()
	text, err := os.ReadFile(filepath.Join(e.dir, "state", "audit", "audit.jsonl"))
	name, _ := json.Marshal(control.Self())
	if err != nil || !bytes.Contains(text, []byte(`"by":`+string(name)+`,"via":"console"`)) {
		t.Errorf("the log does not say who said yes: %v", err)
	}
}

// Agents read that their questions can be answered at the console, but not through a
// webhook, which can only answer yes or no.
func TestQuestionsNameTheConsole(t *testing.T) {
	e, _ := withConsole(t, estatePolicy)
	e.ways.open(wayWebhook)
	all, may := asker{approver: e.places.all()[0].approver}.Ways("a")
	if want := []string{wayCommand, console.Via}; !may || len(all) != 2 || !slices.Contains(all, want[0]) || !slices.Contains(all, want[1]) {
		t.Errorf("questions are answered by %q, want %q", all, want)
	}
}

// A background task is shown with its output, and can be ended.
func TestTasksAtTheConsole(t *testing.T) {
	e, p := withConsole(t, estatePolicy)
	session, err := e.login.Authenticate(t.Context(), "token-a")
	if err != nil || session.Tenant != "a" {
		t.Fatal(err)
	}
	if got := e.call("a", "/mcp", "BackgroundBash", map[string]any{"command": `printf '\033[31mred\033[0m\n'; exec sleep 600`, "description": "d"}); !strings.Contains(got, "ask") {
		t.Fatal(got)
	}
	var jobs []control.Job
	p.get("jobs", &jobs)
	if len(jobs) != 1 {
		t.Fatalf("jobs: %+v", jobs)
	}
	path := fmt.Sprintf("jobs/%s/%d/", jobs[0].Session, jobs[0].ID)
	var out struct {
		Next   int64
		End    bool
		Pieces []console.Piece
	}
	for len(out.Pieces) == 0 {
		p.get(path+"output", &out)
	}
	if out.Pieces[0] != (console.Piece{Text: "red", Style: "fg1"}) || out.End {
		t.Errorf("got %+v", out)
	}
	if status, text := p.do("POST", path+"end", struct{}{}); status != http.StatusOK {
		t.Errorf("end: %d %s", status, text)
	}
	p.get(fmt.Sprintf("%soutput?from=%d", path, out.Next), &out)
	if !out.End {
		t.Errorf("after its end: %+v", out)
	}
	if p.get("jobs", &jobs); len(jobs) != 1 || jobs[0].Status == "" {
		t.Errorf("after its end: %+v", jobs)
	}
}
