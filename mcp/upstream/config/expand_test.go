package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/golden"
)

var testLookup = Lookup{
	Variable: func(name string) (string, bool) {
		v, ok := map[string]string{
			"TOKEN": "t0k3n", "EMPTY": "", "DIR": "/opt/tools", "BELLJAR_TOKEN": canary, "BREAK": "a\r\nHost: b", "NUL": "a\x00b",
			"TRICK": "${secret:vault}", "HOST": "user:pw@a.example", "FRAGMENT": "#x", "LONG": strings.Repeat("x", 100),
		}[name]
		return v, ok
	},
	Input: func(id string) (string, bool) {
		v, ok := map[string]string{"region": "eu", "key": "typed-in"}[id]
		return v, ok
	},
	Secret:    func(name string) bool { return name == "vault" || name == "key" || name == "a/b.c-d" },
	Workspace: "/srv/loom",
	Home:      "/srv/ada",
}

func one(t *testing.T, entry string) Entry {
	t.Helper()
	entries, faults := Read("servers", []byte(`{"servers": {"a": `+entry+`}, "inputs": [{"id": "key", "password": true}, {"id": "region"}, {"id": "stage", "default": "dev"}, {"id": "open"}]}`))
	if len(entries) != 1 {
		t.Fatalf("%s: %v", entry, faults)
	}
	return entries[0]
}

// The references of Claude Code and VS Code are expanded. Other text stays unchanged. An
// empty want stands for a fault; the texts of the faults are in a golden file.
func TestExpansions(t *testing.T) {
	var b strings.Builder
	for _, test := range []struct{ text, want string }{
		{`plain`, `plain`},
		{`${TOKEN}`, `t0k3n`},
		{`a${TOKEN}b${DIR}c`, `at0k3nb/opt/toolsc`},
		{`${TOKEN:-other}`, `t0k3n`},
		{`${NONE:-other}`, `other`},
		{`${NONE:-}`, `-`},
		{`${EMPTY}`, `-`},
		{`${EMPTY:-other}`, `other`},
		{`${NONE:-a:-b}`, `a:-b`},
		{`${NONE:-a b/$c}`, `a b/$c`},
		{`${env:TOKEN}`, `t0k3n`},
		{`${env:NONE:-x}`, `x`},
		{`${input:region}`, `eu`},
		{`${input:stage}`, `dev`},
		{`${workspaceFolder}/x`, `/srv/loom/x`},
		{`${workspaceFolderBasename}`, `loom`},
		{`${userHome}`, `/srv/ada`},
		{`a${pathSeparator}b${/}c`, `a/b/c`},
		{`${secret:vault}`, `<vault>`},
		{`x${secret:a/b.c-d}y`, `x<a/b.c-d>y`},
		{`${input:key}`, `<key>`},
		{`$TOKEN`, `$TOKEN`},
		{`$$`, `$$`},
		{`$(id)`, `$(id)`},
		{`${`, `${`},
		{`${}`, `${}`},
		{`${TOKEN`, `${TOKEN`},
		{`${1}`, `${1}`},
		{`${a-b}`, `${a-b}`},
		{`${TOKEN%x}`, `${TOKEN%x}`},
		{`${x:0:3}`, `${x:0:3}`},
		{`$${TOKEN}`, `$t0k3n`},
		{`${ ${TOKEN}`, `${ t0k3n`},
		{`${TOKEN}}`, `t0k3n}`},
		{`%USERPROFILE%`, `%USERPROFILE%`},
		{`~/x`, `~/x`},
		{`${TRICK}`, `${secret:vault}`},
		{`${NONE}`, ``},
		{`${env:NONE}`, ``},
		{`${input:open}`, ``},
		{`${input:undeclared}`, ``},
		{`${secret:none}`, ``},
		{`${NUL}`, ``},
	} {
		e := one(t, fmt.Sprintf(`{"command": "x", "env": {"V": %q}}`, test.text))
		got, faults := Expand(e, testLookup)
		if len(faults) > 0 {
			fmt.Fprintf(&b, "== %s\n%v\n", test.text, faults[0])
			if test.want != "" || got.Name != "" {
				t.Errorf("%s: got %v, want %q", test.text, faults, test.want)
			}
			continue
		}
		value, err := got.Env[0].Value.Reveal(func(name string) (string, error) { return "<" + name + ">", nil })
		if want := strings.TrimSuffix(test.want, "-"); err != nil || value != want || test.want == "" {
			t.Errorf("%s: got %q, %v, want %q", test.text, value, err, test.want)
		}
		if again := e.Env[0].Value.String(); strings.Contains(again, "t0k3n") || strings.Contains(again, "<") {
			t.Errorf("%s: the entry itself became %s", test.text, again)
		}
	}
	mute(t, b.String())
	golden.Equal(t, "expansions.golden", b.String())
}

