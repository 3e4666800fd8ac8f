package policies_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

func TestParseReportsAllFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("testdata/bad: got %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = policies.Parse(filepath.Base(file), text)
			if err == nil {
				t.Fatal("got no fault")
			}
			golden.Equal(t, "bad/"+name+".golden", err.Error()+"\n")
		})
	}
}

func TestFaults(t *testing.T) {
	profile := func(text string) string { return "version: 1\nprofiles:\n  a: {" + text + "}\n" }
	limit := func(text string) string { return profile("limits: {" + text + "}") }
	rules := func(text string) string { return head + "rules:\n  - " + text + "\n" }
	tests := []struct {
		name, text string
		line, col  int
		message    string
		hint       string // part of the hint
	}{
		{"empty", "", 1, 1, "the policy is empty", "version: 1"},
		{"comment only", "# nothing\n", 1, 1, "the policy is empty", "version: 1"},
		{"null", "~\n", 1, 1, "the policy is empty", "version: 1"},
		{"a list", "- version: 1\n", 1, 1, "a policy must be a mapping, not a list", "version, defaults"},
		{"a text", "version 1\n", 1, 1, "a policy must be a mapping, not a text", "version, defaults"},
		{"latin 1", "version: 1\n# caf\xe9\n", 2, 6, "byte 0xe9 is not UTF-8", "UTF-8"},
		{"utf 16", "\xff\xfev\x00", 1, 1, "byte 0xff is not UTF-8", "UTF-8"},
		{"nul", "version: 1\n\x00", 2, 1, "a policy cannot contain a NUL byte", "remove"},
		{"too large", "#" + strings.Repeat("x", policies.MaxText), 1, 1, "the policy has 1048577 bytes, more than the 1048576 that are read", "split"},
		{"second document", head + "---\nversion: 1\n", 7, 1, "a second document starts here; a policy is one document", "first document"},
		{"anchor", "version: &v 1\nprofiles: {a: {}}\n", 1, 10, "a policy cannot contain an anchor (&v)", "remove"},
		{"tag", "version: !!int 1\nprofiles: {a: {}}\n", 1, 10, "a policy cannot contain a tag (!!int)", "quotes"},
		{"no version", "profiles: {a: {}}\n", 1, 1, "the policy has no version", "version: 1"},
		{"version 2", "version: 2\nprofiles: {a: {}}\n", 1, 10, `version must be 1, not "2"`, ""},
		{"version as text", "version: '1'\nprofiles: {a: {}}\n", 1, 10, `version must be 1, not "1"`, ""},
		{"no profiles", "version: 1\n", 1, 1, "the policy has no profiles", "offline"},
		{"empty profiles", "version: 1\nprofiles: {}\n", 2, 11, "profiles must not be empty", "at least one"},
		{"profile name", "version: 1\nprofiles: {A b: {}}\n", 2, 12, `"A b" cannot be the name of a profile`, "lower-case letters"},
		{"no default of two", "version: 1\nprofiles: {a: {}, b: {}}\n", 1, 1, "there are 2 profiles and defaults names none of them", "defaults"},
		{"unknown default", "version: 1\ndefaults: {profile: offlin}\nprofiles: {offline: {}}\n", 2, 21, `profile "offlin" does not exist`, `did you mean "offline"?`},
		{"unknown key", profile("limit: {}"), 3, 7, `profile a has no key "limit"`, `did you mean "limits"?`},
		{"duplicate key", "version: 1\nversion: 1\nprofiles: {a: {}}\n", 2, 1, `the key "version" stands here a second time; the first is on line 1`, "keep one"},
		{"key of a mapping", "version: 1\nprofiles: {a: {}}\n? {x: y}\n: 1\n", 3, 3, "a key of a policy must be a text, not a mapping", ""},
		{"unknown decision", "version: 1\ndefaults: {decision: alow}\nprofiles: {a: {}}\n", 2, 22, `decision cannot be "alow"`, `did you mean "allow"?`},
		{"ask by mail", "version: 1\nask: mail\nprofiles: {a: {}}\n", 2, 6, `ask cannot be "mail"`, "elicit"},
		{"let questions through", "version: 1\ndefaults: {no_approver: allow}\nprofiles: {a: {}}\n", 2, 25, `no_approver cannot be "allow"`, "deny"},

		{"zero memory", limit("memory: 0"), 3, 24, "memory must be above zero", "cannot be switched off"},
		{"negative pids", limit("pids: -1"), 3, 22, "pids must be above zero", "cannot be switched off"},
		{"zero cpu", limit("cpu: 0"), 3, 21, "cpu is 0, outside 0.01 to 65536", "cannot be switched off"},
		{"infinite cpu", limit("cpu: .inf"), 3, 21, "cpu must be a number, not the number .inf", "CPUs"},
		{"nan cpu", limit("cpu: nan"), 3, 21, "cpu must be a number, not a text", "CPUs"},
		{"unit", limit("memory: 2Gib"), 3, 24, `memory has the unknown unit "Gib"`, `did you mean "GiB"?`},
		{"unit of a count", limit("pids: 2k"), 3, 22, `pids cannot be "2k"`, "whole number"},
		{"size", limit("tmp: lots"), 3, 21, `tmp cannot be "lots"`, "512MiB"},
		{"list as size", limit("tmp: [1]"), 3, 21, `tmp cannot be a list`, "512MiB"},
		{"overflow", limit("memory: 99999999999999999999"), 3, 24, "memory is 99999999999999999999, more than the 1125899906842624 that can be given", ""},
		{"overflow by unit", limit("memory: 9999999TiB"), 3, 24, "memory is 9999999TiB, more than the 1125899906842624 that can be given", ""},
		{"bare duration", limit("wall: 30"), 3, 22, `wall cannot be "30"`, "30s for seconds"},
		{"bad duration", limit("wall: soon"), 3, 22, `wall cannot be "soon"`, "1h30m"},
		{"zero duration", limit("background: 0s"), 3, 28, "background must be above zero", "switched off"},
		{"long duration", limit("wall: 9999h"), 3, 22, "wall is 9999h0m0s, outside 1ms to 720h0m0s", ""},

		{"yes", profile("fs: {system: yes}"), 3, 20, "system must be true or false, not a text", "true or false"},
		{"quoted true", profile(`fs: {system: "true"}`), 3, 20, "system must be true or false, not a text", "true or false"},
		{"workspace", profile("fs: {workspace: w}"), 3, 23, `workspace cannot be "w"`, `did you mean "rw"?`},
		{"relative path", profile("fs: {read: [opt]}"), 3, 19, `read of fs: "opt" is not an absolute path`, "/opt/tools:/tools"},
		{"dots", profile("fs: {read: [/opt/../etc]}"), 3, 19, `read of fs: "/opt/../etc" is not in its shortest form, "/etc"`, ""},
		{"whole host", profile(`fs: {read: ["/:/host"]}`), 3, 19, `read of fs: "/:/host" would show the whole host`, ""},
		{"over proc", profile(`fs: {write: ["/a:/proc/1"]}`), 3, 20, "write of fs: /proc/1 belongs to the box itself", ""},
		{"over the workspace", profile(`fs: {write: ["/a:/workspace"]}`), 3, 20, "write of fs: /workspace belongs to the box itself", ""},
		{"two colons", profile(`fs: {read: ["/a:/b:ro"]}`), 3, 19, `read of fs: "/a:/b:ro" has more than one colon`, ""},
		{"same place twice", profile(`fs: {read: ["/a:/c"], write: ["/b:/c"]}`), 3, 37, "/c already leads to another entry of fs", ""},
		{"open network", profile("net: {mode: host}"), 3, 19, `mode of net cannot be "host"`, "none"},
		{"network without mode", profile("net: {}"), 3, 12, "net has no mode", "mode: none"},
		{"variable", profile("env: {1A: x}"), 3, 13, `"1A" is not a valid name of a variable`, ""},
		{"variable without text", profile("env: {A: }"), 3, 16, "variable A must be a text, not nothing", `""`},
		{"variable with nul", profile(`env: {A: "\0"}`), 3, 16, "variable A contains a NUL byte", ""},
		{"no io", limit("io: 0"), 3, 20, "io must be above zero", "cannot be switched off"},
		{"no file size", limit("file_size: 0"), 3, 27, "file_size must be above zero", "cannot be switched off"},
		{"file size", limit("filesize: 1GiB"), 3, 16, `limits has no key "filesize"`, `did you mean "file_size"?`},
		{"storage", profile("fs: {storage: dsk}"), 3, 21, `storage cannot be "dsk"`, `did you mean "disk"?`},
		{"storage as key", profile("fs: {storgae: disk}"), 3, 12, `fs has no key "storgae"`, `did you mean "storage"?`},
		{"protect", profile("fs: {protect: nome}"), 3, 21, `protect cannot be "nome"`, `did you mean "none"?`},
		{"protect true", profile("fs: {protect: true}"), 3, 21, "protect must be a text, not the truth value true", ""},
		{"protect nothing", profile("fs: {protect: []}"), 3, 21, "protect must not be empty", "at least one"},
		{"protect a word", profile("fs: {protect: [default, a]}"), 3, 22, `"default" cannot be part of a list of protected paths`, "besides"},
		{"protect absolute", profile("fs: {protect: [/etc]}"), 3, 22, `"/etc" of protect is not relative to the workspace`, "below the workspace"},
		{"protect above", profile("fs: {protect: [a/../../b]}"), 3, 22, `"a/../../b" of protect contains ..`, "below"},
		{"protect with nul", profile(`fs: {protect: ["a\0"]}`), 3, 22, `"a\x00" of protect contains a control character`, ""},
		{"protect all", profile("fs: {protect: [.]}"), 3, 22, `"." of protect is not the shortest form of a path below the workspace`, "ro"},
		{"protect long form", profile("fs: {protect: [a//b]}"), 3, 22, `"a//b" of protect is not the shortest form of a path below the workspace`, ""},
		{"protect twice", profile("fs: {protect: [a, a/]}"), 3, 25, "protect names a twice", "remove"},

		{"totals as key", head + "total: {}\n", 7, 1, `a policy has no key "total"`, `did you mean "totals"?`},
		{"key of totals", head + "totals: {box: 1}\n", 7, 10, `totals has no key "box"`, "memory, pids, cpu, boxes"},
		{"no boxes", head + "totals: {boxes: 0}\n", 7, 17, "boxes must be above zero", "switched off"},
		{"zero cpu of all", head + "totals: {cpu: 0}\n", 7, 15, "cpu is 0, outside 0.01 to 65536", "switched off"},
		{"pids of all", head + "totals: {pids: 2k}\n", 7, 16, `pids cannot be "2k"`, "whole number"},
		{"less memory for all", head + "totals: {memory: 2GiB}\n", 7, 18, "the total is 2GiB, less than profile offline gives to one box: memory and tmp of 3221225472 bytes", "raise"},
		{"fewer pids for all", head + "totals: {pids: 511}\n", 7, 16, "the total is 511, less than profile net gives to one box: pids of 512", "raise"},
		{"less cpu for all", head + "totals: {cpu: 1.5}\n", 7, 15, "the total is 1.5, less than profile net gives to one box: cpu of 2", "raise"},

		{"require", profile("require: [memry]"), 3, 17, `require cannot name "memry"`, `did you mean "memory"?`},
		{"require twice", profile("require: [pids, pids]"), 3, 23, "require names pids twice", ""},

		{"rule without id", rules("{match: {tool: Bash}, decision: allow}"), 8, 5, "the rule has no id", "id:"},
		{"bad id", rules("{id: No Push, match: {tool: Bash}, decision: allow}"), 8, 10, `"No Push" cannot be the id of a rule`, "lower-case letters"},
		{"reserved id", rules("{id: default, match: {tool: Bash}, decision: allow}"), 8, 10, `"default" is reserved for decisions that no rule made`, ""},
		{"same id", rules("{id: a, match: {tool: Bash}, decision: allow}\n  - {id: a, match: {tool: Bash}, decision: ask}"), 9, 5, "the id a is taken by the rule on line 8", ""},
		{"no match", rules("{id: a, decision: allow}"), 8, 5, "the rule has no match", `tool: "*"`},
		{"empty match", rules("{id: a, match: {}, decision: allow}"), 8, 20, "match must not be empty", "tool"},
		{"empty list", rules("{id: a, match: {tool: []}, decision: allow}"), 8, 27, "tool must not be empty", ""},
		{"no decision", rules("{id: a, match: {tool: Bash}}"), 8, 5, "the rule has no decision", ""},
		{"tool of unless", rules("{id: a, match: {tool: Bash}, unless: {tool: Bash}, decision: allow}"), 8, 43, `unless has no key "tool"`, ""},
		{"misspelt tool", rules("{id: a, match: {tool: bash}, decision: allow}"), 8, 27, `tool "bash" does not exist`, "did you mean Bash?"},
		{"profile of a rule", rules("{id: a, match: {tool: Bash, profile: dev}, decision: allow}"), 8, 42, `profile "dev" does not exist`, "net, offline, readonly"},
		{"profile of a deny", rules("{id: a, match: {tool: Bash}, decision: deny, profile: net}"), 8, 59, "only a rule that allows grants a profile", ""},
		{"unsure", rules("{id: a, match: {tool: Bash}, decision: deny, unsure: deny}"), 8, 58, `unsure cannot be "deny"`, "ask, pass"},
		{"unsure allow", rules("{id: a, match: {tool: Bash}, decision: allow, unsure: pass}"), 8, 59, "only a rule that refuses can be unsure", "always sure"},
		{"number as reason", rules("{id: a, match: {tool: Bash}, decision: deny, reason: 5}"), 8, 58, "reason must be a text, not the number 5", `"5"`},
		{"stars in a word", rules(`{id: a, match: {command: "git**"}, decision: deny}`), 8, 30, `command "git**": ** must be a whole word or segment; inside of one write *`, ""},
		{"regexp", rules(`{id: a, match: {command: "gi[t]"}, decision: deny}`), 8, 30, `command "gi[t]": '[' has no meaning here; the wildcards are *, ** and {a,b}`, ""},
		{"open brace", rules(`{id: a, match: {command: "{a,b"}, decision: deny}`), 8, 30, `command "{a,b": a { without its }`, ""},
		{"home", rules(`{id: a, match: {path: "~/.ssh"}, decision: deny}`), 8, 27, `path "~/.ssh": ~ is not expanded; write the path as the box sees it`, ""},
		{"relative glob", rules(`{id: a, match: {path: src}, decision: deny}`), 8, 27, `path "src": is not absolute; begin it with / or with **/`, ""},
		{"url without path", rules(`{id: a, match: {url: "https://go.dev"}, decision: deny}`), 8, 26, `url "https://go.dev": has no path; write https://go.dev/** for all of the host`, ""},
		{"url with user", rules(`{id: a, match: {url: "https://u@go.dev/"}, decision: deny}`), 8, 26, `url "https://u@go.dev/": may name scheme, host, port and path only`, ""},
		{"star in a host", rules(`{id: a, match: {url: "https://*go.dev/"}, decision: deny}`), 8, 26, `url "https://*go.dev/": has the host "*go.dev"; write a name, *.name, <public> or *`, ""},

		{"test without call", head + "tests: [{want: allow}]\n", 7, 9, "the test makes no call", "bash"},
		{"test without want", head + "tests: [{bash: ls}]\n", 7, 9, "the test wants nothing", "want"},
		{"test of two", head + "tests: [{bash: ls, call: {tool: Bash}, want: ask}]\n", 7, 26, "the test makes two calls", ""},
		{"test of no rule", head + "tests: [{bash: ls, want: ask, rule: defalt}]\n", 7, 37, `rule "defalt" does not exist`, `did you mean "default"?`},
		{"failing test", head + "tests:\n  - {bash: ls, want: allow}\n", 8, 5, "test failed: want allow, got ask by default", "fix"},
	}
	var all []string
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := faults(t, tt.text)
			all = append(all, e.Error())
			f := e.Faults[0]
			if f.Line != tt.line || f.Col != tt.col || f.Message != tt.message || !strings.Contains(f.Hint, tt.hint) || len(e.Faults) != 1 || f.File != "policy.yaml" {
				t.Errorf("got\n%v\nwant %d:%d: %s\n and a hint with %q", e, tt.line, tt.col, tt.message, tt.hint)
			}
		})
	}
	if len(all) == len(tests) {
		golden.Equal(t, "faults/policy.golden", strings.Join(all, "\n\n")+"\n")
	}
}

