package pin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
	"github.com/google/go-cmp/cmp"
)

// odd returns pins with names that are hard to write on a line.
func odd() []Pin {
	var pins []Pin
	for i, name := range []string{"read_file", "-", "", "with space", "a\"b", "#x", "back\\slash", "line\nend", "hidden\u200bspace", "\u202eleft", "é", "搜索", "a\u00a0b", "\x00", "👍", "'"} {
		pins = append(pins, Pin{"files", KindTool, name, Digest{byte(i)}, someDay.Add(time.Duration(i) * time.Second), First})
	}
	return append(pins,
		Pin{"files", KindRuns, "", Digest{100}, someDay, Import}, Pin{"my server", KindInstructions, "", Digest{101}, someDay, Decided},
		Pin{"my server", KindTemplate, "file:///{path}", Digest{102}, someDay, Import}, Pin{"files", KindTool, "no", Digest{103}, someDay, Refused})
}

func TestFormat(t *testing.T) {
	text := Format(odd())
	golden.Equal(t, "known_upstreams.txt", string(text))
	for line := range strings.Lines(string(text)) {
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r != ' ' && r < '!' || r == 0x200b || r == 0x202e || r == 0xa0 }) {
			t.Errorf("the line %q has a character that does not show", line)
		}
	}
	pins, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(odd()), pins); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if again := Format(pins); string(again) != string(text) {
		t.Errorf("written again:\n%s", again)
	}
}

func TestParse(t *testing.T) {
	d := Digest{7}.String()
	pins, err := Parse([]byte("# a comment\r\n\r\n   files   tool  x   " + d + "  2026-11-23  \nfiles runs - " + d + " 2026-11-23T10:00:00+02:00 first"))
	want := []Pin{{"files", KindTool, "x", Digest{7}, time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), Import}, {"files", KindRuns, "", Digest{7}, time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), First}}
	if diff := cmp.Diff(want, pins); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	line := "files tool x " + d + " 2026-11-23"
	for text, want := range map[string]string{
		"files tool x":                                                           "line 1: it has 3 words",
		"\n\n" + line + " import more":                                           "line 3: it has 7 words",
		line + "\n" + line:                                                       "line 2: tool x occurs twice",
		"files tools x " + d + " 2026-11-23":                                     `line 1: "tools" is not a kind`,
		"files tool x sha256:00 2026-11-23":                                      "line 1: \"sha256:00\" is not sha256: and 64 hexadecimal digits",
		"files tool x sha1" + d[6:] + " 2026-11-23":                              "hexadecimal digits",
		"files tool x " + d[:70] + "g 2026-11-23":                                "hexadecimal digits",
		"files tool x " + d + " yesterday":                                       "is not a time",
		line + " maybe":                                                          "is not a way",
		`files tool "x ` + d + " 2026-11-23":                                     "line 1: a quoted name has no closing quote",
		`files tool "\q" ` + d + " 2026-11-23":                                   "line 1: a quoted name has no closing quote",
		`"" tool x ` + d + " 2026-11-23":                                         "a name is empty",
		"files tool " + strings.Repeat("x", maxName+1) + " " + d + " 2026-11-23": "longer than",
	} {
		if pins, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse %.60q: got %v, %v, want an error with %q", text, pins, err, want)
		}
	}
	for _, text := range []string{header + "2\n", header + "x\n", header + "\n", line + "\n" + header + "2\n"} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrNewer) {
			t.Errorf("parse %q: got %v, want %v", text, err, ErrNewer)
		}
	}
	if _, err := Parse(make([]byte, maxFile+1)); err == nil {
		t.Error("a file that is too large was read")
	}
	var many strings.Builder
	for i := range maxPins + 1 {
		fmt.Fprintf(&many, "files tool x%d %s 2026-11-23\n", i, d)
	}
	if _, err := Parse([]byte(many.String())); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d", maxPins+1)) {
		t.Errorf("a file of too many pins: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(string(Format(odd())))
	f.Add("files tool x " + Digest{}.String() + " 2026-11-23")
	f.Fuzz(func(t *testing.T, text string) {
		pins, err := Parse([]byte(text))
		if err != nil {
			return
		}
		again, err := Parse(Format(pins))
		if err != nil || !slices.Equal(again, sorted(pins)) {
			t.Fatalf("%q: %v, and written and read again %v, %v", text, pins, again, err)
		}
	})
}

// The pins of one belljar can be exported and imported into another one, where they also
// hold in mode Strict.
func TestRoundTrip(t *testing.T) {
	one, two := opened(t, ""), opened(t, "")
	judged(t, one, tofu, base(), "")
	pins, err := one.Export(t.Context(), "t", "")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse(Format(pins))
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Import(t.Context(), "t", "", file, anna); err != nil {
		t.Fatal(err)
	}
	again, err := two.Export(t.Context(), "t", "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pins {
		pins[i].How = Import
	}
	if diff := cmp.Diff(string(Format(pins)), string(Format(again))); diff != "" {
		t.Errorf("exported again (-first +second):\n%s", diff)
	}
	more := base()
	more.Listing.Tools = append(more.Listing.Tools, named("late=1").Listing.Tools...)
	changed := base()
	edit(t, &changed.Listing.Tools[0], "Read the contents", "Read  the contents")
	for _, rules := range []Rules{{Mode: Strict}, tofu, {Mode: Strict, Known: NewKnown(file)}} {
		judged(t, two, rules, base(), "")
		judged(t, two, rules, more, "tool late new")
		judged(t, two, rules, changed, "tool read_file changed")
	}
	// The first list after the import stores the texts, so that a change can be shown.
	judged(t, two, tofu, changed, "tool read_file changed")
	questions, err := two.Questions(t.Context(), server, nil)
	if err != nil || len(questions) != 1 || !strings.Contains(questions[0].Diff, `character 6: nothing became " " (U+0020)`) {
		t.Errorf("the questions are %+v, %v", questions, err)
	}
	// A definition that the file does not have is not trusted, even if it was before.
	short := slices.DeleteFunc(slices.Clone(file), func(p Pin) bool { return p.Name == "search" })
	if err := two.Import(t.Context(), "t", "", short, anna); err != nil {
		t.Fatal(err)
	}
	judged(t, two, tofu, base(), "tool search new")
	// If the file has no pin about what runs, that is not trusted on first use.
	short = slices.DeleteFunc(slices.Clone(file), func(p Pin) bool { return p.Kind == KindRuns || p.Kind == KindListing })
	if err := two.Import(t.Context(), "t", "", short, anna); err != nil {
		t.Fatal(err)
	}
	v := judged(t, two, tofu, Offer{Runs: base().Runs}, "server held, runs new")
	if !strings.Contains(v.Held, "none of them covers what runs") {
		t.Errorf("the reason is %q", v.Held)
	}
	// In mode Strict a file alone is enough: no database is needed, and none is made.
	closed := opened(t, "")
	judged(t, closed, Rules{Mode: Strict, Known: NewKnown(file)}, base(), "")
	judged(t, closed, Rules{Mode: Strict, Known: NewKnown(nil)}, named("a=1"), "server held, runs new, server new, instructions new, tool a new")
	if closed.kept.Store.Made() {
		t.Error("a database was made")
	}
	// A mark in a file does not make anything trusted.
	var marks []Pin
	for _, p := range file {
		p.How = Refused
		marks = append(marks, p)
	}
	judged(t, closed, Rules{Mode: Strict, Known: NewKnown(marks)}, named("a=1"), "server held, runs new, server new, instructions new, tool a new")
}
