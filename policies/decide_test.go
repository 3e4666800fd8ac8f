package policies_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"belljar.dev/policies"
)

const (
	allow = policies.Allow
	ask   = policies.Ask
	deny  = policies.Deny
)

// anchors is a policy of the careful kind: little is allowed, and what must
// not happen is denied. Its default is to ask.
const anchors = head + `
rules:
  - id: reads
    match: {tool: [Bash, BackgroundBash], command: ["git {status,log,diff,show} **", "ls **", "cat **", "head **", "tail **", "echo **", "cd *", "go {test,build,vet} **", "true", "[ **"]}
    decision: allow
  - id: publish
    match: {tool: Bash, command: ["git push **", "npm publish **"]}
    decision: ask
    reason: Publishing needs a person.
  - id: no-force-push
    match: {tool: Bash, command: ["git push ** {-f,--force*} **"]}
    decision: deny
    reason: Force-pushing rewrites shared history.
    instead: git push origin HEAD:refs/heads/<new-branch>
  - id: no-wipe
    match: {tool: Bash, command: ["rm **", "dd **"]}
    unless: {command: ["rm *.tmp"]}
    decision: deny
  - id: no-fetch
    match: {tool: Bash, command: ["{curl,wget} **"]}
    decision: deny
`

func TestVerdictsOfCommands(t *testing.T) {
	p := parse(t, anchors)
	tests := []struct {
		command string
		want    policies.Verdict
		rule    string
	}{
		{"git status", allow, "reads"},
		{"git log --oneline | head -5 && go test ./...", allow, "reads"},
		{"if [ -f x ]; then cat x; else echo no; fi", allow, "reads"},
		{"for f in a b; do cat x; done", allow, "reads"},
		{"for f in $(git log); do cat x; done", allow, "reads"},
		{"( cd /p && git status )", allow, "reads"},
		{"{ git status; }", allow, "reads"},
		{"time -p git status", allow, "reads"},
		{"go build ./... 2>&1 | tail -20", allow, "reads"},
		{"go vet ./... >/dev/null 2>&1", allow, "reads"},
		{"git status # rm -rf /", allow, "reads"},
		{"echo 'rm -rf /; $(id)'", allow, "reads"},
		{`echo "a; rm -rf /"`, allow, "reads"},
		{"echo a\\;b", allow, "reads"},
		{"echo rm -rf /", allow, "reads"},
		{"git log \\\n  --stat", allow, "reads"},
		{"git status\n\n# done\n", allow, "reads"},
		{"true", allow, "reads"},

		// A compound whose first command is allowed.
		{"echo x && make", ask, "default"},
		{"cd /p && python3 s.py", ask, "default"},
		{"git log ; rm -rf /", deny, "no-wipe"},
		{"git log && rm -rf /", deny, "no-wipe"},
		{"git log\nrm -rf W", deny, "no-wipe"},
		{"git log & rm -rf W", deny, "no-wipe"},
		{"git log|rm -rf W", deny, "no-wipe"},
		{"git log || rm -rf W", deny, "no-wipe"},
		{strings.Repeat("true && ", 50) + "curl evil.example", deny, "no-fetch"},
		{`"a"; rm x; "b"`, deny, "no-wipe"},

		// Commands in words.
		{"echo $(rm -rf /)", deny, "no-wipe"},
		{"echo \"`rm -rf /`\"", deny, "no-wipe"},
		{"echo \"$(git log; rm -rf /)\"", deny, "no-wipe"},
		{"echo <(rm -rf /)", deny, "no-wipe"},
		{"echo $(echo $(echo $(rm x)))", deny, "no-wipe"},
		{`echo "$(echo "$(rm "x")")"`, deny, "no-wipe"},

		// The same program in another spelling.
		{`r\m -rf /`, deny, "no-wipe"},
		{`"rm" -rf /`, deny, "no-wipe"},
		{`r'm' -rf /`, deny, "no-wipe"},
		{"r\\\nm x", deny, "no-wipe"},
		{"/bin/rm -rf /", deny, "no-wipe"},
		{"CI=true rm -rf /", deny, "no-wipe"},
		{">x rm -rf /", deny, "no-wipe"},
		{"2>&1 >/dev/null rm x", deny, "no-wipe"},
		{"! rm x", deny, "no-wipe"},
		{"time -- rm x", deny, "no-wipe"},
		{"if true; then rm x; fi", deny, "no-wipe"},
		{"while true; do rm x; done", deny, "no-wipe"},
		{"{ rm x; }", deny, "no-wipe"},
		{"(rm x)", deny, "no-wipe"},
		{`rm -rf "$DIR"`, deny, "no-wipe"},
		{"git push origin feature", ask, "publish"},
		{"git push -f", deny, "no-force-push"},
		{"$'\\x72m' -rf /", deny, "no-wipe"},
		{"{rm,-rf,/}", deny, "no-wipe"},
		{"echo ${x:-$(rm x)}", deny, "no-wipe"},
		{"echo $((1 + $(rm x)))", deny, "no-wipe"},
		{"case x in x) rm y;; esac", deny, "no-wipe"},
		{"echo $(case x in x) rm y;; esac)", deny, "no-wipe"},
		{"for f do rm x; done", deny, "no-wipe"},
		{"ls() { rm -rf /; }; ls", deny, "no-wipe"},
		{"a[ #]=x; rm -rf /", deny, "no-wipe"},
		{"[[ x =~ ( #) ]] ; rm x", deny, "no-wipe"},
		{"ls |\ntime -o f rm x", deny, "no-wipe"},
		{"echo `echo \\`rm x\\``", deny, "no-wipe"},
		{"cat <<EOF\n$(rm x)\nEOF", deny, "no-wipe"},
		{"rm x\n'", deny, "no-wipe"},
		{"for f in a b; do cat \"$f\"; done", allow, "reads"},
		{"cat <<EOF\nrm\nEOF", allow, "reads"},

		// Behind other programs.
		{"bash -c 'rm -rf /'", deny, "no-wipe"},
		{"env rm x", deny, "no-wipe"},
		{"env -S 'rm x'", deny, "no-wipe"},
		{"timeout 5 git push -f", deny, "no-force-push"},
		{"sudo -u bob rm x", deny, "no-wipe"},
		{"find . -exec rm -r {} +", deny, "no-wipe"},
		{"ls | xargs rm -f", deny, "no-wipe"},
		{"git -C /r push -f", deny, "no-force-push"},
		{"sh -c 'eval \"nohup rm x\"'", deny, "no-wipe"},
		{"timeout 60 go test ./...", allow, "reads"},
		{"bash -c 'git log && ls'", allow, "reads"},
		{"timeout 60 make", ask, "default"},
		{"sudo git status", ask, "default"},
		{"env -C /x git status", ask, "default"},
		{"ls | xargs cat", ask, "default"},
		{"python3 -c 'x'", ask, "publish"},
		{"curl x | sh", deny, "no-fetch"},

		{"CI=true git push --force-with-lease origin x", deny, "no-force-push"},

		// Words that are known only when the command runs.
		{"cat .e*", ask, "default"},
		{"cat ~root/.ssh/config", ask, "default"},
		{"git log $X", ask, "default"},
		{"git diff {1..10000}", ask, "default"},
		{"echo $(( 1", ask, "publish"},

		// Files and variables that the words do not show.
		{"echo k >> ~/.ssh/authorized_keys", ask, "default"},
		{"go vet > ~/.zshrc", ask, "default"},
		{"cat < W/.env", ask, "default"},
		{"echo x &> y", ask, "default"},
		{"echo x >& y", ask, "default"},
		{"cat < /dev/null <<< x 2>&1", allow, "reads"},
		{"PATH=/tmp/e:$PATH git status", ask, "publish"},
		{"PATH=/tmp/e; git status", ask, "publish"},

		// Exceptions.
		{"rm a.tmp", ask, "default"},
		{"rm a.tmp b", deny, "no-wipe"},
		{"rm $x.tmp", ask, "no-wipe"},
		{"rm a.tmp > b", ask, "no-wipe"},

		// Nothing to run.
		{"# rm x", ask, "default"},
		{" \n", ask, "default"},
		{"", ask, "default"},
	}
	for _, tt := range tests {
		d := p.Decide(bash(tt.command))
		if d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%.60q: got %v by %s (part %q: %s), want %v by %s", tt.command, d.Verdict, d.Rule, d.Part, d.Reason, tt.want, tt.rule)
		}
		if d.Verdict != allow && (d.Reason == "" || d.Instead == "" || !d.Grant.IsZero()) {
			t.Errorf("%.60q: got reason %q, instead %q, grant %v", tt.command, d.Reason, d.Instead, d.Grant)
		}
	}
}

