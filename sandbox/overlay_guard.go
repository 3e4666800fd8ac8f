package sandbox

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/workspace"
)

// ProtectedPaths is the workspace.Guard of what docs/protected-paths.md names:
// a change of it waits in the set until a person asks for it by name. It is
// stricter than for a workspace that is written at once, where what git itself
// writes can be told from what a command writes: here no configuration of git
// and no hook comes through.
func ProtectedPaths(base string, p workspace.Protect, changes []workspace.Change) (func(c *workspace.Change) string, error) {
	if p.Off {
		return func(*workspace.Change) string { return "" }, nil
	}
	dir, err := os.OpenFile(base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	defer dir.Close()
	// What the person's own configuration adds, as core.hooksPath.
	known, err := newProtector(dir, p.Also)
	if err != nil {
		return nil, err
	}
	defer known.root.Close()
	g := guarding{known: known, heads: map[string]bool{}}
	for i := range changes {
		if c := &changes[i]; path.Base(c.Path) == "HEAD" && c.Kind != workspace.Deleted {
			g.heads[path.Dir(c.Path)] = true
		}
	}
	return g.why, nil
}

type guarding struct {
	known *protector
	heads map[string]bool // directories that get a HEAD
}

// why is the reason for which a change is not applied.
func (g guarding) why(c *workspace.Change) string {
	for at := c.Path; at != "."; at = path.Dir(at) {
		rule, ok := g.known.guards[at]
		switch {
		case !ok || rule.loose:
		case !rule.dir:
			return rule.why
		case at == c.Path && (c.Kind == workspace.Deleted || c.Type != "directory"):
			return rule.why // it may be changed within, and not replaced
		}
	}
	if inGitDir(c) {
		return byGit
	}
	// A directory with a HEAD is a repository, whatever it is called.
	for at := c.Path; at != "."; at = path.Dir(at) {
		if g.heads[path.Dir(at)] && gitRuns(path.Base(at)) {
			return byGit
		}
	}
	return ""
}

// inGitDir reports whether git would run what is changed, or be led by it to
// something else, in a repository anywhere in the workspace.
func inGitDir(c *workspace.Change) bool {
	parts := strings.Split(c.Path, "/")
	for i, part := range parts {
		if !strings.EqualFold(part, ".git") { // file systems may not tell them apart
			continue
		}
		if i == len(parts)-1 {
			return c.Type != "directory" // a file or link leads to a git directory
		}
		if slices.ContainsFunc(parts[i+1:], gitRuns) {
			return true
		}
	}
	return false
}

// gitRuns reports whether a name in a git directory is one of which git runs
// something.
func gitRuns(name string) bool {
	switch strings.ToLower(name) {
	case "hooks", "config", "config.worktree", "commondir":
		return true
	}
	return false
}
