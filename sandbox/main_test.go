package sandbox_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/escape"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if os.Args[0] == boxinit.InitName {
		lie()
	}
	escape.Main()
	if os.Args[0] == clientName {
		client()
	}
	bypassMain()
	if marker := os.Getenv(childEnv); marker != "" {
		child(marker)
	}
	if os.Getenv(layersEnv) != "" {
		if err := layered(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.NeedForExamples(testenv.UserNamespaces, testenv.Bash)
	testenv.Main(m)
}

// restEnv, if it is not empty, makes boxes park as soon as nothing runs in them, in all
// tests except those of parking.
const restEnv = "BELLJAR_TEST_PARK"

// world returns a supervisor over an empty workspace, and the workspace.
func world(t testing.TB) (*sandbox.Supervisor, string) {
	t.Helper()
	return worldOf(t, sandbox.Config{})
}

func worldOf(t testing.TB, cfg sandbox.Config) (*sandbox.Supervisor, string) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces)
	cfg.Workspace = t.TempDir()
	s, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(restEnv) != "" && !strings.HasPrefix(t.Name(), "TestPark") {
		s.SetRest(time.Nanosecond)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if n := testenv.Patience(t); n > 1 {
		// A slow init would otherwise be taken for an init that hangs.
		s.SetPatience(n * 10 * time.Second)
	}
	return s, cfg.Workspace
}

// openBox opens a box for a grant in a world of its own.
func openBox(t testing.TB, g policies.Grant) (*sandbox.Box, string) {
	t.Helper()
	return openIn(t, sandbox.Config{}, g)
}

// openCold is openBox with a new process for every command.
func openCold(t testing.TB, g policies.Grant) (*sandbox.Box, string) {
	t.Helper()
	return openIn(t, sandbox.Config{Cold: true}, g)
}

func openIn(t testing.TB, cfg sandbox.Config, g policies.Grant) (*sandbox.Box, string) {
	t.Helper()
	s, dir := worldOf(t, cfg)
	b, err := s.Open(t.Context(), "box", g)
	if err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// shell runs a script and returns its result and all of its output.
func shell(t testing.TB, b *sandbox.Box, script string) (sandbox.Result, string) {
	t.Helper()
	r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: script, Timeout: 30 * time.Second * testenv.Patience(t)})
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	return r, read(t, r.Output)
}

func read(t testing.TB, o *sandbox.Output) string {
	t.Helper()
	c, err := o.Cut(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Text)
}

// write puts a file into a directory of the host.
func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func grant(t testing.TB) policies.Grant { return policytest.Grant(t) }

// lines joins the lines of a script.
func lines(l ...string) string { return strings.Join(l, "\n") }
