package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// mix are calls of all the tools but AskUserQuestion, which waits for a person.
var mix = []string{
	`"Bash","arguments":{"command":"true"}`,
	`"Bash","arguments":{"command":"seq 20000"}`,
	`"ListBgTasks","arguments":{}`,
	`"ReadBgOutput","arguments":{"task_id":1}`,
	`"KillBgTask","arguments":{"task_id":1}`,
	`"BackgroundBash","arguments":{"command":"true","delay_ms":0}`,
	`"TaskManager","arguments":{"action":"create","text":"a"}`,
	`"TaskManager","arguments":{"action":"list"}`,
	`"PlanMode","arguments":{"action":"status"}`,
	`"ReadImage","arguments":{"file_path":"/workspace/none.png"}`,
	`"ReadDocs","arguments":{"url":"http://127.0.0.1:1/"}`,
	`"WebSearch","arguments":{"query":""}`,
	`"InvokeSkill","arguments":{"skill_name":"none"}`,
	`"SetCallback","arguments":{"action":"list"}`,
}

// BenchmarkMix keeps 128 calls of all tools in flight and pings all the while.
// It tells how long pings took, and how many answers the tool got that had the
// fewest: one that starves has none.
func BenchmarkMix(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	policy := filepath.Join(b.TempDir(), "policy.yaml")
	const text = "version: 1\ndefaults: {decision: allow, profile: p}\nprofiles: {p: {fs: {system: true, workspace: rw}}}\ntenants: {local: {limit: {calls: 1000000/s, burst: 1000000, in_flight: 128}}}\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	s := serve(b, os.Args[0], "belljar", "serve", "--workspace", b.TempDir(), "--policy", policy)
	s.send(b, hello)
	s.receive(b)
	s.send(b, `{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"Bash","arguments":{"command":"true"}}}`)
	s.receive(b)

	var mu sync.Mutex
	w := bufio.NewWriter(s.in)
	send := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, format+"\n", args...)
		if err := w.Flush(); err != nil {
			b.Error(err)
		}
	}
	const window = 128
	total := max(b.N, 2*window)
	answered := make([]int, len(mix))
	var took []time.Duration
	var sent time.Time
	call := func(n int) {
		send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s}}`, n, mix[n%len(mix)])
	}
	ping := func() {
		sent = time.Now()
		send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	}
	b.ResetTimer()
	for n := range window {
		call(n)
	}
	ping()
	next, over := window, 0
	for over < total {
		r := s.receive(b)
		switch id := r.ID.(type) {
		case string:
			if strings.HasPrefix(id, "ping") {
				took = append(took, time.Since(sent))
				ping()
			}
		case float64:
			if r.Error != nil && r.Error.Code == -32003 {
				b.Fatalf("call %v was refused: the benchmark does not measure what it says", id)
			}
			answered[int(id)%len(mix)]++
			over++
			if next < total {
				call(next)
				next++
			}
		}
	}
	b.StopTimer()
	slices.Sort(took)
	at := func(part float64) float64 {
		return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "ping-p50-ms")
	b.ReportMetric(at(0.99), "ping-p99-ms")
	b.ReportMetric(at(1), "ping-max-ms")
	b.ReportMetric(float64(slices.Min(answered)), "fewest-answers")
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "calls/s")
}
