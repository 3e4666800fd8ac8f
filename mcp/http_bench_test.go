package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// serveEnv makes the test binary a server to measure, so that its CPU is not its
// client's.
const serveEnv = "BELLJAR_BENCH_SERVE"

// BenchmarkHTTPCall is one tools/call of echo over HTTP on loopback, with so many in
// flight. Each server is a process of its own, and its CPU is read from it. "echo" is
// net/http that reads the body and writes an answer of the same size; "sdk" is the
// go-sdk's handler without a gate; "legacy" and "modern" are belljar's with a policy and
// an audit log. They take turns in slices, and the medians of all slices are reported
// with the ratios of the medians: other work on the machine hits all of them.
func BenchmarkHTTPCall(b *testing.B) {
	for _, window := range []int{1, 32} {
		b.Run(fmt.Sprintf("inflight=%d", window), func(b *testing.B) {
			kinds := []string{"echo", "sdk", "legacy", "modern"}
			var all []*measured
			for _, kind := range kinds {
				all = append(all, startMeasured(b, kind, window))
			}
			const slices = 10
			n := max(1, b.N/slices)
			for _, m := range all {
				m.run(b, min(n, 500)) // warm
				m.cpu, m.wall = nil, nil
			}
			b.ResetTimer()
			for range slices {
				for _, m := range all {
					m.run(b, n)
				}
			}
			b.StopTimer()
			b.ReportMetric(0, "ns/op")
			echo, bare := median(all[0].cpu), median(all[1].cpu)
			for _, m := range all {
				b.ReportMetric(median(m.cpu), m.kind+"-cpu-µs")
				b.ReportMetric(median(m.wall), m.kind+"-p50-µs")
			}
			for _, m := range all[2:] {
				b.ReportMetric(median(m.cpu)/echo, m.kind+"/echo")
				b.ReportMetric(median(m.cpu)/bare, m.kind+"/sdk")
				b.ReportMetric(median(m.wall)/median(all[0].wall), m.kind+"/echo-p50")
			}
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// measured is a server and its client.
type measured struct {
	kind    string
	url     string
	window  int
	client  *http.Client
	headers http.Header
	cpu     []float64 // µs of the server a call, by slice
	wall    []float64 // µs of a call, the median of a slice
}

func startMeasured(b *testing.B, kind string, window int) *measured {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+kind, "TMPDIR="+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: window}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the server %s: %v", kind, err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("the server %s did not start: %v", kind, err)
	}
	m := &measured{kind: kind, url: strings.TrimSpace(url), window: window, client: &http.Client{Transport: transport}}
	m.headers = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	switch kind {
	case "sdk", "legacy":
		_, h := m.post(b, fmt.Sprintf(hello, revLegacy))
		m.headers.Set("Mcp-Session-Id", h.Get("Mcp-Session-Id"))
		m.headers.Set("Mcp-Protocol-Version", revLegacy)
		m.post(b, initialized)
	case "modern":
		h := modernHeaders("tools/call", "echo")
		for i := 0; i < len(h); i += 2 {
			m.headers.Set(h[i], h[i+1])
		}
	}
	return m
}

func (m *measured) post(b *testing.B, body string) (string, http.Header) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, m.url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = m.headers
	res, err := m.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		b.Errorf("%s answered %d %s, %v", m.kind, res.StatusCode, raw, err)
	}
	return string(raw), res.Header
}

// used is the CPU that the server has used, in µs.
func (m *measured) used(b *testing.B) float64 {
	res, err := m.client.Get(strings.TrimSuffix(m.url, "/mcp") + "/cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// run makes n calls.
func (m *measured) run(b *testing.B, n int) {
	before := m.used(b)
	var clients sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	took := make([]float64, n)
	for range m.window {
		clients.Go(func() {
			for i := range next {
				body := call(strconv.Itoa(i+1), "echo", `{"text":"twenty-four bytes of text"}`)
				if m.kind == "modern" {
					body = modern(strconv.Itoa(i+1), "tools/call", `"name":"echo","arguments":{"text":"twenty-four bytes of text"},`)
				}
				began := time.Now()
				if raw, _ := m.post(b, body); !strings.Contains(raw, "twenty-four") {
					b.Errorf("%s answered %s", m.kind, raw)
				}
				took[i] = float64(time.Since(began).Microseconds())
			}
		})
	}
	clients.Wait()
	m.cpu = append(m.cpu, (m.used(b)-before)/float64(n))
	m.wall = append(m.wall, median(took))
}

// serveMeasured is the server process: it serves until its input ends.
func serveMeasured(kind string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/cpu", func(rw http.ResponseWriter, _ *http.Request) {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		fmt.Fprint(rw, (u.Utime.Sec+u.Stime.Sec)*1e6+u.Utime.Usec+u.Stime.Usec)
	})
	switch kind {
	case "echo":
		mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(b.Bytes())
		})
	case "sdk":
		server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "0"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Text string `json:"text"`
		},
		) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
		})
		mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	default:
		server, err := newMeasuredServer()
		if err != nil {
			return err
		}
		mux.Handle("/mcp", server.Handler())
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	front := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = front.Serve(l) }()
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return front.Close()
}

// newMeasuredServer is a server with a policy and an audit log.
func newMeasuredServer() (*mcp.Server, error) {
	policy, err := policies.Parse("policy.yaml", []byte(`version: 1
defaults: {decision: allow, profile: offline}
profiles: {offline: {fs: {system: true, workspace: rw}}}
rules:
  - {id: no-rm, match: {tool: Bash, command: "rm **"}, decision: deny, reason: It removes things.}
  - {id: no-fetch, match: {tool: "Web*"}, decision: deny, reason: There is no web.}
`))
	if err != nil {
		return nil, err
	}
	log, err := audit.Open(audit.Config{Dir: os.Getenv("TMPDIR") + "/audit", Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		return nil, err
	}
	server, err := mcp.New(mcp.Config{Gate: policy, Audit: booked{log}, Limits: mcp.Limits{Rate: 1e9, Burst: 1 << 30}})
	if err != nil {
		return nil, err
	}
	mcp.AddTool(server, mcp.Tool{Name: "echo", Description: "says it", ReadOnly: true},
		func(_ context.Context, _ mcp.Call, in echoInput) (*mcp.Result, error) {
			return mcp.Text("%s", in.Text), nil
		})
	return server, nil
}

// booked writes what a server writes of each call.
type booked struct{ log *audit.Log }

func (b booked) Decided(_ context.Context, d mcp.Decided) error {
	return b.log.Append(audit.Decision{
		CallID: d.Call.ID, Tenant: d.Facts.Tenant, Session: d.Facts.Session, Tool: d.Facts.Tool, Args: d.Facts.Args,
		Verdict: d.Decision.Verdict.String(), Policy: d.Decision.Policy, Profile: d.Decision.Grant.Profile(), Took: d.Took,
	})
}

func (b booked) Finished(f mcp.Finished) {
	text, _ := json.Marshal(f.Result.Content)
	_ = b.log.Append(audit.Outcome{CallID: f.Call.ID, Tool: f.Call.Tool, BytesOut: int64(len(text)), DurMS: f.Took.Milliseconds()})
}
