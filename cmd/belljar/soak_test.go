package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/testenv"
)

// soakEnv is the variable with the length of the soak, such as 30m. Without it, the soak
// takes a few seconds.
const soakEnv = "BELLJAR_TEST_SOAK"

// soakPace is the largest number of requests that begin in a second, and soakTurns the
// largest number that run at the same time: the soak looks for what stays behind, and not
// for how much the machine can do.
const (
	soakPace  = 100
	soakTurns = 8
)

// soakSame is how many checks in a row must find the same figures before the server counts
// as at rest.
const soakSame = 8

// soakTenants are the tenants, each with a workspace of its own.
var soakTenants = []string{"a", "b", "c"}

const soakPolicy = `version: 1
totals: {boxes: 200, memory: 64GiB, pids: 32768, cpu: 64}
profiles: {p: {fs: {system: true, workspace: rw}}}
defaults: {decision: allow, profile: p}
audit: {level: request, rotate: 4MiB, keep: 10000}
rules: [{id: no, match: {tool: Bash, command: "forbidden **"}, decision: deny, reason: "Version %d: the soak forbids it."}]
tenants:
`

// soak is a server with clients of all kinds, and a record of what has happened to it.
type soak struct {
	*place
	*generations
	t       *testing.T
	admin   *admin
	tokens  [][]string    // tokens of guests, by tenant
	keepers []*soakClient // clients that stay for many rounds
	ledger  soakLedger
	pace    *time.Ticker  // one tick for each request
	turns   chan struct{} // one entry for each running request; a slow machine has no more of them than a fast one

	calls   int          // least number of calls of each client in a round
	version int          // version of the policy
	swaps   atomic.Int64 // number of begins and ends of hand-overs
	kills   atomic.Int64 // number of boxes that were killed
	lostBox atomic.Int64 // number of calls whose box was killed
	ended   atomic.Int64 // number of connections that ended with a hand-over
	crossed atomic.Int64 // number of calls that crossed with the end of a connection

	mu      sync.Mutex
	servers []int        // PIDs of the processes that were started; guarded by mu
	dead    map[int]bool // which of these processes were killed; guarded by mu
}

// TestSoak has clients of three tenants work in both eras and over all transports, in
// rounds. In each round most of them are guests, which connect, work and disconnect, some
// of them in the middle of a call and without closing the connection in order. Meanwhile,
// in each round, the policy is read again, boxes are killed, and in the first rounds the
// server is handed over.
//
// After each round the server is at rest: nothing of the guests may be left. Its figures
// then are compared with those of its first rest after a round for warming up: descriptors
// and goroutines may be higher by soakSlack; children, cgroups, mounts, sessions, boxes,
// streams and temporary files must be the same. The same is true after all clients have
// disconnected. Its heap and its resident set at rest may not grow over the second half, in
// which the process stays the same (trend).
//
// At the end, the audit log must have what the clients know, and nothing may be left.
//
// The test is short unless BELLJAR_TEST_SOAK says how long it takes, such as 30m (make
// soak).
func TestSoak(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	clients, tokens, calls, lasts := 20, 1, 3, time.Duration(0)
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts <= 0 {
			t.Fatalf("%s is %q, want a time such as 30m", soakEnv, text)
		}
		clients, tokens, calls = 200, 8, 5
	}
	s := startSoak(t, tokens, calls)
	began, said := time.Now(), time.Time{}
	report := func(full, rest *figures) {
		if lasts > 0 && time.Since(said) < time.Minute {
			return
		}
		said = time.Now()
		calls, answered := s.ledger.count()
		t.Logf("%v: %d calls, %d answered, %d lost their box, %d connections ended with %d hand-overs, %d calls crossed; full: %v, pss with boxes %s; at rest: %v",
			time.Since(began).Round(time.Second), calls, answered, s.lostBox.Load(), s.ended.Load(), s.swaps.Load()/2, s.crossed.Load(), full, mib(full.pss), rest)
	}

	kept := len(soakWays) * max(1, clients/100)
	var empty *figures
	for empty == nil || time.Since(began) < lasts/2 {
		full := s.round(clients, nil, true)
		if empty = s.settled(false); empty.sessions+empty.boxes+empty.streams+empty.running+empty.leaves+len(empty.temporary) > 0 {
			t.Errorf("a server without clients has %v; temporary %v", empty, empty.temporary)
		}
		report(full, empty)
	}
	keepers := s.clients(kept, func(_, tenant int) string { return "token-" + soakTenants[tenant] })
	s.keepers = keepers
	report(s.round(clients, keepers, false), empty)
	base := s.settled(true)
	var heap, resident []int64
	for n := 0; n < 1 || time.Since(began) < lasts; n++ {
		full := s.round(clients, keepers, false)
		rest := s.rest(base, true)
		if lasts > 0 {
			rest.heap, rest.rss = s.live(), testenv.Resident(t, s.pid)
			heap, resident = append(heap, rest.heap), append(resident, rest.rss)
		}
		report(full, rest)
		if t.Failed() {
			break
		}
	}
	for what, sizes := range map[string][]int64{"the heap": heap, "the resident set": resident} {
		from, to, grows := trend(sizes)
		if grows {
			t.Errorf("%s of the server at rest grows from %s to %s", what, mib(from), mib(to))
		}
		if lasts > 0 {
			t.Logf("%s at %d rests: %s at first and %s at last", what, len(sizes), mib(from), mib(to))
		}
	}
	for _, c := range keepers {
		c.leave()
	}
	last := s.rest(empty, false)
	t.Logf("without clients: %v; and at the end: %v", empty, last)
	s.end()
}

