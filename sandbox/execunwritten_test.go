package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestUnwritten checks that every tree is left out that a box can change under any name.
func TestUnwritten(t *testing.T) {
	link, absent := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "a", "b")
	if err := os.Symlink("/usr/local", link); err != nil {
		t.Fatal(err)
	}
	system := []mount{
		{source: "/usr", target: "/usr", dir: true},
		{source: "/sbin", target: "/sbin", dir: true},
		{source: "/lib", target: "/lib", dir: true},
		{source: "/etc/alternatives", target: "/etc/alternatives", dir: true},
	}
	both := []string{"/usr"}
	if real, err := filepath.EvalSymlinks("/sbin"); err == nil && real == "/sbin" {
		both = append(both, "/sbin")
	}
	for _, tt := range []struct {
		name    string
		more    []mount
		written []string
		want    []string
	}{
		{"nothing else", nil, []string{t.TempDir(), absent}, both},
		{"workspace in it", nil, []string{"/usr/local"}, both[1:]},
		{"workspace by a link", nil, []string{link}, both[1:]},
		{"workspace that will be made in it", nil, []string{link + "/absent/w"}, both[1:]},
		{"workspace around it", nil, []string{"/"}, nil},
		{"workspace that cannot be looked at", nil, []string{"/usr\x00"}, nil},
		{"a part is written", []mount{{source: "/usr/local", target: "/opt", writable: true}}, nil, both[1:]},
		{"a part is written, by a link", []mount{{source: link, target: "/opt", writable: true}}, nil, both[1:]},
		{"all of it is written", []mount{{source: "/usr", target: "/usr", writable: true, dir: true}}, nil, both[1:]},
		{"something else in its place", []mount{{source: t.TempDir(), target: "/usr", dir: true}}, nil, both[1:]},
		{"a part of it once more", []mount{{source: "/usr/bin", target: "/usr/bin", dir: true}}, nil, both},
		{"a file", []mount{{source: "/usr", target: "/usr"}}, nil, both},
		{"no programs", []mount{{source: "/etc", target: "/etc", dir: true}}, nil, both},
		{"a link", []mount{{source: "/bin", target: "/bin", dir: true}}, []string{"/usr/bin"}, both[1:]},
		// A mount inside a tree is another mount, and no file on it is remembered (see
		// headOf).
		{"something read-only in it", []mount{{source: t.TempDir(), target: "/usr/local", dir: true}}, nil, both},
	} {
		p := &plan{mounts: slices.Concat(system, tt.more)}
		if got := p.unwritten(tt.written...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	image := &plan{mounts: []mount{{source: t.TempDir(), target: "/", root: true, dir: true}}}
	if got := newExecFiles(image); len(got.trees) > 0 {
		t.Errorf("of an image: %q, want none", got.trees)
	}
	for name, p := range map[string]*plan{"commands with mounts of their own": {mounts: system, nested: true}, "a browser": {mounts: system, forBrowser: forBrowser{nests: 1}}} {
		if f := newExecFiles(p); f.one || len(f.trees) > 0 {
			t.Errorf("%s: got %+v, want that nothing is kept", name, f)
		}
	}
}