func TestSyntaxFaultIsOnItsLine(t *testing.T) {
	tests := []struct {
		name, text string
		line, col  int
		hint       string
	}{
		{"indent", "version: 1\nprofiles:\n  a: {}\n bad: 1\n", 4, 2, "indentation"},
		{"first lines indented", "  version: 1\n  profiles: {a: {}}\nrules: []\ntests: []\n", 3, 1, "indentation"},
		{"tab", "version: 1\nprofiles:\n\ta: {}\n", 3, 1, "spaces, not with tabs"},
		{"unquoted stars", "version: 1\nrules:\n  - id: a\n    match: {command: [**]}\n", 4, 5, "quotes"},
		{"open bracket", "version: 1\nprofiles: {a: {}\nrules: []\n", 2, 1, "indentation"},
		{"open quotes", "version: 1\nprofiles:\n  a: {}\nrules: \"x\ntests: []\n", 4, 1, "quotes"},
	}
	var all []string
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := faults(t, tt.text).Faults[0]
			all = append(all, f.String())
			if f.Line != tt.line || f.Col != tt.col || !strings.Contains(f.Hint, tt.hint) || !strings.HasPrefix(f.Message, "not YAML: ") {
				t.Errorf("got\n%v\nwant %d:%d and a hint with %q", f, tt.line, tt.col, tt.hint)
			}
		})
	}
	if len(all) == len(tests) {
		golden.Equal(t, "faults/syntax.golden", strings.Join(all, "\n\n")+"\n")
	}
}

