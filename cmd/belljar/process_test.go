package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// process is belljar in a process of its own, over its pipes.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// serve starts a program as a server; args[0] is its name.
func serve(t testing.TB, program string, args ...string) *process {
	t.Helper()
	return serveTo(t, nil, program, args...)
}

// serveTo is serve with a standard error, which may be read after the program has ended.
func serveTo(t testing.TB, errs io.Writer, program string, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Stderr = args, errs
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir()) // for the audit log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		stop()
		_ = cmd.Wait()
	})
	return &process{cmd, in, bufio.NewReaderSize(out, 1<<20)}
}

func (s *process) send(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// reply is a line from the server.
type reply struct {
	ID     any
	Method string
	Result json.RawMessage
	Error  *struct{ Code int }
}

func (s *process) receive(t testing.TB) reply {
	t.Helper()
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return r
}

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"belljar.dev/structured":{}}},"clientInfo":{"name":"test","version":"1"}}}`

// serveAtWork is serve, with a client that has connected and has run a command.
func serveAtWork(t *testing.T) *process {
	t.Helper()
	s := serve(t, os.Args[0], "belljar", "serve", "--workspace", t.TempDir())
	s.send(t, hello)
	s.receive(t)
	s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(t, `{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"Bash","arguments":{"command":"true"}}}`)
	s.receive(t)
	return s
}

func (s *process) resident(t testing.TB) int64 {
	t.Helper()
	return testenv.Resident(t, s.cmd.Process.Pid)
}

// TestFlood checks that a client that writes 20,000 calls of long commands gets an answer
// to each, and also to a ping and a cancel among them. The server stays small.
func TestFlood(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	const flood = 20_000
	// With this, mainly what the server keeps counts. On a busy machine, belljar's own GOGC lets
	// four times as much garbage grow.
	t.Setenv("GOGC", "100")
	s := serveAtWork(t)
	idle := s.resident(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		w := bufio.NewWriterSize(s.in, 1<<16)
		for i := range flood {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"sleep 600","timeout":600000}}}`+"\n", i)
		}
		fmt.Fprintln(w, `{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
		for i := range flood {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", i)
		}
		fmt.Fprintln(w, `{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"ListBgTasks","arguments":{}}}`)
		if err := w.Flush(); err != nil {
			t.Error(err)
		}
	})
	var refused int
	var most int64
	seen := map[string]bool{}
	for !seen["ping"] || !seen["after"] {
		r := s.receive(t)
		switch id := r.ID.(type) {
		case string:
			seen[id] = true
			if id == "ping" && r.Error != nil {
				t.Errorf("the ping got error %d", r.Error.Code)
			}
			most = max(most, s.resident(t))
		case float64:
			if r.Error == nil || r.Error.Code != -32003 {
				t.Fatalf("call %v got %s %+v; want -32003, since it does not end by itself", id, r.Result, r.Error)
			}
			refused++
			if refused%1000 == 0 {
				most = max(most, s.resident(t))
			}
		}
	}
	wg.Wait()
	if refused < flood-2000 {
		t.Errorf("%d of %d were refused; 128 run and 1024 wait", refused, flood)
	}
	if grown := most - idle; grown > 40<<20 {
		t.Errorf("%d MiB above idle, want at most 40", grown>>20)
	}
	t.Logf("idle %d MiB, at most %d MiB", idle>>20, most>>20)
}

// TestServerEnds checks that nothing is left of a server, however it ends: no process of a
// box, no cgroup. After SIGTERM, or if a client closes its end, the call is still answered.
func TestServerEnds(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	for _, tt := range []struct {
		name    string
		end     func(*process) error
		answers bool
	}{
		{"the client goes", func(s *process) error { return s.in.Close() }, true},
		{"SIGTERM", func(s *process) error { return s.cmd.Process.Signal(syscall.SIGTERM) }, true},
		{"SIGKILL", func(s *process) error { return s.cmd.Process.Kill() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, os.Args[0], "belljar", "serve", "--workspace", t.TempDir())
			mark := fmt.Sprintf("42%d", s.cmd.Process.Pid)
			s.send(t, hello)
			s.receive(t)
			s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			s.send(t, `{"jsonrpc":"2.0","id":"job","method":"tools/call","params":{"name":"BackgroundBash","arguments":{"command":"trap '' TERM; (setsid sleep `+mark+` &); sleep `+mark+`"}}}`)
			s.receive(t)
			// A progress report shows that the call runs.
			s.send(t, `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"Bash","_meta":{"progressToken":1},"arguments":{"command":"echo begun; sleep 1; : `+mark+`"}}}`)
			if r := s.receive(t); r.Method != "notifications/progress" {
				t.Fatalf("got %+v, want progress", r)
			}
			if got := testenv.Traces(t, mark, s.cmd.Process.Pid); len(got) < 3 {
				t.Fatalf("before the end only %v is seen, so its absence would show nothing", got)
			}
			if err := tt.end(s); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(s.out)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(rest), `"id":"call"`); got != tt.answers {
				t.Errorf("the call was answered: %v, want %v; the server's last words: %s", got, tt.answers, rest)
			}
			_ = s.cmd.Wait()
			testenv.NoTraces(t, mark, s.cmd.Process.Pid)
		})
	}
}

// TestServerSettles checks that a server that has started returns the memory that only its
// start used, and works as before.
func TestServerSettles(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	s := serve(t, os.Args[0], "belljar", "serve", "--workspace", t.TempDir())
	s.send(t, hello)
	s.receive(t)
	started := s.resident(t)
	if !testenv.Until(30*time.Second, func() bool { return s.resident(t) < started/2 }) {
		t.Errorf("it has %d MiB, and had %d MiB when it answered first; want less than half", s.resident(t)>>20, started>>20)
	}
	s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo $((6*7))"}}}`)
	if r := s.receive(t); r.Error != nil || !strings.Contains(string(r.Result), "42") {
		t.Errorf("afterwards a command got %s %+v", r.Result, r.Error)
	}
	for range 400 {
		s.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		s.receive(t)
	}
	busy := s.resident(t)
	if !testenv.Until(30*time.Second, func() bool { return s.resident(t) < busy-4<<20 }) {
		t.Errorf("at rest it has %d MiB, and had %d MiB after 400 lists; want 4 MiB less", s.resident(t)>>20, busy>>20)
	}
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOurPackagesInitialiseLittle checks the memory of our packages: every start of the
// program initialises all packages, so ours must not make tables of words, patterns and
// schemas before they are first used.
func TestOurPackagesInitialiseLittle(t *testing.T) {
	var trace bytes.Buffer
	c := exec.CommandContext(t.Context(), os.Args[0], "version")
	c.Args[0] = "belljar"
	c.Env, c.Stderr = append(os.Environ(), "GODEBUG=inittrace=1"), &trace
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, &trace)
	}
	const most = 140_000 // bytes; with the tables it was 328,000
	packages, all := 0, 0
	for line := range strings.Lines(trace.String()) {
		// an example of a line: init belljar.dev/policies @8.1 ms, 0.065 ms clock, 37080
		// bytes, 628 allocs
		f := strings.Fields(line)
		// the test binary also has the tests of the command
		if len(f) < 9 || f[0] != "init" || !strings.HasPrefix(f[1], "belljar.dev/") || f[1] == "belljar.dev/cmd/belljar" {
			continue
		}
		n, err := strconv.Atoi(f[7])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if packages, all = packages+1, all+n; n > most/5 {
			t.Logf("%s: %d bytes", f[1], n)
		}
	}
	if packages < 10 {
		t.Fatalf("the trace has %d of our packages:\n%s", packages, &trace)
	}
	if all > most {
		t.Errorf("our packages allocate %d bytes before main, want at most %d", all, most)
	}
}

