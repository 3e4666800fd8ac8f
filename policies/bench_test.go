package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
)

// realistic returns a policy of 50 rules like one in real use: reads and builds with their
// options, calls that are asked about, calls that are refused, and some rules of each kind
// that patterns cannot express.
func realistic() string {
	var b strings.Builder
	b.WriteString(`version: 1
defaults: {decision: ask, profile: offline}
profiles: {offline: {}, dev: {}}
rules:
`)
	add := func(format string, args ...any) { fmt.Fprintf(&b, "  - "+format+"\n", args...) }
	for i, s := range []string{
		"git {status,log,diff,show,branch} **", "ls **", "cat **", "grep **", "rg **", "find **", "sed -n **", "head **", "tail **", "wc **",
		"go {build,test,vet,doc} **", "cargo {build,test,check} **", "npm {test,run} **", "make **", "python3 -m pytest **", "jq **", "echo **", "cd **", "sort **", "diff **",
	} {
		add(`{id: reads-%d, match: {tool: [Bash, BackgroundBash], command: %q, flags: ["-{a,b,c,n,p,v,l,r}*", --oneline, --stat, "--name*", "--include=*"], env: [CI, "LC_*"]}, decision: allow}`, i, s)
	}
	for i, s := range []string{
		"git push **", "gh pr {create,merge} **", "npm publish **", "cargo publish **", "docker push **", "{curl,wget} **", "{ssh,scp,rsync} **", "terraform apply **", "kubectl {apply,delete} **", "aws **",
	} {
		add(`{id: asks-%d, match: {tool: "*Bash", command: %q}, decision: ask, reason: It reaches others., remember: [once, session]}`, i, s)
	}
	for i, s := range []string{
		"rm -rf / **", "rm ** {/,/*,~} **", "mkfs* **", "dd ** of=/dev/* **", "{sudo,doas,su} **", "chmod ** 777 **", "git config ** --global **", "{shutdown,reboot} **", "crontab **", "nc ** -l **",
	} {
		add(`{id: refuses-%d, match: {tool: "*Bash", command: %q}, decision: deny, reason: It is not reversible.}`, i, s)
	}
	add(`{id: force, match: {tool: "*Bash", command: "git push **", any_flag: [-f, "--force*", --mirror]}, decision: deny, instead: Push to a new branch.}`)
	add(`{id: hooks, match: {tool: "*", path: ["**/.git/hooks/**", "**/.git/config", "**/.ssh/**", "**/.env", "/proc/*/environ"]}, decision: deny}`)
	add(`{id: outside, match: {tool: "*Bash", path: "/etc/**"}, decision: deny}`)
	add(`{id: docs, match: {tool: ReadDocs, url: ["https://pkg.go.dev/**", "https://*.readthedocs.io/**"]}, decision: allow}`)
	add(`{id: search, match: {tool: WebSearch}, decision: allow, limit: {calls: 60/min}}`)
	add(`{id: own, match: {tool: [ReadBgOutput, ListBgTasks, KillBgTask, TaskManager, PlanMode]}, decision: allow}`)
	add(`{id: dev, match: {tool: "*Bash", profile: dev}, decision: ask}`)
	add(`{id: trial, mode: audit, match: {tool: "*Bash", command: "git commit **"}, decision: ask}`)
	add(`{id: long, match: {tool: Bash}, when: args.timeout > 600000, decision: ask}`)
	add(`{id: many, match: {tool: Bash, command: "**"}, when: commands.size() > 900, decision: ask}`)
	return b.String()
}

// BenchmarkDecideFifty measures the decision about one call under 50 rules, for the
// thousand ordinary calls as they are, and for scripts of 2 KB that are made of them.
func BenchmarkDecideFifty(b *testing.B) {
	p := parse(b, realistic())
	var ordinary, joined []policies.Facts
	script := ""
	for _, c := range ordinaryCalls(b) {
		if len(c.facts.Command) > 2048 {
			continue
		}
		c.facts.Args = map[string]any{"command": c.facts.Command}
		ordinary = append(ordinary, c.facts)
		if c.facts.Command == "" || len(c.facts.Command) > 1000 {
			continue
		}
		if len(script)+len(c.facts.Command) > 2047 {
			joined = append(joined, policies.Facts{Tool: "Bash", Command: script, Args: map[string]any{"command": script}})
			script = ""
		}
		script += c.facts.Command + "\n"
	}
	for name, calls := range map[string][]policies.Facts{"ordinary": ordinary, "2KB": joined} {
		b.Run(name, func(b *testing.B) {
			took := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				started := time.Now()
				p.Decide(calls[i%len(calls)])
				if len(took) < cap(took) {
					took = append(took, time.Since(started))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
		})
	}
}

// BenchmarkParseFifty measures how long it takes to read a policy of 50 rules with 200
// tests, which run each time.
func BenchmarkParseFifty(b *testing.B) {
	var text strings.Builder
	text.WriteString(realistic() + "tests:\n")
	tests := 0
	p := parse(b, realistic())
	for _, c := range ordinaryCalls(b) {
		if c.facts.Tool == "Bash" && tests < 200 && !strings.Contains(c.facts.Command, "\n") {
			fmt.Fprintf(&text, "  - {bash: %q, want: %v}\n", c.facts.Command, p.Decide(c.facts).Verdict)
			tests++
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if q := parse(b, text.String()); len(q.Tests()) != 200 {
			b.Fatal("the tests are missing")
		}
	}
}
