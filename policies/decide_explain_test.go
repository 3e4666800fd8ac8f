package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// TestDoubts checks what explain says about commands whose words do not say everything that
// they do, with a script for each reason.
func TestDoubts(t *testing.T) {
	p := careful(t)
	var b strings.Builder
	for _, script := range []string{
		// The call and its parts.
		"git log $X", "git log > out", "CI=1 make", "export A=1; make",
		// Names, wrappers and the arguments of wrappers.
		"$X push", "exec -a ls make", "eval \"$X\"", "eval 'a (b'", "bash -c \"$X\"", "bash -c 'a (b'", "bash script.sh", "bash -x", "bash --rcfile f -c ls", "BASH_ENV=f bash -c ls", "sh -c 'a <(b)'", "zsh -c ls",
		"env -S \"$X\"", "env --argv0=x ls", "env $X ls", "env --unknown ls", "env BASH_ENV=f bash", "flock f -c \"$X\"", "find . -exec ls", "su", "sudo -s", "sudo -i ls", "stdbuf --what ls",
		"ssh host ls", "parallel ls", "source f", "compgen -C ls", "/lib64/ld-linux-x86-64.so.2 ./x", "script f", "unshare --load-interp=x ls",
		// Other languages.
		"python3 -c 'x'", "python3 x.py -", "python3", "python3 -", "node -e 'x'", "perl", "awk 'BEGIN{system(\"id\")}'", "awk \"$X\"", "awk \"{$X}\"", "awk -f f", "sed '1e id'", "sed -f f", "php -r x", "sqlite3 x.db '.shell ls'", "psql x", "python3 -m timeit x", "perl -I lib -e x",
		// git and other programs with programs of their own.
		"git -c core.pager=x log", "git rebase -x \"$X\"", "git rebase -x", "git filter-branch --tree-filter ls", "git bisect run", "git submodule foreach \"$X\"", "git submodule foreach ls", "git difftool -x ls", "git grep -Oless x", "git grep --open=less x", "git fetch --upload-pa x .", "git push --receive-pack=x . main", "git grep --or -e a -e b", "git clone -u x . d",
		// The shell's own state.
		"set -k; ls", "hash -p f ls", "enable -f f ls", "alias x=ls", "mapfile -C ls f", "PS4=x; ls", "PS4=x ls", "for BASH_ENV in x; do ls; done", "read PS4 < f", "read -r 'BASH_ALIASES[ls]' < f", "command declare -n x=PS4", "shopt -so keyword", "PATH=p ls", "read -r PATH < f; ls", "GIT_PAGER=cat git log", "trap \"$X\" EXIT",
		// Expansions, subscripts and arithmetic.
		"echo ${x@P}", "echo ${!x}", "x='a[$(id)]'; echo ${!x}", "echo @(a|b)", "echo \"${x:-'a'}\"", "echo ${x['$(id)']}", "echo $(( '1' ))", "x='a[$(id)]'; echo $((x))", "test -v 'a[$(id)]'", "x='a[$(id)]'; read \"$y\"", "[[ -v 'a[$(id)]' ]]", "[[ 'a[$(id)]' -eq 1 ]]", "x='a[$(id)]'; [[ $y -eq 1 ]]", "declare -i x='a[$(id)]'", "declare -n x=y", "exec {fd[$(id)]}>f", "x=$'a\\x5b'; printf -v \"$y\" z", "echo ${PS4:=x}",
		"exec {fd[x]}>f", "x='a[$(id)]'; exec {a[0]}>f", "echo ${(f)x}", "coproc A=1 ls", "coproc >f", "coproc N { ls; }", "time -- ls", "coproc N ls", "x='a[$(id)]'; unset $y", "echo $((a b))", "echo ${x[a b]}", "let 'x[$(id)]=1'",
		// Commands that cannot be read.
		"git log )", "git log &&& ls", "ls\x00", "ls\r", "ls \x01", strings.Repeat("$(", 100), strings.Repeat("ls;", 1200), strings.Repeat("x", 70<<10),
		"eval " + strings.Repeat("'eval '", 9000) + "a", strings.Repeat("eval ", 40) + "a", strings.Repeat("nice ", 70) + "a",
	} {
		_, parts := p.Explain(bash(script))
		fmt.Fprintf(&b, "%s\n", policies.Clip(script, 100))
		said := 0
		for _, part := range parts {
			if part.Doubt != "" && said < 4 {
				said++
				fmt.Fprintf(&b, "  %s: %s\n", policies.Clip(part.Text, 60), part.Doubt)
			}
		}
		if said == 0 {
			fmt.Fprintf(&b, "  no doubt\n")
		}
	}
	golden.Equal(t, "doubts.golden", b.String())
}