// If everything is allowed that no rule stops, a person must still be asked about text that
// a rule may speak about.
func TestUnknownTextIsAskedAbout(t *testing.T) {
	p := parse(t, strings.Replace(anchors, "decision: ask,", "decision: allow,", 1))
	for _, command := range []string{
		"x=rm; $x -rf /",
		"/usr/bin/g?t push",
		"~/bin/x",
		"git $x",
		"git push $x",
		"cat${IFS:0:1}$HOME/x",
		"echo ${x@P}",
		"git log 'x",
		"git log \"x",
		"git log $(ls",
		"git log )",
		"git log >",
		"git\x00 log",
		"ls\r-l",
		"python3 -c x",
		"bash x.sh",
		"source x",
		"eval \"$x\"",
		"ssh h ls",
		"timeout $x ls",
		strings.Repeat("$(", 3000),
		strings.Repeat("echo a;", 1001),
		"echo " + strings.Repeat("a", 64<<10),
	} {
		if d := p.Decide(bash(command)); d.Verdict != ask || !strings.Contains(d.Reason, "may speak about") && !strings.Contains(command, "git push") {
			t.Errorf("%.60q: got %v by %s (part %.40q: %s), want ask", command, d.Verdict, d.Rule, d.Part, d.Reason)
		}
	}
	for _, command := range []string{"make", "ls > x", "ls $x", "PATH=/usr/bin ls", "CI=1 ls", "for f in *; do cat $f; done", "cat <<EOF\nrm\nEOF", "timeout 5 make", "awk '{print $1}' f"} {
		if d := p.Decide(bash(command)); d.Verdict != allow {
			t.Errorf("%q: got %v by %s (%s), want allow: no rule can speak about it", command, d.Verdict, d.Rule, d.Reason)
		}
	}
}

