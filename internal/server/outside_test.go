package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// A bait is a set of files that an agent writes so that its own code runs. That code
// creates the witness file. In the texts, WITNESS stands for the path of the witness file,
// and WS for the path of the workspace as the program sees it.
type bait struct {
	files map[string]string // contents of the files by their paths in the workspace
	git   bool              // whether the workspace is also a repository
	env   []string          // variables of the process that starts the program
}

// The code that creates the witness file: a line of sh, and a module in each other
// language.
const (
	hitShell  = "echo hit >WITNESS\n"
	hitPython = "open('WITNESS', 'w').write('hit')\n"
	hitNode   = "require('fs').writeFileSync('WITNESS', 'hit')\n"
	hitPerl   = "open(my $f, '>', 'WITNESS'); print $f 'hit'; close $f; 1;\n"
)

// baits are the baits for all kinds of programs.
var baits = map[string]bait{
	"json.py":       {files: map[string]string{"json.py": hitPython}},
	"base64.py":     {files: map[string]string{"base64.py": hitPython}},
	"json package":  {files: map[string]string{"json/__init__.py": hitPython}},
	"sitecustomize": {files: map[string]string{"lib/sitecustomize.py": hitPython}, env: []string{"PYTHONPATH=WS/lib"}},
	"PYTHONPATH":    {files: map[string]string{"lib/json.py": hitPython, "lib/base64.py": hitPython}, env: []string{"PYTHONPATH=WS/lib"}},

	"NODE_OPTIONS": {files: map[string]string{"x.js": hitNode}, env: []string{"NODE_OPTIONS=--require WS/x.js"}},
	"NODE_PATH":    {files: map[string]string{"lib/left.js": hitNode}, env: []string{"NODE_PATH=WS/lib"}},
	"node_modules": {files: map[string]string{"node_modules/left/index.js": hitNode}},
	"npm scripts":  {files: map[string]string{"package.json": `{"name": "x", "version": "1.0.0", "scripts": {"build": "echo hit >WITNESS"}}`}},

	"PERL5OPT": {files: map[string]string{"lib/Evil.pm": "package Evil; " + hitPerl}, env: []string{"PERL5OPT=-MEvil", "PERL5LIB=WS/lib"}},
	"PERL5LIB": {files: map[string]string{"lib/JSON/PP.pm": "package JSON::PP; " + hitPerl}, env: []string{"PERL5LIB=WS/lib"}},

	"BASH_ENV":   {files: map[string]string{"funcs": hitShell}, env: []string{"BASH_ENV=WS/funcs"}},
	"a function": {env: []string{"BASH_FUNC_ls%%=() { echo hit >WITNESS; }"}},
	"ENV":        {files: map[string]string{"funcs": hitShell}, env: []string{"ENV=WS/funcs", "BASH_ENV=WS/funcs"}},

	"PATH of .":   {files: map[string]string{"ls": "#!/bin/sh\n" + hitShell, "id": "#!/bin/sh\n" + hitShell}, env: []string{"PATH=.:PATH"}},
	"PATH of bin": {files: map[string]string{"bin/ls": "#!/bin/sh\n" + hitShell, "bin/id": "#!/bin/sh\n" + hitShell}, env: []string{"PATH=WS/bin:PATH"}},
	"empty PATH":  {files: map[string]string{"ls": "#!/bin/sh\n" + hitShell, "id": "#!/bin/sh\n" + hitShell}, env: []string{"PATH=:PATH"}},
	"an interpreter": {
		files: map[string]string{"bin/python3": "#!/bin/sh\n" + hitShell, "bin/sh": "#!/bin/bash\n" + hitShell, "bin/node": "#!/bin/sh\n" + hitShell, "bin/git": "#!/bin/sh\n" + hitShell},
		env:   []string{"PATH=WS/bin:PATH"},
	},

	"fsmonitor":    {git: true, files: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"echo hit >WITNESS; false\"\n"}},
	"a filter":     {git: true, files: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n[filter \"x\"]\n\tclean = \"echo hit >WITNESS; cat\"\n", ".gitattributes": "* filter=x\n"}},
	"a git alias":  {git: true, files: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n[alias]\n\tst = !echo hit >WITNESS\n"}},
	"a git file":   {files: map[string]string{"cfg": "[alias]\n\tst = !echo hit >WITNESS\n"}, env: []string{"GIT_CONFIG_GLOBAL=WS/cfg"}},
	"GIT_DIR":      {git: true, files: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"echo hit >WITNESS; false\"\n"}, env: []string{"GIT_DIR=WS/.git", "GIT_WORK_TREE=WS"}},
	"git's helper": {files: map[string]string{"lib/git-st": "#!/bin/sh\n" + hitShell}, env: []string{"GIT_EXEC_PATH=WS/lib"}},

	"Makefile":    {files: map[string]string{"Makefile": "all:\n\t@echo hit >WITNESS\n"}},
	"MAKEFILES":   {files: map[string]string{"m": "X := $(shell echo hit >WITNESS)\n"}, env: []string{"MAKEFILES=WS/m"}},
	"GNUmakefile": {files: map[string]string{"GNUmakefile": "X := $(shell echo hit >WITNESS)\nall:\n"}},

	"dotfiles": {files: map[string]string{".envrc": hitShell, ".bashrc": hitShell, ".profile": hitShell, ".npmrc": "ignore-scripts=false\n", ".tool-versions": "python x\n"}},
}

