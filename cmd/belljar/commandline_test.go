package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/report"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/workspace"
)

// everyCommand returns every command that help shows.
func everyCommand(t *testing.T) (all []*cobra.Command) {
	t.Helper()
	eachCommand(commands(), func(c *cobra.Command) {
		if !c.Hidden {
			all = append(all, c)
		}
	})
	if len(all) < 40 {
		t.Fatalf("got %d commands, want all of them", len(all))
	}
	return all
}

// words returns the words of the command line that name a command.
func words(c *cobra.Command) []string { return strings.Fields(title(c)) }

// ran runs a command line and returns its exit status, output and errors.
func ran(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = run(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// flagLine matches the line on which help shows a flag.
var flagLine = regexp.MustCompile(`^  (?:-\w, |    )--([a-z-]+)(?: ([A-Z][A-Z/=-]*))?(?:$|  )`)

// TestHelpOfEveryCommand checks that help fits 80 columns, and that it shows a word for the
// value of each flag.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, c := range everyCommand(t) {
		t.Run(strings.Join(append([]string{"belljar"}, words(c)...), " "), func(t *testing.T) {
			code, text, errs := ran(append(words(c), "--help")...)
			if code != exitOK || errs != "" {
				t.Fatalf("got status %d and %q", code, errs)
			}
			if _, other, _ := ran(append([]string{"help"}, words(c)...)...); other != text {
				t.Errorf("belljar help says another thing: %s", cmp.Diff(text, other))
			}
			if !strings.Contains(text, "Exit status") {
				t.Error("it names no exit status")
			}
			shown := make(map[string]string)
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if utf8.RuneCountInString(line) > helpWidth && !strings.HasPrefix(line, "  belljar ") {
					t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
				}
				if m := flagLine.FindStringSubmatch(line); m != nil {
					shown[m[1]] = m[2]
				} else if strings.HasPrefix(line, "  ") && strings.HasPrefix(strings.TrimSpace(line), "--") {
					t.Errorf("no flag is shown so: %q", line)
				}
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				value, ok := shown[f.Name]
				switch {
				case f.Hidden:
				case !ok:
					t.Errorf("--%s is not shown", f.Name)
				case (f.Value.Type() == "bool") != (value == ""):
					t.Errorf("--%s is of type %s and shown with %q", f.Name, f.Value.Type(), value)
				case strings.Contains(meaning(f), "`"):
					t.Errorf("--%s has a second backquote, which is taken for nothing: %s", f.Name, meaning(f))
				case f.Usage == "":
					t.Errorf("--%s has no text", f.Name)
				}
			})
		})
	}
}

// TestArgumentsOfEveryCommand checks that a mistake in the number of arguments names what
// is missing or too much, shows the usage of the command, and starts nothing.
func TestArgumentsOfEveryCommand(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	for _, c := range everyCommand(t) {
		if !c.Runnable() || c.HasAvailableSubCommands() && len(argumentsOf(c)) == 0 {
			continue
		}
		wrong := exitUsage
		if c.Name() == "run" {
			wrong = exitRun
		}
		given, some := words(c), false
		check := func(name string, args []string, want string) {
			t.Helper()
			code, out, errs := ran(args...)
			if code != wrong || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s of %q: got status %d, %q and %q, want status %d and one line with %q", name, args, code, out, errs, wrong, want)
			}
		}
		for _, a := range argumentsOf(c) {
			if !a.optional && c.Name() != "run" {
				check("missing", given, "the argument "+a.name+" is missing")
			}
			if !a.optional {
				given = append(given, map[string]string{"EVENT": "tool_use"}[a.name]+"x")
			}
			some = some || a.many
		}
		if !some {
			for _, a := range argumentsOf(c) {
				if a.optional {
					given = append(given, "x")
				}
			}
			check("too many", append(given, "surplus"), `the argument "surplus" is one too many; usage: belljar`)
		}
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("the state has %v, %v, want nothing made", left, err)
	}
}

