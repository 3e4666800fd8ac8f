package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
	"belljar.dev/sandbox/images/imagetest"
)

func TestMain(m *testing.M) {
	// The helpers of a command under test start as this test binary.
	sandbox.Init()
	escape.Main()
	testenv.Parallel(8)
	testscript.Main(testenv.Checked(m), map[string]func(){"belljar": main, path.Base(toolkit.Program): main, "filtered": filtered, "listener": listener, "unnested": unnested, "echoes": echoes, "echoesTLS": echoesTLS, "proxies": proxies, sdkServerName: sdkServer, relayName: relay})
}

func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestLogin runs the scripts for a host with systemd, as a user who has logged in there.
func TestLogin(t *testing.T) {
	testenv.Need(t, testenv.Login)
	runScripts(t, "testdata/login")
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("where a cmp failed and the new output is right, -update writes it into the script: read the diff")
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       golden.Update(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           condition,
		Setup: func(e *testscript.Env) error {
			// Scripts that build use the cache and the flags of this test: nothing is compiled twice.
			if dir, err := os.UserCacheDir(); err == nil {
				e.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(dir, "go-build")))
			}
			e.Setenv("GOFLAGS", os.Getenv("GOFLAGS"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			return os.MkdirAll(filepath.Join(e.WorkDir, "ws"), 0o750)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sub":       sub,
			"taken":     taken,
			"layout":    layout(t),
			"webserver": webserver,
		},
	})
}

// condition reports whether boxes can run here, whether Caddy, curl, git, nginx, Python or
// a Chromium is installed, or whether the test runs as root. It returns an error if
// TEST_REQUIRE asks for something that is missing. A script runs in a test of its own, so
// it must not skip the test that started it.
func condition(cond string) (bool, error) {
	needs := map[string][]testenv.Thing{
		"boxes":    {testenv.UserNamespaces, testenv.Bash},
		"caddy":    {testenv.Curl, testenv.Caddy},
		"chromium": {testenv.Chromium},
		"curl":     {testenv.Curl},
		"git":      {testenv.Git},
		"nginx":    {testenv.Curl, testenv.Nginx},
		"python":   {testenv.Python},
	}
	if cond == "root" {
		return testenv.Root.Missing() == "", nil
	}
	things, known := needs[cond]
	if !known {
		return false, fmt.Errorf("condition %q is not known", cond)
	}
	return testenv.Have(things...)
}

// sub rewrites files so that what differs from run to run or from host to host has one
// spelling: sub FILE... It replaces numbers of milliseconds, ports, ids and this script's
// own directory.
func sub(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sub FILE...")
	}
	for _, name := range args {
		text := ts.ReadFile(name)
		text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
		for _, r := range rewrites {
			text = r.pattern.ReplaceAllString(text, r.with)
		}
		if err := os.WriteFile(ts.MkAbs(name), []byte(text), 0o600); err != nil {
			ts.Fatalf("%v", err)
		}
	}
}

// taken opens a port of this machine for the rest of the script and puts its
// address into a variable: taken NAME.
func taken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: taken NAME")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// layout makes an OCI image layout with bash and the libraries that it needs. Its second
// layer hides a file of the first. layout puts the directory into a variable: layout NAME.
func layout(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: layout NAME")
		}
		base := append(imagetest.HostRoot(t, "bash", "cat"), imagetest.File("etc/motd", "old\n", 0o644), imagetest.File("etc/gone", "", 0o644))
		top := imagetest.Tar(t, imagetest.File("etc/motd", "hello\n", 0o644), imagetest.File("etc/.wh.gone", "", 0o644))
		ts.Setenv(args[0], imagetest.Layout(t, imagetest.Runtime{Env: []string{"FROM=image"}, User: "web", WorkingDir: "/srv/app"}, imagetest.Tar(t, base...), top))
	}
}