// TestExplainIsPrintable checks that no text of a call reaches a terminal as the call has it,
// and that none is long.
func TestExplainIsPrintable(t *testing.T) {
	p := parse(t, head+`rules: [{id: r, match: {tool: "ext.*"}, when: 'int(args.n) > 1', decision: ask}]`)
	f := bash("cat <<'\x1b[2J" + strings.Repeat("E", 500) + "'\nx")
	f.Tool, f.Args = "ext.x", map[string]any{"n": "\x1b[31m" + strings.Repeat("9", 500)}
	_, parts := p.Explain(f)
	if len(parts) == 0 {
		t.Fatal("nothing is explained")
	}
	failed, doubted := false, false
	for _, part := range parts {
		said := []string{part.Text, part.Via, part.Words, part.Doubt}
		for _, m := range part.Matches {
			said = append(said, m.Failed)
			failed = failed || m.Failed != ""
		}
		doubted = doubted || part.Doubt != ""
		for _, s := range said {
			if policies.Clip(s, 210) != s {
				t.Errorf("got %q", s)
			}
		}
	}
	if !failed || !doubted {
		t.Errorf("the parts have no doubt, or the condition could be evaluated: %+v", parts)
	}
}

// TestOtherRefusals checks the refusals that no other golden file shows.
func TestOtherRefusals(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: look, match: {tool: Bash, command: "git log **", flags: [-n], env: [CI]}, decision: allow, limit: {calls: 2/min, concurrent: 1}}
  - {id: docs, match: {tool: ReadDocs, url: "https://go.dev/doc/**"}, decision: allow}
  - {id: hooks, match: {path: "**/.git/hooks/**"}, decision: deny, reason: The host runs them.}
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: ask}
  - {id: flags, match: {tool: Bash, command: "npm **", any_flag: ["--global"]}, decision: deny}
  - {id: shell, match: {tool: Bash, command: "{echo,npm} **"}, decision: allow}
  - {id: soon, match: {tool: Bash, command: "echo **"}, decision: deny, mode: warn, reason: It is noise., instead: Print less.}
  - {id: few, match: {tool: BackgroundBash}, when: commands.size() < 3, decision: allow}
  - {id: no-rm, match: {tool: BackgroundBash}, when: 'commands.exists(c, c[0] == "rm")', decision: deny}
  - {id: later, match: {tool: Bash, command: "echo b **"}, decision: ask, mode: warn}
