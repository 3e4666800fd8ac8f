package sandbox

import "testing"

// A path that a repository's files name leads into the workspace or nowhere. One
// outside is not read as one of the same name inside: a box could put a harmless
// repository there, for which the real one would be taken.
func TestPlaceIsInTheWorkspace(t *testing.T) {
	p := &protector{where: "/srv/app"}
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