func TestStarsAloneMatchEveryCommand(t *testing.T) {
	everything := head + "rules:\n  - {id: all, match: {tool: Bash, command: \"**\"}, decision: %s}\n"
	for _, command := range []string{"ls", "$x", "cat <<E\nE", "'", "a > b", "x=1", "", strings.Repeat("(", 100), strings.Repeat("a;", 2000)} {
		for _, want := range []policies.Verdict{allow, deny} {
			p := parse(t, strings.Replace(everything, "%s", want.String(), 1))
			d := p.Decide(bash(command))
			if command == "" {
				want = ask // without a command the rule does not speak about the call
			}
			if d.Verdict != want {
				t.Errorf("%.20q: got %v by %s, want %v", command, d.Verdict, d.Rule, want)
			}
		}
	}
}

func TestVerdictsOfPathsAndURLs(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: files, match: {tool: ReadImage, path: ["/workspace/**", "/tmp/*.{png,jpg}"]}, decision: allow}
  - {id: secrets, match: {tool: "*", path: ["**/.env", "/workspace/.git/**"]}, decision: deny}
  - {id: docs, match: {tool: ReadDocs, url: ["https://pkg.go.dev/**", "https://*.readthedocs.io/**", "{http,https}://local.example:8080/a/*", "https://any.example:*/", "*://[::1]/**"]}, unless: {url: "https://pkg.go.dev/private/**"}, decision: allow}
  - {id: meta, match: {url: ["http://169.254.169.254/**"]}, decision: deny}
