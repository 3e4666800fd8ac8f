package sandbox

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/sandbox/workspace"
)

// What is protected of a repository at the top of a workspace is not applied to
// one at any depth either, and no version control system is in one table only.
func TestRepositoriesAreInBoth(t *testing.T) {
	for _, name := range repositoryNames {
		if inRepository(&workspace.Change{Path: "a/b/c/" + name, Type: "file"}) == "" {
			t.Errorf("%s is protected at the top, and would be applied deeper", name)
		}
	}
	for _, r := range repositories {
		known := slices.ContainsFunc(repositoryNames, func(name string) bool { return strings.HasPrefix(name, r.dir+"/") })
		if !known && r.dir != ".git" { // protect_git.go
			t.Errorf("nothing of %s is in repositoryNames", r.dir)
		}
	}
}

func TestMountsBeneath(t *testing.T) {
	const info = `21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 21 0:30 / /srv/tree rw - tmpfs none rw
41 40 0:31 / /srv/tree/a\040b\134c rw shared:2 - tmpfs none rw
42 21 0:32 / /srv/trees rw - tmpfs none rw

43 40
`
	for dir, want := range map[string][]string{
		"/srv/tree": {`/srv/tree/a b\c`}, "/srv/trees": nil, "/opt": nil,
	} {
		if got := mountsBeneath(info, dir); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}
