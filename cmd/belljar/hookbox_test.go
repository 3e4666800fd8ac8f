package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// tryAll is a hook that tries what a box does not allow, and notes what succeeded. The
// words in capitals are replaced.
const tryAll = `cat >/dev/null
got=
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then got="$got $name"; fi; }
try state ls STATE/.
try home cat HOME/secret
try host-write touch HOME/written
try workspace-write touch WORKSPACE/written-by-hook
try server kill -0 SERVER
try environment test -n "$OF_THE_HOST"
try loopback bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT'
try other-box cat /tmp/of-a-session
try sockets ls STATE/servers/SERVER.sock
echo "{\"note\": \"could:$got\"}"
`

// TestAHookCannotLeaveItsBox checks that a hook that is not named to run outside is
// confined to a box like the session's own commands: a script that does all of this on the
// host does none of it in the box. The hook cannot write the workspace, even if the
// session's box can.
func TestAHookCannotLeaveItsBox(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		for _, tt := range []struct {
			flag, workspace, want string
		}{
			{"--trust-hook", "ro", "could: state home host-write workspace-write server loopback sockets"},
			{"--hooks", "ro", "could:"},
			{"--hooks", "rw", "could:"},
		} {
			if w != wires[0] && tt.flag == "--trust-hook" {
				continue // this row does not depend on the wire
			}
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := newPlace(t)
			p.file(t, "secret", "x")
			p.policy = p.file(t, "policy.yaml", "version: 1\ndefaults: {decision: allow}\nprofiles: {p: {fs: {system: true, workspace: "+tt.workspace+"}}}\n")
			p.env = append(p.env, "OF_THE_HOST=1")
			p.file(t, "mine/tool_result/sync-probe.bash", "")
			p.flags = []string{"--hooks", filepath.Join(p.dir, "mine")}
			if tt.flag == "--trust-hook" {
				p.flags = p.outside(t)
			}
			s := p.start(t, w)
			workspace := "/workspace"
			if tt.flag == "--trust-hook" {
				workspace = p.ws
			}
			_, port, _ := net.SplitHostPort(l.Addr().String())
			p.file(t, "mine/tool_result/sync-probe.bash", strings.NewReplacer(
				"STATE", p.state, "HOME", p.dir, "WORKSPACE", workspace, "SERVER", fmt.Sprint(s.cmd.Process.Pid), "PORT", port,
			).Replace(tryAll))
			c := s.connect(t, w, nil)
			all := c.texts(t, "Bash", map[string]any{"command": "touch /tmp/of-a-session; echo hi"})
			if got := all[len(all)-1]; got != "[hook] "+tt.want {
				t.Errorf("%s, workspace %s: got %q, want %q", tt.flag, tt.workspace, got, tt.want)
			}
			s.stop()
		}
	})
}

// TestHooksKeepTenantsApart checks that a hook in a box belongs to the session's tenant and
// has that tenant's profile: with two tenants of one server, no hook sees an event or a
// file of the other tenant.
func TestHooksKeepTenantsApart(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		if !w.http {
			t.Skip("a server over stdio has one tenant")
		}
		p := newPlace(t)
		p.env = append(p.env, "TOKEN_A="+digest("aaaa"), "TOKEN_B="+digest("bbbb"))
		p.policy = p.file(t, "policy.yaml", `version: 1
defaults: {decision: allow, profile: writes}
profiles:
  writes: {fs: {system: true, workspace: rw}}
  reads: {fs: {system: true}}
tenants:
  a: {token: "${env:TOKEN_A}"}
  b: {token: "${env:TOKEN_B}", profile: reads}
`)
		folder := filepath.Dir(filepath.Dir(p.file(t, "mine/tool_use/sync-a.bash", `in=$(cat)
[ -d /workspace ] && w=writes || w=reads
echo "{\"note\": \"$w $(grep -o '"tenant":"[ab]"' <<<"$in" | tr -d '"') $(ls /tmp)\"}"
`)))
		p.flags = []string{"--hooks", folder}
		s := p.start(t, w)
		for _, tt := range []struct{ token, want string }{
			{"aaaa", "[hook] writes tenant:a "}, {"bbbb", "[hook] reads tenant:b "}, {"aaaa", "[hook] writes tenant:a "},
		} {
			c := s.connectAs(t, w, nil, tt.token)
			all := c.texts(t, "Bash", map[string]any{"command": "touch /tmp/of-$RANDOM"})
			if got := all[len(all)-1]; strings.TrimSpace(got) != strings.TrimSpace(tt.want) {
				t.Errorf("the hook of %s notes %q, want %q", tt.token, got, tt.want)
			}
		}
	})
}

