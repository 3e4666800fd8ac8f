package gateway

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
)

// unbounded are the kinds of servers that must not run with a client without bounds: they
// write without end, and such a client keeps what they write.
var unbounded = []string{"writes a line without an end", "floods its standard output", "floods its standard error", "floods list_changed"}

// BenchmarkBareClient counts what the client of the go-sdk leaves behind after it has used
// the servers that TestSurvivors starts. It starts each server without a box, calls it and
// closes it. Then it counts the processes that still run a second later, and the
// goroutines. At the end it kills the processes.
func BenchmarkBareClient(b *testing.B) {
	mark := testenv.Seconds()
	all := upstreams.Misbehaving(mark)
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(kind string) bool { return slices.Contains(unbounded, kind) })
	b.Cleanup(func() {
		if !testenv.Until(30*time.Second, func() bool { return endMarked(b, mark) == 0 }) {
			b.Errorf("processes with %s run on", mark)
		}
	})
	runtime.GC()
	goroutines := runtime.NumGoroutine()
	for n := 0; n < b.N; n += together {
		var lives sync.WaitGroup
		for i := n; i < min(n+together, b.N); i++ {
			argv := all[kinds[i%len(kinds)]].Command(b)
			lives.Go(func() { bareLife(b.Context(), argv) })
		}
		lives.Wait()
	}
	least := testenv.Sleeping(b, mark)
	testenv.Until(time.Second, func() bool {
		least = min(least, testenv.Sleeping(b, mark))
		return least == 0
	})
	b.ReportMetric(float64(least), "processes-left")
	b.ReportMetric(float64(least)*1000/float64(b.N), "left/1000lives")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines-left")
	b.ReportMetric(0, "left-limit")
}

// bareLife starts, calls and closes one server with the client of the go-sdk. It ignores
// errors, because the servers are hostile.
func bareLife(ctx context.Context, argv []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.CommandTransport{Command: exec.Command(argv[0], argv[1:]...), TerminateDuration: time.Second}, nil)
	if err != nil {
		return
	}
	defer session.Close()
	if _, err := session.ListTools(ctx, nil); err == nil {
		_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: upstreams.Echo.Name, Arguments: map[string]int{"x": 1}})
	}
}

// endMarked kills the processes that have a mark in their arguments, and returns how many
// there were.
func endMarked(b *testing.B, mark string) (n int) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // before its arguments are read, because the pid may be reused later
		if err != nil {
			continue
		}
		if args, err := os.ReadFile(name); err == nil && bytes.Contains(args, []byte(mark)) {
			n++
			_ = p.Kill()
		}
		_ = p.Release()
	}
	return n
}
