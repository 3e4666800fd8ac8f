package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// admin is a client of the admin listener of a server, at HOST:PORT or unix:PATH.
type admin struct {
	t      *testing.T
	client http.Client
	host   string
}

func adminAt(t *testing.T, addr string) *admin {
	a := &admin{t: t, host: addr}
	dial := &http.Transport{DisableKeepAlives: true}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		a.host = "localhost"
		dial.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	a.client.Transport = dial
	return a
}

func (a *admin) get(path string, headers ...string) (status int, text string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+a.host+path, http.NoBody)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// value returns the value of a series, or -1 if the series does not exist.
func (a *admin) value(series string) float64 {
	a.t.Helper()
	_, text := a.get("/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				a.t.Fatalf("%q: %v", line, err)
			}
			return v
		}
	}
	return -1
}

// until waits until a series has a value.
func (a *admin) until(series string, want float64) {
	a.t.Helper()
	for range 10_000 {
		if a.value(series) == want {
			return
		}
	}
	a.t.Fatalf("%s never became %v; it is %v", series, want, a.value(series))
}

// ready is the answer of /readyz.
type ready struct {
	Ready            bool
	Faults, Degraded []struct{ What, Why string }
}

func (a *admin) ready() (status int, r ready) {
	a.t.Helper()
	status, text := a.get("/readyz")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		a.t.Fatalf("%q: %v", text, err)
	}
	return status, r
}

const adminPolicy = `version: 1
profiles: {p: {fs: {system: true, workspace: rw}}}
defaults: {decision: allow, profile: p}
rules: [{id: no, match: {tool: Bash, command: "forbidden **"}, decision: deny, reason: No.}]
tenants: {a: {token: "${file:TOKEN}", limit: {calls: 100000/s, burst: 100000, in_flight: 1000, boxes: 16, streams: 1000}}}
`

// servedWithAdmin starts a server for the tenant a, whose token is "one", and returns it
// with its admin listener. The workspace is dir/ws.
func servedWithAdmin(t *testing.T, flags ...string) (w *web, a *admin, dir string) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir = t.TempDir()
	put(t, filepath.Join(dir, "token"), digest("one")+"\n")
	put(t, filepath.Join(dir, "policy.yaml"), strings.Replace(adminPolicy, "TOKEN", filepath.Join(dir, "token"), 1))
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	socket := "unix:" + filepath.Join(dir, "admin.sock")
	w = serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, append([]string{
		"--workspace", filepath.Join(dir, "ws"), "--policy", filepath.Join(dir, "policy.yaml"), "--state", filepath.Join(dir, "state"), "--admin", socket,
	}, flags...)...)
	return w, adminAt(t, socket), dir
}

// TestMetrics checks that the metrics of a server count each call once, by tool, verdict
// and tenant, and that they name the ids of the call's line in the access log and of its
// audit record.
func TestMetrics(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	w, a, dir := servedWithAdmin(t, "--access-log", log)
	if status, text := a.get("/livez"); status != http.StatusOK || text != "ok\n" {
		t.Errorf("/livez: %d %q", status, text)
	}
	if status, r := a.ready(); status != http.StatusOK || !r.Ready || len(r.Faults)+len(r.Degraded) != 0 {
		t.Errorf("/readyz: %d %+v", status, r)
	}
	session := w.session("one")
	bash := func(id int, command string) {
		w.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Bash","arguments":{"command":%q}}}`, id, command))
	}
	for id := range 3 {
		bash(id, "true")
	}
	bash(3, "forbidden fruit")
	w.post(session, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"Bash","arguments":{"kommand":"true"}}}`)
	w.post(map[string]string{"Authorization": "Bearer two"}, hello)
	for series, want := range map[string]float64{
		`belljar_calls_total{tool="Bash",verdict="allow",outcome="ok"}`:        3,
		`belljar_calls_total{tool="Bash",verdict="deny",outcome="refused"}`:    1,
		`belljar_calls_total{tool="Bash",verdict="none",outcome="error"}`:      1,
		`belljar_tenant_calls_total{tenant="a",verdict="allow"}`:               3,
		`belljar_call_duration_seconds_count{tool="Bash"}`:                     5,
		`belljar_sessions_open{tenant="a",transport="http"}`:                   1,
		`belljar_boxes_open{tenant="a"}`:                                       1,
		`belljar_logins_total{result="unknown"}`:                               1,
		`belljar_logins_total{result="ok"}`:                                    7,
		`belljar_http_requests_total{route="/mcp",method="POST",status="4xx"}`: 1,
		`belljar_ready`:                                                       1,
		`belljar_http_streams_open`:                                           0,
		`belljar_audit_records_lost_total`:                                    0,
		`belljar_metrics_folded_total{label="tool"}`:                          0,
		`belljar_http_requests_total{route="/mcp",method="GET",status="2xx"}`: -1,
	} {
		a.until(series, want) // a request is counted when its answer has been sent
	}
	stream := openStream(t, w, session)
	a.until("belljar_http_streams_open", 1)
	stream.Close()
	a.until("belljar_http_streams_open", 0)

	_, open := a.get("/metrics", "Accept", "application/openmetrics-text")
	example := regexp.MustCompile(`# \{trace_id="([0-9a-f]{32})",call_id="(c-\w{8})"\}`).FindStringSubmatch(open)
	if example == nil || !strings.HasSuffix(open, "# EOF\n") {
		t.Fatalf("no exemplar in\n%s", open)
	}
	w.end()
	lines, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`"call":%q,"trace":%q`, example[2], example[1]); !strings.Contains(string(lines), want) {
		t.Errorf("no line of the access log has %s:\n%s", want, lines)
	}
	records, err := filepath.Glob(filepath.Join(dir, "state", "audit", "*"))
	if err != nil {
		t.Fatal(err)
	}
	audited := false
	for _, name := range records {
		text, _ := os.ReadFile(name)
		audited = audited || strings.Contains(string(text), example[1]) && strings.Contains(string(text), example[2])
	}
	if !audited {
		t.Errorf("no audit record has the trace %s and the call %s, in %v", example[1], example[2], records)
	}
}