// A character that is not visible is shown as a visible character.
func TestFaultHidesNothing(t *testing.T) {
	got := policies.Fault{File: "p", Line: 1, Col: 1, Message: "m", Text: "a\u3164b\u00a0c\x1bd\u202ee\tf"}.String()
	if want := "  1 | a\ufffdb\ufffdc\ufffdd\ufffde\tf\n"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nprofiles: {a: {}}\n")
	for i := range 60 {
		fmt.Fprintf(&b, "key%d: 1\n", i)
	}
	e := faults(t, b.String())
	if len(e.Faults) != 50 || e.More != 10 || !strings.HasSuffix(e.Error(), "\nand 10 more") {
		t.Errorf("got %d faults and %d more, want 50 and 10", len(e.Faults), e.More)
	}
	long := faults(t, "version: 1\nprofiles: {a: {}}\n"+strings.Repeat("k", 500)+": \x1b[31m\n")
	for line := range strings.Lines(long.Error()) {
		if len(line) > 700 || bytes.ContainsRune([]byte(line), 0x1b) {
			t.Errorf("a line of %d bytes reaches the terminal: %q", len(line), line)
		}
	}
}

// An alias bomb of nine levels would have 9^9 leaves if it were expanded.
func TestAliasBombIsRefusedAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nprofiles:\n  a: &a {}\n")
	before := "a"
	for name := range strings.SplitSeq("bcdefghij", "") {
		fmt.Fprintf(&b, "  %s: &%s [%s]\n", name, name, strings.TrimSuffix(strings.Repeat("*"+before+",", 9), ","))
		before = name
	}
	start := time.Now()
	e := faults(t, b.String())
	if took := time.Since(start); took > 5*time.Second || len(e.Faults) != 50 {
		t.Errorf("got %d faults in %v", len(e.Faults), took)
	}
}

