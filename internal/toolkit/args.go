package toolkit

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/policies"
)

// Workspace is the path of the workspace in boxes.
const Workspace = "/workspace"

// Bounds of arguments.
const (
	maxPath     = 4096 // bytes (PATH_MAX, limits.h)
	maxPatterns = 100
	maxPattern  = 1000 // bytes
	maxQuery    = 1000 // bytes
	maxSnippet  = 64 << 10
)

// Args are the arguments of the tool of one analysis.
type Args interface {
	// Facts returns the facts that the policy sees. The first path is the directory that is
	// read, and the others are the files that the arguments name.
	Facts() policies.Facts
	// Check returns an error if an argument is wrong, before anything is read. The error
	// names the argument, and says what is wanted.
	Check() error
	// Analysis returns the name of the tool.
	Analysis() string
	project() string
	format() string
}

// Project is the part of the arguments that all analyses have.
type Project struct {
	ProjectPath string `json:"project_path,omitempty" jsonschema:"directory, in /workspace (default)"`
}

// Facts returns the directory.
func (p Project) Facts() policies.Facts { return policies.Facts{Paths: []string{p.dir()}} }

// dir returns the directory as a path of the box. The path is not cleaned, so that the
// policy sees a "..".
func (p Project) dir() string {
	switch {
	case p.ProjectPath == "" || p.ProjectPath == ".":
		return Workspace
	case path.IsAbs(p.ProjectPath):
		return p.ProjectPath
	}
	return Workspace + "/" + p.ProjectPath
}

func (p Project) project() string { return p.dir() }

func (p Project) check() error {
	got := quote(p.ProjectPath, 200)
	dir := p.dir()
	switch {
	case len(dir) > maxPath:
		return fmt.Errorf("project_path: got %d bytes, want at most %d", len(dir), maxPath)
	case !utf8.ValidString(dir) || strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("project_path: got %s, want a path without control characters", got)
	case slices.Contains(strings.Split(dir, "/"), ".."):
		return fmt.Errorf("project_path: got %s, want a path without the part \"..\"", got)
	case dir != Workspace && !strings.HasPrefix(dir, Workspace+"/"):
		return fmt.Errorf("project_path: got %s, want a directory in %s", got, Workspace)
	}
	return nil
}

// formats are the forms that the text of a result can have; the first is the default.
type formats []string

// check returns an error if got is neither empty nor one of the formats.
func (f formats) check(got string) error { return oneOf("format", got, f) }

// oneOf returns an error if got is neither empty nor one of the wanted words.
func oneOf(name, got string, want []string) error {
	if got == "" || slices.Contains(want, got) {
		return nil
	}
	return fmt.Errorf("%s: got %s, want one of %s", name, quote(got, 60), strings.Join(want, ", "))
}

// allOf returns an error if a value of a list is not one of the wanted words, or if the
// list is too long.
func allOf(name string, got, want []string) error {
	if len(got) > 2*len(want) {
		return fmt.Errorf("%s: got %d values, want at most %d", name, len(got), len(want))
	}
	for i, one := range got {
		if one == "" || !slices.Contains(want, one) {
			return fmt.Errorf("%s[%d]: got %s, want one of %s", name, i, quote(one, 60), strings.Join(want, ", "))
		}
	}
	return nil
}

// number returns a number in a range, or the default if the call does not name one.
func number(name string, got *float64, usual, least, most float64) (float64, error) {
	switch {
	case got == nil:
		return usual, nil
	case math.IsNaN(*got) || *got < least || *got > most:
		return 0, fmt.Errorf("%s: got %s, want %s to %s", name, decimal(*got), decimal(least), decimal(most))
	}
	return *got, nil
}

// whole does the same as number for numbers without a fraction.
func whole(name string, got *float64, usual, least, most int) (int, error) {
	n, err := number(name, got, float64(usual), float64(least), float64(most))
	switch {
	case err != nil:
		return 0, err
	case n != math.Trunc(n):
		return 0, fmt.Errorf("%s: got %s, want a whole number", name, decimal(n))
	}
	return int(n), nil
}

// patterns returns an error if a list of globs is too long, or if a glob is malformed, too
// long or leaves the project.
func patterns(name string, got []string) error {
	if len(got) > maxPatterns {
		return fmt.Errorf("%s: got %d patterns, want at most %d", name, len(got), maxPatterns)
	}
	for i, one := range got {
		switch {
		case one == "" || len(one) > maxPattern:
			return fmt.Errorf("%s[%d]: got %d bytes, want 1 to %d", name, i, len(one), maxPattern)
		case strings.HasPrefix(one, "/") || slices.Contains(strings.Split(one, "/"), ".."):
			return fmt.Errorf("%s[%d]: got %s, want a path below project_path, such as src/**/*.go", name, i, quote(one, 100))
		}
		if _, err := path.Match(strings.ReplaceAll(one, "**", "*"), ""); err != nil {
			return fmt.Errorf("%s[%d]: %s is not a pattern: a [ needs its ]", name, i, quote(one, 100))
		}
	}
	return nil
}
