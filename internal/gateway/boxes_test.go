package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/kernel"
)

// plainPeer is a client of a server with only what the test needs.
type plainPeer struct {
	p    upstream.Process
	from *bufio.Reader
	done chan struct{}
	wg   sync.WaitGroup
	read chan string
}

func (c *plainPeer) Done() <-chan struct{} { return c.done }

func (c *plainPeer) Err() error {
	select {
	case <-c.done:
		return io.ErrUnexpectedEOF
	default:
		return nil
	}
}

func (c *plainPeer) Close() {
	c.p.Close()
	c.wg.Wait()
}

// ask sends a request, and returns the answer.
func (c *plainPeer) ask(ctx context.Context, method string) (map[string]any, error) {
	if _, err := fmt.Fprintf(c.p.In(), `{"jsonrpc":"2.0","id":1,"method":%q}`+"\n", method); err != nil {
		return nil, err
	}
	select {
	case line, ok := <-c.read:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		var answer struct{ Result map[string]any }
		err := json.Unmarshal([]byte(line), &answer)
		return answer.Result, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type plainDialer struct{}

// Dial requests the list of tools.
func (plainDialer) Dial(ctx context.Context, _ upstream.Spec, p upstream.Process) (*plainPeer, error) {
	c := &plainPeer{p: p, from: bufio.NewReader(p.Out()), done: make(chan struct{}), read: make(chan string, 16)}
	c.wg.Go(func() {
		defer close(c.done)
		defer close(c.read)
		for {
			line, err := c.from.ReadString('\n')
			if err != nil {
				return
			}
			c.read <- line
		}
	})
	if _, err := c.ask(ctx, "tools/list"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// scripted are servers in bash. Each answers every line with one line.
var scripted = map[string]string{
	"plain": `echo "the token is $TOKEN" >&2; while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{"pid":"'$$'"}}'; done`,
	// This server outlives its end in every possible way: with a child without its parent,
	// its session, its signals and its streams.
	"clinging": `trap '' TERM INT HUP; (setsid bash -c 'trap "" TERM INT HUP; exec sleep SECONDS' </dev/null >/dev/null 2>&1 &)
		sleep SECONDS & while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done; sleep SECONDS`,
	"dying":  `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; echo "I give up" >&2; exit 3`,
	"silent": `echo "I never answer" >&2; exec sleep SECONDS`,
	"looks": `read -r line; seen=""; for f in /workspace /root HOME /proc/1/environ /var/lib /var/cache/upstream /run/user; do [ -r $f ] && [ -n "$(ls -A $f 2>/dev/null)" ] && seen="$seen $f"; done
		(exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && seen="$seen loopback"; (exec 3<>/dev/tcp/93.184.215.14/80) 2>/dev/null && seen="$seen internet"
		echo '{"jsonrpc":"2.0","id":1,"result":{"seen":"'$seen'","env":"'$(env | cut -d= -f1 | sort | tr '\n' ' ')'"}}'; read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"seen":"'$seen'","env":"'$(env | cut -d= -f1 | sort | tr '\n' ' ')'"}}'; read -r line`,
	"nothing": "",
	// This server tries to reach this machine, by all its names.
	"reaches": `trap '' PIPE; while read -r line; do got=""; for a in 127.0.0.1 169.254.169.254 10.0.0.1 host.belljar.internal; do
		{ exec 3<>/dev/tcp/$a/PORT && printf 'GET / HTTP/1.0\r\nHost: %s:PORT\r\n\r\n' "$a" >&3 && read -r -t 10 answer <&3 && got="$got $a:${answer%%[[:space:]]}"; } 2>/dev/null; done
		for s in /var/run/docker.sock /run/docker.sock; do [ -e $s ] && got="$got $s"; done; echo '{"jsonrpc":"2.0","id":1,"result":{"got":"'"$got"'"}}'; done`,
	// This server needs more memory than it may have.
	"greedy": `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; all=$(head -c 300m /dev/zero | tr '\0' x); echo '{"jsonrpc":"2.0","id":1,"result":{"has":"'${#all}'"}}'; read -r line`,
	// This server uses all processes, the whole disk, and all CPU time.
	"forks": `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; most=0; seq 400 | xargs -P 0 -I{} sleep SECONDS 2>/dev/null &
		end=$((${EPOCHREALTIME%.*}+30)); n=0; while [ $((n++)) -lt 3000 ] || [ $most -lt 20 -a ${EPOCHREALTIME%.*} -lt $end ]; do set -- /proc/[0-9]*; [ $# -gt $most ] && most=$#; done; echo '{"jsonrpc":"2.0","id":1,"result":{"has":"'$most'"}}'; read -r line`,
	"fills": `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; head -c 100m /dev/zero >/tmp/x 2>/dev/null; echo '{"jsonrpc":"2.0","id":1,"result":{"has":"'$(stat -c %s /tmp/x)'"}}'; read -r line`,
	"spins": `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; begun=${EPOCHREALTIME/./}; used=0
		while [ $used -lt 60 ]; do for n in {1..2000}; do :; done; read -r -a s </proc/self/stat; used=$((s[13]+s[14])); done
		echo '{"jsonrpc":"2.0","id":1,"result":{"has":"'$((${EPOCHREALTIME/./}-begun))'"}}'; read -r line`,
	"fetched": `echo "$(cat /var/cache/upstream/tool) $(echo more 2>/dev/null >/var/cache/upstream/more && echo writes || echo reads)" >&2; while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{"said":"'"$(cat /var/cache/upstream/tool)"'","more":"'"$(head -n 1 /var/cache/upstream/more 2>/dev/null)"'"}}'; echo more 2>/dev/null >>/var/cache/upstream/more; done`,
}

// world contains boxes for servers, and a pool of servers.
type world struct {
	*upstream.Pool[*plainPeer]

	boxes   *sandbox.Supervisor
	starter *starter
	grant   policies.Grant // grant for a call
	seconds string         // mark of programs that a server leaves
	port    string         // port of a server on this machine
	fetches atomic.Int32
}

// boxedUpstreams returns a pool whose servers run in boxes, with a policy for these
// servers.
func boxedUpstreams(t *testing.T, of string) *world {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	boxes, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { boxes.Close() })
	w, err := boxes.Workspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\nupstreams: {servers: {"+of+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	made := &world{boxes: boxes, seconds: testenv.Seconds(), grant: p.Decide(policies.Facts{Tenant: "t", Tool: "mcp_x", Upstream: "x"}).Grant}
	made.starter = &starter{
		boxes: w, check: func(context.Context, upstream.Spec, string, bool) (pin.Runs, error) { return pin.Runs{}, nil },
		grant: func(tenant string, b policies.UpstreamBox) (policies.Grant, error) {
			if b.Install {
				made.fetches.Add(1)
			}
			return p.Upstreams().Grant(tenant, b)
		},
		command: func(_ context.Context, s upstream.Spec) (command, error) {
			if s.Server.Name == "nothing" {
				return command{Run: phase{Argv: []string{"no-such-program"}}}, nil
			}
			script := strings.NewReplacer("SECONDS", made.seconds, "PORT", made.port, "HOME", os.Getenv("HOME")).Replace(scripted[s.Server.Name])
			return command{Run: phase{Argv: []string{"bash", "-c", script}, Env: map[string]string{"TOKEN": "s3cret-value"}}, Secrets: []string{"s3cret-value"}}, nil
		},
		store: cache{dir: filepath.Join(t.TempDir(), "upstreams")},
	}
	made.Pool = upstream.NewPool(upstream.Config[*plainPeer]{Starter: made.starter, Dialer: plainDialer{}, Grant: func(tenant string, s upstream.Server) (policies.Grant, error) {
		return p.Upstreams().Grant(tenant, policies.UpstreamBox{Server: s.Name, Trusted: s.Trusted})
	}})
	t.Cleanup(made.Close)
	made.set(p, true)
	return made
}

// set makes the pool use all servers.
func (w *world) set(p *policies.Policy, trusted bool) {
	var servers []upstream.Server
	for name := range scripted {
		s := upstream.Server{Name: name, ID: fmt.Sprint(name, trusted), Trusted: trusted, Installs: true, Settings: p.Upstreams().Of(name, trusted)}
		if name == "silent" {
			s.Settings.Timeouts.Handshake = time.Second
		}
		servers = append(servers, s)
	}
	w.Set(servers)
}

// ask makes a call of a server.
func (w *world) ask(t *testing.T, server string) (got map[string]any, err error) {
	t.Helper()
	err = w.Do(t.Context(), w.grant, someone, server, func(ctx context.Context, c *plainPeer) (err error) {
		got, err = c.ask(ctx, "tools/call")
		return err
	})
	return got, err
}

var someone = upstream.Caller{Tenant: "t", Principal: "ann", Session: "s"}

// A server runs in its box and answers. Afterwards the server and all processes that it
// started have ended.
func TestUpstreamInABox(t *testing.T) {
	w := boxedUpstreams(t, "x: {}")
	for _, name := range []string{"plain", "clinging"} {
		if _, err := w.ask(t, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n := len(w.boxes.Boxes()); n != 2 {
		t.Errorf("%d boxes", n)
	}
	// its shell counts as well
	if !testenv.Until(10*time.Second, func() bool { return testenv.Sleeping(t, w.seconds) >= 3 }) {
		t.Error("not all programs of the clinging server run; the test would prove nothing")
	}
	begun := time.Now()
	w.Close()
	t.Logf("closed in %v", time.Since(begun))
	if n := len(w.boxes.Boxes()); n != 0 {
		t.Errorf("%d boxes are left", n)
	}
	if n := testenv.Sleeping(t, w.seconds); n != 0 {
		t.Errorf("%d programs are left", n)
	}
}

// GW-A28: the box of a server has no network, no workspace, no home directory, no files
// that were fetched for other servers, and nothing of belljar's environment.
func TestUpstreamBoxIsClosed(t *testing.T) {
	t.Setenv("BELLJAR_CANARY", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	for of, want := range map[string]string{
		"x: {}": "",
		"looks: {profile: {fs: {workspace: ro}}}": "/workspace", // this server may see a workspace
	} {
		got, err := boxedUpstreams(t, of).ask(t, "looks")
		if err != nil {
			t.Fatal(err)
		}
		if seen, _ := got["seen"].(string); strings.TrimSpace(seen) != want {
			t.Errorf("%s: it sees %q, want %q", of, seen, want)
		}
		env, _ := got["env"].(string)
		if !strings.Contains(env, "TOKEN") || strings.Contains(env, "BELLJAR") || strings.Contains(env, "AWS") {
			t.Errorf("%s: its environment has %s", of, env)
		}
	}
}

// A fault of a server is reported with its reason, and with the server's last lines,
// without its secrets.
func TestUpstreamInABoxFails(t *testing.T) {
	w := boxedUpstreams(t, "x: {}")
	for name, want := range map[string][]string{
		"dying":   {"it exited with status 3", "I give up", "it failed, and will be started again"},
		"silent":  {"the handshake took longer than 1s", "I never answer"},
		"nothing": {"no-such-program"},
	} {
		err := w.Do(t.Context(), w.grant, someone, name, func(ctx context.Context, c *plainPeer) error {
			if _, err := c.ask(ctx, "tools/call"); err != nil {
				<-c.Done()
				return c.Err()
			}
			return nil
		})
		if _, ok := errors.AsType[*upstream.Unavailable](err); !ok {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing in\n%v", name, part, err)
			}
		}
	}
	if _, err := w.ask(t, "plain"); err != nil {
		t.Fatal(err)
	}
	var stderr []string
	if !testenv.Until(time.Minute, func() bool { // it may be read later than the answer
		for _, s := range w.Status() {
			if s.Server == "plain" {
				stderr = s.Stderr
			}
		}
		return slices.Equal(stderr, []string{"the token is [secret]"})
	}) {
		t.Errorf("stderr is %q", stderr)
	}
}

// fetching makes "fetched" a server that a launcher, the script, fetches first.
func (w *world) fetching(script string, scratch bool) {
	run := w.starter.command
	w.starter.command = func(ctx context.Context, s upstream.Spec) (command, error) {
		c, err := run(ctx, s)
		if s.Server.Name == "fetched" {
			c.Install, c.Scratch = &phase{Argv: []string{"bash", "-c", script}, Env: map[string]string{"REGISTRY": "x"}}, scratch
		}
		return c, err
	}
}

// kept returns the directories of the store, without the home directories.
func (w *world) kept(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(w.starter.store.dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const fetchScript = `[ -z "$TOKEN$(ls -A /workspace 2>/dev/null)" ] || exit 9; echo "the tool" >/var/cache/upstream/tool; mkdir /var/cache/upstream/dir; ln -s /etc/passwd /var/cache/upstream/dir/link`

// The files of a server are fetched once, without the secrets of the server. The server can
// only read them.
func TestUpstreamIsFetchedOnce(t *testing.T) {
	w := boxedUpstreams(t, "fetched: {profile: {fs: {workspace: ro}}}")
	w.fetching(fetchScript, false)
	for round := range 3 {
		got, err := w.ask(t, "fetched")
		if err != nil || got["said"] != "the tool" || got["more"] != "" {
			t.Fatalf("round %d: %v, %v", round, got, err)
		}
		if n := w.Restart(t.Context(), "fetched"); n != 1 {
			t.Errorf("%d instances", n)
		}
	}
	if n := w.fetches.Load(); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
	// After another fetch command, the new files replace the old ones when the server that
	// used the old files has ended.
	old := w.kept(t)
	w.fetching(fetchScript+"; true", false)
	w.Restart(t.Context(), "fetched")
	if _, err := w.ask(t, "fetched"); err != nil {
		t.Error(err)
	}
	if now := w.kept(t); len(old) != 1 || len(now) != 1 || now[0] == old[0] || w.fetches.Load() != 2 {
		t.Errorf("%q and then %q, fetched %d times", old, now, w.fetches.Load())
	}
}

// A server's changes to its fetched files are discarded with it. They are made in a layer,
// or in a copy if the host has no layers.
func TestUpstreamScratch(t *testing.T) {
	for name, copies := range map[string]bool{"layer": false, "copy": true} {
		t.Run(name, func(t *testing.T) {
			w := boxedUpstreams(t, "x: {}")
			w.fetching(fetchScript, true)
			w.starter.store.copies.Store(copies)
			dirs := 1
			for range 2 {
				got, err := w.ask(t, "fetched")
				if more, _ := got["more"].(string); err != nil || !strings.HasPrefix(more, "more") {
					t.Fatalf("%v, %v", got, err)
				}
				if w.starter.store.copies.Load() {
					dirs = 2
				}
				if n := len(w.kept(t)); n != dirs {
					t.Errorf("%d directories, want %d", n, dirs)
				}
				w.Restart(t.Context(), "fetched")
			}
			w.Close()
			all := w.kept(t)
			if len(all) != 1 || w.fetches.Load() != 1 {
				t.Fatalf("%q is left, fetched %d times", all, w.fetches.Load())
			}
			if _, err := os.Lstat(filepath.Join(all[0], "more")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it was written into what was fetched: %v", err)
			}
			if kernel.Since(6, 6) && w.starter.store.copies.Load() != copies {
				t.Error("a host that should have layers has none")
			}
		})
	}
}

// An entry of a workspace with the same name as a server gets nothing that was fetched for
// that server.
func TestUntrustedEntryFetchesForItself(t *testing.T) {
	w := boxedUpstreams(t, "x: {}")
	w.fetching(fetchScript, false)
	if _, err := w.ask(t, "fetched"); err != nil {
		t.Fatal(err)
	}
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w.set(p, false)
	if _, err := w.ask(t, "fetched"); err != nil || w.fetches.Load() != 2 || len(w.kept(t)) != 2 {
		t.Errorf("%v, fetched %d times, %q", err, w.fetches.Load(), w.kept(t))
	}
}

// If a server cannot be fetched, the reason is reported, and no files are left.
func TestUpstreamCannotBeFetched(t *testing.T) {
	for script, want := range map[string]upstream.State{
		"echo half >/var/cache/upstream/tool; printf 'npm error code E404\\n1\\n2\\n3\\n4\\n5\\n' >&2; exit 1": upstream.Failed,
		"echo half >/var/cache/upstream/tool; echo 'network is down' >&2; exit 7":                              upstream.Waiting,
		"exec 3<>/dev/tcp/elsewhere.example/443; head -c 1 <&3; exit 1":                                        upstream.Failed,
	} {
		w := boxedUpstreams(t, "x: {}")
		w.fetching(script, false)
		_, err := w.ask(t, "fetched")
		if u, ok := errors.AsType[*upstream.Unavailable](err); !ok || u.State != upstream.Waiting || !strings.Contains(u.Reason, "it could not be installed: it exited with status") {
			t.Errorf("got %v", err)
		}
		var state upstream.State
		if !testenv.Until(time.Minute, func() bool {
			state = w.Gather(t.Context(), someone, "fetched")[0].State
			return w.fetches.Load() >= 3 && state == want
		}) {
			t.Errorf("%s after %d tries, want %s", state, w.fetches.Load(), want)
		}
		w.Close()
		if left := w.kept(t); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	}
}

// A secret is not shown, even if it is part of another secret or has several lines.
func TestSecretsAreMasked(t *testing.T) {
	m := newSecrets([]string{"", "hunter2-and-more", "tok", "token-123", "key-KEYVALUE-123", "123", "tab\tsecret\x01and more", "-----BEGIN KEY-----\nabcdefghijkl\nxyz\n"})
	for line, want := range map[string]string{
		"it is token-123": "it is [secret]", "tok": "[secret]", "abcdefghijkl": "[secret]", "xyz": "xyz", "plain": "plain", "a line that ends in hunter2-a…": "a line that ends in [secret]…", "a line that ends…": "a line that ends…",
		"…nd-more, it begins": "…[secret], it begins", "…3 and tok…": "…[secret] and [secret]…", "…nter2-and-m…": "…nter2-and-m…", "…e": "…[secret]", "…": "…",
		"…EYVALUE-123 x": "…[secret] x", "ends in token-1…": "ends in [secret]…", "…oken-123 begins": "…[secret] begins", "a tab secret^Aand more": "a [secret]",
		"of two halves the longer: hunter2-…": "of two halves the longer: [secret]…",
	} {
		if got := m.mask(line); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
}

// Fetched files are refused if they are too large, including holes, or if one of them
// cannot be copied.
func TestFetchedIsMeasured(t *testing.T) {
	dir := t.TempDir()
	check := func() error {
		t.Helper()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		return measured(t.Context(), root.FS(), 1<<20)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(dir, "file"), 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := check(); !errors.Is(err, upstream.ErrLasting) || !strings.Contains(fmt.Sprint(err), "more than 1048576 bytes") {
		t.Errorf("a hole of 2 MiB: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	mkfifo(t, filepath.Join(dir, "pipe"))
	if err := check(); !errors.Is(err, upstream.ErrLasting) || !strings.Contains(fmt.Sprint(err), "not a file") {
		t.Errorf("a pipe: %v", err)
	}
}

// The directories that servers get for their own files exist, and can be written.
func TestDirectoriesAreThere(t *testing.T) {
	w := boxedUpstreams(t, "x: {}")
	run := w.starter.command
	w.starter.command = func(ctx context.Context, s upstream.Spec) (command, error) {
		c, err := run(ctx, s)
		c.Run.Argv[2] = `for d in "$HOME" "$TMPDIR"; do [ "$(realpath -e "$d")" = "$d" ] && echo x >"$d/file" && seen="$seen $d"; done
			while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{"seen":"'"$seen"'"}}'; done`
		c.Run.Env = map[string]string{"HOME": inBox.Home, "TMPDIR": inBox.Temp}
		return c, err
	}
	got, err := w.ask(t, "plain")
	if want := " " + inBox.Home + " " + inBox.Temp; err != nil || got["seen"] != want {
		t.Errorf("it can write in%v, %v, want%s", got["seen"], err, want)
	}
}

// Files that a killed process has left of a server are removed when the server is started
// again. Files that were fetched for it are used.
func TestCopiesOfTheKilledAreRemoved(t *testing.T) {
	w := boxedUpstreams(t, "x: {}")
	w.fetching(fetchScript, true)
	if _, err := w.ask(t, "fetched"); err != nil {
		t.Fatal(err)
	}
	w.Restart(t.Context(), "fetched")
	kept := w.kept(t)
	if len(kept) == 0 {
		t.Fatal("nothing was fetched")
	}
	// The copy appears with all its contents, because a start that still runs may remove it
	// immediately.
	copied, left := t.TempDir(), filepath.Join(filepath.Dir(kept[0]), "scratch-LEFT")
	if err := os.Mkdir(filepath.Join(copied, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(copied, left); err != nil {
		t.Fatal(err)
	}
	w.Restart(t.Context(), "fetched")
	if _, err := w.ask(t, "fetched"); err != nil || w.fetches.Load() != 1 {
		t.Errorf("%v, fetched %d times", err, w.fetches.Load())
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy is left: %v", err)
	}
}

// The error of a launcher contains the launcher's own error lines, wherever they are in its
// output, and the hosts that its box was refused.
func TestWhyNotInstalled(t *testing.T) {
	refused := func(host, reason string) egress.Record {
		h, err := policies.ParseHost(host)
		if err != nil {
			t.Fatal(err)
		}
		return egress.Record{Host: h, Reason: reason}
	}
	for _, row := range []struct {
		wrote   []string
		blocked []egress.Record
		want    string
	}{
		{nil, nil, ", and wrote nothing"},
		{[]string{
			"npm warn deprecated x",
			"npm error code E404",
			"npm error 404 Not Found - GET https://r/@a%2fb - Not found",
			"npm error 404",
			"npm error 404  The requested resource '@a/b@*' could not be found.",
			"npm error 404",
			"npm error 404 Note that you can also install from a",
			"npm error 404 tarball, folder, http url, or git folder.",
			"npm notice New version",
			"npm error A complete log of this run can be found in: /tmp/npm-logs/x.log",
		}, nil, ": npm error code E404; npm error 404 Not Found - GET https://r/@a%2fb - Not found; npm error 404  The requested resource '@a/b@*' could not be found."},
		{[]string{"1", "2", "3", "4", "5", "6", "no solution found"}, nil, ": 3; 4; 5; 6; no solution found"},
		{nil, []egress.Record{refused("a.example", ""), refused("b.example", "10.0.0.1 is not a public address"), refused("a.example", "")}, ", after `install` of the policy did not let its box reach a.example, b.example (10.0.0.1 is not a public address), and wrote nothing"},
	} {
		if got := why(slices.Clone(row.wrote), row.blocked); got != row.want {
			t.Errorf("%q:\n got %s\nwant %s", row.wrote, got, row.want)
		}
	}
}