func TestGrantHoldsWhatTheProfileSays(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: allow}
profiles:
  full:
    fs: {system: true, workspace: ro, read: [/opt/go, "/srv/data:/data"], write: "/srv/out:/out", storage: disk, protect: [deploy/, .env]}
    net: {mode: none}
    limits: {memory: 64MiB, pids: 7, cpu: 0.5, tmp: 1000, tmp_files: 9, open_files: 10, file_size: 7MiB, io: 5 MB, wall: 90s, background: 1h30m, jobs: 3, output: 2 MB}
    env: {CI: true, N: 010, EMPTY: "", TEXT: a b}
    require: [memory, cpu, io, disk]
totals: {memory: 65MiB, pids: 8, cpu: 0.75, boxes: 2}
`)
	g := p.Decide(policies.Facts{Tenant: "acme", Tool: "Bash", Command: "ls"}).Grant
	type seen struct {
		Tenant, Profile string
		Access          policies.Access
		System          bool
		Mounts          []policies.Mount
		Network         policies.Network
		Storage         policies.Storage
		Protect         policies.Protect
		Limits          policies.Limits
		Totals          policies.Totals
		Env             map[string]string
		Require         []policies.Limit
	}
	limits := emptyProfile(t).Limits()
	limits.Memory, limits.Pids, limits.CPU = 64<<20, 7, 0.5
	limits.Tmp, limits.TmpFiles, limits.OpenFiles, limits.FileSize, limits.IO = 1000, 9, 10, 7<<20, 5_000_000
	limits.Wall, limits.Background, limits.Jobs, limits.Output = 90*time.Second, 90*time.Minute, 3, 2_000_000
	want := seen{
		"acme", "full", policies.AccessRead, true,
		[]policies.Mount{{Source: "/opt/go", Target: "/opt/go"}, {Source: "/srv/data", Target: "/data"}, {Source: "/srv/out", Target: "/out", Writable: true}},
		policies.NetworkNone, policies.StorageDisk,
		policies.Protect{Also: []string{".env", "deploy"}},
		limits,
		policies.Totals{Memory: 65 << 20, Pids: 8, CPU: 0.75, Boxes: 2, Disk: policies.DefaultTotalDisk, Egress: policies.DefaultTotalEgress, Browsers: policies.DefaultTotalBrowsers},
		map[string]string{"CI": "true", "N": "010", "EMPTY": "", "TEXT": "a b"},
		[]policies.Limit{policies.LimitMemory, policies.LimitCPU, policies.LimitIO, policies.LimitDisk},
	}
	got := seen{g.Tenant(), g.Profile(), g.Workspace(), g.System(), g.Mounts(), g.Network(), g.Storage(), g.Protect(), g.Limits(), g.Totals(), g.Env(), g.Require()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("grant (-want +got):\n%s", diff)
	}
}

// emptyProfile returns the grant of a profile without keys.
func emptyProfile(t *testing.T) policies.Grant {
	t.Helper()
	return parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\n").Decide(bash("ls")).Grant
}

// docs/policy.md contains the limits of a profile that states none.
func TestAnEmptyProfileIsClosedAndBounded(t *testing.T) {
	g := emptyProfile(t)
	if g.IsZero() || g.Workspace() != policies.AccessNone || g.System() || len(g.Mounts()) != 0 || g.Network() != policies.NetworkNone || g.Protect().Off {
		t.Errorf("got a grant with more than nothing: %+v", g)
	}
	if unset := g.Limits().Unset(); unset != "" {
		t.Errorf("there is no limit of %s", unset)
	}
	documented := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {limits: {"+documentedLimits+"}}}\n").Decide(bash("ls")).Grant
	if diff := cmp.Diff(documented.Limits(), g.Limits()); diff != "" {
		t.Errorf("limits (-docs/policy.md +got):\n%s", diff)
	}
}

// One box must be able to use what its profile gives. So a total that the policy does not
// state follows the largest profile.
func TestTotalsFollowTheLargestProfile(t *testing.T) {
	standard := policies.Totals{Memory: policies.DefaultTotalMemory, Pids: policies.DefaultTotalPids, CPU: policies.DefaultTotalCPU, Boxes: policies.DefaultTotalBoxes, Disk: policies.DefaultTotalDisk, Egress: policies.DefaultTotalEgress, Browsers: policies.DefaultTotalBrowsers}
	if got := policies.Default().Decide(bash("ls")).Grant.Totals(); got != standard {
		t.Errorf("the bundled policy states %+v, the defaults are %+v", got, standard)
	}
	for name, tt := range map[string]struct {
		text string
		want policies.Totals
	}{
		"small": {"profiles: {a: {}}", standard},
		"large": {
			"defaults: {profile: b}\nprofiles: {a: {limits: {memory: 16GiB, tmp: 4GiB}}, b: {limits: {pids: 9999, cpu: 8}}}",
			policies.Totals{Memory: 20 << 30, Pids: 9999, CPU: 8, Boxes: policies.DefaultTotalBoxes, Disk: policies.DefaultTotalDisk, Egress: policies.DefaultTotalEgress, Browsers: policies.DefaultTotalBrowsers},
		},
		"on disk": {
			"profiles: {a: {fs: {storage: disk}, limits: {memory: 16GiB, tmp: 4GiB}}}\ntotals: {boxes: 1}",
			policies.Totals{Memory: 16 << 30, Pids: policies.DefaultTotalPids, CPU: policies.DefaultTotalCPU, Boxes: 1, Disk: policies.DefaultTotalDisk, Egress: policies.DefaultTotalEgress, Browsers: policies.DefaultTotalBrowsers},
		},
	} {
		p := parse(t, "version: 1\n"+tt.text+"\nrules: [{id: all, match: {tool: Bash}, decision: allow}]\n")
		if got := p.Decide(bash("ls")).Grant.Totals(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "default.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("? {a: b}\n: - [\n"))
	f.Add([]byte("%YAML 1.1\n---\n...\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policies.Parse("f", text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v and %v", p, err)
		}
		if err != nil {
			var e *policies.ParseError
			if !errors.As(err, &e) {
				t.Fatalf("got %T: %v", err, err)
			}
			for _, fault := range e.Faults {
				if fault.Line < 1 || fault.Col < 1 || fault.Message == "" {
					t.Errorf("fault without a place or message: %+v", fault)
				}
			}
			if len(e.Faults) == 0 || len(e.Faults) > 50 {
				t.Errorf("got %d faults", len(e.Faults))
			}
			return
		}
		for _, name := range p.Profiles() {
			d := p.Decide(policies.Facts{Tool: "Bash", Profile: name, Command: "ls -l $(pwd)"})
			if (d.Verdict == policies.Allow) == d.Grant.IsZero() {
				t.Errorf("profile %s: verdict %v with the grant %+v", name, d.Verdict, d.Grant)
			}
		}
	})
}