`)
	path := func(s ...string) policies.Facts { return policies.Facts{Tool: "ReadImage", Paths: s} }
	page := func(s ...string) policies.Facts { return policies.Facts{Tool: "ReadDocs", URLs: s} }
	tests := []struct {
		facts policies.Facts
		want  policies.Verdict
		rule  string
	}{
		{path("/workspace/a/b.png"), allow, "files"},
		{path("/workspace"), allow, "files"},
		{path("/workspace//a/./b"), allow, "files"},
		{path("/workspace/a", "/tmp/x.jpg"), allow, "files"},
		{path("/workspace/a", "/etc/passwd"), ask, "default"},
		{path("/workspaces/a"), ask, "default"},
		{path("/tmp/a/x.png"), ask, "default"},
		{path("/tmp/x.gif"), ask, "default"},
		{path("/workspace/sub/.env"), deny, "secrets"},
		{path("/.env"), deny, "secrets"},
		{path("/workspace/.git/config"), deny, "secrets"},
		{path("/workspace/../etc/passwd"), ask, "secrets"},
		{path("workspace/a"), ask, "secrets"},
		{path("/workspace/a\x00.png"), deny, "unreadable"},

		{page("https://pkg.go.dev/net/http"), allow, "docs"},
		{page("https://pkg.go.dev/net/http?tab=doc#Get"), allow, "docs"},
		{page("https://pkg.go.dev"), allow, "docs"},
		{page("https://PKG.GO.DEV.:443/x"), allow, "docs"},
		{page("https://a.b.readthedocs.io/x"), allow, "docs"},
		{page("http://local.example:8080/a/b"), allow, "docs"},
		{page("https://any.example:9/"), allow, "docs"},
		{page("http://[::1]/x"), allow, "docs"},
		{page("https://readthedocs.io/x"), ask, "default"},
		{page("https://evilreadthedocs.io/x"), ask, "default"},
		{page("http://pkg.go.dev/x"), ask, "default"},
		{page("https://pkg.go.dev:8443/x"), ask, "default"},
		{page("https://pkg.go.dev.evil.example/x"), ask, "default"},
		{page("http://local.example:8080/a/b/c"), ask, "default"},
		{page("http://local.example:8080/a/.."), ask, "default"},
		{page("http://local.example:8080/a/b%2fc"), ask, "default"},
		{page("https://pkg.go.dev/private/x"), ask, "default"},
		{page("https://pkg.go.dev/x/../private/x"), ask, "default"},
		{page("http://169.254.169.254/latest/meta-data"), deny, "meta"},
		{page("https://pkg.go.dev@evil.example/x"), deny, "unreadable"},
		{page("https://evil.example\x00.readthedocs.io/x"), deny, "unreadable"},
		{page("https://evil.example%00.readthedocs.io/x"), deny, "unreadable"},
		{page("https://pkg.go.dev\\@evil.example/x"), deny, "unreadable"},
		{page("https://pkg.go.dev/\r\nx"), deny, "unreadable"},
		{page("https://pkg\u3002go.dev/x"), deny, "unreadable"},
		{page("file:///etc/passwd"), deny, "unreadable"},
		{page("javascript:alert(1)"), deny, "unreadable"},
		{page("pkg.go.dev/x"), deny, "unreadable"},
		{page("https:///x"), deny, "unreadable"},
		{page(""), deny, "unreadable"},

		{policies.Facts{Tool: "ReadDocs", URLs: []string{"https://pkg.go.dev/"}, Hosts: []string{"Pkg.Go.Dev"}}, allow, "docs"},
		{policies.Facts{Tool: "ReadDocs", URLs: []string{"https://pkg.go.dev/"}, Hosts: []string{"evil.example"}}, ask, "default"},
		{policies.Facts{Tool: "ReadDocs", Hosts: []string{"a b"}}, deny, "unreadable"},
		{policies.Facts{Tool: "ReadDocs", Hosts: make([]string, 1001)}, deny, "unreadable"},
	}
	for _, tt := range tests {
		d := p.Decide(tt.facts)
		if d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%v %q: got %v by %s (%s), want %v by %s", tt.facts.Tool, append(tt.facts.Paths, tt.facts.URLs...), d.Verdict, d.Rule, d.Reason, tt.want, tt.rule)
		}
	}
}

func TestEveryPartNeedsItsRule(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: tests, match: {tool: Bash, command: "go test **"}, decision: allow}
  - {id: here, match: {tool: BackgroundBash, command: "go test **", path: "/workspace/**"}, decision: allow}
`)
	f := policies.Facts{Tool: "Bash", Command: "go test .", Paths: []string{"/workspace/a"}}
	if d := p.Decide(f); d.Verdict != ask || d.Subject != "path" || d.PartNo != 2 || d.Parts != 2 {
		t.Errorf("got %+v, want to be asked about part 2, the path", d)
	}
	f.Tool = "BackgroundBash"
	if d := p.Decide(f); d.Verdict != allow || d.Rule != "here" {
		t.Errorf("got %v by %s, want allow by here", d.Verdict, d.Rule)
	}
}