// TestArgumentsWithoutACheck checks that a usage line names every argument of a command,
// even if the command has no check of its own.
func TestArgumentsWithoutACheck(t *testing.T) {
	ran := ""
	root := &cobra.Command{Use: "belljar", Version: "1"}
	for _, use := range []string{"none", "two A B", "some A [B]", "many A..."} {
		root.AddCommand(&cobra.Command{Use: use, RunE: func(_ *cobra.Command, args []string) error {
			ran = strings.Join(args, " ")
			return nil
		}})
	}
	complete(root)
	for _, tt := range []struct{ line, want string }{
		{"none", ""},
		{"none a", "one too many"},
		{"two a", "B is missing"},
		{"two a b", ""},
		{"two a b c", `"c" is one too many`},
		{"some", "A is missing"},
		{"some a", ""},
		{"some a b", ""},
		{"some a b c", `"c" is one too many`},
		{"many", "A is missing"},
		{"many a b c d", ""},
	} {
		ran = "nothing"
		root.SetArgs(strings.Fields(tt.line))
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.Execute()
		if tt.want == "" && (err != nil || ran == "nothing") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || ran != "nothing") {
			t.Errorf("belljar %s: ran with %q, and %v, want %q", tt.line, ran, err, tt.want)
		}
	}
}

// TestReadAndSearchNeedWords checks that a script with an empty variable gets an error
// about that, and no page of help.
func TestReadAndSearchNeedWords(t *testing.T) {
	for command, want := range map[string]string{"read": "URL", "search": "QUERY"} {
		code, out, errs := ran(command)
		if code != exitUsage || out != "" || !strings.Contains(errs, "the argument "+want+" is missing") {
			t.Errorf("belljar %s: got status %d, %q and %q", command, code, out, errs)
		}
	}
}

// A mistake in a command line is answered with the help of its command.
func TestMistakesNameTheirHelp(t *testing.T) {
	for _, line := range []string{"serve --log-level loud", "audit show --verdict maybe", "hook emit Nightly", "ports open 0", "job end one", "search doctor nosuch"} {
		args := strings.Fields(line)
		c, _, err := commands().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, errs := ran(args...); code != exitUsage || !strings.HasSuffix(errs, "; see `"+c.CommandPath()+" --help`\n") {
			t.Errorf("belljar %s: got status %d and %q", line, code, errs)
		}
	}
}

// TestNearMisses checks that the name of a command, subcommand or flag with one wrong
// letter is answered with the right name, or with another name that is as near.
func TestNearMisses(t *testing.T) {
	n, rnd := testenv.Cases(t, 60)
	all := everyCommand(t)
	for range n {
		c := all[rnd.IntN(len(all))]
		args, known := words(c), []string{}
		dashes := ""
		if c.HasAvailableSubCommands() && rnd.IntN(2) == 0 && len(argumentsOf(c)) == 0 {
			for _, sub := range c.Commands() {
				known = append(known, sub.Name())
			}
		} else {
			dashes = "--"
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden {
					known = append(known, f.Name)
				}
			})
		}
		name := known[rnd.IntN(len(known))]
		if len(name) < 4 {
			continue
		}
		typed := mistyped(rnd, name)
		if slices.Contains(known, typed) || typed == "complete" || strings.HasPrefix(typed, "-") {
			continue
		}
		_, _, errs := ran(append(args, dashes+typed)...)
		m := regexp.MustCompile(`did you mean "(?:--)?([a-z-]+)"\?`).FindStringSubmatch(errs)
		if m == nil || m[1] != name && policies.Nearest(typed, []string{m[1], name}) != m[1] {
			t.Errorf("%q %s%s for %s: got %q", args, dashes, typed, name, errs)
		}
	}
}

// mistyped returns a name with one letter doubled, left out, replaced, or swapped with the
// next.
func mistyped(rnd *rand.Rand, name string) string {
	i := 1 + rnd.IntN(len(name)-2)
	switch rnd.IntN(4) {
	case 0:
		return name[:i] + name[i:i+1] + name[i:]
	case 1:
		return name[:i] + name[i+1:]
	case 2:
		return name[:i] + "x" + name[i+1:]
	}
	return name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:]
}

