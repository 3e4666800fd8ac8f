package sandbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// execPolicy denies git push, asks a person about "stub no", and allows everything else.
const execPolicy = `version: 1
defaults: {decision: deny, profile: p}
profiles:
  p: {fs: {system: true, workspace: rw}, exec: %s}
rules:
  - {id: work, match: {tool: Bash}, decision: allow}
  - {id: no-push, match: {tool: Bash, command: "git push **"}, decision: deny, reason: "Pushing is for people."}
  - {id: ask-stub, match: {tool: Bash, command: "stub no"}, decision: ask}
`

// execGrant returns a grant of execPolicy with that mode of exec.
func execGrant(t testing.TB, mode string) policies.Grant {
	t.Helper()
	p, err := policies.Parse("exec.yaml", fmt.Appendf(nil, execPolicy, mode))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Decide(policies.Facts{Tenant: "t", Session: "s", Tool: "Bash", Command: "true"})
	if d.Verdict != policies.Allow {
		t.Fatal(d)
	}
	return d.Grant
}

// stubGit puts a git into the PATH of a box that leaves a mark when it runs.
const stubGit = `mkdir -p /tmp/bin; printf '#!/bin/sh\necho RAN git "$@"\n' > /tmp/bin/git; chmod +x /tmp/bin/git; export PATH=/tmp/bin:$PATH; `

// execForms are ways to start git push that the text of the command does not show.
var execForms = []struct {
	name   string
	needs  *testenv.Thing
	script string
}{
	{"variable", nil, `X=gi; ${X}t push`},
	{"substitution", nil, `$(echo git) push`},
	{"python", &testenv.Python, `python3 -c 'import os; os.system("git push")'`},
	{"find", nil, `find /tmp/bin -maxdepth 0 -exec git push \;`},
	{"xargs", nil, `echo push | xargs git`},
	{"awk", nil, `awk 'BEGIN{system("gi" "t push")}'`},
	{"perl", &testenv.Perl, `perl -e 'exec "git", "push"'`},
}

func TestExecForms(t *testing.T) {
	for _, cold := range []bool{false, true} {
		for _, mode := range []string{"off", "observe", "enforce"} {
			b, _ := openIn(t, sandbox.Config{Cold: cold}, execGrant(t, mode))
			shell(t, b, "true")
			for _, f := range execForms {
				t.Run(fmt.Sprintf("%s/%s/cold=%v", mode, f.name, cold), func(t *testing.T) {
					if f.needs != nil {
						testenv.Need(t, *f.needs)
					}
					if !cold && !b.WaitWarm() {
						t.Fatal("there is no warm shell")
					}
					r, out := shell(t, b, stubGit+f.script)
					pushes := slices.IndexFunc(r.Execs.List, func(e sandbox.Exec) bool {
						return strings.Join(e.Argv, " ") == "git push"
					})
					ran := strings.Contains(out, "RAN git push")
					switch mode {
					case "off":
						if !ran || len(r.Execs.List) > 0 {
							t.Errorf("output %q, execs %v; want that it runs and is not seen", out, r.Execs)
						}
					case "observe":
						if !ran || pushes < 0 || r.Execs.List[pushes].Stopped || r.Execs.List[pushes].Verdict != policies.Deny {
							t.Errorf("output %q, execs %+v; want that it runs and is seen", out, r.Execs)
						}
					case "enforce":
						if ran || pushes < 0 || !r.Execs.List[pushes].Stopped || len(r.Execs.Stopped) != 1 {
							t.Fatalf("output %q, execs %+v; want that it is stopped", out, r.Execs)
						}
						said := r.Execs.Stopped[0].Refusal().Text()
						if !strings.HasPrefix(said, "BLOCKED by policy rule no-push (exec.yaml:7): ") || !strings.Contains(said, "/tmp/bin/git push was not started") {
							t.Errorf("it says %q", said)
						}
					}
				})
			}
		}
	}
}

// TestExecAsk checks that a program about which a person would be asked does not start
// either.
func TestExecAsk(t *testing.T) {
	b, _ := openBox(t, execGrant(t, "enforce"))
	r, out := shell(t, b, `cd /tmp; printf '#!/bin/sh\necho RAN\n' > stub; chmod +x stub; A=no; ./stub yes; ./stub $A; echo $?; PATH=/tmp; stub no; echo $?`)
	if strings.Count(out, "RAN") != 1 || strings.Count(out, "126") != 2 || strings.Count(out, "Operation not permitted") != 2 {
		t.Errorf("output %q; want one RAN and two refusals", out)
	}
	if len(r.Execs.Stopped) != 2 || r.Execs.Stopped[0].Decision.Rule != "ask-stub" {
		t.Errorf("stopped: %+v", r.Execs.Stopped)
	}
}