// A variable in the env argument proves no more than a variable that the script sets.
func TestVariablesAreNotProved(t *testing.T) {
	p := parse(t, anchors)
	for command, want := range map[string]policies.Verdict{"git status": ask, "rm x": deny} {
		f := bash(command)
		f.Env = []string{"PATH"}
		if d := p.Decide(f); d.Verdict != want {
			t.Errorf("%s with its own PATH: got %v by %s (%s), want %v", command, d.Verdict, d.Rule, d.Reason, want)
		}
	}
	f := bash("git status")
	f.Env = []string{"CI"}
	if d := policies.Default().Decide(f); d.Verdict != allow {
		t.Errorf("bundled policy: got %v (%s), want allow", d.Verdict, d.Reason)
	}
}

// What a call sets for its command can be code for the shell, which runs before the first
// word is read: no rule can judge that. Other variables make programs run or load more than
// the words say, so a rule that stops may speak about these programs.
func TestCallEnvThatHoldsCode(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: no-rm, match: {command: "rm **"}, decision: deny}
  - {id: all, match: {tool: "*Bash"}, decision: allow}
`)
	for _, tool := range []string{"Bash", "BackgroundBash"} {
		for set, want := range map[string]policies.Verdict{
			"BASH_FUNC_ls%%=() { rm -v x; }": deny, "BASH_ENV=x.sh": deny, "ENV=x.sh": deny, "SHELLOPTS=xtrace": deny, "PS4=$(rm x)": deny, "BASHOPTS=expand_aliases": deny, "PROMPT_COMMAND=rm x": deny, "POSIXLY_CORRECT=1": deny,
			"LD_PRELOAD=./x.so": ask, "PATH=/workspace/bin:/usr/bin": ask, "PATH=:/usr/bin": ask, "GIT_SSH_COMMAND=rm x": ask, "GIT_CONFIG_COUNT=1": ask, "GIT_CONFIG_KEY_0=core.pager": ask, "PAGER=./x": ask, "NODE_OPTIONS=--require ./x": ask, "PYTHONSTARTUP=x": ask, "MAKEFLAGS=--eval=x": ask, "TAR_OPTIONS=--to-command=rm": ask, "npm_config_script_shell=x": ask, "RUSTC_WRAPPER=x": ask, "HOME=/workspace": ask,
			"CI=1": allow, "PATH=/usr/local/bin:/usr/bin:/bin": allow, "PAGER=cat": allow, "GIT_AUTHOR_NAME=x": allow, "NODE_OPTIONS=--max-old-space-size=4096": allow, "LC_ALL=C": allow,
		} {
			name, value, _ := strings.Cut(set, "=")
			f := bash("ls")
			f.Tool, f.Env, f.Values = tool, []string{name}, map[string]string{name: value}
			if d := p.Decide(f); d.Verdict != want {
				t.Errorf("%s with %s: got %v by %s (%s), want %v", tool, set, d.Verdict, d.Rule, d.Reason, want)
			} else if want == deny && (!strings.Contains(d.Refusal(""), name) || !strings.Contains(d.Refusal(""), "Nothing was run") || d.Instead == "") {
				t.Errorf("%s: the agent is told %s", set, d.Refusal(""))
			}
			f.Values = nil // as in an audit log that does not keep values
			if d := p.Decide(f); d.Verdict > want {
				t.Errorf("%s with %s of an unknown value: got %v, want at most %v", tool, name, d.Verdict, want)
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: look, match: {tool: Bash, command: ["ls **", "cat **"]}, decision: allow}
  - {id: narrow, match: {tool: Bash, command: ["make **", "touch **"]}, decision: allow, profile: readonly}
  - {id: wide, match: {tool: Bash, command: ["npm **", "touch **"]}, decision: allow, profile: net}
  - {id: not-there, match: {tool: Bash, command: "npm publish **", profile: net}, decision: deny}
  - {id: quiet, match: {tool: Bash, command: "who **", profile: [readonly, net]}, decision: allow}
  - {id: not-ro, match: {tool: Bash, command: "vi **"}, unless: {profile: readonly}, decision: deny}
`)
	tests := []struct {
		command, profile string
		want             policies.Verdict
		rule, granted    string
	}{
		{"ls", "", allow, "look", "offline"},
		{"ls", "net", allow, "look", "net"},
		{"make", "", allow, "narrow", "readonly"},
		{"make", "net", allow, "narrow", "readonly"},
		{"npm i", "", allow, "wide", "net"},
		{"touch a", "", allow, "narrow", "net"},
		{"touch a", "readonly", allow, "narrow", "readonly"},
		{"ls; make", "", deny, "mixed-profiles", ""},
		{"ls; make", "readonly", allow, "look", "readonly"},
		{"make; npm i", "", deny, "mixed-profiles", ""},
		{"npm publish", "", deny, "not-there", ""},
		{"who", "", ask, "default", ""},
		{"who", "net", allow, "quiet", "net"},
		{"vi", "", deny, "not-ro", ""},
		{"vi", "readonly", ask, "default", ""},
		{"ls", "online", deny, "unknown-profile", ""},
	}
	for _, tt := range tests {
		f := bash(tt.command)
		f.Profile = tt.profile
		d := p.Decide(f)
		if d.Verdict != tt.want || d.Rule != tt.rule || d.Grant.Profile() != tt.granted {
			t.Errorf("%s in %q: got %v by %s with %q, want %v by %s with %q", tt.command, tt.profile, d.Verdict, d.Rule, d.Grant.Profile(), tt.want, tt.rule, tt.granted)
		}
		if tt.want == allow && d.Grant.Tenant() != "t" {
			t.Errorf("%s: got a grant for %q, want t", tt.command, d.Grant.Tenant())
		}
	}
	d := p.Decide(policies.Facts{Tool: "Bash", Profile: "online"})
	if !strings.Contains(d.Instead, "net, offline, readonly") {
		t.Errorf("unknown profile: got %q, want the known ones", d.Instead)
	}
}

