package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// A call of a tool that is called open is let through, and a call of a tool that is called
// closed is not.
func TestOpenness(t *testing.T) {
	p := parse(t, head+`rules:
  - {id: shell, match: {tool: Bash, command: "**"}, decision: allow}
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: deny}
  - {id: net, match: {profile: net}, decision: ask}
  - {id: docs, match: {tool: ReadDocs, url: "https://go.dev/**"}, decision: allow, profile: net}
  - {id: images, match: {tool: ReadImage}, unless: {path: "/a/**"}, decision: allow}
  - {id: search, match: {tool: WebSearch}, decision: allow, profile: net}
  - {id: no-plan, match: {tool: PlanMode}, decision: deny}
  - {id: trial, mode: audit, match: {tool: "*"}, decision: deny}
  - {id: mail, match: {upstream: mail}, decision: allow}
  - {id: surf, match: {act: follow}, decision: allow}
`)
	var got []string
	for _, profile := range []string{"offline", "net"} {
		for _, o := range p.Openness(profile) {
			if o.Unasked != policies.UnaskedAsks || o.By[0] != "default" {
				got = append(got, fmt.Sprintf("%s %s: %s by %v but %v in %v", profile, o.Tool, o.Unasked, o.By, o.But, o.Grants))
			}
		}
	}
	want := []string{
		"offline Bash: any by [shell] but [push] in []",
		"offline Browser: denied by [no-acts] but [] in []",
		"offline BrowserLook: denied by [no-acts] but [] in []",
		"offline PlanMode: denied by [no-plan] but [] in []",
		"offline ReadDocs: some by [docs] but [] in [net]",
		"offline ReadImage: some by [images] but [] in []",
		"offline WebSearch: any by [search] but [] in [net]",
		"offline other tools: some by [mail] but [] in []",
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	}
	for _, o := range p.Openness("net") {
		if o.Unasked == policies.UnaskedAny || o.Unasked == policies.UnaskedSome {
			t.Errorf("net: %+v", o)
		}
	}
}

// In each bundled policy, no call of a tool that is denied or asked about is let through,
// and a call of a tool that is open without exceptions is not stopped.
func TestOpennessOfBundled(t *testing.T) {
	for _, name := range policies.Bundled() {
		p, err := policies.OpenBundled(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, profile := range p.Profiles() {
			for _, o := range p.Openness(profile) {
				d := p.Decide(policies.Facts{Tool: o.Tool, Profile: profile})
				closed := o.Unasked == policies.UnaskedNone || o.Unasked == policies.UnaskedAsks
				if closed && d.Verdict == allow {
					t.Errorf("%s: %s in %s is %s, and was let through by %s", name, o.Tool, profile, o.Unasked, d.Rule)
				}
				if o.Unasked == policies.UnaskedAny && len(o.But) == 0 && d.Verdict != allow {
					t.Errorf("%s: %s in %s is open, and was stopped by %s", name, o.Tool, profile, d.Rule)
				}
			}
		}
	}
}

// A rule about acts opens only the tool of browsers, in the profile that it grants.
func TestOpennessOfActs(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: deny, profile: work}
profiles:
  work: {}
  web: {browser: {walls: sandboxed, act: true}}
rules:
  - {id: look, match: {tool: BrowserLook}, decision: allow, profile: web}
  - {id: surf, match: {act: [follow, submit]}, decision: allow, profile: web}
  - {id: asks, match: {act: submit}, decision: ask}
`)
	want := map[string]string{"Browser": "some by [surf] but [asks] in [web]", "BrowserLook": "any by [look] but [] in [web]"}
	for _, o := range p.Openness("work") {
		got := fmt.Sprintf("%s by %v but %v in %v", o.Unasked, o.By, o.But, o.Grants)
		if w, ok := want[o.Tool]; ok && got != w || !ok && o.Unasked != policies.UnaskedNone {
			t.Errorf("%s: got %s, want %s", o.Tool, got, w)
		}
	}
}

// Of a rule without a tool, or about the names of further tools, only those calls count that
// it speaks about.
func TestOpennessOfParts(t *testing.T) {
	for _, tt := range []struct{ fallback, rule, want string }{
		{"deny", `{match: {upstream: files, tool: "mcp_files_{read,list}_*"}, decision: allow}`, "other tools: some"},
		{"deny", `{match: {tool: mcp_files_read}, decision: allow}`, "other tools: some"},
		{"deny", `{match: {tool: [Bash, "mcp_*"]}, decision: allow}`, "Bash: any, other tools: some"},
		{"deny", `{match: {tool: "analyze_*"}, decision: allow}`, ""},
		{"deny", `{match: {tool: "*"}, decision: allow}`, "Bash: any, PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any"},
		{"deny", `{match: {command: "**"}, decision: allow}`, "Bash: any, other tools: some"},
		{"deny", `{match: {path: "/workspace/**"}, decision: allow}`, "Bash: some, ReadImage: some, other tools: some"},
		{"deny", `{match: {host: go.dev}, decision: allow}`, "ReadDocs: some, other tools: some"},
		{"allow", `{match: {command: "**"}, decision: deny}`, "PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any but x"},
		{"allow", `{match: {command: "ls **"}, decision: ask}`, "Bash: any but x, PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any but x"},
		{"allow", `{match: {tool: "mcp_*"}, decision: deny}`, "Bash: any, PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any but x"},
		{"allow", `{match: {tool: navigate}, decision: deny}`, "Bash: any, PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any but x"},
		{"allow", `{match: {tool: "*", command: "**"}, decision: deny}`, "PlanMode: any, ReadDocs: any, ReadImage: any, WebSearch: any, other tools: any but x"},
	} {
		p := parse(t, "version: 1\ndefaults: {decision: "+tt.fallback+", profile: a}\nprofiles: {a: {}}\nrules:\n  - "+strings.Replace(tt.rule, "{", "{id: x, ", 1)+"\n")
		var got []string
		for _, o := range p.Openness("a") {
			if slices.Contains([]string{"Bash", "PlanMode", "ReadDocs", "ReadImage", "WebSearch", policies.OtherTools}, o.Tool) && o.Unasked != policies.UnaskedNone {
				got = append(got, o.Tool+": "+string(o.Unasked))
				if len(o.But) > 0 {
					got[len(got)-1] += " but " + strings.Join(o.But, ", ")
				}
			}
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s, by default %s: got %s, want %s", tt.rule, tt.fallback, s, tt.want)
		}
	}
}