// startSoak starts the server, with this many tokens for the guests of each tenant.
func startSoak(t *testing.T, tokens, calls int) *soak {
	t.Helper()
	s := &soak{place: newPlace(t), t: t, calls: calls, dead: make(map[int]bool)}
	s.ledger.name = rand.Text()[:8]
	s.env = append(s.env, "TMPDIR="+filepath.Join(s.dir, "tmp"))
	if err := os.Mkdir(filepath.Join(s.dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	for tenant, name := range soakTenants {
		if err := os.Mkdir(s.workspace(tenant), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(s.dir, "token-"+name), digest("token-"+name)+"\n")
	}
	s.writePolicy()
	for _, name := range soakTenants {
		var all []string
		for range tokens {
			all = append(all, s.tokenFor(t, name).Token)
		}
		s.tokens = append(s.tokens, all)
	}
	socket := "unix:" + filepath.Join(s.dir, "admin.sock")
	w := serveWeb(t, s.env, "--workspace", s.ws, "--policy", s.policy, "--state", s.state, "--admin", socket, "--legacy-sse", "--websocket")
	s.admin = adminAt(t, socket)

	// Only lines for which the test waits are kept. A line that asks for a person is a
	// fault.
	log := make(chan string, 100)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(log)
		for line := range w.log {
			switch {
			case strings.Contains(line, "level=ERROR"), strings.Contains(line, "panic"), strings.Contains(line, "goroutine "):
				t.Errorf("the server says: %s", line)
			case strings.Contains(line, "successor="), strings.Contains(line, "the server has stopped"):
				log <- line
			}
		}
	})
	said := *w
	said.log = log
	s.generations = &generations{&said, w.cmd.Process.Pid}
	s.began(s.pid)
	s.turns = make(chan struct{}, soakTurns)
	s.pace = time.NewTicker(time.Second / soakPace)
	t.Cleanup(func() {
		s.pace.Stop()
		if p, err := os.FindProcess(s.pid); err == nil {
			_ = p.Signal(syscall.SIGTERM) // after a failure
		}
		w.end()
		reading.Wait()
	})
	return s
}

func (s *soak) workspace(tenant int) string { return filepath.Join(s.dir, "ws-"+soakTenants[tenant]) }

// writePolicy writes the next version of the policy.
func (s *soak) writePolicy() {
	s.version++
	text := fmt.Sprintf(soakPolicy, s.version)
	for tenant, name := range soakTenants {
		text += fmt.Sprintf("  %s: {token: \"${file:%s}\", workspace: %s, limit: {calls: 100000/s, burst: 100000, in_flight: 1000, sessions: 200, boxes: 200, streams: 400}}\n",
			name, filepath.Join(s.dir, "token-"+name), s.workspace(tenant))
	}
	s.policy = filepath.Join(s.dir, "policy.yaml")
	put(s.t, s.policy, text)
}

func (s *soak) began(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = append(s.servers, pid)
}

// killed notes that a server was killed, so it will not write its last records.
func (s *soak) killed(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[pid] = true
}

// clients returns n clients of all kinds, which are not connected yet.
func (s *soak) clients(n int, token func(n, tenant int) string) (all []*soakClient) {
	for i := range n {
		tenant := i % len(soakTenants)
		all = append(all, &soakClient{s: s, way: &soakWays[i%len(soakWays)], tenant: tenant, token: token(i, tenant), number: i})
	}
	return all
}

