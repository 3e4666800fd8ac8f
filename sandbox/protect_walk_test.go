package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// walkAll walks until everything was looked at that a command has made.
func (p *protector) walkAll(t testing.TB) {
	t.Helper()
	for {
		whole, err := p.walkFor(time.Minute)
		must(t, err)
		p.mu.Lock()
		over := whole || p.running > 0
		p.mu.Unlock()
		if over {
			return
		}
	}
}

const evilConfig = "[core]\n\tfsmonitor = evil\n"

// evilIn reports whether a file is there and holds what only a command wrote.
func evilIn(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(text), "evil")
}

// A repository that a command makes is looked at, however deep it is.
func TestADeepRepositoryIsFound(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command func(dir string)
		harm    string // what must be without evil then
	}{
		{"two down", func(dir string) { repository(dir+"/a/b", evilConfig) }, "a/b/.git/config"},
		{"bare", func(dir string) { repository(dir+"/a/b/store", evilConfig) }, "a/b/store/HEAD"},
		{"a hook", func(dir string) {
			repository(dir+"/a/b", "")
			put(t, dir+"/a/b/.git/hooks/post-index-change", "evil")
		}, "a/b/.git/hooks/post-index-change"},
		{"far down", func(dir string) {
			repository(dir+"/"+strings.Repeat("a/", 300)+"r", evilConfig)
		}, strings.Repeat("a/", 300) + "r/.git/config"},
		{"a file that leads to it", func(dir string) {
			repository(dir+"/x/y/z", evilConfig)
			put(t, dir+"/a/b/.git", "gitdir: ../../x/y/z/.git\n")
		}, "x/y/z/.git/config"},
		{"hg", func(dir string) { put(t, dir+"/a/b/c/.hg/hgrc", "evil") }, "a/b/c/.hg/hgrc"},
		{"in the directory of another one", func(dir string) { repository(dir+"/a/.git/b/c", evilConfig) }, "a/.git/b/c/.git/config"},
		{"behind a closed door", func(dir string) {
			repository(dir+"/a/b/c", evilConfig)
			must(t, os.Chmod(dir+"/a/b", 0o100))
		}, "a/b/c/.git/config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p *protector
			var dir string
			p, dir = guarded(t, func(dir string) { put(t, dir+"/a/b/c/file", "") })
			harm := filepath.Join(dir, tt.harm)
			during(t, p, func() { tt.command(dir) })
			wrong := func() bool {
				if strings.HasSuffix(harm, "HEAD") {
					_, err := os.Stat(harm)
					return err == nil
				}
				return evilIn(harm)
			}
			if !wrong() && os.Getuid() == 0 {
				t.Error("it was gone before a walk found it: the test proves nothing")
			}
			p.walkAll(t)
			if wrong() {
				t.Error("it is still there")
			}
		})
	}
}