func TestHomesOfPaths(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{`~/bin/server`, `/srv/ada/bin/server`},
		{`~`, `/srv/ada`},
		{`~bob/bin`, `~bob/bin`},
		{`a~/b`, `a~/b`},
		{`%USERPROFILE%\\mcp\\s.exe`, `/srv/ada/mcp/s.exe`},
		{`%userprofile%/s`, `/srv/ada/s`},
		{`~/${DIR}`, `/srv/ada//opt/tools`},
		{`${DIR}/~/x`, `/opt/tools/~/x`},
	} {
		e := one(t, `{"command": "`+test.path+`", "cwd": "`+test.path+`", "envFile": "`+test.path+`", "args": ["~/x"]}`)
		got, faults := Expand(e, testLookup)
		if len(faults) > 0 {
			t.Errorf("%s: %v", test.path, faults)
			continue
		}
		for _, text := range []Text{got.Command, got.Cwd, got.EnvFile} {
			if value, _ := text.Plain(); value != test.want {
				t.Errorf("%s: got %q, want %q", test.path, value, test.want)
			}
		}
		if arg, _ := got.Args[0].Plain(); arg != "~/x" {
			t.Errorf("an argument became %q: a program gets ~ as it is written", arg)
		}
	}
	if _, faults := Expand(one(t, `{"command": "~/x"}`), Lookup{}); len(faults) != 1 {
		t.Errorf("without a home directory the faults are %v", faults)
	}
}

// The value of a variable is checked in the same way as the text of the file.
func TestExpandedTextsAreChecked(t *testing.T) {
	for _, entry := range []string{
		`{"url": "https://a.example/", "headers": {"X-A": "${BREAK}"}}`,
		`{"url": "https://${HOST}/"}`,
		`{"url": "https://a.example/${FRAGMENT}"}`,
		`{"url": "https://a.example/${BREAK}"}`,
		`{"url": "${TOKEN}"}`,
		`{"url": "${EMPTY}"}`,
		`{"command": "${EMPTY}"}`,
		`{"command": "x", "args": ["${NUL}"]}`,
		`{"url": "https://${input:key}/"}`,
		`{"url": "${input:key}"}`,
	} {
		if got, faults := Expand(one(t, entry), testLookup); len(faults) == 0 || got.Name != "" {
			t.Errorf("%s is taken", entry)
		}
	}
	for _, entry := range []string{
		`{"url": "https://${LONG}.example/${TOKEN}?key=${secret:vault}", "headers": {"Authorization": "Bearer ${secret:vault}"}}`,
		`{"url": "https://a.example:${PORT:-8443}/mcp"}`,
	} {
		if _, faults := Expand(one(t, entry), testLookup); len(faults) > 0 {
			t.Errorf("%s: %v", entry, faults)
		}
	}
}

// Without a lookup no variable is set. A variable of belljar's own is never filled in.
func TestAnEmptyLookupKnowsNothing(t *testing.T) {
	for _, text := range []string{"${TOKEN}", "${input:region}", "${secret:vault}", "${workspaceFolder}", "${userHome}", "${workspaceFolderBasename}"} {
		if got, faults := Expand(one(t, `{"command": "x", "args": ["`+text+`"]}`), Lookup{}); len(faults) != 1 || got.Name != "" {
			t.Errorf("%s: got %v", text, faults)
		}
	}
	x := &expander{lookup: testLookup}
	p := piece{ref: variable, name: "BELLJAR_TOKEN"}
	x.variable(&p, place{}, "it")
	if p.text != "" || len(x.faults) != 1 {
		t.Errorf("belljar's own variable became %q", p.text)
	}
}

// No printed or marshalled form of an entry contains values or secrets.
func TestTextsDoNotShowValues(t *testing.T) {
	e, faults := Expand(one(t, `{"command": "x", "env": {"A": "pre-${TOKEN}-${secret:vault}-${input:region}"}}`), testLookup)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	text := e.Env[0].Value
	marshalled, err := text.MarshalText()
	shown := []string{text.String(), fmt.Sprint(text), fmt.Sprintf("%v", e.Env), fmt.Sprintf("%+v %#v", text, e), text.Pinned(), string(marshalled)}
	for _, s := range shown {
		if err != nil || strings.Contains(s, "t0k3n") || strings.Contains(s, "-eu") || !strings.Contains(s, "${secret:vault}") {
			t.Errorf("shown as %s", s)
		}
	}
	if _, ok := text.Plain(); ok {
		t.Error("a text with a secret is plain")
	}
	if got := text.Secrets(); !slices.Equal(got, []string{"vault"}) {
		t.Errorf("its secrets are %q", got)
	}
	lost := errors.New("lost")
	if _, err := text.Reveal(func(string) (string, error) { return "", lost }); !errors.Is(err, lost) {
		t.Errorf("a secret that is lost: %v", err)
	}
	if _, err := one(t, `{"command": "${TOKEN}"}`).Command.Reveal(nil); err == nil {
		t.Error("a text that nobody filled in has a value")
	}
	if got := References(one(t, `{"command": "${A}", "args": ["${input:region}", "${secret:vault}", "${env:B:-c}", "${workspaceFolder}"]}`)); !slices.Equal(got, []string{"${A}", "${B}", "${input:region}", "${secret:vault}"}) {
		t.Errorf("it refers to %q", got)
	}
}