// lured are the programs in the form in which an operator's script or secret runs them,
// each with the baits that it takes if it is started in the workspace.
var lured = []struct {
	argv  []string
	baits string
}{
	{[]string{"python3", "-c", "import json, base64"}, "json.py,base64.py,json package,sitecustomize,PYTHONPATH,an interpreter"},
	{[]string{"python3", "-m", "base64", "-t"}, "base64.py,PYTHONPATH,sitecustomize"},
	{[]string{"python3", "-m", "json.tool", "--help"}, "json.py,json package"},
	{[]string{"node", "-e", "try { require('left') } catch {}"}, "node_modules,NODE_PATH,NODE_OPTIONS,an interpreter"},
	{[]string{"node", "--version"}, "an interpreter"},
	{[]string{"npm", "run", "build"}, "npm scripts"},
	{[]string{"perl", "-MJSON::PP", "-e", "1"}, "PERL5LIB,PERL5OPT"},
	{[]string{"bash", "-c", "ls; id"}, "BASH_ENV,a function,PATH of .,PATH of bin,empty PATH"},
	{[]string{"sh", "-c", "ls; id"}, "PATH of .,PATH of bin,empty PATH,an interpreter"},
	{[]string{"env", "bash", "-c", "ls"}, "ENV,BASH_ENV"},
	{[]string{"git", "status", "--short"}, "fsmonitor,GIT_DIR,an interpreter"},
	{[]string{"git", "st"}, "a git alias,a git file,git's helper"},
	{[]string{"git", "diff"}, "fsmonitor,a filter,GIT_DIR"},
	{[]string{"make"}, "Makefile,MAKEFILES,GNUmakefile"},
}

// A trap is a workspace with baits.
type trap struct {
	t       *testing.T
	ws      string
	witness string
}

// fill replaces WITNESS and WS in a text. ws is the path of the workspace.
func (p trap) fill(text, ws string) string {
	return strings.NewReplacer("WITNESS", p.witness, "WS", ws).Replace(text)
}

// lay empties the workspace and writes baits into it. seen is the path of the workspace as
// the programs see it.
func (p trap) lay(seen string, names []string) {
	p.t.Helper()
	_ = os.Remove(p.witness)
	old, err := os.ReadDir(p.ws)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range old {
		if err := os.RemoveAll(filepath.Join(p.ws, e.Name())); err != nil {
			p.t.Fatal(err)
		}
	}
	write := func(name, text string) {
		name = filepath.Join(p.ws, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, name := range names {
		if baits[name].git {
			for _, dir := range []string{"objects", "refs/heads"} {
				if err := os.MkdirAll(filepath.Join(p.ws, ".git", dir), 0o755); err != nil {
					p.t.Fatal(err)
				}
			}
			write(".git/HEAD", "ref: refs/heads/main\n")
			write("tracked", "x\n")
			// The index needs a file, so that git has something to compare.
			add := exec.CommandContext(p.t.Context(), "git", "-C", p.ws, "-c", "core.fsmonitor=false", "add", "tracked")
			if out, err := add.CombinedOutput(); err != nil {
				p.t.Fatalf("git add: %v: %s", err, out)
			}
			write("tracked", "changed\n")
		}
	}
	gitConfig := "" // several baits each have a part of this file
	for _, name := range names {
		for file, text := range baits[name].files {
			if file == ".git/config" {
				gitConfig += text
				text = gitConfig
			}
			write(file, p.fill(text, seen))
		}
	}
	_ = os.Remove(p.witness)
}

// environ returns base with the variables of the baits, as the process that starts a
// program has them.
func (p trap) environ(base []string, seen string, names []string) []string {
	env := append([]string(nil), base...)
	path := os.Getenv("PATH")
	for _, name := range names {
		for _, v := range baits[name].env {
			if list, ok := strings.CutPrefix(v, "PATH="); ok {
				path = strings.Replace(p.fill(list, seen), "PATH", path, 1)
				continue
			}
			env = append(env, p.fill(v, seen))
		}
	}
	return append(env, "PATH="+path)
}

// taken reports whether a bait was taken.
func (p trap) taken() bool {
	_, err := os.Stat(p.witness)
	return err == nil
}

// plain starts a program in the workspace without any protection.
func (p trap) plain(argv, env []string) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/env", argv...) // env searches the PATH of its own environment
	cmd.Dir, cmd.Env = p.ws, env
	_ = cmd.Run() // its exit status does not matter
}

// needed declares that a test needs the programs of lured.
func needed(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Python, testenv.Node, testenv.Npm, testenv.Perl, testenv.Git)
}