func TestHidden(t *testing.T) {
	rules := `
rules:
  - {id: shell, match: {tool: "{,Background}Bash"}, decision: allow}
  - {id: no-web, match: {tool: WebSearch}, decision: deny}
  - {id: web, match: {tool: WebSearch}, decision: allow}
  - {id: no-docs, match: {tool: ReadDocs, url: "http://**/x"}, decision: deny}
  - {id: no-mail, match: {tool: "ext.mail.*"}, unless: {profile: net}, decision: deny}
  - {id: no-ext, match: {tool: "ext.spam.*"}, decision: deny}
`
	rules = strings.Replace(rules, `http://**/x`, `http://*/x`, 1)
	asks := parse(t, head+rules)
	denies := parse(t, strings.Replace(head, "ask", "deny", 1)+rules)
	tests := []struct {
		tool                 string
		byDefault, otherwise bool
	}{
		{"Bash", false, false},
		{"BackgroundBash", false, false},
		{"WebSearch", true, true},
		{"ReadDocs", true, false},
		{"ext.mail.send", true, false},
		{"ext.spam.send", true, true},
		{"PlanMode", true, false},
	}
	for _, tt := range tests {
		if got := denies.HiddenFrom(policies.Facts{Tool: tt.tool}); got != tt.byDefault {
			t.Errorf("%s under default deny: got hidden %v", tt.tool, got)
		}
		if got := asks.HiddenFrom(policies.Facts{Tool: tt.tool}); got != tt.otherwise {
			t.Errorf("%s under default ask: got hidden %v", tt.tool, got)
		}
	}
}

func TestDefaultPolicy(t *testing.T) {
	p := policies.Default()
	for _, tool := range []string{
		"Bash", "BackgroundBash", "ReadBgOutput", "ListBgTasks", "KillBgTask", "ReadImage", "ReadDocs",
		"WebSearch", "TaskManager", "PlanMode", "AskUserQuestion", "InvokeSkill", "SearchSkills", "SetCallback",
	} {
		f := policies.Facts{Tenant: "t", Tool: tool}
		if tool == "ReadDocs" {
			f.URLs = []string{"https://pkg.go.dev/net/http"}
		}
		profile := "offline"
		switch tool {
		case "WebSearch":
			profile = "search"
		case "ReadDocs":
			profile = "pages"
		}
		d := p.Decide(f)
		if d.Verdict != allow || d.Grant.Profile() != profile || p.HiddenFrom(f) {
			t.Errorf("%s: got %v with profile %q, hidden %v", tool, d.Verdict, d.Grant.Profile(), p.HiddenFrom(f))
		}
	}
	if d := p.Decide(policies.Facts{Tool: "Other"}); d.Verdict != deny || d.Source.Line == 0 || !p.HiddenFrom(policies.Facts{Tool: "Other"}) {
		t.Errorf("Other: got %v at %+v", d.Verdict, d.Source)
	}
	for _, r := range p.Tests() {
		if r.Got != r.Want || r.Source.Line == 0 || r.Call == "" {
			t.Errorf("test %+v", r)
		}
	}
	if n := len(p.Tests()); n < 10 || len(p.Hash()) != 64 || p.Hash() != policies.Default().Hash() {
		t.Errorf("got %d tests and the hash %q", n, p.Hash())
	}
	open := p.Decide(policies.Facts{Tenant: "t", Tool: "Bash"}).Grant
	closed := p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Profile: "readonly"}).Grant
	if open.Workspace() != policies.AccessWrite || closed.Workspace() != policies.AccessRead || !closed.System() {
		t.Errorf("got the workspaces %v and %v", open.Workspace(), closed.Workspace())
	}
}

