package tools

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// allowAll is a policy that hides no tool.
type allowAll struct{}

func (allowAll) Decide(policies.Facts) policies.Decision {
	return policies.Decision{Verdict: policies.Allow}
}

// TestListIsShort holds what a model has to read of the tools: names,
// descriptions and input schemas.
func TestListIsShort(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{})
	read, checked := 0, 0
	for _, tool := range server.Tools() {
		read += len(tool.Name) + len(tool.Title) + len(tool.Description) + len(tool.InputSchema)
		checked += len(tool.OutputSchema)
		if tool.Title == "" || tool.Description == "" || tool.OutputSchema == nil {
			t.Errorf("%s: has no title, description or output schema", tool.Name)
		}
	}
	t.Logf("%d tools: %d characters for the model, %d of output schemas for the client", len(server.Tools()), read, checked)
	const most = 13_000 // of 14 tools; their output schemas are for the client alone
	if read > most || checked > 30_000 {
		t.Errorf("got %d characters for the model and %d for the client, want at most %d and 30000", read, checked, most)
	}
}

// BenchmarkToolsList is a client that lists the tools, over pipes.
func BenchmarkToolsList(b *testing.B) {
	server, err := mcp.New(mcp.Config{Gate: allowAll{}, Limits: mcp.Limits{Burst: 1e9, Rate: 1e9}})
	if err != nil {
		b.Fatal(err)
	}
	Add(server, Backends{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.ServeStdio(b.Context(), inR, outW) }()
	out := bufio.NewReaderSize(outR, 1<<20)
	ask := func(line string) int {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := out.ReadString('\n')
		if err != nil || strings.Contains(answer, `"error"`) {
			b.Fatalf("%.200s: %v", answer, err)
		}
		return len(answer)
	}
	ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`)
	size := 0
	for b.Loop() {
		size = ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	}
	b.ReportMetric(float64(size), "bytes")
	inW.Close()
	<-served
}
