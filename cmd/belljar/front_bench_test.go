package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"belljar.dev/internal/testenv"
)

// echoes is the floor of a server over HTTP, as a program: net/http that returns each body.
// A signal ends it.
func echoes() { serveFloor(echoed) }

func echoed(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(body)
}

// serveFloor serves over HTTP/1.1, and prints its URL.
func serveFloor(handler http.HandlerFunc) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	tellURL("http://" + l.Addr().String())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
	_ = server.Serve(l)
}

// tellURL prints the URL of a floor for the benchmark.
func tellURL(url string) { fmt.Fprintf(os.Stderr, " url=%s\n", url) }

// fronted is belljar as an operator runs it on a network: clients log in with tokens of an
// issuer, a policy with rules decides, and each call is in the audit log.
type fronted struct {
	*serving
	place *place
	jwt   string            // token of tenant a from its issuer
	own   map[string]string // belljar's own token of each tenant
}

const frontedPolicy = `version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}}}
rules:
  - {id: no-rm, match: {tool: Bash, command: "rm **"}, decision: deny, reason: It removes things.}
  - {id: no-web, match: {tool: "Web*"}, decision: deny, reason: There is no web.}
tenants:
  a: {limit: {calls: 1000000/s, burst: 1000000, sessions: 2000, streams: 2000}}
  b: {limit: {calls: 200/s, burst: 200}}
auth:
  issuers:
    - {url: %[1]q, keys: %[1]q, addresses: 127.0.0.0/8, audience: ["api://a"], tenant: a}
`

func newFronted(b *testing.B) *fronted {
	b.Helper()
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	p, issuer := newPlace(b), newProvider(b)
	p.program = built(b)
	p.policy = p.file(b, "policy.yaml", fmt.Sprintf(frontedPolicy, issuer.URL))
	p.env = append(p.env, "SSL_CERT_FILE="+issuer.cert)
	p.flags = []string{"--websocket", "--connections", "4096"}
	f := &fronted{place: p, jwt: issuer.token(b, "api://a"), own: make(map[string]string)}
	for _, tenant := range []string{"a", "b"} {
		f.own[tenant] = p.tokenFor(b, tenant).Token
	}
	f.serving = p.start(b, wire{http: true})
	return f
}