// A word that is far from every name gets no suggestion.
func TestNoWildGuess(t *testing.T) {
	for _, name := range []string{"frobnicate", "x", "zz", strings.Repeat("serve", 10_000), "żółć"} {
		if _, _, errs := ran(name); strings.Contains(errs, "did you mean") {
			t.Errorf("%.20q: got %.200q", name, errs)
		}
	}
}

// TestClosedPipe checks that nothing is printed if the reader of a command's output has
// gone.
func TestClosedPipe(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte("<p>some text</p>"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := [][]string{
		{"--version"},
		{"version"},
		{"version", "--json"},
		{"completion", "bash"},
		{"policy", "schema"},
		{"policy", "list"},
		{"policy", "list", "--json"},
		{"policy", "show", "default"},
		{"policy", "check", "default"},
		{"policy", "test", "default"},
		{"policy", "lint", "default"},
		{"policy", "score", "default"},
		{"policy", "score", "default", "--json"},
		{"policy", "explain", "default", "ls"},
		{"policy", "explain", "default", "ls", "--json"},
		{"search", "engines"},
		{"search", "engines", "--json"},
		{"ps"},
		{"ps", "--json"},
		{"ports"},
		{"image", "list", "--json"},
		{"workspace", "list", "--json"},
		{"read", "--html", file},
		{"read", "--html", file, "--json"},
		{"hook", "init", filepath.Join(dir, "hooks")},
	}
	for _, c := range everyCommand(t) {
		lines = append(lines, append(words(c), "--help"))
	}
	for _, args := range lines {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		var errs bytes.Buffer
		code := run(args, strings.NewReader(""), w, &errs)
		w.Close()
		if own := ownsOutput(commands(), args); code != exitClosedPipe && !own || errs.Len() > 0 {
			t.Errorf("%q: got status %d and %q, want %d and nothing", args, code, errs.String(), exitClosedPipe)
		}
	}
}

// TestManualPages checks that each command has a manual page with all its flags, and is
// named by the page of its parent. Written a second time, the pages have the same bytes.
func TestManualPages(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if code, _, errs := ran("man", dir); code != exitOK {
			t.Fatal(errs)
		}
	}
	pages := 0
	for _, c := range everyCommand(t) {
		name := manName(c) + ".1"
		text, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Error(err)
			continue
		}
		pages++
		if again, err := os.ReadFile(filepath.Join(second, name)); err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s is another the second time: %v", name, err)
		}
		want := []string{".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", "Exit status"}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				want = append(want, roff("--"+f.Name+" "+placeholder(f)))
			}
		})
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				want = append(want, ".BR "+roff(manName(sub))+" (1)")
			}
		}
		for _, w := range want {
			if !strings.Contains(string(text), strings.TrimSpace(w)) {
				t.Errorf("%s lacks %q", name, w)
			}
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|nf|fi)\b`).MatchString(line) {
				t.Errorf("%s: a line of text that is taken for a macro: %q", name, line)
			}
		}
	}
	if all, err := os.ReadDir(first); err != nil || len(all) != pages {
		t.Errorf("got %d files, want %d: %v", len(all), pages, err)
	}
}

// Every command with --json, and no other, is in the table of docs/commands.md.
func TestJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	_, table, _ := strings.Cut(string(text), "## JSON")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		if strings.HasPrefix(line, "| `") {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				listed[name[1]] = true
			}
		}
	}
	for _, c := range everyCommand(t) {
		group := c.HasAvailableSubCommands() && c.LocalNonPersistentFlags().Lookup("json") == nil
		switch has := c.Flag("json") != nil && !group; {
		case has && !listed[title(c)]:
			t.Errorf("%s has --json: add a row with what it prints to the table of docs/commands.md, below JSON", title(c))
		case !has && listed[title(c)]:
			t.Errorf("%s has no --json: remove it from the table of docs/commands.md, below JSON", title(c))
		}
		delete(listed, title(c))
	}
	if len(listed) > 0 {
		t.Errorf("docs/commands.md names %v, which are not commands", listed)
	}
}

