package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRead checks that Read accepts any bytes: it does not crash and does not load a part
// of an invalid entry, and the loaded entries are within the bounds and can be expanded.
func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/corpus/*")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, w := range wrongFiles {
		f.Add([]byte(w.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, faults := Read("servers", data)
		if Failed(faults) && len(entries) > 0 {
			t.Fatalf("%d entries of a file with the fault %v", len(entries), faults[0])
		}
		if len(faults) > maxFaults+1 || len(entries) > maxEntries {
			t.Fatalf("%d faults, %d entries", len(faults), len(entries))
		}
		lines := strings.Count(string(data), "\n") + 1
		failed := map[string]bool{}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines+1 || fault.Col < 1 || !utf8.ValidString(fault.Message) || strings.ContainsAny(fault.Message, "\n\r\x1b") {
				t.Fatalf("the fault %#v of a file of %d lines", fault, lines)
			}
			failed[fault.Entry] = failed[fault.Entry] || fault.Level == Error
		}
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.Name] || failed[e.Name] && e.Name != "" || strings.TrimSpace(e.Name) == "" || len(e.Prefix) > maxPrefix || e.Prefix != safe(e.Prefix) || strings.EqualFold(e.Prefix, "mcp") {
				t.Fatalf("the entry %q with the prefix %q", e.Name, e.Prefix)
			}
			seen[e.Name] = true
			if e.Enabled && e.Command.Empty() == e.URL.Empty() {
				t.Fatalf("%q has a command %q and the URL %q", e.Name, e.Command, e.URL)
			}
			for _, v := range e.Env {
				if Reserved(v.Name) || strings.ContainsAny(v.Name, "=\x00") {
					t.Fatalf("the variable %q", v.Name)
				}
			}
			expanded, wrong := Expand(e, testLookup)
			if expanded.Name == "" && len(wrong) == 0 {
				t.Fatalf("%q is not expanded, for no reason", e.Name)
			}
			for _, v := range expanded.Headers {
				if value, _ := v.Value.Reveal(func(string) (string, error) { return "", nil }); strings.ContainsAny(value+v.Name, "\r\n\x00") {
					t.Fatalf("the header %q: %q", v.Name, value)
				}
			}
			for _, a := range expanded.Args {
				if value, ok := a.Plain(); ok && strings.Contains(value, canary) && !strings.Contains(string(data), "CANARY") {
					t.Fatalf("an argument is %q", value)
				}
			}
		}
	})
}