`)
	env := bash("git log")
	env.Env = []string{"X"}
	with := bash("npm test")
	with.Env = []string{"X"}
	function, many, sways := bash("ls"), bash("ls"), bash("npm run x")
	function.Env, many.Env, sways.Env = []string{"BASH_FUNC_ls%%"}, make([]string, 1001), []string{"PATH"}
	image := func(s ...string) policies.Facts { return policies.Facts{Tool: "ReadImage", Paths: s} }
	var b strings.Builder
	say := func(d policies.Decision) { fmt.Fprintf(&b, "%s\n\n", d.Refusal("c-81f2")) }
	for _, f := range []policies.Facts{
		bash("git log --output=x"), env, bash("git log; X=1 git log"), bash("npm $X"), bash("git push"), bash("CI=1; X=1; git log $X"), with, bash("npm --glob x"),
		{Tool: "BackgroundBash", Command: "ls; ls $x"},
		{Tool: "BackgroundBash", Command: "ls; $x"},
		reads("https://go.dev/doc/../x"), reads("https://go.dev/doc/a%2fb"), reads("https://a b/"), reads("https://[::1/"), reads("mailto:a@b.example"), reads("https:///x"), reads("https://a_b!/"), reads("http://0x7f.1/"), reads("https://a.example:65536/"),
		image("a.png"), image("/a/../b.png"), image("/a\x00.png"), image(make([]string, 1001)...),
		{Tool: "ReadDocs", Hosts: []string{""}},
		function, many, sways,
	} {
		say(p.Decide(f))
	}
	allowed := p.Decide(bash("git log"))
	for _, retry := range []time.Duration{0, time.Second, 90 * time.Minute, 5 * time.Hour} {
		for _, l := range allowed.Limits {
			say(l.Beyond(allowed, retry))
		}
	}
	for _, script := range []string{"echo a", "npm test && echo b"} {
		for _, w := range p.Decide(bash(script)).Warnings {
			fmt.Fprintf(&b, "%s\n\n", w)
		}
	}
	say(policies.Decision{Part: "x", Verdict: policies.Deny})
	teams := loaded(t, "/srv/app")
	for _, f := range []policies.Facts{
		{Tenant: "gone", Tool: "Bash", Command: "ls"},
		{Tenant: "ci", Tool: "Bash", Command: "ls", Profile: "dev"},
		{Tenant: "team-a", Tool: "Bash", Command: "ls", Profile: "nosuch"},
		{Tenant: "ci", Tool: "Bash", Command: "npm ci"},
	} {
		say(teams.Decide(f))
	}
	alone := parse(t, head+"tenants: {ci: {token: \"${env:T}\"}}\n")
	say(alone.Decide(policies.Facts{Tenant: "ci", Tool: "Bash", Command: "ls", Profile: "net"}))
	golden.Equal(t, "refusal/others.golden", b.String())
}

// TestConditionsThatFail checks what explain says about conditions that cannot be
// evaluated.
func TestConditionsThatFail(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: slow, match: {tool: ReadDocs}, when: args.wait_ms > 10000, decision: deny}
  - {id: night, match: {tool: ReadDocs}, when: now.getHours() < 6, decision: deny}
  - {id: other, match: {tool: "ext.*"}, when: args.force, decision: deny}
`)
	var b strings.Builder
	for _, f := range []policies.Facts{
		{Tool: "ReadDocs", URLs: []string{"https://go.dev/"}, Args: map[string]any{"wait_ms": 1.5}},
		{Tool: "ReadDocs", URLs: []string{"https://go.dev/"}, Args: map[string]any{"wait_ms": "soon"}},
		{Tool: "ext.x", Args: map[string]any{"force": "yes"}},
		{Tool: "ext.x", Args: map[string]any{}},
	} {
		_, parts := p.Explain(f)
		for _, part := range parts {
			for _, m := range part.Matches {
				fmt.Fprintf(&b, "%s %v: rule %s: %s\n", f.Tool, f.Args, m.Rule, m.Failed)
			}
		}
	}
	golden.Equal(t, "conditions.golden", b.String())
}

// TestEgressReasons checks the texts for an agent about connections that its profile does
// not let out.
func TestEgressReasons(t *testing.T) {
	const net = "version: 1\ndefaults: {decision: allow}\nprofiles:\n  a:\n    net:\n      mode: proxy\n      allow: [api.example, {host: some.example, methods: [GET], paths: [\"/v1/**\"]}, \"*\"]\n      deny: [bad.example, {host: api.example, methods: [DELETE]}]\n"
	p := parse(t, net)
	e := p.Decide(bash("ls")).Grant.Egress()
	narrow := parse(t, strings.Replace(net, `, "*"]`, "]", 1)).Decide(bash("ls")).Grant.Egress()
	var b strings.Builder
	for _, name := range []string{"bad.example", "api.example", "some.example", "192.0.2.1", "nowhere.example"} {
		for _, on := range []*policies.Egress{e, narrow} {
			h := host(t, name)
			fmt.Fprintf(&b, "%s:443: %+v\n", name, on.Connect(h, 443).Reason)
			fmt.Fprintf(&b, "%s:8080: %+v\n", name, on.Connect(h, 8080).Reason)
			fmt.Fprintf(&b, "DELETE %s/v1/../x: %s\n", name, on.Request(h, 443, "DELETE", "/v1/../x").Reason)
		}
	}
	fmt.Fprintf(&b, "no host: %s\n", e.Connect(policies.Host{}, 0).Reason)
	closed := parse(t, head).Decide(bash("ls")).Grant
	fmt.Fprintf(&b, "no net: %s\n", closed.Egress().Connect(host(t, "api.example"), 443).Reason)
	for _, name := range []string{"", ".", "[::1", "fe80::1%eth0", "a b", "127.1", strings.Repeat("a.", 200) + "b", "ex\u00e4mple"} {
		_, err := policies.ParseHost(name)
		fmt.Fprintf(&b, "%.20q: %v\n", name, err)
	}
	golden.Equal(t, "egress.golden", b.String())
}
