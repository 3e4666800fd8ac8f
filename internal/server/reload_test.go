package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/internal/gateway"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Two policies that decide the same call in two ways, by different rules, and one policy
// with a fault. The second policy has a layer, whose file changes too.
const (
	swapA = "version: 1\nprofiles: {p: {fs: {system: true}}}\nrules:\n  - {id: a, match: {tool: \"*\"}, decision: allow}\n"
	swapB = "version: 1\nprofiles: {p: {fs: {system: true}}}\ntenants: {local: {rules: [layer.yaml]}}\nrules:\n  - {id: a, match: {tool: \"*\"}, decision: allow}\n"
	swapL = "version: 1\nrules:\n  - {id: b, match: {tool: \"*\"}, decision: deny}\n"
	swapX = "version: 1\nprofiles: {p: {fs: {sistem: true}}}\n"
)

// put writes a file atomically, as editors do.
func put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// digest returns the digest of a token in the form for a policy.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// reloaderOf returns a reloader of the policy in a file, with one open place.
func reloaderOf(t *testing.T, file string, log io.Writer) *reloader {
	t.Helper()
	at := &site{home: t.TempDir()}
	l, err := at.read(file)
	if err != nil {
		t.Fatal(err)
	}
	ps := newPlaces(nil, l)
	g := &gate{}
	g.now.Store(l.policy())
	open := make(chan struct{})
	close(open)
	ps.open[at.home] = &slot{place: &place{gate: g}, ready: open}
	return &reloader{
		gate: g, file: file, places: ps, status: &policyStatus{}, changed: func(*layout) {}, log: slog.New(slog.NewTextHandler(log, nil)),
	}
}

// A policy that would show the state directory to boxes is refused.
func TestReloadKeepsTheState(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "policy.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	state := filepath.Join(dir, "up", "state")
	name := write("version: 1\nprofiles: {p: {fs: {read: [" + state + ":/state]}}}\n")
	var log strings.Builder
	r := reloaderOf(t, "default", &log)
	r.file, r.state = name, state
	before := r.gate.now.Load()
	r.reload(t.Context())
	if r.gate.now.Load() != before || !strings.Contains(log.String(), "which boxes of the profile p can see") {
		t.Errorf("got another policy: %t; log %q", r.gate.now.Load() != before, log.String())
	}
	write("version: 1\nprofiles: {p: {}}\n")
	r.reload(t.Context())
	if r.gate.now.Load() == before {
		t.Errorf("a policy that shows nothing of it does not hold: %q", log.String())
	}
}

// No box reaches the files of the front. A policy that would change this is refused when it
// is read again.
func TestFilesOfTheFront(t *testing.T) {
	dir := t.TempDir()
	policy := func(fs string) *policies.Policy {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {p: {fs: {"+strings.ReplaceAll(fs, "DIR", dir)+"}}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	shown, changed := "read: [DIR/shown]", "write: [DIR/changed]"
	for _, tt := range []struct {
		what string
		cfg  front.Config
		fs   string
		want string // part of the error; empty for no error
	}{
		{"a key that boxes see", front.Config{Key: dir + "/shown/key.pem"}, shown, "the key " + dir + "/shown/key.pem lies in "},
		{"a log that boxes see", front.Config{AccessLog: dir + "/shown/log"}, shown, "the access log "},
		{"a certificate that boxes see", front.Config{Cert: dir + "/shown/cert.pem"}, shown, ""},
		{"a certificate that boxes change", front.Config{Cert: dir + "/changed/cert.pem"}, changed, "the certificate "},
		{"an authority that boxes see", front.Config{ClientCA: dir + "/shown/ca.pem"}, shown, ""},
		{"an authority that boxes change", front.Config{ClientCA: dir + "/changed/ca.pem"}, changed, "the certificates of authorities "},
		{"a key elsewhere", front.Config{Key: dir + "/key.pem", Cert: dir + "/cert.pem", ClientCA: dir + "/ca.pem", AccessLog: dir + "/log"}, shown, ""},
		{"standard output", front.Config{AccessLog: "-"}, shown, ""},
	} {
		err := frontFiles(&tt.cfg, []string{dir + "/ws"}, policy(tt.fs))
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.want)
		}
	}

	file := filepath.Join(dir, "policy.yaml")
	put(t, file, "version: 1\nprofiles: {p: {fs: {read: ["+dir+"/shown]}}}\n")
	var log strings.Builder
	r := reloaderOf(t, "default", &log)
	r.file, r.front, r.gate.login = file, &front.Config{Key: dir + "/shown/key.pem"}, &login{Authenticator: auth.New(auth.Config{})}
	before := r.gate.now.Load()
	r.reload(t.Context())
	if r.gate.now.Load() != before || !strings.Contains(log.String(), "the key "+dir+"/shown/key.pem lies in ") {
		t.Errorf("got another policy: %t; log %q", r.gate.now.Load() != before, log.String())
	}
	put(t, file, "version: 1\nprofiles: {p: {}}\n")
	r.reload(t.Context())
	if r.gate.now.Load() == before {
		t.Errorf("a policy that shows nothing of it does not hold: %q", log.String())
	}
}

