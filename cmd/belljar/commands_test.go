package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command says what it does in a line, stands in the documentation, is called by a
// test script, refuses arguments that it does not take, and documents its exit statuses.
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
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		documented := strings.Contains(c.Long, "Exit status: ") || c.HasParent() && strings.Contains(c.Parent().Long, "Exit status: ") && c.Parent().HasParent()
		switch {
		case c.Args == nil:
			t.Errorf("%s: takes any arguments; say which, as cobra.NoArgs", c.CommandPath())
		case !documented:
			t.Errorf("%s: neither its help nor that of its group says what the exit statuses mean", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(commands())
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