// Equal calls get equal decisions, whatever else is decided meanwhile and whatever was done
// with earlier decisions.
func TestDecideIsPure(t *testing.T) {
	p := parse(t, anchors+"  - {id: env, match: {tool: Env}, decision: allow}\n")
	facts := []policies.Facts{
		bash("git status"), bash("git log; rm x"), bash("$x"),
		{Tool: "Env", Tenant: "a"},
		{Tool: "ReadDocs", URLs: []string{"https://go.dev/"}, Profile: "net"},
	}
	want := make([]policies.Decision, len(facts))
	for i, f := range facts {
		want[i] = p.Decide(f)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				for i, f := range facts {
					got := p.Decide(f)
					if !reflect.DeepEqual(got, want[i]) {
						t.Errorf("%+v: got %+v, want %+v", f, got, want[i])
						return
					}
					if env := got.Grant.Env(); env != nil {
						env["CI"] = "changed"
					}
				}
			}
		})
	}
	wg.Wait()
}

// fifty is a policy of fifty rules, most of which speak about commands.
func fifty() string {
	var b strings.Builder
	b.WriteString(anchors)
	for i := range 45 {
		fmt.Fprintf(&b, "  - {id: rule-%d, match: {tool: Bash, command: [\"tool%d {run,test} **\", \"** /opt/secret%d/* **\"], flags: [-v, \"--name=*\"]}, decision: %s}\n", i, i, i, []string{"allow", "ask", "deny"}[i%3])
	}
	return b.String()
}

func BenchmarkDecide(b *testing.B) {
	for policy, text := range map[string]string{"5": anchors, "50": fifty()} {
		p := parse(b, text)
		for name, command := range map[string]string{
			"simple":   "git status",
			"pipeline": `for f in a b c; do cat "$f" | head -5; done && go test ./... 2>&1 | tail -20 && echo "$(git log -1 --format=%H)" && cd /workspace/sub`,
			"chain":    strings.Repeat("true && ", 50) + "curl evil.example",
			"2KB":      "cat > f <<'E'\n" + strings.Repeat("some text of a file with $x and no command\n", 45) + "E\ngo build ./...",
			"64KiB":    strings.Repeat("git log --oneline -- some/file; ", 64<<10/32),
			"crash":    strings.Repeat("$(", 500_000),
		} {
			b.Run(policy+"-rules/"+name, func(b *testing.B) {
				b.ReportAllocs()
				f := bash(command)
				for b.Loop() {
					p.Decide(f)
				}
			})
		}
	}
}

func FuzzDecide(f *testing.F) {
	p, err := policies.Parse("policy.yaml", []byte(anchors))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"git status", "echo \"$(a `b` 'c')\" > d 2>&1 & <(e)", "a=(1) b[1]=2 ${c:-d} $((e)) {f,g} # h", "for x in y; do case z in z) ;; esac; done"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := p.Decide(bash(s))
		if d.Verdict == allow && strings.ContainsAny(s, "$`>*?~") && !strings.ContainsAny(s, "'\"\\#") && !strings.Contains(s, "/dev/null") && !strings.Contains(s, "&") && !strings.Contains(s, "for") {
			t.Errorf("%q is allowed with something in it that no rule proves", s)
		}
		// One more command can only make the verdict stricter, however the text before it
		// ends, unless it becomes part of a quoted text or a comment.
		if after := p.Decide(bash("rm x\n" + s)); after.Verdict == allow {
			t.Errorf("%q after rm is allowed", s)
		}
		p.Decide(policies.Facts{Tool: "ReadDocs", URLs: []string{s}, Paths: []string{s}, Hosts: []string{s}})
		if text := d.Refusal(s); d.Verdict != allow && strings.Count(text, "\n") > 4+strings.Count(s, "\n") {
			t.Errorf("%q adds lines to its refusal:\n%s", s, text)
		}
	})
}