// TestExecPath has programs looked up along PATH if only some programs are allowed: a
// directory of PATH without the program must not count as a refusal.
func TestExecPath(t *testing.T) {
	b, _ := openBox(t, policytest.GrantFor(t, `version: 1
defaults: {decision: deny}
profiles: {p: {fs: {system: true}, exec: enforce}}
rules:
  - {id: some, match: {command: ["xargs **", "true", "exit", "echo **"]}, decision: allow}
`, policies.Facts{Tool: "Bash", Command: "true"}))
	r, out := shell(t, b, "exec 2>/dev/null; echo | xargs true; echo $?; echo x | xargs false; echo $?")
	if out != "0\n126\n" || len(r.Execs.Stopped) != 1 || r.Execs.Stopped[0].Count != 1 {
		t.Errorf("output %q, execs %+v; want that true runs and false does not", out, r.Execs)
	}
}

// TestExecStorm starts more programs than are recorded.
func TestExecStorm(t *testing.T) {
	for _, mode := range []string{"observe", "enforce"} {
		b, _ := openBox(t, execGrant(t, mode))
		r, out := shell(t, b, `for i in $(seq 300); do /bin/true; done; for i in $(seq 200); do /bin/true $i; done; echo $?`)
		if out != "0\n" || len(r.Execs.List) != 64 || r.Execs.List[1].Count != 300 || r.Execs.More != 200-61 {
			t.Errorf("%s: output %q, %d execs, more %d, first %+v; want 64, and %d more", mode, out, len(r.Execs.List), r.Execs.More, r.Execs.List[:2], 200-61)
		}
	}
}

// TestExecLong gives programs more words than are recorded.
func TestExecLong(t *testing.T) {
	for _, mode := range []string{"observe", "enforce"} {
		b, _ := openBox(t, execGrant(t, mode))
		// Nine words of 116 KiB; the kernel accepts up to 128 KiB for each.
		r, out := shell(t, b, stubGit+`w=$(head -c 118784 /dev/zero | tr '\0' x); /bin/true $w $w $w $w $w $w $w $w $w; echo $?; git push $w $w $w $w | wc -c; /bin/true $(seq 60000); echo $?`)
		want := []string{"0", "475153", "0"}
		if mode == "enforce" {
			want[1] = "0"
		}
		numbers := slices.DeleteFunc(strings.Fields(out), func(s string) bool { return strings.Trim(s, "0123456789") != "" })
		if !slices.Equal(numbers, want) { // bash writes messages in between
			t.Errorf("%s: output ends in %q, want %q", mode, out[max(0, len(out)-200):], want)
		}
		for _, e := range r.Execs.List {
			if n := len(strings.Join(e.Argv, "")); n > 1<<10 || len(e.Argv) > 32 {
				t.Errorf("%s: %d words and %d bytes were kept", mode, len(e.Argv), n)
			}
			if len(e.Argv) > 1 && strings.HasPrefix(e.Argv[1], "xxx") && !e.Cut {
				t.Errorf("%s: it is not said that words are missing: %+v", mode, e)
			}
		}
	}
}

// TestExecThread executes from a thread that is not the first one.
func TestExecThread(t *testing.T) {
	testenv.Need(t, testenv.Python)
	for _, mode := range []string{"observe", "enforce"} {
		b, _ := openBox(t, execGrant(t, mode))
		r, out := shell(t, b, stubGit+`python3 -c '
import os, threading
def push():
    try: os.execvp("git", ["git", "push"])
    except OSError as e: print(e.strerror, flush=True); os._exit(3)
t = threading.Thread(target=push); t.start(); t.join()'; echo $?`)
		want := "RAN git push\n0\n"
		if mode == "enforce" {
			want = "Operation not permitted\n3\n"
		}
		if out != want || !slices.ContainsFunc(r.Execs.List, func(e sandbox.Exec) bool { return slices.Equal(e.Argv, []string{"git", "push"}) }) {
			t.Errorf("%s: output %q, execs %+v; want %q", mode, out, r.Execs, want)
		}
	}
}

