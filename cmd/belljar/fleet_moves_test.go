package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/testenv"
)

// moving is a fleet whose places move while a client writes, and whose processes are killed.
type moving struct {
	*grid

	r       *rand.Rand
	front   *node
	workers map[string]*node

	mu      sync.Mutex
	url     string   // URL of the front; guarded by mu
	acked   []string // lines that were acknowledged; guarded by mu
	unknown int      // number of calls of which it is not known whether they ran; guarded by mu
	refused int      // number of calls that must be tried again; guarded by mu
}

func newMoving(t *testing.T, workers int) *moving {
	t.Helper()
	m := &moving{grid: newGrid(t), workers: make(map[string]*node)}
	_, m.r = testenv.Cases(t, 1)
	// While a front that was killed is not running, no other process may get its port: no
	// connection is made from this address.
	m.links = fmt.Sprintf("127.%d.%d.%d", 1+m.r.IntN(250), m.r.IntN(250), 1+m.r.IntN(250))
	m.open()
	for i := range workers {
		name := fmt.Sprintf("w%d", i+1)
		m.workers[name] = m.worker(name, m.front)
	}
	return m
}

// open starts the front at the address to which workers connect.
func (m *moving) open(args ...string) {
	m.t.Helper()
	m.front = m.grid.front("front", args...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.url = m.front.url
}

// write makes a client write numbers until ctx ends, each as soon as the one before is
// answered.
func (m *moving) write(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		m.mu.Lock()
		url := m.url
		m.mu.Unlock()
		line := fmt.Sprintf("line-%d", i)
		a := ask(ctx, url+"/mcp", "one", line, "echo "+line+" >>lines && echo written")
		m.mu.Lock()
		switch {
		case a.err == nil && a.status == http.StatusServiceUnavailable:
			m.refused++
			i-- // the answer says that nothing was run
		case a.err == nil && !a.failed && strings.Contains(a.text, "written"):
			m.acked = append(m.acked, line)
		case a.err == nil && !a.lost && ctx.Err() == nil:
			m.t.Errorf("%s: %+v", line, a)
		default: // the front or the worker was killed
			m.unknown++
		}
		m.mu.Unlock()
	}
}

// list returns the output of `belljar place list`.
func (m *moving) list() (all []fleet.PlaceInfo) {
	out, err := m.command("place", "list", "--json", "--state", m.path("front")).Output()
	if err != nil || json.Unmarshal(out, &all) != nil {
		return nil
	}
	return all
}

// settled waits until place a is at work and its moves have left nothing behind, and
// returns its worker.
func (m *moving) settled() string {
	m.t.Helper()
	var now fleet.PlaceInfo
	var last []fleet.PlaceInfo
	if !testenv.Until(2*time.Minute*testenv.Patience(m.t), func() bool {
		last = m.list()
		i := slices.IndexFunc(last, func(p fleet.PlaceInfo) bool { return p.Place == "a" })
		if i < 0 || last[i].State != "at work" {
			return false
		}
		now = last[i]
		return len(m.owners("a/@")) == 1 && len(m.left()) == 0
	}) {
		m.t.Fatalf("the place does not come to rest: %+v; it is at %v, and left are %v\n%s", last, m.owners("a/@"), m.left(), m.log("front"))
	}
	return now.Worker
}

// owners returns the workers that have the directory of a place and would serve it.
func (m *moving) owners(dir string) (all []string) {
	for name := range m.workers {
		at := filepath.Join(m.path(name), "places", dir)
		if _, err := os.Stat(filepath.Join(at, "workspace")); err != nil {
			continue
		}
		if text, _ := os.ReadFile(filepath.Join(at, "move")); !bytes.Contains(text, []byte(`"to"`)) {
			all = append(all, name)
		}
	}
	return all
}

// left returns the files that moves have left on disks.
func (m *moving) left() (all []string) {
	for name := range m.workers {
		copies, _ := filepath.Glob(filepath.Join(m.path(name), "incoming", "*"))
		removed, _ := filepath.Glob(filepath.Join(m.path(name), "removed", "*"))
		all = slices.Concat(all, copies, removed)
		files, _ := filepath.Glob(filepath.Join(m.path(name), "places", "*", "*", "move"))
		for _, file := range files {
			if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(`"to"`)) {
				all = append(all, file)
			}
		}
	}
	return all
}