// TestOnlySyncHooksAreWaitedFor checks that a call only waits for a hook whose name begins
// with sync-.
func TestOnlySyncHooksAreWaitedFor(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		for _, name := range []string{"hook.sh", "sync-hook.sh"} {
			p := newPlace(t)
			began, goOn := filepath.Join(p.dir, "began"), filepath.Join(p.dir, "go-on")
			for _, pipe := range []string{began, goOn} {
				if err := unix.Mkfifo(pipe, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p.file(t, "mine/tool_use/"+name, fmt.Sprintf("echo began >%s; read line <%s; echo \"{\\\"note\\\": \\\"$line\\\"}\"\n", began, goOn))
			p.flags = p.outside(t)
			s := p.start(t, w)
			c := s.connect(t, w, nil)
			answer := make(chan []string, 1)
			ask := func() { answer <- c.texts(t, "TaskManager", map[string]any{"action": "list"}) }
			var texts []string
			if name == "hook.sh" {
				ask() // the call is answered although the hook has not begun
				texts = <-answer
				read(t, began)
				write(t, goOn, "nobody hears this\n")
			} else {
				go ask()
				read(t, began)
				select {
				case got := <-answer:
					t.Errorf("the call was answered before its hook: %q", got)
				default:
				}
				write(t, goOn, "heard\n")
				texts = <-answer
			}
			if got := strings.Contains(strings.Join(texts, "\n"), "[hook] heard"); got != (name != "hook.sh") {
				t.Errorf("%s: the call is answered %q", name, texts)
			}
			s.stop()
		}
	})
}

// read waits until a program writes into a pipe.
func read(t *testing.T, pipe string) {
	t.Helper()
	if text, err := os.ReadFile(pipe); err != nil || len(text) == 0 {
		t.Errorf("%s: got %q, %v", pipe, text, err)
	}
}

// write waits until a program reads from a pipe.
func write(t *testing.T, pipe, text string) {
	t.Helper()
	if err := os.WriteFile(pipe, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

// TestAHookOnTheHostDiesWithTheServer checks that a hook on the host does not outlive
// belljar, and that a process that it has put into a session of its own does not either,
// even if belljar is killed.
func TestAHookOnTheHostDiesWithTheServer(t *testing.T) {
	if testenv.CgroupDir(t) == "" {
		t.Skip("without a cgroup the hook itself dies, and not what left its process group")
	}
	p := newPlace(t)
	pipe := filepath.Join(p.dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p.file(t, "mine/session_start/x.sh", "setsid sh -c 'echo up; exec sleep 1000' >"+pipe+" & sleep 1000\n")
	p.flags = p.outside(t)
	s := p.start(t, wires[0])
	s.connect(t, wires[0], nil)
	r, err := os.Open(pipe) // waits for the writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 8)
	if n, err := r.Read(buf); n == 0 {
		t.Fatalf("the hook's program says nothing: %v", err)
	}
	s.kill()
	if n, err := r.Read(buf); n != 0 { // the end of file comes when the writer has ended
		t.Errorf("got %q, %v", buf[:n], err)
	}
}
