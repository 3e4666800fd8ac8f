package protect

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/sandbox/workspace"
)

// A path that is protected in a repository at the top of a workspace is not applied to a
// repository at any depth either. No version control system is in only one of the tables.
func TestRepositoriesAreInBoth(t *testing.T) {
	for _, name := range repositoryNames {
		if inRepository(&workspace.Change{Path: "a/b/c/" + name, Type: "file"}) == "" {
			t.Errorf("%s is protected at the top, and would be applied deeper", name)
		}
	}
	for _, r := range repositories {
		known := slices.ContainsFunc(repositoryNames, func(name string) bool { return strings.HasPrefix(name, r.dir+"/") })
		if !known && r.dir != ".git" { // git.go looks at .git
			t.Errorf("nothing of %s is in repositoryNames", r.dir)
		}
	}
}
