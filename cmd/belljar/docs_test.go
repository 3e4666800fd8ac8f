package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/shell"
)

// inline matches a command in running text, which may continue on the next line.
var inline = regexp.MustCompile("`(belljar [^`]+)`")

// TestDocumentedCommandLines checks that every command line in the documents names commands
// and flags that exist.
func TestDocumentedCommandLines(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range append(files, "../../README.md", "../../SECURITY.md") {
		if strings.HasSuffix(file, "changelog.md") { // it also mentions commands of the past
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		prose, fenced := "", false
		for line := range strings.Lines(string(text)) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fenced = !fenced
			case !fenced:
				prose += line + " "
			case strings.HasPrefix(strings.TrimPrefix(line, "$ "), "belljar "):
				lines = append(lines, strings.TrimPrefix(line, "$ "))
			}
		}
		for _, m := range inline.FindAllStringSubmatch(prose, -1) {
			lines = append(lines, m[1])
		}
		for _, line := range lines {
			seen++
			if wrong := misspelt(line); wrong != "" {
				t.Errorf("%s: %q: %s", filepath.Base(file), line, wrong)
			}
		}
	}
	if seen < 100 {
		t.Errorf("got %d command lines, want all that the documents have", seen)
	}
}

// misspelt returns what is wrong with the names in a command line; nothing is run.
func misspelt(line string) string {
	if strings.HasPrefix(line, "belljar:") {
		return ""
	}
	// What follows belongs to another program, a remark, or the next column of a list.
	for _, end := range []string{" | ", " > ", " && ", " # ", "  ", "; ", " ...", " 2>", " < ", "|"} {
		line, _, _ = strings.Cut(line, end)
	}
	words, err := shell.Fields(line, func(string) string { return "x" })
	if err != nil { // the line was cut inside quotes
		words = strings.Fields(line)
	}
	root := commands()
	c, rest, err := root.Find(words[1:])
	if err != nil {
		return err.Error()
	}
	if c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && rest[0] != "COMMAND" {
		return "no command " + rest[0]
	}
	if len(rest) > 0 && c.HasAvailableSubCommands() && len(argumentsOf(c)) == 0 && rest[0] == strings.ToLower(rest[0]) && !strings.HasPrefix(rest[0], "-") {
		return "no subcommand " + rest[0]
	}
	for _, word := range rest {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if strings.HasPrefix(word, "--") && c.Flag(name) == nil {
			return "no flag --" + name
		}
	}
	return ""
}