// printed contains what commands print with --json, except commands whose keys are in their
// help or in docs/results.md.
var printed = map[string]any{
	"approve list": approval.Approval{}, "ask list": question.Asked{}, "ps": control.Box{}, "doctor": diagnosis{},
	"hook list": hookInfo{}, "hook test": cameInfo{}, "image import": images.Report{}, "image list": images.Image{},
	"policy explain": report.Explained{}, "policy list": bundledInfo{}, "ports": control.Box{}, "ports open": control.Published{},
	"search doctor": examinedInfo{}, "search engines": engineInfo{}, "session list": control.Session{}, "tenant list": control.Tenant{}, "job list": control.Job{},
	"version": buildinfo.Info{}, "workspace list": countedSet{}, "workspace diff": workspace.Diff{}, "workspace apply": workspace.Report{},
	"read": savedRead{}, "policy check": checkedPolicy{},
}

// TestJSONKeysAreDocumented checks that the table of docs/commands.md has every key at the
// top of what a command prints, or at the top of each entry of a list.
func TestJSONKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, value := range printed {
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + command + "`[^|]*\\|(.*)$").FindSubmatch(text)
		if row == nil {
			t.Errorf("docs/commands.md has no row for %s", command)
			continue
		}
		var keys func(of reflect.Type)
		keys = func(of reflect.Type) {
			for f := range of.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				switch {
				case f.Anonymous && name == "":
					keys(f.Type)
				case f.IsExported() && name != "-" && !bytes.Contains(row[1], []byte("`"+name+"`")):
					t.Errorf("docs/commands.md: the row of %s lacks the key %s", command, name)
				}
			}
		}
		keys(reflect.TypeOf(value))
	}
}

// TestHang checks that help is only broken between words, and that no word is lost.
func TestHang(t *testing.T) {
	text := "one two threeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee four"
	for width := range 60 {
		got := hang("  --flag", text, 12, width)
		if want := "--flag " + text; strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("at %d columns: got %q, want the words of %q", width, got, want)
		}
	}
	if got, want := hang("  a", "b c", 6, 7), "  a   b\n      c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestErrorsWithoutAStatus checks that an error without an exit status counts as a failure,
// and not as a mistake in the command line, at any depth of the tree of commands.
func TestErrorsWithoutAStatus(t *testing.T) {
	plain, before := errors.New("the disk is full"), top
	t.Cleanup(func() { top = before })
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{plain, exitFailed},
		{failure(plain), exitFailed},
		{usage("what is %w?", plain), exitUsage},
		{fmt.Errorf("fetch: %w", &statusError{code: exitUnknown, err: plain}), exitUnknown},
	} {
		top = append(slices.Clone(before), command{"fails", false, func() *cobra.Command {
			c := &cobra.Command{Use: "fails", RunE: func(*cobra.Command, []string) error { return tt.err }}
			c.AddCommand(&cobra.Command{Use: "below", RunE: func(*cobra.Command, []string) error { return tt.err }})
			return c
		}})
		for _, line := range [][]string{{"fails"}, {"fails", "below"}} {
			var said strings.Builder
			if got := run(line, strings.NewReader(""), io.Discard, &said); got != tt.want || tt.err != nil && !strings.Contains(said.String(), "the disk is full") {
				t.Errorf("%q ends with %v: got status %d and %q, want %d", line, tt.err, got, said.String(), tt.want)
			}
		}
	}
	eachCommand(commands(), func(c *cobra.Command) {
		if c.Run != nil || c.PreRun != nil || c.PreRunE != nil || c.PostRun != nil || c.PostRunE != nil ||
			c.PersistentPreRun != nil || c.PersistentPreRunE != nil || c.PersistentPostRun != nil || c.PersistentPostRunE != nil {
			t.Errorf("%s: has a function besides RunE, whose errors have no exit status", c.CommandPath())
		}
	})
}