// These calls pass through everything except a tool, because the policy refuses them: the
// work of a tool is not a cost of the front.
const (
	plainCall  = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"WebSearch","arguments":{"query":"owls"}}}`
	modernCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"WebSearch","arguments":{"query":"owls"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// pairs returns the median of the ratios of two rivals, slice by slice.
func pairs(of, to []float64) float64 {
	var all []float64
	for i := range of {
		all = append(all, of[i]/to[i])
	}
	return testenv.Median(all)
}

// overHTTP calls a server by POST, over connections that are reused.
func overHTTP(b *testing.B, pid int, url, token string) *testenv.Rival {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return &testenv.Rival{PID: pid, Call: func(id int) error {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(fmt.Sprintf(modernCall, id)))
		if err != nil {
			return err
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "WebSearch",
		} {
			r.Header.Set(name, value)
		}
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != http.StatusOK || strings.Contains(string(answer), `"error"`)) {
			err = fmt.Errorf("%s %s", res.Status, answer)
		}
		return err
	}}
}

// floor starts a program that is named after its function, and calls it over HTTP.
func floor(b *testing.B, program string, args ...string) (rival *testenv.Rival, url string) {
	b.Helper()
	p := newPlace(b)
	s := &serving{cmd: p.command(context.Background())}
	s.cmd.Args = append([]string{program}, args...)
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGKILL)
		_ = s.cmd.Wait()
	})
	line := make([]byte, 200)
	n, err := stderr.Read(line)
	_, url, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "url=")
	if !ok {
		b.Fatalf("the floor: %q, %v", line[:n], err)
	}
	return overHTTP(b, s.cmd.Process.Pid, url, "none"), url
}

// overSocket calls a server over a WebSocket, one call after the other.
func overSocket(b *testing.B, f *fronted) *testenv.Rival {
	b.Helper()
	conn := dialSocket(b, f)
	return &testenv.Rival{PID: f.cmd.Process.Pid, Call: func(id int) error {
		if err := conn.Write(b.Context(), websocket.MessageText, fmt.Appendf(nil, plainCall, id)); err != nil {
			return err
		}
		_, answer, err := conn.Read(b.Context())
		if err == nil && !strings.Contains(string(answer), `"result"`) {
			err = fmt.Errorf("%s", answer)
		}
		return err
	}}
}

// dialSocket opens a WebSocket and makes the handshake of the protocol on it.
func dialSocket(b *testing.B, f *fronted) *websocket.Conn {
	b.Helper()
	conn, _, err := websocket.Dial(b.Context(), f.url, &websocket.DialOptions{Subprotocols: []string{"mcp"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + f.own["a"]}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(b.Context(), websocket.MessageText, []byte(hello)); err != nil {
		b.Fatal(err)
	}
	if _, _, err := conn.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := conn.Write(b.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		b.Fatal(err)
	}
	return conn
}

// overPipe calls a server of its own over stdio, one call after the other.
func overPipe(b *testing.B, f *fronted) *testenv.Rival {
	b.Helper()
	s := serve(b, f.place.program, "belljar", "serve", "--workspace", f.place.ws, "--policy", f.place.policy, "--tenant", "a")
	s.send(b, hello)
	s.receive(b)
	return &testenv.Rival{PID: s.cmd.Process.Pid, Call: func(id int) error {
		if _, err := fmt.Fprintf(s.in, plainCall+"\n", id); err != nil {
			return err
		}
		answer, err := s.out.ReadString('\n')
		if err == nil && !strings.Contains(answer, `"result"`) {
			err = fmt.Errorf("%s", answer)
		}
		return err
	}}
}

// BenchmarkFront measures a call through the whole of belljar against a floor: HTTP with
// the JWT of an issuer, policy and audit log, against net/http that returns bodies; and
// WebSocket against stdio. The rivals take turns in slices of b.N calls, and each ratio is
// the median of the ratios of slices next to each other. CPU is the processor time of the
// server alone.
func BenchmarkFront(b *testing.B) {
	const turns = 15
	f := newFronted(b)
	byHTTP := func(b *testing.B) (of, to *testenv.Rival) {
		echo, _ := floor(b, "echoes")
		return overHTTP(b, f.cmd.Process.Pid, f.url, f.jwt), echo
	}
	for _, tt := range []struct {
		name     string
		window   int
		rivals   func(*testing.B) (of, to *testenv.Rival)
		cpu, p50 float64 // limits in µs; 0 means no limit
		ratio    float64
	}{
		{"http/inflight=32", 32, byHTTP, 60, 0, 2.5},
		{"http/inflight=1", 1, byHTTP, 0, 120, 2},
		{"websocket/inflight=1", 1, func(b *testing.B) (of, to *testenv.Rival) { return overSocket(b, f), overPipe(b, f) }, 0, 80, 2},
	} {
		b.Run(tt.name, func(b *testing.B) {
			n := max(b.N, tt.window)
			of, to := tt.rivals(b)
			for _, r := range []*testenv.Rival{of, to} {
				r.Slice(b, n, tt.window) // for warming up
				r.CPU, r.Wall = nil, nil
			}
			b.ResetTimer()
			for range turns {
				of.Slice(b, n, tt.window)
				to.Slice(b, n, tt.window)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(testenv.Median(of.CPU), "cpu-µs")
			b.ReportMetric(testenv.Median(of.Wall), "p50-µs")
			ratio := pairs(of.Wall, to.Wall)
			if tt.cpu > 0 {
				b.ReportMetric(tt.cpu, "cpu-µs-limit")
				ratio = pairs(of.CPU, to.CPU)
			} else {
				b.ReportMetric(tt.p50, "p50-µs-limit")
			}
			b.ReportMetric(ratio, "x")
			b.ReportMetric(tt.ratio, "x-limit")
		})
	}
}

// BenchmarkFrontFairness measures the time of a tenant's calls, one after the other: alone,
// and while another tenant sends ten times what its policy allows.
func BenchmarkFrontFairness(b *testing.B) {
	const turns, limit, times = 10, 200, 10
	f := newFronted(b)
	victim := overHTTP(b, f.cmd.Process.Pid, f.url, f.jwt)
	loud := overHTTP(b, f.cmd.Process.Pid, f.url, f.own["b"])
	var sent, refused int
	besides := func(do func()) {
		var all sync.WaitGroup
		stop := make(chan struct{})
		defer all.Wait()
		defer close(stop)
		all.Go(func() {
			tick := time.NewTicker(time.Second / (limit * times))
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					sent++
					if loud.Call(sent) != nil {
						refused++
					}
				}
			}
		})
		do()
	}
	victim.Calls(b, 200, 1) // for warming up
	var alone, beside, ratios []float64
	tail := func() float64 {
		took := victim.Calls(b, max(b.N, 200), 1)
		return took[len(took)*99/100]
	}
	b.ResetTimer()
	for range turns {
		alone = append(alone, tail())
		besides(func() { beside = append(beside, tail()) })
		ratios = append(ratios, beside[len(beside)-1]/alone[len(alone)-1])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testenv.Median(alone), "alone-p99-µs")
	b.ReportMetric(testenv.Median(beside), "beside-p99-µs")
	b.ReportMetric(testenv.Median(ratios), "x")
	b.ReportMetric(2, "x-limit")
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "sent/s")
	b.ReportMetric(float64(refused)/float64(max(1, sent)), "refused-share")
}

// BenchmarkFrontSessions measures the cost of sessions: the first call of a kept session
// after kill -9, its second call, and the memory of 100 sessions.
func BenchmarkFrontSessions(b *testing.B) {
	const sessions = 100
	f := newFronted(b)
	begin := testenv.Resident(b, f.cmd.Process.Pid)
	var all []map[string]string
	for range sessions {
		all = append(all, (&web{t: b, url: f.url}).session(f.own["a"]))
	}
	grown := testenv.Resident(b, f.cmd.Process.Pid) - begin
	var first, second []float64
	for range max(1, b.N/sessions) {
		f.kill()
		http.DefaultClient.CloseIdleConnections()
		f.serving = f.place.start(b, wire{http: true})
		w := &web{t: b, url: f.url}
		w.post(nil, hello) // opens the connection and makes the server ask for the login
		for _, session := range all {
			for _, took := range []*[]float64{&first, &second} {
				begin := time.Now()
				res, text := w.post(session, fmt.Sprintf(plainCall, 1))
				*took = append(*took, float64(time.Since(begin).Microseconds())/1000)
				if res == nil || res.StatusCode != http.StatusOK {
					b.Fatalf("%v %s", res, text)
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testenv.Median(first), "first-p50-ms")
	b.ReportMetric(2, "first-p50-ms-limit")
	b.ReportMetric(testenv.Median(second), "second-p50-ms")
	b.ReportMetric(float64(grown)/(1<<20), "100-sessions-MiB")
	b.ReportMetric(20, "100-sessions-MiB-limit")
}

// BenchmarkFrontIdle measures the memory of a thousand streams on which nothing happens,
// and the processor time for their comments and pings. The clients come one after the other:
// what the server does for clients that come at once would happen at once too. A stream of
// events belongs to a session, whose memory is not counted; a WebSocket is itself a session.
func BenchmarkFrontIdle(b *testing.B) {
	const streams, watched = 1000, 20 * time.Second
	b.Run("sse", func(b *testing.B) {
		f := newFronted(b)
		w := &web{t: b, url: f.url}
		var all []map[string]string
		for range streams {
			all = append(all, w.session(f.own["a"]))
		}
		f.idle(b, streams, watched, func(i int) {
			body := w.stream(all[i])
			b.Cleanup(func() { body.Close() })
		})
	})
	b.Run("websocket", func(b *testing.B) {
		f := newFronted(b)
		f.idle(b, streams, watched, func(int) {
			conn := dialSocket(b, f)
			conn.CloseRead(b.Context()) // answers pings
		})
	})
}

// idle reports the cost of n things, which open opens one by one.
func (f *fronted) idle(b *testing.B, n int, watched time.Duration, open func(int)) {
	b.Helper()
	begin := testenv.Resident(b, f.cmd.Process.Pid)
	for i := range n {
		open(i)
		testenv.Until(watched/time.Duration(n), func() bool { return false })
	}
	before := testenv.CPU(b, f.cmd.Process.Pid)
	testenv.Until(watched, func() bool { return false })
	used := testenv.CPU(b, f.cmd.Process.Pid) - before
	held := testenv.Resident(b, f.cmd.Process.Pid) - begin
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(held)/float64(n)/1024, "KiB-each")
	b.ReportMetric(30, "KiB-each-limit")
	b.ReportMetric(100*used/float64(watched.Microseconds()), "core-%")
	b.ReportMetric(1, "core-%-limit")
}