// A pin changes with the value of a variable, and not with the value of a secret.
func TestPinnedTextsFollowVariables(t *testing.T) {
	pinned := func(value string) string {
		l := testLookup
		l.Variable = func(string) (string, bool) { return value, true }
		e, faults := Expand(one(t, `{"command": "x", "args": ["${A}", "${secret:vault}"]}`), l)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return e.Args[0].Pinned() + e.Args[1].Pinned()
	}
	if one, other := pinned("one"), pinned("other"); one == other || strings.Contains(one, "one") {
		t.Errorf("got %s and %s", one, other)
	}
	if a, b := pinned("same"), pinned("same"); a != b {
		t.Errorf("got %s and %s for the same", a, b)
	}
}

func TestTextsAreCut(t *testing.T) {
	e, _ := Expand(one(t, `{"command": "x", "args": ["K=${secret:vault}=x", "${DIR}=v", "${secret:vault}=v", "none"]}`), testLookup)
	for i, want := range []string{"K|${secret:vault}=x|true", "/opt/tools|v|true", "||false", "||false"} {
		before, after, found := e.Args[i].Cut("=")
		if got := fmt.Sprintf("%s|%s|%v", before, after, found); got != want {
			t.Errorf("%s: got %s, want %s", e.Args[i], got, want)
		}
	}
	if rest, ok := e.Args[0].Without("K="); !ok || rest.String() != "${secret:vault}=x" || rest.With("J=").String() != "J=${secret:vault}=x" {
		t.Errorf("without its beginning it is %s, %v", rest, ok)
	}
	if rest, ok := e.Args[1].Without("/opt"); ok || rest.String() != e.Args[1].String() {
		t.Errorf("the value of a variable was cut: %s", rest)
	}
}

// The example has two files: one for all workspaces, and one of a workspace.
func TestLaterLayersReplaceWhatTheyName(t *testing.T) {
	read := func(file, data string) []Entry {
		entries, faults := Read(file, []byte(data))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return entries
	}
	global := read("mcp_servers.json", `[
		{"name": "playwright", "command": "npx", "args": ["-y", "@anthropic/mcp-server-playwright"], "env": {"A": "1"}, "enabled": true, "tools_prefix": "playwright"},
		{"name": "memory", "command": "memory"}, {"name": "third", "command": "third"}]`)
	project := read("project/mcp_servers.json", `[{"name": "third", "command": "other"}]`)
	workspace := read("workspaces/x/mcp_servers.json", `[
		{"name": "new", "command": "n"}, {"name": "playwright", "command": "pw", "tools_prefix": "p"},
		{"name": "memory", "enabled": false}, {"name": "third", "command": "last"}]`)
	all := Merge(Layer{Trusted: true, Entries: global}, Layer{Trusted: true, Entries: project}, Layer{Entries: workspace})
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s %s %v args=%d env=%d prefix=%s trusted=%v", e.Name, e.Command, e.Enabled, len(e.Args), len(e.Env), e.Prefix, e.Source.Trusted)
		for _, s := range e.Source.Hides {
			fmt.Fprintf(&b, " over %s:%d trusted=%v", s.File, s.Line, s.Trusted)
		}
		b.WriteByte('\n')
	}
	want := `playwright pw true args=0 env=0 prefix=p trusted=false over mcp_servers.json:2 trusted=true
memory  false args=0 env=0 prefix=memory trusted=false over mcp_servers.json:3 trusted=true
third last true args=0 env=0 prefix=third trusted=false over project/mcp_servers.json:1 trusted=true over mcp_servers.json:3 trusted=true
new n true args=0 env=0 prefix=new trusted=false
`
	if b.String() != want {
		t.Errorf("got\n%s, want\n%s", b.String(), want)
	}
	if global[0].Source.Trusted || all[0].Source.Digest != workspace[0].Source.Digest || Digest([]byte("a")) == Digest([]byte("b")) {
		t.Error("a source changed, or its digest is not that of its file")
	}
}

func TestReadFileTakesFilesOnly(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "passwd")
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(at("good"), []byte("{}"), 0o600),
		os.WriteFile(at("large"), make([]byte, MaxFile+1), 0o600),
		os.Symlink(outside, at("link")),
		os.Symlink("good", at("near")),
		os.Mkdir(at("dir"), 0o700),
		os.Symlink(filepath.Dir(outside), at("away")),
		syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if data, err := ReadFile(root, "good"); err != nil || string(data) != "{}" {
		t.Errorf("got %q, %v", data, err)
	}
	for name, want := range map[string]string{
		"link": "symbolic link", "near": "symbolic link", "dir": "not a regular file", "pipe": "not a regular file",
		"large": "more than", "away/passwd": "escapes", "../x": "escapes", "none": "no such file",
	} {
		if data, err := ReadFile(root, name); err == nil || len(data) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %d bytes and %v, want an error with %q", name, len(data), err, want)
		}
	}
}
