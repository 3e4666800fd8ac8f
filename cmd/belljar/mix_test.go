package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// mix contains calls of all the tools, each of which does real work: pages and search
// results come from stand-ins at PLACE. Each search has another query, by the number %d.
// ReadDocs reads 20 different pages: one host must not get more requests in this time.
// TASK is the background task that was started last.
var mix = []string{
	`"Bash","arguments":{"command":"true"}`,
	`"Bash","arguments":{"command":"seq 20000"}`,
	`"ListBgTasks","arguments":{}`,
	`"ReadBgOutput","arguments":{"task_id":TASK,"offset":0}`,
	`"KillBgTask","arguments":{"task_id":TASK}`,
	`"BackgroundBash","arguments":{"command":"true","delay_ms":0}`,
	`"TaskManager","arguments":{"action":"create","text":"a"}`,
	`"TaskManager","arguments":{"action":"list"}`,
	`"PlanMode","arguments":{"action":"status"}`,
	`"AskUserQuestion","arguments":{"questions_json":"[{\"text\":\"Which?\",\"options\":[\"A\",\"B\"]}]"}`,
	`"ReadImage","arguments":{"file_path":"/workspace/dot.png"}`,
	`"ReadDocs","arguments":{"url":"https://PLACE/page?PAGE","render":"never"}`,
	`"WebSearch","arguments":{"query":"owls %d","engines":["standin"]}`,
	`"InvokeSkill","arguments":{"skill_name":"belljar"}`,
	`"SearchSkills","arguments":{"pattern":"sandbox"}`,
	`"SetCallback","arguments":{"action":"list"}`,
}

// BenchmarkMix keeps 128 calls of all tools in flight and sends pings all the time. It
// reports how long the pings took, and the number of answers of the tool with the fewest: a
// tool that starves has none.
func BenchmarkMix(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces, testenv.Bash)
	web := newStandIns(b)
	for _, v := range web.env {
		name, value, _ := strings.Cut(v, "=")
		b.Setenv(name, value)
	}
	workspace := b.TempDir()
	putPicture(b, filepath.Join(workspace, "dot.png"))
	policy := filepath.Join(b.TempDir(), "policy.yaml")
	text := strings.ReplaceAll(`version: 1
ask: default
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}, limits: {jobs: 128}, net: {mode: proxy, allow_private: ["PLACE", "host.belljar.internal:443"]}}}
tenants: {local: {limit: {calls: 1000000/s, burst: 1000000, in_flight: 128}}}
`, "PLACE", web.place)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	s := serve(b, os.Args[0], "belljar", "serve", "--workspace", workspace, "--policy", policy)
	s.send(b, hello)
	s.receive(b)
	s.send(b, `{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"BackgroundBash","arguments":{"command":"true"}}}`)
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
	const window, pages = 128, 20
	total := max(b.N, 2*window)
	answered := make([]int, len(mix))
	task := 1
	var took []time.Duration
	var sent time.Time
	call := func(n int) {
		params := strings.NewReplacer("%d", strconv.Itoa(n), "PAGE", strconv.Itoa(n/len(mix)%pages), "TASK", strconv.Itoa(task), "PLACE", web.place).Replace(mix[n%len(mix)])
		send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s}}`, n, params)
	}
	ping := func() {
		sent = time.Now()
		send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	}
	// Lines are read as they arrive: the time that this client takes to decode them is not
	// measured.
	type arrival struct {
		text []byte
		at   time.Time
	}
	lines := make(chan arrival, 2*window)
	go func() { // until the server ends with the benchmark
		defer close(lines)
		for {
			text, err := s.out.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- arrival{text, time.Now()}
		}
	}()
	b.ResetTimer()
	for n := range window {
		call(n)
	}
	ping()
	next, over := window, 0
	for over < total {
		line, ok := <-lines
		if !ok {
			b.Fatal("the server has ended")
		}
		var r reply
		if err := json.Unmarshal(line.text, &r); err != nil {
			b.Fatalf("%q: %v", line.text, err)
		}
		switch id := r.ID.(type) {
		case string:
			if strings.HasPrefix(id, "ping") {
				took = append(took, line.at.Sub(sent))
				ping()
			}
		case float64:
			if r.Error != nil && r.Error.Code == -32003 {
				b.Fatalf("call %v was refused: the benchmark does not measure what it says", id)
			}
			if bytes.Contains(r.Result, []byte(`"isError":true`)) {
				b.Errorf("%s: %.300s", mix[int(id)%len(mix)], r.Result)
			}
			var started struct {
				StructuredContent struct {
					TaskID int `json:"task_id"`
				}
			}
			if err := json.Unmarshal(r.Result, &started); err != nil {
				b.Fatal(err)
			}
			task = max(task, started.StructuredContent.TaskID)
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
