package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
)

// dump returns an entry in the form of golden files, without members that have their
// default.
func dump(e Entry) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	fmt.Fprintf(&b, "%s (%s, line %d:%d)\n", quoted(e.Name), e.Kind, e.Source.Line, e.Source.Col)
	if !e.Enabled {
		line("disabled")
	}
	line("prefix %s", e.Prefix)
	if !e.Command.Empty() {
		line("command %s", e.Command)
	}
	for _, a := range e.Args {
		line("arg %s", a)
	}
	for _, v := range e.Env {
		line("env %s=%s", v.Name, v.Value)
	}
	if !e.EnvFile.Empty() {
		line("envFile %s", e.EnvFile)
	}
	if !e.Cwd.Empty() {
		line("cwd %s", e.Cwd)
	}
	if !e.URL.Empty() {
		line("url %s", e.URL)
	}
	for _, v := range e.Headers {
		line("header %s: %s", v.Name, v.Value)
	}
	if !e.Tools.All {
		line("only tools %q", e.Tools.Allow)
	}
	if len(e.Tools.Deny) > 0 {
		line("not tools %q", e.Tools.Deny)
	}
	if s := e.Sandbox; s != nil {
		line("sandbox %v domains %q not %q write %v no read %v no write %v", s.Enabled, s.AllowedDomains, s.DeniedDomains, s.AllowWrite, s.DenyRead, s.DenyWrite)
	}
	for _, in := range e.Inputs {
		line("input %s password=%v default=%q %v", in.ID, in.Password, in.Default, in.HasDefault)
	}
	for _, x := range e.Extra {
		line("extra %s known=%v %q", x.Key, x.Known, x.Text)
	}
	if refs := References(e); len(refs) > 0 {
		line("refers to %s", strings.Join(refs, " "))
	}
	return b.String()
}

func files(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "corpus", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("testdata/corpus: %d files, %v", len(names), err)
	}
	return names
}

func load(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// C14: All files in the formats that other clients document are loaded.
func TestCorpus(t *testing.T) {
	var b strings.Builder
	names := files(t)
	if len(names) < 60 {
		t.Errorf("the corpus has %d files, want at least 60", len(names))
	}
	for _, name := range names {
		data := load(t, name)
		entries, faults := Read(filepath.Base(name), data)
		fmt.Fprintf(&b, "== %s\n", filepath.Base(name))
		for _, f := range faults {
			if f.Level == Error {
				t.Errorf("%s", f)
			}
			fmt.Fprintln(&b, f)
		}
		for _, e := range entries {
			if e.Source.Digest != Digest(data) || e.Source.File != filepath.Base(name) || e.Source.Trusted {
				t.Errorf("%s: %s has the source %+v", name, e.Name, e.Source)
			}
			b.WriteString(dump(e))
		}
	}
	golden.Equal(t, "corpus.golden", b.String())
}

// The name of a file has no effect: each file is read in the same way under another name.
func TestNameOfTheFileSaysNothing(t *testing.T) {
	for _, name := range files(t) {
		data := load(t, name)
		want, _ := Read("x", data)
		for _, other := range []string{"mcp.json", "config.toml", "a.yaml", ""} {
			got, _ := Read(other, data)
			if !slices.EqualFunc(got, want, func(a, b Entry) bool { return dump(a) == dump(b) }) {
				t.Errorf("%s is read otherwise as %q", name, other)
			}
		}
	}
}

// Keys without effect are kept exactly as they are in the file.
func TestUnknownKeysAreKeptByteForByte(t *testing.T) {
	count := 0
	for _, name := range files(t) {
		data := string(load(t, name))
		entries, _ := Read(name, []byte(data))
		for _, e := range entries {
			for _, x := range e.Extra {
				count++
				if x.Text == "" || !strings.Contains(data, x.Text) {
					t.Errorf("%s: %s: %q is not a part of the file", name, x.Key, x.Text)
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d keys were looked at", count)
	}
}

// YAML has more ends of lines than \n, and they move the keys behind them.
func TestUnknownKeysBehindOddLineBreaks(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r", "\u0085", "\u2028", "\u2029"} {
		data := "# one" + end + "# two" + end + "mcpServers:\n  a:\n    colour: red\n    command: x\n    shape: round\n"
		entries, faults := Read("servers.yaml", []byte(data))
		if len(entries) != 1 || len(entries[0].Extra) != 2 {
			t.Fatalf("%q: got %d entries and %v", end, len(entries), faults)
		}
		for i, want := range []string{"colour: red", "shape: round"} {
			if got := entries[0].Extra[i].Text; got != want {
				t.Errorf("%q: the key is kept as %q, want %q", end, got, want)
			}
		}
	}
}
