package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandIsDocumentedAndTried checks that each command, also in a group, says in a
// line what it does and what its exit statuses mean, is in the documentation, and is called
// by a script or a test. A comment in a script does not count.
func TestEveryCommandIsDocumentedAndTried(t *testing.T) {
	text := func(patterns ...string) string {
		var all strings.Builder
		for _, p := range patterns {
			files, err := filepath.Glob(p)
			if err != nil || len(files) == 0 {
				t.Fatal(p, err)
			}
			for _, file := range files {
				// the changelog mentions commands of the past, and does not explain them
				if filepath.Base(file) == "changelog.md" {
					continue
				}
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(b)
			}
		}
		return all.String()
	}
	says := func(c *cobra.Command) bool { return strings.Contains(c.Long, "Exit status: ") }
	eachCommand(commands(), func(c *cobra.Command) {
		if group := c.Parent(); !says(c) && (group == nil || !group.HasParent() || !says(group)) {
			t.Errorf("%s: neither its help nor that of its group says what the exit statuses mean", c.CommandPath())
		}
	})
	docs, scripts, tests := text("../../README.md", "../../docs/*.md"), text("testdata/*.txtar"), text("*_test.go")
	eachCommand(commands(), func(c *cobra.Command) {
		if c.Hidden || !c.HasParent() {
			return
		}
		names := words(c)
		group, own := strings.Join(names[:len(names)-1], " +"), names[len(names)-1]
		named := regexp.MustCompile(`\bbelljar ` + strings.Join(names, ` +`) + `\b`)
		called := regexp.MustCompile(`(?m)^(\[[^]]+\] )*(! )?exec (bash -c ')?belljar `+strings.Join(names, ` `)+`\b`).MatchString(scripts) ||
			regexp.MustCompile(`(, |\{|\()"`+strings.Join(names, `", ?"`)+`"[,)}]`).MatchString(tests) // arguments, and not words of JSON
		if group != "" {
			named = regexp.MustCompile(`\bbelljar ` + group + ` ([a-z]+\|)*` + own + `\b`)
			// The tests of a group have a helper that writes the group's name before their
			// words. These words may be one text after the exit status.
			if of, err := filepath.Glob(names[0] + "*_test.go"); err == nil && len(of) > 0 {
				called = called || regexp.MustCompile(`(\(|, )"`+own+`"|\(\d, "`+own+` `).MatchString(text(of...))
			}
		}
		switch {
		case c.Short == "":
			t.Errorf("%s: has no line that says what it does", c.CommandPath())
		case !named.MatchString(docs):
			t.Errorf("%s: neither README.md nor docs name it", c.CommandPath())
		case !called:
			t.Errorf("%s: no script in testdata has a line `exec %[1]s`, and no test calls it", c.CommandPath())
		}
	})
}

// TestCommandsAreFoundByTheirNames checks that a command line gets only the command that it
// names, or all commands.
func TestCommandsAreFoundByTheirNames(t *testing.T) {
	all := len(commands().Commands())
	for _, one := range top {
		if name := one.make().Name(); name != one.name {
			t.Errorf("%s is found as %s", name, one.name)
		}
		got := commands(one.name, "--help").Commands()
		if one.whole && len(got) != all || !one.whole && (len(got) != 2 || !slices.ContainsFunc(got, func(c *cobra.Command) bool { return c.Name() == one.name })) {
			t.Errorf("%s gets %d commands of %d", one.name, len(got), all)
		}
	}
}