type nothing struct{}

func (nothing) Facts() policies.Facts { return policies.Facts{} }

// judged is an audit log that counts what calls were decided by.
type judged struct {
	mu   sync.Mutex
	seen map[string]int // numbers of calls by policy, rule and verdict
}

func (j *judged) Decided(_ context.Context, d mcp.Decided) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen[d.Decision.Policy+" "+d.Decision.Rule+" "+d.Decision.Verdict.String()]++
	return nil
}

func (j *judged) Finished(mcp.Finished) {}

// A thousand policies replace each other while 16 sessions call. Each call is decided by
// exactly one of them, and a policy with faults decides none.
func TestSwapsUnderLoad(t *testing.T) {
	const swaps, sessions = 1000, 16
	dir := t.TempDir()
	file, layer := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "layer.yaml")
	put(t, layer, swapL)
	put(t, file, swapB)
	b, err := config.ReadPolicy(file, "")
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, swapA)
	a, err := config.ReadPolicy(file, "")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := reloaderOf(t, file, &log)
	g := r.gate
	seen := &judged{seen: make(map[string]int)}
	server, err := mcp.New(mcp.Config{Gate: g, HTTP: mcp.HTTP{Auth: g}, Tenant: policies.LocalTenant, Audit: seen, Limits: mcp.Limits{Rate: 1e9, Burst: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	mcp.AddTool(server, mcp.Tool{Name: "say", Description: "says hi"}, func(_ context.Context, c mcp.Call, _ nothing) (*mcp.Result, error) {
		if c.Grant.IsZero() {
			t.Error("a call runs without a grant")
		}
		return mcp.Text("hi"), nil
	})
	r.changed = func(*layout) { server.Reloaded() }

	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range sessions {
		s, err := server.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			for !stop.Load() {
				res, err := server.Call(t.Context(), s, "say", nil)
				switch {
				case err != nil:
					t.Error(err)
				case res.Content[0].Text != "hi" && !strings.HasPrefix(res.Content[0].Text, "DENIED by policy rule b ("):
					t.Errorf("a call is answered %q", res.Content[0].Text)
				}
				calls.Add(1)
				runtime.Gosched() // so that the goroutine that replaces policies gets a turn
			}
		})
	}
	for i := range swaps {
		before := g.now.Load().Hash()
		want := before
		switch i % 4 {
		case 0:
			put(t, file, swapB)
			want = b.Hash()
		case 1:
			put(t, file, swapX)
		case 2:
			put(t, file, swapA)
			want = a.Hash()
		case 3: // the policy has no fault, but its layer has one
			put(t, layer, swapX)
			put(t, file, swapB)
		}
		r.reload(t.Context())
		if got := g.now.Load().Hash(); got != want {
			t.Fatalf("swap %d: the policy is %.8s, want %.8s:\n%s", i, got, want, log.String())
		}
		if refused := r.status.info().Refused; (refused != "") != (i%2 == 1) {
			t.Fatalf("swap %d: the status says %q", i, refused)
		}
		put(t, layer, swapL)
		log.Reset()
		// Some calls run between any two swaps.
		for seen := calls.Load(); calls.Load() < seen+sessions; {
			if t.Failed() {
				break
			}
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
	known := map[string]bool{a.Hash() + " a allow": true, b.Hash() + " b deny": true}
	for what, n := range seen.seen {
		if !known[what] {
			t.Errorf("%d calls were judged by %s", n, what)
		}
		delete(known, what)
	}
	if len(known) > 0 {
		t.Errorf("no calls were judged by %v", known)
	}
	t.Logf("%d calls in %d swaps", calls.Load(), swaps)
}

func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "link.yaml")
	names := []string{file, link}
	var w watcher
	w.begin(names)
	looks := func(step string, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := w.look(names); got != want {
				t.Errorf("%s, look %d: got %t, want %t", step, i, got, want)
			}
		}
	}
	looks("nothing", false, false, false, false)
	further := filepath.Join(dir, "layer.yaml")
	began := time.Now().Add(time.Hour) // later than the write below
	put(t, further, "one")
	names = append(names, further)
	w.also(names, began)
	looks("a further file that was read", false, false, false)
	put(t, further, "two")
	looks("it changes", false, false, true)
	w.begin(names[:2])
	w.also(names, time.Now().Add(-time.Hour))
	looks("one that was written since", false, true)
	w.begin(names)
	put(t, file, "one")
	looks("a new file", false, false, true)
	w.begin(names)
	looks("it was read", false, false)
	put(t, file, "two") // the new text has the same size
	looks("an exchange", false, false)
	put(t, file, "2wo")
	looks("another before it was read", false, false, true)
	w.begin(names)
	put(t, file, "three")
	looks("a change", false)
	put(t, file, "two")
	looks("and another", false, false, true)
	w.begin(names)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	looks("a link", false, false, true)
	w.begin(names)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	looks("a file that goes", false, false, true)
}