// openTrap opens a server in a workspace for baits. The profile sets variables of the same
// kinds as the variables of the baits.
func openTrap(t *testing.T) (trap, *Server) {
	t.Helper()
	dir := t.TempDir()
	p := trap{t: t, ws: filepath.Join(dir, "ws"), witness: filepath.Join(os.TempDir(), "belljar-witness-"+strconv.FormatUint(rand.Uint64(), 36))}
	if err := os.Mkdir(p.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(p.witness) })
	t.Chdir(p.ws) // the directory in which clients start belljar
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(`version: 1
defaults: {decision: allow, profile: dev}
profiles:
  dev:
    fs: {system: true, workspace: rw}
    env:
      PATH: ".:/workspace/bin:/usr/local/bin:/usr/bin:/bin"
      PYTHONPATH: /workspace/lib:/workspace
      NODE_PATH: /workspace/lib
      PERL5LIB: /workspace/lib
      BASH_ENV: /workspace/funcs
      ENV: /workspace/funcs
      GIT_DIR: /workspace/.git
      GIT_WORK_TREE: /workspace
      MAKEFILES: /workspace/m
      HOME: /workspace
`), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Open(t.Context(), Config{Workspace: p.ws, State: filepath.Join(dir, "state"), Policy: policy, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return p, w
}

// asHook returns a hook that runs a program, in a random language. At its end, the hook
// prints TAKEN if a bait was taken, because the test cannot see the witness file in a box.
func (p trap) asHook(r *rand.Rand, argv []string) (name, text string) {
	quoted := config.Quote(argv)
	look := "\n[ -e " + p.witness + " ] && echo TAKEN; true\n"
	switch r.IntN(4) {
	case 0:
		return "x.sh", quoted + look
	case 1:
		return "sync-x.bash", quoted + "\nls >/dev/null" + look
	case 2:
		return "sync-x.py", fmt.Sprintf("import json, base64, subprocess, os\nsubprocess.run(['/bin/sh', '-c', %q])\nif os.path.exists(%q): print('TAKEN')\n", quoted, p.witness)
	}
	return "x.js", fmt.Sprintf("try { require('left') } catch {}\nrequire('child_process').spawnSync('/bin/sh', ['-c', %q])\nif (require('fs').existsSync(%q)) console.log('TAKEN')\n", quoted, p.witness)
}

// TestHookEnvironment checks that a hook in a box gets no variable with a part that names a
// place that an agent can write, and runs without it.
func TestHookEnvironment(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	_, w := openTrap(t)
	d := w.Policy.Decide(policies.Facts{Tenant: policies.LocalTenant, Tool: "Bash", Command: "true"})
	kept := []string{"LANG=C", "SSL_CERT_FILE=/etc/ssl/cert.pem", "https_proxy=http://127.0.0.1:3128"}
	env, err := (&boxRunner{w.home}).environ(append([]string{
		"HOME=/workspace", "SSL_CERT_DIR=/etc/ssl/certs:/workspace/certs", "KRB5CCNAME=FILE:/workspace/cc", "XDG_CONFIG_HOME=../workspace/config",
		"DBUS_SESSION_BUS_ADDRESS=unixexec:path=/bin/sh",
	}, kept...), d.Grant, hooks.Command{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name != "GIT_CEILING_DIRECTORIES" && name != "HOOK_WORKSPACE" && (strings.Contains(value, "workspace") || strings.Contains(value, "unixexec")) {
			t.Errorf("a hook gets %s", v)
		}
	}
	for _, v := range kept {
		if !slices.Contains(env, v) {
			t.Errorf("a hook does not get %s", v)
		}
	}
}

// TestNoBaitIsTaken checks that nothing that an agent writes into its workspace runs when
// belljar runs a secret's program, a hook on the host or a hook in a box, whatever the
// operator's environment or a profile refers to. As a control, the same program must take a
// bait when it is started in the workspace without protection.
func TestNoBaitIsTaken(t *testing.T) {
	needed(t)
	cases, r := testenv.Cases(t, 40)
	p, w := openTrap(t)
	host := os.Environ()
	took := make(map[string]int)
	for n := range cases {
		row := lured[r.IntN(len(lured))]
		all := strings.Split(row.baits, ",")
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		names := append(all[:1+r.IntN(len(all))], "dotfiles")
		// In addition a bait for another program.
		other := strings.Split(lured[r.IntN(len(lured))].baits, ",")
		names = append(names, other[r.IntN(len(other))])

		p.lay(p.ws, names)
		env := p.environ(host, p.ws, names)
		p.plain(row.argv, env)
		if !p.taken() {
			t.Errorf("case %d: %q takes no bait in the workspace (%q)", n, row.argv, names)
			continue
		}

		caller := []string{"secret", "hook on the host", "hook in a box"}[r.IntN(3)]
		took[caller]++
		seen := p.ws
		if caller == "hook in a box" {
			seen = "/workspace"
		}
		p.lay(seen, names)
		base := w.host.program()
		base.Inherit = env
		said := ""
		switch caller {
		case "secret":
			said, _ = config.ReadSecret(t.Context(), "s", policies.Secret{Command: row.argv}, base)
		default:
			said = p.hook(r, w, row.argv, caller == "hook on the host", env)
		}
		if p.taken() || strings.Contains(said, "TAKEN") {
			t.Errorf("case %d: a %s that runs %q takes one of %q: %s", n, caller, row.argv, names, cmp.Or(said, "(it says nothing)"))
		}
	}
	t.Logf("baits were out for %v", took)
}

// hook runs a program in a hook, and returns the output of the hook.
func (p trap) hook(r *rand.Rand, w *Server, argv []string, onHost bool, env []string) string {
	p.t.Helper()
	folder := filepath.Join(filepath.Dir(p.ws), "hooks")
	if err := os.RemoveAll(folder); err != nil {
		p.t.Fatal(err)
	}
	name, text := p.asHook(r, argv)
	if err := os.MkdirAll(filepath.Join(folder, "tool_use"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "tool_use", name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	cfg := hooks.Config{
		Folders: []hooks.Folder{{Dir: folder}}, Box: &boxRunner{w.home},
		Host: hooks.Host{Workspace: w.Workspace, Program: func() hostexec.Program {
			base := w.host.program()
			base.Inherit = env
			return base
		}},
	}
	if onHost {
		cfg.OnHost = []string{"tool_use/" + name}
	}
	s, err := hooks.New(p.t.Context(), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	ran, err := s.Test(p.t.Context(), hooks.Event{Name: hooks.ToolUse, Tenant: policies.LocalTenant, Time: time.Now()})
	if err != nil || len(ran) != 1 {
		p.t.Fatalf("got %v, %v", ran, err)
	}
	if ran[0].Failure != "" {
		p.t.Errorf("%s: the hook does not run: %s", name, ran[0].Failure)
	}
	return ran[0].Stdout + ran[0].Stderr
}

// TestEachBaitIsGood checks that each program takes each of its baits if it is started in
// the workspace.
func TestEachBaitIsGood(t *testing.T) {
	needed(t)
	p := trap{t: t, ws: t.TempDir(), witness: filepath.Join(t.TempDir(), "witness")}
	for _, row := range lured {
		for name := range strings.SplitSeq(row.baits, ",") {
			if _, ok := baits[name]; !ok {
				t.Fatalf("there is no bait %q", name)
			}
			p.lay(p.ws, []string{name})
			p.plain(row.argv, p.environ(os.Environ(), p.ws, []string{name}))
			if !p.taken() {
				t.Errorf("%q does not take %s", row.argv, name)
			}
		}
	}
}
