package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// scripted returns a base, and a set that changed the base in every way that there is.
func scripted(t testing.TB) (s *Store, base string, want []string) {
	t.Helper()
	s, base = store(t)
	for name, text := range map[string]string{
		"same": "same\n", "text": "one\ntwo\nthree\n", "mode": "x", "touched": "x", "gone": "x", "dir/a": "a", "dir/b": "b",
		"hidden/a": "a", "hidden/b": "b", "hidden/sub/a": "a", "hidden/sub/b": "b", "todir": "x", "tofile/a": "x", "tolink/a": "x", "removed/a/b": "x", "attr": "x",
		"untouched/deep/file": "x", "big": strings.Repeat("x", 100_000), "sub/keep": "k",
	} {
		put(t, filepath.Join(base, name), text)
	}
	must(t, os.Symlink("same", base+"/link"))
	must(t, os.Symlink("same", base+"/samelink"))
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	// These files were copied up by the box and not changed.
	for _, name := range []string{"same", "sub/keep"} {
		put(t, filepath.Join(up, name), map[string]string{"same": "same\n", "sub/keep": "k"}[name])
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(base, name), &st))
		must(t, unix.UtimesNano(filepath.Join(up, name), []unix.Timespec{st.Atim, st.Mtim}))
	}
	must(t, os.Symlink("same", up+"/samelink"))
	put(t, up+"/text", "one\n2\nthree\n")
	put(t, up+"/mode", "x")
	must(t, os.Chmod(up+"/mode", 0o755))
	put(t, up+"/touched", "x")
	must(t, unix.UtimesNano(up+"/touched", []unix.Timespec{{Sec: 1}, {Sec: 1}}))
	put(t, up+"/attr", "x")
	must(t, unix.Setxattr(up+"/attr", "user.note", []byte("y"), 0))
	must(t, unix.Setxattr(up+"/attr", "user.overlay.impure", []byte("y"), 0))
	whiteout(t, up+"/gone")
	whiteout(t, up+"/removed")
	whiteout(t, up+"/never") // whiteout of a file that was made and deleted in the box
	put(t, up+"/dir/c", "c")
	whiteout(t, up+"/dir/a")
	opaque(t, up+"/hidden")
	put(t, up+"/hidden/b", "B")
	put(t, up+"/hidden/sub/b", "B") // the opaque mark of hidden also hides the base's hidden/sub
	put(t, up+"/todir/in", "x")
	put(t, up+"/tofile", "x")
	must(t, os.Symlink("/etc", up+"/tolink"))
	must(t, os.Symlink("text", up+"/link"))
	put(t, up+"/new/one\nline", "x")
	put(t, up+"/new/b\xffd", "x")
	must(t, os.Link(up+"/new/one\nline", up+"/new/two"))
	must(t, unix.Mkfifo(up+"/fifo", 0o600))
	big := strings.Repeat("x", 100_000)
	put(t, up+"/big", big[:99_999]+"y")
	must(t, os.WriteFile(up+"/sparse", []byte("head"), 0o600))
	must(t, os.Truncate(up+"/sparse", 64<<20))
	return s, base, []string{
		"attr file attr",
		"modified file big",
		"deleted file dir/a",
		"added file dir/c",
		"added fifo fifo: a fifo is never applied",
		"deleted file gone",
		"deleted file hidden/a",
		"modified file hidden/b",
		"deleted file hidden/sub/a",
		"modified file hidden/sub/b",
		"modified symlink link -> text",
		"mode file mode 0644 to 0755",
		"added directory new",
		`added file "new/b\377d"`,
		`added file "new/one\nline"`,
		`added file new/two = new/one` + "\nline",
		"deleted directory removed",
		"deleted directory removed/a",
		"deleted file removed/a/b",
		"added file sparse",
		"modified file text",
		"modified directory todir was file",
		"added file todir/in",
		"modified file tofile was directory",
		"deleted file tofile/a",
		"modified symlink tolink was directory -> /etc",
		"deleted file tolink/a",
		"times file touched",
	}
}

func TestChangesAreExact(t *testing.T) {
	s, base, want := scripted(t)
	before := tree(t, base)
	if d := cmp.Diff(want, diff(t, s, "set")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	if d := cmp.Diff(before, tree(t, base)); d != "" {
		t.Errorf("the base changed:\n%s", d)
	}
	// The changes are the same however they are spread over layers.
	must(t, s.Checkpoint("set", "a"))
	up := top(t, s, "set")
	put(t, up+"/dir/c", "c")
	whiteout(t, up+"/sparse")
	must(t, s.Checkpoint("set", "b"))
	must(t, s.Rollback("set", "a"))
	if d := cmp.Diff(want, diff(t, s, "set")); d != "" {
		t.Errorf("after a rollback: want (-), got (+):\n%s", d)
	}
	// They are also the same in one layer.
	h, _, err := s.change("set")
	must(t, err)
	must(t, h.flatten())
	must(t, h.write())
	h.close()
	if d := cmp.Diff(want, diff(t, s, "set")); d != "" {
		t.Errorf("merged: want (-), got (+):\n%s", d)
	}
}

// TestLayersHide checks that an opaque mark or a whiteout on a directory in a higher layer
// holds for all layers below it.
func TestLayersHide(t *testing.T) {
	s, base := store(t)
	put(t, base+"/d/base", "x")
	put(t, base+"/e/base", "x")
	must(t, s.Create("set", base, Protect{}))
	put(t, top(t, s, "set")+"/d/low", "x")
	put(t, top(t, s, "set")+"/e/low", "x")
	must(t, s.Checkpoint("set", "1"))
	up := top(t, s, "set")
	opaque(t, up+"/d")
	put(t, up+"/d/high", "x")
	whiteout(t, up+"/e")
	must(t, s.Checkpoint("set", "2"))
	put(t, top(t, s, "set")+"/e/again", "x") // the directory needs no opaque mark: a whiteout is below it
	want := []string{"deleted file d/base", "added file d/high", "added file e/again", "deleted file e/base"}
	if d := cmp.Diff(want, diff(t, s, "set")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	h, _, err := s.change("set")
	must(t, err)
	must(t, h.flatten())
	must(t, h.write())
	h.close()
	if d := cmp.Diff(want, diff(t, s, "set")); d != "" {
		t.Errorf("merged: want (-), got (+):\n%s", d)
	}
}

// TestTimeOfASetDivides checks that changes of the base just before and just after a set is
// made are told apart. The time of a file is that of a clock tick, and many changes fit
// between two ticks.
func TestTimeOfASetDivides(t *testing.T) {
	s, base := store(t)
	changed := func(name string) int64 {
		put(t, base+"/"+name, "x")
		var st unix.Stat_t
		must(t, unix.Stat(base+"/"+name, &st))
		return st.Ctim.Nano()
	}
	for i := range 100 {
		id := fmt.Sprint("set", i)
		before := changed(id + "-before")
		l, err := s.Use(id, "", base, Protect{})
		must(t, err)
		l.Settle()
		after := changed(id + "-after")
		if since := l.held.meta.Since.UnixNano(); before >= since || after < since {
			t.Errorf("%s is of %d: a change before it is of %d, and one after it of %d", id, since, before-since, after-since)
		}
		must(t, l.Close())
	}
}