// TestExecLies has programs that call themselves something else, have no words at all, or
// give the kernel an invalid address.
func TestExecLies(t *testing.T) {
	testenv.Need(t, testenv.Python)
	for _, mode := range []string{"observe", "enforce"} {
		b, _ := openBox(t, execGrant(t, mode))
		r, out := shell(t, b, stubGit+`(exec -a innocent git push); python3 -c '
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(path, argv):
    libc.syscall(59 if os.uname().machine == "x86_64" else 221, path, argv, None)
    print(errno.errorcode[ctypes.get_errno()], flush=True)
call(ctypes.c_void_p(8), None)
call(b"/nowhere", None)
call(b"/bin/true", ctypes.c_void_p(16))
fd = os.open("/tmp/bin/git", os.O_RDONLY)
os.set_inheritable(fd, True)
try: os.execve(fd, ["git", "push"], {"PATH": "/bin"})
except OSError as e: print(e.strerror)'`)
		want := "RAN git push\nEFAULT\nENOENT\nEFAULT\nRAN git push\n"
		if mode == "enforce" {
			want = "EPERM\nENOENT\nEPERM\nOperation not permitted\n" // after the messages of bash
		}
		if out != want && (mode != "enforce" || !strings.HasSuffix(out, want) || strings.Contains(out, "RAN")) {
			t.Errorf("%s: output %q, want %q", mode, out, want)
		}
		if !slices.ContainsFunc(r.Execs.List, func(e sandbox.Exec) bool { return e.Path == "/tmp/bin/git" && e.Argv[0] == "innocent" }) {
			t.Errorf("%s: the name it gave itself hides the file: %+v", mode, r.Execs.List)
		}
	}
}

// TestExecJobs checks that the programs of commands that run at the same time are told
// apart.
func TestExecJobs(t *testing.T) {
	b, _ := openBox(t, execGrant(t, "observe"))
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Shell: "until [ -e /tmp/go ]; do read -t 0.02 < /dev/zero || :; done; /bin/uname -s", Timeout: time.Minute, Background: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := shell(t, b, "/bin/true one; : > /tmp/go")
	end, err := j.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	has := func(r sandbox.Result, word string) bool {
		return slices.ContainsFunc(r.Execs.List, func(e sandbox.Exec) bool { return slices.Contains(e.Argv, word) })
	}
	if !has(r, "one") || !has(end, "/bin/uname") {
		t.Errorf("foreground %+v, background %+v", r.Execs, end.Execs)
	}
	if b.HasLeaves() && has(end, "one") {
		t.Errorf("the background task is told what another command started: %+v", end.Execs)
	}
}

// TestExecListenerGone takes the listener away from a box: nothing is started
// any more, and nothing hangs.
func TestExecListenerGone(t *testing.T) {
	for _, mode := range []string{"observe", "enforce"} {
		b, _ := openBox(t, execGrant(t, mode))
		if _, out := shell(t, b, "/bin/echo ok"); out != "ok\n" {
			t.Fatalf("output %q", out)
		}
		b.LoseListener()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		r, err := b.Run(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: "/bin/echo out", Timeout: 30 * time.Second})
		if err == nil && strings.Contains(read(t, r.Output), "out\n") {
			t.Errorf("%s: it ran: %+v", mode, r)
		}
		if r.Status == sandbox.TimedOut || ctx.Err() != nil {
			t.Errorf("%s: it hung: %+v", mode, r)
		}
	}
}

// TestExecUnsupported uses a host that cannot show execs.
func TestExecUnsupported(t *testing.T) {
	sandbox.WithoutListeners(t)
	b, _ := openBox(t, execGrant(t, "observe"))
	if r, out := shell(t, b, "/bin/echo ok"); out != "ok\n" || len(r.Execs.List) > 0 {
		t.Errorf("observe: output %q, execs %+v; want that it runs unseen", out, r.Execs)
	}
	s, _ := world(t)
	if _, err := s.Open(t.Context(), "box", execGrant(t, "enforce")); err == nil || !strings.Contains(err.Error(), "exec: enforce") {
		t.Errorf("enforce: %v; want a refusal", err)
	}
}

// TestExecCovers checks that calls of one mode do not run in boxes of another mode.
func TestExecCovers(t *testing.T) {
	b, _ := openBox(t, execGrant(t, "observe"))
	if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: execGrant(t, "enforce"), Shell: "true", Timeout: time.Second}); err == nil {
		t.Error("a call to be enforced ran in a box that only observes")
	}
}

// BenchmarkExec measures the cost of looking at each program: 200 programs, in boxes with
// and without exec.
func BenchmarkExec(b *testing.B) {
	const many = "for i in {1..200}; do /bin/true; done"
	var ways []way
	for _, mode := range []string{"off", "observe", "enforce"} {
		box, _ := openCold(b, execGrant(b, mode))
		ways = append(ways, way{name: mode, run: func() { shell(b, box, many) }, limit: 1.15})
	}
	race(b, 40, ways...)
}