// TestVersionIsAnsweredEarly checks that `belljar --version` answers before most packages
// are initialised. It counts packages, since the time depends on the machine.
func TestVersionIsAnsweredEarly(t *testing.T) {
	packages := func(arg string) (n int) {
		var trace bytes.Buffer
		c := exec.CommandContext(t.Context(), os.Args[0], arg)
		c.Args[0] = "belljar"
		c.Env, c.Stderr = append(os.Environ(), "GODEBUG=inittrace=1"), &trace
		if out, err := c.Output(); err != nil || !strings.HasPrefix(string(out), "belljar ") {
			t.Fatalf("%s: %s, %v: %s", arg, out, err, &trace)
		}
		return strings.Count(trace.String(), "init ")
	}
	if early, all := packages("--version"), packages("version"); early > all/2 || early < 10 {
		t.Errorf("--version initialises %d packages of %d, want less than half", early, all)
	}
}

// built returns a belljar program that is built as for an installation: a test binary has
// more to initialise.
func built(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "belljar")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v", out, err)
	}
	return program
}

// BenchmarkServe measures the time from the start of a server to its first answer, and its
// memory when idle. The limits are 10 ms and 20 MiB. The state directory exists already,
// except at the very first start, which waits until the keys of the audit log are on the
// disk.
func BenchmarkServe(b *testing.B) {
	program, workspace, kept := built(b), b.TempDir(), b.TempDir()
	for name, state := range map[string]func() string{
		"again": func() string { return kept },
		"first": b.TempDir,
	} {
		b.Run(name, func(b *testing.B) {
			var first []time.Duration
			var idle []int64
			for b.Loop() {
				begin := time.Now()
				s := serve(b, program, program, "serve", "--workspace", workspace, "--state", state())
				s.send(b, hello)
				s.receive(b)
				first = append(first, time.Since(begin))
				if len(idle) < 10 { // each takes half a second
					started := s.resident(b)
					testenv.Until(10*time.Second, func() bool { return s.resident(b) < started/2 })
					s.send(b, `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // the server still works
					s.receive(b)
					idle = append(idle, s.resident(b))
				}
				s.in.Close()
				if err := s.cmd.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(first)
			slices.Sort(idle)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(first[len(first)/2].Microseconds())/1000, "first-answer-median-ms")
			b.ReportMetric(float64(first[len(first)*99/100].Microseconds())/1000, "first-answer-p99-ms")
			b.ReportMetric(float64(idle[len(idle)/2])/(1<<20), "idle-median-MiB")
		})
	}
}

// BenchmarkVersion measures the shortest command: the start of the program. The limit is 6 ms.
func BenchmarkVersion(b *testing.B) {
	program := built(b)
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := exec.CommandContext(b.Context(), program, "--version").Run(); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
}

// TestSignalWhileClosing checks that a signal does not cut the closing of a server short,
// which would leave boxes and files behind: clients that end a server close its input and
// send a signal soon after.
func TestSignalWhileClosing(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	for range 3 {
		s := serveAtWork(t)
		s.in.Close()
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, s.out)
			close(ended)
		}()
		soon := time.NewTicker(time.Millisecond)
		for open := true; open; {
			select {
			case <-ended:
				open = false
			case <-soon.C:
				_ = s.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		soon.Stop()
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
}
