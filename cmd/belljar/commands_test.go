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

// Each command says what it does in a line and what its exit statuses mean, is in the
// documentation, and is called by a test script.
func TestEveryCommandIsDocumentedAndTried(t *testing.T) {
	text := func(patterns ...string) string {
		var all strings.Builder
		for _, p := range patterns {
			files, err := filepath.Glob(p)
			if err != nil || len(files) == 0 {
				t.Fatal(p, err)
			}
			for _, file := range files {
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
	docs, scripts := text("../../README.md", "../../docs/*.md"), text("testdata/*.txtar", "*_test.go")
	for _, c := range commands().Commands() {
		if c.Hidden {
			continue
		}
		called := regexp.MustCompile(`\bbelljar ` + c.Name() + `\b`)
		inGo := regexp.MustCompile(`(, |\{|\()"` + c.Name() + `"[,)}]`) // an argument, and no word of JSON
		switch {
		case c.Short == "":
			t.Errorf("%s: has no line that says what it does", c.Name())
		case !called.MatchString(docs):
			t.Errorf("%s: neither README.md nor docs name it", c.Name())
		case !called.MatchString(scripts) && !inGo.MatchString(scripts):
			t.Errorf("%s: no script in testdata and no test calls it", c.Name())
		}
	}
}

// A command line gets the command that it names, and no other, or all of them.
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
