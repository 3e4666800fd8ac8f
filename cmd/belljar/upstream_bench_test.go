package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
)

// hopPolicy is a policy that lets the box of a server read the directory of the belljar
// that was built; its command demo-server is the server.
const hopPolicy = `version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true}}}
tenants: {a: {limit: {calls: 1000000/s, burst: 1000000}}}
upstreams: {from: servers.json, wait: 20s, defaults: {profile: {fs: {read: ["%s:/opt/belljar"]}}}}
`

// adding returns a rival that calls the tool that adds, under the given name, of a server
// over stdio.
func adding(s *process, tool string) *testenv.Rival {
	return &testenv.Rival{PID: s.cmd.Process.Pid, Call: func(id int) error {
		if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"a":1,"b":2}}}`+"\n", id+10, tool); err != nil {
			return err
		}
		for {
			answer, err := s.out.ReadString('\n')
			switch {
			case err != nil:
				return err
			case strings.Contains(answer, `"text":"3"`):
				return nil
			case strings.Contains(answer, `"method"`): // a notification
			default:
				return fmt.Errorf("%s", answer)
			}
		}
	}}
}

// perSecond returns how many calls per second a server answers with 32 calls in flight.
func perSecond(b *testing.B, s *process, tool string, n int) float64 {
	b.Helper()
	free := make(chan struct{}, 32)
	begin := time.Now()
	go func() {
		for id := range n {
			free <- struct{}{}
			fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"a":1,"b":2}}}`+"\n", id+10, tool)
		}
	}()
	for range n {
		answer, err := s.out.ReadString('\n')
		if err != nil || !strings.Contains(answer, `"text":"3"`) {
			b.Fatalf("%s %v", answer, err)
		}
		<-free
	}
	return float64(n) / time.Since(begin).Seconds()
}

// BenchmarkUpstream measures a call of another server's tool through belljar, with its
// policy, its audit log and the server in a box, against a call of the same server without
// belljar. Both calls are over stdio, one after the other. The rivals take turns, and the
// ratio is the median of the ratios of neighbouring slices. Through belljar, a call may
// take at most 80 µs more and at most 1.6 times as long. With 32 calls in flight, at least
// half as many calls per second are wanted through belljar as directly.
//
// The server sdk uses the go-sdk, as most servers in Go do. The server demo answers in some
// 10 µs, so the benchmark of demo measures mainly the switches between processes. cat-x is
// the same call through two cat(1), one in each direction, and relay-x is the same call
// through a program in Go that copies lines. They measure the least cost of any process
// between client and server that only reads and writes.
func BenchmarkUpstream(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	p := newPlace(b)
	p.program = built(b)
	sdkServer := filepath.Join(filepath.Dir(p.program), sdkServerName)
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(sdkServer, self, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	p.file(b, "servers.json", fmt.Sprintf(`{"mcpServers": {"demo": {"command": "/opt/belljar/belljar", "args": ["demo-server"]}, "sdk": {"command": "/opt/belljar/%s"}}}`, sdkServerName))
	policy := p.file(b, "policy.yaml", fmt.Sprintf(hopPolicy, filepath.Dir(p.program)))
	greeted := func(program string, args ...string) *process {
		s := serve(b, program, args...)
		s.send(b, hello)
		s.receive(b)
		s.send(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return s
	}
	through := greeted(p.program, "belljar", "serve", "--workspace", p.ws, "--state", p.state, "--policy", policy, "--tenant", "a")
	b.Run("demo", func(b *testing.B) {
		direct := greeted(p.program, "belljar", "demo-server")
		hop(b, through, direct, "mcp_demo_add", map[string]*testenv.Rival{
			"cat":   adding(greeted("/bin/bash", "bash", "-c", `cat | "$0" demo-server | cat`, p.program), "add"),
			"relay": adding(greeted(sdkServer, relayName, p.program, "demo-server"), "add"),
		})
	})
	b.Run("sdk", func(b *testing.B) { hop(b, through, greeted(sdkServer, sdkServer), "mcp_sdk_add", nil) })
}

// hop compares calls of a server through belljar with direct calls. relays are further ways
// to the server, by name.
func hop(b *testing.B, through, direct *process, tool string, relays map[string]*testenv.Rival) {
	b.Helper()
	const turns = 15
	of, to := adding(through, tool), adding(direct, "add")
	rivals := slices.AppendSeq([]*testenv.Rival{of, to}, maps.Values(relays))
	for _, r := range rivals {
		r.Slice(b, max(b.N, 100), 1) // warms the rival up; its times are discarded
		r.CPU, r.Wall = nil, nil
	}
	b.ResetTimer()
	for range turns {
		for _, r := range rivals {
			r.Slice(b, b.N, 1)
		}
	}
	var share []float64
	for range 5 {
		share = append(share, perSecond(b, through, tool, 10*b.N)/perSecond(b, direct, "add", 10*b.N))
	}
	b.ReportMetric(testenv.Median(share), "rate-x")
	b.ReportMetric(0.5, "rate-x-limit")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testenv.Median(of.Wall), "p50-µs")
	b.ReportMetric(testenv.Median(of.Wall)-testenv.Median(to.Wall), "more-µs")
	b.ReportMetric(80, "more-µs-limit")
	b.ReportMetric(pairs(of.Wall, to.Wall), "x")
	b.ReportMetric(1.6, "x-limit")
	b.ReportMetric(testenv.Median(of.CPU), "cpu-µs")
	for name, r := range relays {
		b.ReportMetric(pairs(r.Wall, to.Wall), name+"-x")
	}
}

// sdkServerName is the command of the test binary that runs a server of the go-sdk over
// stdio, with the tool add.
const sdkServerName = "sdkserver"

// relayName is the command of the test binary that copies lines between its own streams and
// the streams of the command that it starts.
const relayName = "relay"

func relay() {
	server := exec.CommandContext(context.Background(), os.Args[1], os.Args[2:]...)
	in, err := server.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = server.StdoutPipe(); err == nil {
			if err = server.Start(); err == nil {
				go func() {
					copyLines(in, os.Stdin)
					in.Close()
				}()
				copyLines(os.Stdout, out)
				err = server.Wait()
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func copyLines(to io.Writer, from io.Reader) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadSlice('\n')
		if err == nil {
			_, err = to.Write(line)
		}
		if err != nil {
			return
		}
	}
}

func sdkServer() {
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	type numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "add", Description: "Adds two numbers"}, func(_ context.Context, _ *sdk.CallToolRequest, in numbers) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strconv.Itoa(in.A + in.B)}}}, nil, nil
	})
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// npmStarts is the package that BenchmarkNpx starts.
const npmStarts = "@modelcontextprotocol/server-everything@2026.8.31"