// claimed returns how many bytes of claims the front has written.
func (m *moving) claimed() int64 {
	info, err := os.Stat(filepath.Join(m.path("front"), "claims"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// kill kills one of the processes, and starts it again.
func (m *moving) kill(name string) {
	m.t.Helper()
	if name == "front" {
		link := m.front.link
		_ = m.front.cmd.Process.Kill()
		<-m.front.ended
		m.open("--link", link)
		return
	}
	_ = m.workers[name].cmd.Process.Kill()
	<-m.workers[name].ended
	m.workers[name] = m.worker(name, m.front)
}

// TestFleetPlaceMoves checks a place that moves again and again while a client writes. One
// of the three processes that take part is killed at a random time. Two workers never have
// the place at the same time, and in the end the place has everything that was
// acknowledged, once.
func TestFleetPlaceMoves(t *testing.T) {
	n, files := 3, ""
	if more, err := strconv.Atoi(os.Getenv("BELLJAR_TEST_MOVES")); err == nil && more > 0 {
		n, files = more, "; mkdir many; for i in {1..1500}; do echo $i >many/$i; done; head -c 20000000 /dev/urandom >noise"
	}
	m := newMoving(t, 2)
	if a := ask(t.Context(), m.front.url+"/mcp", "one", "first", "echo first >lines; ln lines hard; echo x >run; chmod 4755 run"+files); a.failed || a.err != nil || a.status != http.StatusOK {
		t.Fatalf("%+v\n%s", a, m.log("front"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() { m.write(ctx) })
	moves, kills := 0, make(map[string]int)
	at := m.settled()
	for i := range n {
		to := map[string]string{"w1": "w2", "w2": "w1"}[at]
		victim := []string{"front", at, to, ""}[m.r.IntN(4)]
		if i == 0 {
			victim = at
		}
		command := m.command("place", "move", "a", "--to", to, "--state", m.path("front"))
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, &out
		before := m.claimed()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// The time is measured from the beginning of the move, which is a claim: the
		// command itself may take as long as the move. The steps take some hundred
		// milliseconds, and chance decides during which of them the process is killed.
		if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return m.claimed() != before }) {
			t.Logf("move %d has not begun", i)
		}
		if victim != "" {
			wait := time.NewTimer(time.Duration(m.r.IntN(900)) * time.Millisecond)
			<-wait.C
			kills[victim]++
			m.kill(victim)
		}
		_ = command.Wait() // the command cannot follow a front that was killed
		was, ended := at, time.Now()
		if at = m.settled(); at != was {
			moves++
		}
		t.Logf("move %d to %s, killed %q: on %s, at rest %v later; %s", i, to, victim, at, time.Since(ended).Round(time.Millisecond), strings.TrimSpace(out.String()))
		if two := m.owners("a/@"); len(two) != 1 {
			t.Fatalf("the place is on %v", two)
		}
	}
	cancel()
	writing.Wait()
	m.check(at)
	t.Logf("S7: %d moves asked for, %d done, killed %v; %d lines acknowledged, %d calls not known, %d told to try again", n, moves, kills, len(m.acked), m.unknown, m.refused)
}

// check checks that everything that was acknowledged is there, and checks the logs of all
// processes.
func (m *moving) check(at string) {
	m.t.Helper()
	dir := filepath.Join(m.path(at), "places/a/@/workspace")
	text, err := os.ReadFile(filepath.Join(dir, "lines"))
	if err != nil {
		m.t.Fatal(err)
	}
	count := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	for _, line := range m.acked {
		if count[line] != 1 {
			m.t.Errorf("%s was acknowledged, and is there %d times", line, count[line])
		}
	}
	if count["first"] != 1 || len(m.acked) == 0 {
		m.t.Errorf("%d lines were acknowledged; the first is there %d times", len(m.acked), count["first"])
	}
	one, err1 := os.Stat(filepath.Join(dir, "lines"))
	two, err2 := os.Stat(filepath.Join(dir, "hard"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		m.t.Errorf("hard links are two files: %v, %v", err1, err2)
	}
	for name := range m.workers {
		m.run("audit", "verify", "--state", filepath.Join(m.path(name), "state"))
	}
}

// belljar runs a command about places, and returns its output.
func (m *moving) belljar(args ...string) (out string, ok bool) {
	m.t.Helper()
	text, err := m.command(append(args, "--state", m.path("front"))...).CombinedOutput()
	return string(text), err == nil
}

// says runs a command that must succeed or fail, and checks that its output contains a
// text.
func (m *moving) says(succeeds bool, want string, args ...string) {
	m.t.Helper()
	if out, ok := m.belljar(args...); ok != succeeds || !strings.Contains(out, want) {
		m.t.Errorf("belljar %q: %v %s\nwant %v and %q", args, ok, out, succeeds, want)
	}
}

func (m *moving) todo(path string, args map[string]any) string {
	m.t.Helper()
	a := askTool(m.t.Context(), m.front.url+path, "one", "todo", "TaskManager", args)
	if a.err != nil || a.failed || a.status != http.StatusOK {
		m.t.Fatalf("%v: %+v", args, a)
	}
	return a.text
}

// TestFleetPlaceFiles checks that a place that is written to a file comes back with all
// that it keeps, under its own name; under another name it only has its files. A file that
// is damaged, that exists, or whose directory does not exist is refused, and nothing is
// left of it.
func TestFleetPlaceFiles(t *testing.T) {
	m := newMoving(t, 2)
	bash := func(path, command string) told {
		return ask(t.Context(), m.front.url+path, "one", "b", command)
	}
	if a := bash("/mcp", "echo kept >file; mkfifo pipe"); a.failed || a.err != nil || a.status != http.StatusOK {
		t.Fatalf("%+v\n%s", a, m.log("front"))
	}
	m.todo("/mcp", map[string]any{"action": "create", "text": "remembered"})
	file := m.path("a.place")
	m.says(true, "a is in "+file, "place", "export", "a", file)
	m.says(false, "does not exist yet", "place", "export", "a", file)
	m.says(false, "it exists", "place", "import", file)
	m.says(true, "was imported from a file", "place", "import", file, "a/site")
	if a := bash("/w/site/mcp", "cat file; ls"); !strings.Contains(a.text, "kept") || strings.Contains(a.text, "pipe") {
		t.Errorf("a copy has %+v", a)
	}
	if got := m.todo("/w/site/mcp", map[string]any{"action": "list"}); strings.Contains(got, "remembered") {
		t.Errorf("a copy of another name has %s", got)
	}
	at := m.settled()
	other := map[string]string{"w1": "w2", "w2": "w1"}[at]
	m.says(false, "has it already", "place", "move", "a", "--to", at)
	m.says(false, "not linked", "place", "move", "a", "--to", "w9")
	m.says(false, "no linked worker has it", "place", "move", "b", "--to", other)
	m.says(false, "not being moved", "place", "stop", "a")
	// A place that does not move does not delay the others, and the command reports all of
	// them.
	out, ok := m.belljar("place", "move", "b", "a", "--to", other)
	if ok || !strings.Contains(out, "no linked worker has it") || !strings.Contains(out, "moved to worker "+other) {
		t.Errorf("moved one of two: %v %s", ok, out)
	}
	at, other = other, at
	m.says(true, "moved to worker "+other, "place", "move", "--all-from", at)
	if got := m.settled(); got != other {
		t.Errorf("a is on %s", got)
	}
	if got := m.todo("/mcp", map[string]any{"action": "list"}); !strings.Contains(got, "remembered") {
		t.Errorf("after a move: %s", got)
	}

	// The worker and its disk are lost.
	w := m.workers[other]
	_ = w.cmd.Process.Kill()
	<-w.ended
	if err := os.RemoveAll(filepath.Join(m.path(other), "places", "a", "@")); err != nil {
		t.Fatal(err)
	}
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { _, ok := m.belljar("fleet", "forget", "a"); return ok }) {
		t.Fatal("a lost place is not forgotten")
	}
	damaged := m.path("damaged.place")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, text[:len(text)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	m.says(false, "cut off", "place", "import", damaged)
	m.says(false, "does not name this place", "place", "import", file, "a/other")
	m.says(true, "was imported from a file", "place", "import", file)
	if got := m.todo("/mcp", map[string]any{"action": "list"}); !strings.Contains(got, "remembered") {
		t.Errorf("after an import: %s", got)
	}
	if a := bash("/mcp", "cat file"); !strings.Contains(a.text, "kept") {
		t.Errorf("after an import: %+v", a)
	}
	if left := m.left(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