// round makes clients work, the keepers and as many guests as there is room for. It returns
// the figures of the server at the end of the work. Then the guests disconnect.
func (s *soak) round(clients int, keepers []*soakClient, handOver bool) *figures {
	s.t.Helper()
	guests := s.clients(clients-len(keepers), func(n, tenant int) string {
		return s.tokens[tenant][n/len(soakWays)/len(soakTenants)%len(s.tokens[tenant])]
	})
	over := make(chan struct{})
	var working, connected sync.WaitGroup
	for _, c := range slices.Concat(keepers, guests) {
		connected.Add(1)
		working.Go(func() {
			if c.ClientSession == nil {
				s.turn(func() {
					if err := c.connect(); err != nil {
						s.t.Errorf("%v does not connect: %v", c, err)
					}
				})
			}
			connected.Done()
			for n := 0; ; n++ {
				select {
				case <-over:
					if n >= s.calls {
						s.turn(func() { c.call(0) }) // this call opens the client's box again if the box was killed
						return
					}
				default:
				}
				s.turn(func() { c.call(n + c.number) })
			}
		})
	}
	connected.Wait()
	s.reload(handOver)
	s.killBoxes(1 + clients/50)
	if handOver {
		s.swaps.Add(1)
		s.handOver()
		s.swaps.Add(1)
		s.began(s.pid)
	}
	close(over)
	working.Wait()
	full := s.look()
	full.pss = pssOf(s.pid)
	var going sync.WaitGroup
	for _, c := range guests {
		going.Go(func() {
			if c.number%7 == 3 {
				s.turn(c.vanish)
			} else {
				s.turn(c.leave)
			}
		})
	}
	going.Wait()
	return full
}

// turn runs the next request of a client when it is the client's turn.
func (s *soak) turn(do func()) {
	<-s.pace.C
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	do()
}

// reload writes another version of the policy, which decides the next call. If told is
// true, the server gets SIGHUP; otherwise it notices the change itself.
func (s *soak) reload(told bool) {
	s.t.Helper()
	before := s.held().SHA256
	s.writePolicy()
	if told {
		s.signal(syscall.SIGHUP)
	}
	if !testenv.Until(soakPatience, func() bool { return s.held().SHA256 != before }) {
		s.t.Error("the server does not read its policy again")
	}
	probe := s.clients(3, func(_, tenant int) string { return s.tokens[tenant][0] })[2]
	if err := probe.connect(); err != nil {
		s.t.Errorf("%v does not connect: %v", probe, err)
		return
	}
	defer probe.leave()
	call := s.ledger.begin(probe.tenant, true)
	res, err := probe.CallTool(s.t.Context(), bash("forbidden "+s.ledger.mark(call)))
	if err != nil {
		s.t.Errorf("%v: %v", probe, err)
		return
	}
	s.ledger.answered(call)
	if text := strings.Join(textsOf(res), "\n"); !strings.Contains(text, fmt.Sprintf("Version %d:", s.version)) {
		s.t.Errorf("by the policy of version %d a call is answered with %s", s.version, text)
	}
}

// held returns the policy that the server uses.
func (s *soak) held() (held control.Policy) {
	s.t.Helper()
	s.ask(http.MethodGet, "/policy", nil, &held)
	return held
}

// ask sends a request to the server's control socket.
func (s *soak) ask(method, path string, in, out any) {
	s.t.Helper()
	all, err := control.Clients(s.state)
	for _, one := range all {
		if err == nil && one.PID == s.pid {
			err = one.Ask(s.t.Context(), method, path, in, out)
		}
	}
	if err != nil {
		s.t.Error(err)
	}
}

// killBoxes waits until there are n boxes, and kills the inits of n boxes.
func (s *soak) killBoxes(n int) {
	s.t.Helper()
	var inits []int
	if !testenv.Until(soakPatience, func() bool { inits = initsOf(s.pid); return len(inits) >= n }) {
		s.t.Errorf("%d boxes are there to kill, want %d", len(inits), n)
	}
	slices.Sort(inits)
	for i := range min(n, len(inits)) {
		s.kills.Add(1)
		if p, err := os.FindProcess(inits[i*len(inits)/n]); err == nil {
			_ = p.Kill() // the process may have ended
		}
	}
}

// look returns the figures of the server now.
func (s *soak) look() *figures {
	s.t.Helper()
	f := figures{footprint: footprintOf(s.t, s.pid)}
	for _, c := range s.keepers {
		if c.cmd != nil {
			for _, n := range descriptorsOf(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid)) {
				f.stdio += n
			}
		}
	}
	says := s.says()
	f.goroutines, f.sessions, f.boxes = says["go_goroutines"], says["belljar_sessions_open"], says["belljar_boxes_open"]
	f.streams, f.running = says["belljar_http_streams_open"], says["belljar_calls_running"]
	for _, where := range []string{"tmp", "ws", "ws-a", "ws-b", "ws-c"} {
		all, err := os.ReadDir(filepath.Join(s.dir, where))
		if err != nil {
			s.t.Error(err)
		}
		for _, e := range all {
			f.temporary = append(f.temporary, filepath.Join(where, e.Name()))
		}
	}
	_ = filepath.WalkDir(s.state, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // removed meanwhile
		case d.IsDir() && d.Name() == "audit":
			return fs.SkipDir
		case d.Type().IsRegular():
			f.files++
			if i, err := d.Info(); err == nil {
				f.bytes += i.Size()
			}
		}
		return nil
	})
	return &f
}

