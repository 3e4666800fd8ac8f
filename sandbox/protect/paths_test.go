package protect

import "testing"

// A path that a repository's files name leads into the workspace or nowhere. A path outside
// must not be read as the same path inside: a box could put a harmless repository there,
// which would be judged in place of the real one.
func TestPlaceIsInTheWorkspace(t *testing.T) {
	p := &workdir{where: "/srv/app"}
	for _, row := range []struct {
		from, to, want string
		in             bool
	}{
		{"sub", "../.git/modules/sub", ".git/modules/sub", true},
		{".", "a", "a", true},
		{"sub", "..", ".", true},
		{"sub", "../..", "", false},
		{"sub", "../../x", "", false},
		{".", "a/../../x", "", false},
		{"sub", "/srv/app/.git", ".git", true},
		{"sub", "/workspace/.git", ".git", true},
		{"sub", "/srv/app2/.git", "", false},
		{"sub", "/srv/app/../x", "", false},
		{"sub", "/workspace/../x", "", false},
		{"sub", "/outside/.git", "", false},
		{"sub", "/", "", false},
	} {
		got, in := p.place(row.from, row.to)
		if in != row.in || in && got != row.want {
			t.Errorf("%s from %s: got %q, %v; want %q, %v", row.to, row.from, got, in, row.want, row.in)
		}
	}
}

// An address that names a program to run, or begins like an option, is not harmless,
// whatever its key is.
func TestHarmlessAddresses(t *testing.T) {
	for value, want := range map[string]bool{
		"https://git.example/a.git": true, "git@git.example:a.git": true, "../a": true,
		"ext::sh -c id": false, "fd::17": false, "-oProxyCommand=id": false, "--upload-pack=id": false,
	} {
		for _, key := range []string{"url", "pushurl"} {
			s := &gitSetting{section: "remote", sub: "origin", hasSub: true, key: key, value: value}
			if got := harmless(s, repoKeys); got != want {
				t.Errorf("remote.origin.%s = %s: harmless: got %v, want %v", key, value, got, want)
			}
		}
	}
}