// BenchmarkNpx measures the start of a session with a server from npm that was fetched
// before, until the server's tools are listed, against npx --prefer-offline without
// belljar. It needs the network once, see TestNpmServers.
func BenchmarkNpx(b *testing.B) {
	if os.Getenv(npmEnv) == "" {
		b.Skipf("servers are fetched from npm only where %s is set: make test-upstreams", npmEnv)
	}
	testenv.Need(b, testenv.UserNamespaces, testenv.Node, testenv.Npm)
	p := newPlace(b)
	p.program = built(b)
	p.file(b, "servers.json", fmt.Sprintf(`{"mcpServers": {"s": {"command": "npx", "args": ["-y", %q]}}}`, npmStarts))
	policy := p.file(b, "policy.yaml", `version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true}}}
upstreams:
  from: servers.json
  wait: 8m
  defaults:
    install: {mode: proxy, tls: intercept, allow: [registry.npmjs.org], allow_private: [registry.npmjs.org]}
    timeout: {install: 8m, handshake: 2m}
`)
	npx, err := exec.LookPath("npx")
	if err != nil {
		b.Fatal(err)
	}
	start := func(program string, args ...string) float64 {
		begin := time.Now()
		s := serve(b, program, args...)
		s.send(b, hello)
		s.receive(b)
		s.send(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		s.send(b, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
		for {
			got := s.receive(b)
			if got.ID != "list" {
				continue
			}
			if !strings.Contains(string(got.Result), "echo") {
				b.Fatalf("it lists %s", got.Result)
			}
			took := time.Since(begin)
			s.in.Close()
			_, _ = io.Copy(io.Discard, s.out)
			return float64(took.Milliseconds())
		}
	}
	through := func() float64 {
		return start(p.program, "belljar", "serve", "--workspace", p.ws, "--state", p.state, "--policy", policy)
	}
	bare := func() float64 { return start(npx, "npx", "--prefer-offline", "-y", npmStarts) }
	through()
	bare()
	var of, to []float64
	for range max(b.N, 5) {
		of, to = append(of, through()), append(to, bare())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testenv.Median(of), "ms")
	b.ReportMetric(testenv.Median(to), "bare-ms")
	b.ReportMetric(pairs(of, to), "x")
	b.ReportMetric(1.1, "x-limit")
}