// An agent that writes its file of upstreams without a pause does not stop the server from
// reading the policy or other files of upstreams.
func TestReloadDoesNotWaitForAgents(t *testing.T) {
	dir := t.TempDir()
	policy, own := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "mcp.json")
	put(t, policy, swapA)
	put(t, own, `{"mcpServers": {}}`)
	var log strings.Builder
	r := reloaderOf(t, policy, &log)
	home := r.places.all()[0]
	home.Place = Place{Workspace: t.TempDir(), Log: r.log}
	agents := filepath.Join(home.Workspace, "mcp.json")
	var err error
	if home.mcp, err = mcp.New(mcp.Config{Gate: r.gate}); err != nil {
		t.Fatal(err)
	}
	if home.gateway, err = gateway.New(gateway.Config{
		Server: home.mcp, Workspace: home.Workspace, Policy: r.gate.now.Load, Files: []string{own, agents}, Log: r.log,
		Trusted: func(file string) bool { return file != agents },
	}); err != nil {
		t.Fatal(err)
	}
	defer home.gateway.Close()
	r.changed = func(*layout) { home.reloadUpstreams() }
	r.watch.begin(r.files())
	r.others.begin(r.places.upstreamFiles())
	look := func() {
		for i := range watchStill + 2 {
			put(t, agents, strings.Repeat(" ", i))
			r.look(t.Context())
		}
	}
	look()
	put(t, policy, strings.ReplaceAll(swapA, "decision: allow", "decision: deny"))
	look()
	if d := r.gate.Decide(policies.Facts{Tenant: policies.LocalTenant, Tool: "Bash"}); d.Verdict != policies.Deny {
		t.Errorf("the policy was not read again: %v\n%s", d.Verdict, &log)
	}
	put(t, own, `{"mcpServers": {"s": {"command": "x"}}}`)
	look()
	if n := len(home.gateway.Status()); n != 1 {
		t.Errorf("the file of upstreams was not read again: %d servers\n%s", n, &log)
	}
}

func TestTenantTokens(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Setenv("TOKEN_A", digest("a"))
	t.Setenv("TOKEN_PLAIN", "a")
	good := write("good", strings.ToUpper(digest("b"))+"\n")
	read := func(tenants string) ([]auth.Digest, error) {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {p: {}}\n"+tenants))
		if err != nil {
			t.Fatal(err)
		}
		return tenantTokens(t.Context(), p, hostexec.WrittenIn(), true)
	}
	all, err := read("tenants: {a: {token: \"${env:TOKEN_A}\"}, b: {token: \"${file:" + good + "}\"}, none: {}}")
	if err != nil || len(all) != 2 {
		t.Fatalf("got %v, %v", all, err)
	}
	g := auth.New(auth.Config{Known: func(string) bool { return true }})
	if _, err := g.Authenticate(t.Context(), "a"); err == nil {
		t.Error("a token is known before there are any")
	}
	g.SetDigests(all)
	for token, want := range map[string]string{"a": "a", "b": "b", "": "", "c": "", digest("a"): "", "none": ""} {
		if got, err := g.Authenticate(t.Context(), token); got.Tenant != want || (err == nil) != (want != "") {
			t.Errorf("the token %q is %q's, %v; want %q's", token, got.Tenant, err, want)
		}
	}
	for tenants, want := range map[string]string{
		"tenants: {a: {}}": "no tenant of the policy has a token",
		"tenants: {a: {token: \"${env:TOKEN_PLAIN}\"}}":                             "want the SHA-256 of the token in 64 hexadecimal digits",
		"tenants: {a: {token: \"${env:TOKEN_NOT_SET}\"}}":                           "belljar's environment has no variable TOKEN_NOT_SET",
		"tenants: {a: {token: \"${env:TOKEN_A}\"}, b: {token: \"${env:TOKEN_A}\"}}": "token of tenant b: tenant a has the same",
		"tenants: {a: {token: \"${file:" + filepath.Join(dir, "nosuch") + "}\"}}":   "no such file",
	} {
		if _, err := read(tenants); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), digest("a")) {
			t.Errorf("%s: got %v, want %s", tenants, err, want)
		}
	}
	if all, err := read(""); err != nil || len(all) > 0 {
		t.Errorf("without tenants: %v, %v", all, err)
	}
}

// If the policy changes after a server has read it, and before the server first looks at
// the file, it is read again like any other.
func TestChangeBeforeTheFirstLook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, file, "version: 1\nprofiles: {p: {fs: {system: true}}}\n")
	r := reloaderOf(t, file, io.Discard)
	before := r.gate.now.Load().Hash()
	put(t, file, "version: 1\nprofiles: {p: {fs: {system: true, workspace: ro}}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx, true) })
	if !testenv.Until(20*time.Second, func() bool { return r.gate.now.Load().Hash() != before }) {
		t.Error("the change was not seen")
	}
	cancel()
	running.Wait()
}
