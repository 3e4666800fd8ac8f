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
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// serveEnv makes the test binary the server that is measured, so that the CPU time of the
// client does not count.
const serveEnv = "BELLJAR_BENCH_SERVE"

// BenchmarkHTTPCall measures one tools/call of echo over HTTP on loopback, with one or 32
// calls in flight. Each server is a process of its own, and its CPU time is read from the
// process. "echo" is net/http, which reads the body and writes an answer of the same size;
// "sdk" is the go-sdk's handler without a gate; "legacy" and "modern" are belljar's
// handlers with a policy and an audit log. The servers take turns in slices. The medians of
// all slices and the ratios of the medians are reported, because other work on the machine
// affects all servers.
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
				m.Slice(b, min(n, 500), window) // warms up the server
				m.CPU, m.Wall = nil, nil
			}
			b.ResetTimer()
			for range slices {
				for _, m := range all {
					m.Slice(b, n, window)
				}
			}
			b.StopTimer()
			b.ReportMetric(0, "ns/op")
			echo, bare := testenv.Median(all[0].CPU), testenv.Median(all[1].CPU)
			for _, m := range all {
				b.ReportMetric(testenv.Median(m.CPU), m.kind+"-cpu-µs")
				b.ReportMetric(testenv.Median(m.Wall), m.kind+"-p50-µs")
			}
			for _, m := range all[2:] {
				b.ReportMetric(testenv.Median(m.CPU)/echo, m.kind+"/echo")
				b.ReportMetric(testenv.Median(m.CPU)/bare, m.kind+"/sdk")
				b.ReportMetric(testenv.Median(m.Wall)/testenv.Median(all[0].Wall), m.kind+"/echo-p50")
			}
		})
	}
}

// measured is a server with its client.
type measured struct {
	testenv.Rival
	kind    string
	url     string
	client  *http.Client
	headers http.Header
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
	m := &measured{Rival: testenv.Rival{PID: cmd.Process.Pid}, kind: kind, url: strings.TrimSpace(url), client: &http.Client{Transport: transport}}
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
	m.Call = func(id int) error {
		body := call(strconv.Itoa(id+1), "echo", `{"text":"twenty-four bytes of text"}`)
		if kind == "modern" {
			body = modern(strconv.Itoa(id+1), "tools/call", `"name":"echo","arguments":{"text":"twenty-four bytes of text"},`)
		}
		if raw, _ := m.post(b, body); !strings.Contains(raw, "twenty-four") {
			return fmt.Errorf("%s answered %s", kind, raw)
		}
		return nil
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

// serveMeasured runs the server process. It serves until its input ends.
func serveMeasured(kind string) error {
	mux := http.NewServeMux()
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

// newMeasuredServer returns a server with a policy and an audit log.
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

// booked writes the same records as a real server for each call.
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