// says returns the sums of the metric families of the server.
func (s *soak) says() map[string]int {
	s.t.Helper()
	sums := make(map[string]int)
	_, text := s.admin.get("/metrics")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		if n, err := strconv.ParseFloat(value, 64); err == nil { // otherwise the line is a comment
			sums[name] += int(n)
		}
	}
	return sums
}

// live returns the smallest heap of the server between two collections at rest. The
// requests for the figures make the garbage that the collections need.
func (s *soak) live() (held int64) {
	s.t.Helper()
	const cycles, heap = "go_gc_cycles_total", "go_memstats_heap_alloc_bytes"
	begun := s.says()[cycles]
	if !testenv.Until(soakPatience, func() bool {
		says := s.says()
		if says[cycles] > begun && (held == 0 || int64(says[heap]) < held) {
			held = int64(says[heap])
		}
		return says[cycles] >= begun+2
	}) {
		s.t.Error("the server collects no garbage")
	}
	return held
}

// endSessions ends the sessions that clients have left behind, except those of keepers if
// keepers is true, and reports whether there were none. Nothing else ends the sessions of
// 2026-07-28.
func (s *soak) endSessions(keepers bool) bool {
	s.t.Helper()
	var sessions, ended []control.Session
	s.ask(http.MethodGet, "/sessions", nil, &sessions)
	var left control.End
	for _, one := range sessions {
		if !keepers || strings.HasPrefix(one.Principal, "token:") {
			left.Sessions = append(left.Sessions, one.ID)
		}
	}
	if len(left.Sessions) > 0 {
		s.ask(http.MethodPost, "/sessions/end", left, &ended)
	}
	return len(left.Sessions) == 0
}

// rest waits until nothing of the guests is left, and returns the figures of the server
// then. They must not exceed those of another rest.
func (s *soak) rest(base *figures, keepers bool) (f *figures) {
	s.t.Helper()
	if !testenv.Until(soakPatience, func() bool {
		gone := s.endSessions(keepers)
		f = s.look()
		return gone && f.over(base) == ""
	}) {
		s.t.Errorf("at rest the server has %s, in all: %v; temporary %v", f.over(base), f, f.temporary)
	}
	return f
}

// settled is rest without figures to compare with: it returns the figures of the server
// once they have not changed for soakSame checks.
func (s *soak) settled(keepers bool) *figures {
	s.t.Helper()
	f, same := new(figures), 0
	if !testenv.Until(soakPatience, func() bool {
		gone := s.endSessions(keepers)
		now := s.look()
		if now.over(f) != "" || f.over(now) != "" || !gone {
			same = 0
		}
		f = now
		same++
		return same == soakSame
	}) {
		s.t.Errorf("the server does not come to rest: %v", f)
	}
	return f
}

// end ends the server, and checks what is left.
func (s *soak) end() {
	s.t.Helper()
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.servers {
		testenv.NoTraces(s.t, "soak-"+s.ledger.name, pid)
	}
	for _, dir := range []string{"tmp", "ws", "ws-a", "ws-b", "ws-c"} {
		if n := entries(s.t, filepath.Join(s.dir, dir)); n > 0 {
			s.t.Errorf("%d files are left in %s", n, dir)
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*.sock")); err != nil || len(left) > 0 {
		s.t.Errorf("sockets are left: %v, %v", left, err)
	}
	if out, err := s.run(s.t, "audit", "verify", "--policy", s.policy); err != nil {
		s.t.Errorf("the audit log: %s%v", out, err)
	}
	out, err := s.command(s.t.Context(), "audit", "show", "--json", "--policy", s.policy, "--state", s.state).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	wrong, err := s.ledger.compare(bytes.NewReader(out), s.dead)
	if err != nil {
		s.t.Error(err)
	}
	for _, fault := range wrong {
		s.t.Errorf("the audit log: %s", fault)
	}
	if lost, kills := s.lostBox.Load(), s.kills.Load(); lost > kills*soakTurns {
		s.t.Errorf("%d calls failed by the end of their box, and %d boxes were killed", lost, kills)
	}
	calls, answered := s.ledger.count()
	s.t.Logf("%d calls, %d of them answered, and %d bytes of records", calls, answered, len(out))
}