// openStream opens the stream of a session, and waits for its first bytes.
func openStream(t *testing.T, w *web, session map[string]string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for k, v := range session {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(res.Body).ReadByte(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", res.Status, err)
	}
	return res.Body
}

// TestMetricsAreBounded checks that the number of series does not grow, however many names
// clients invent.
func TestMetricsAreBounded(t *testing.T) {
	w, a, _ := servedWithAdmin(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	session := w.session("one")
	series := func() (names []string) {
		_, text := a.get("/metrics")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") {
				names = append(names, line[:strings.LastIndexByte(line, ' ')])
			}
		}
		return names
	}
	flood := func(n int) {
		for range n {
			name := fmt.Sprintf("n%x", random.Uint64())
			w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":{}}}`)
			w.post(session, `{"jsonrpc":"2.0","id":1,"method":"`+name+`"}`)
			w.post(map[string]string{"Authorization": "Bearer " + name}, strings.Replace(hello, `"test"`, `"`+name+`"`, 1))
			w.post(map[string]string{"Authorization": "Bearer one", "Mcp-Session-Id": name}, hello)
			res, err := http.Get(strings.TrimSuffix(w.url, "mcp") + name)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
	}
	flood(20)
	before := series()
	flood(200)
	if after := series(); len(after) != len(before) {
		t.Errorf("%d series, and then %d:\n%s", len(before), len(after), strings.Join(after, "\n"))
	}
	if len(before) > 300 {
		t.Errorf("%d series of one tenant and no tool", len(before))
	}
}

// TestAdminIsApart checks that probes and metrics cannot be reached by the clients of the
// server or by web pages.
func TestAdminIsApart(t *testing.T) {
	w, _, _ := servedWithAdmin(t)
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/debug/pprof/"} {
		res, err := http.Get(strings.TrimSuffix(w.url, "/mcp") + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s at the clients' address: %s", path, res.Status)
		}
	}
	k := newPlace(t)
	w = serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()}, "--workspace", k.ws, "--state", k.state, "--admin", "127.0.0.1:0")
	a := adminAt(t, w.admin)
	for _, headers := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}} {
		if status, _ := a.get("/metrics", headers...); status != http.StatusForbidden {
			t.Errorf("%v: %d", headers, status)
		}
	}
	if status, _ := a.get("/metrics"); status != http.StatusOK {
		t.Errorf("without them: %d", status)
	}
	if status, _ := a.get("/mcp"); status != http.StatusNotFound {
		t.Errorf("/mcp at the admin listener: %d", status)
	}
}

// TestReadiness checks that a server names what is wrong with it.
func TestReadiness(t *testing.T) {
	t.Parallel()
	w, a, dir := servedWithAdmin(t)
	policy := filepath.Join(dir, "policy.yaml")
	good, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	put(t, policy, swapX)
	a.until(`belljar_fault{what="policy"}`, 1)
	if status, r := a.ready(); status != http.StatusOK || len(r.Degraded) != 1 || r.Degraded[0].What != "policy" || len(r.Faults) != 0 {
		t.Errorf("with a policy that has a fault: %d %+v", status, r)
	}
	put(t, policy, string(good)+"# again\n")
	a.until(`belljar_fault{what="policy"}`, -1)
	w.end()
}
