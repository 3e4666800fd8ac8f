package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp"
)

// BenchmarkCall measures one tools/call of echo over two pipes, with one or 128 calls in
// flight. "wire" is a loop that answers without reading the message, so it measures the
// cost of the benchmark's client and of the pipes. "sdk" is the bare go-sdk with its own
// transport and no gate. "belljar" is what ServeStdio does: guard, limits, strict decode,
// policy, call. The CPU time is that of the whole process, so the cost of a server is its
// CPU time less that of the wire: "own-cpu-µs". This number becomes stable after about
// 100,000 calls, when the heap has reached its size.
func BenchmarkCall(b *testing.B) {
	servers := []struct {
		name  string
		serve func(b *testing.B, in io.ReadCloser, out io.WriteCloser)
	}{
		{"wire", serveWire}, {"sdk", serveSDK}, {"belljar", serveOurs},
	}
	for _, window := range []int{1, 128} {
		wire := 0.0
		for _, s := range servers {
			b.Run(fmt.Sprintf("%s/inflight=%d", s.name, window), func(b *testing.B) {
				took := benchmark(b, window, s.serve)
				if s.name == "wire" {
					wire = took
					return
				}
				b.ReportMetric(took-wire, "own-cpu-µs")
				if s.name == "belljar" && window == 128 {
					b.ReportMetric(12, "own-cpu-µs-limit")
				}
			})
		}
	}
}

// benchmark returns the CPU time of one call, in µs.
func benchmark(b *testing.B, window int, serve func(*testing.B, io.ReadCloser, io.WriteCloser)) (took float64) {
	b.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(b, inR, outW)
	}()
	answers := bufio.NewReaderSize(outR, 64<<10)
	ask := func(line string) {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			b.Error(err)
		}
	}
	ask(fmt.Sprintf(hello, revLegacy))
	if _, err := answers.ReadSlice('\n'); err != nil {
		b.Fatal(err)
	}
	ask(initialized)

	places := make(chan struct{}, window)
	b.ReportAllocs()
	runtime.GC()
	before := cpu(b)
	b.ResetTimer()
	go func() {
		line := make([]byte, 0, 256)
		for i := range b.N {
			places <- struct{}{}
			line = fmt.Appendf(line[:0], `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"twenty-four bytes of text"}}}`+"\n", i)
			if _, err := inW.Write(line); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	for range b.N {
		line, err := answers.ReadSlice('\n')
		if err != nil || !bytes.Contains(line, []byte(`"result"`)) {
			b.Fatalf("answered %s, %v", line, err)
		}
		<-places
	}
	b.StopTimer()
	took = float64(cpu(b)-before) / float64(b.N)
	b.ReportMetric(took, "cpu-µs/op")
	inW.Close()
	<-done
	outR.Close()
	outW.Close()
	inR.Close()
	return took
}

// cpu returns the processor time that this process has used, in µs.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return (u.Utime.Sec+u.Stime.Sec)*1e6 + u.Utime.Usec + u.Stime.Usec
}

func serveWire(_ *testing.B, in io.ReadCloser, out io.WriteCloser) {
	lines := bufio.NewReaderSize(in, 64<<10)
	w := bufio.NewWriterSize(out, 8<<10)
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"twenty-four bytes of text"}],"structuredContent":{"said":"twenty-four bytes of text"}}}` + "\n")
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		if bytes.Contains(line, []byte(`"id":`)) {
			w.Write(answer)
		}
		if lines.Buffered() == 0 {
			w.Flush()
		}
	}
}

func serveSDK(b *testing.B, in io.ReadCloser, out io.WriteCloser) {
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "0"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "echo"},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Text string `json:"text"`
		},
		) (*sdk.CallToolResult, echoOutput, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, echoOutput{in.Text}, nil
		})
	if err := server.Run(b.Context(), &sdk.IOTransport{Reader: in, Writer: out}); err != nil && !strings.Contains(err.Error(), "EOF") {
		b.Error(err)
	}
}

func serveOurs(b *testing.B, in io.ReadCloser, out io.WriteCloser) {
	ty := newToy(b, func(c *mcp.Config) { c.Limits.Rate, c.Limits.Burst = 1e9, 1<<30 })
	if err := ty.ServeStdio(b.Context(), in, out); err != nil {
		b.Error(err)
	}
}

// TestCallIsCheap limits what one call may allocate (W8). It fails if direct.go no longer
// reads calls: a call that the go-sdk reads takes 268 KB.
func TestCallIsCheap(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	const calls = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		c.send(call("1", "echo", `{"text":"x"}`))
		c.next()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 8<<10 {
		t.Errorf("a call allocates %d bytes, with its client, want at most 8 KiB", each)
	}
}
