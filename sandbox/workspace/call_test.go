package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// leased returns a set in which a box works, its lease, and the directory of its top.
func leased(t testing.TB) (s *Store, l *Lease, dir string) {
	t.Helper()
	s, base := store(t)
	put(t, base+"/old", "old\n")
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return s, l, top(t, s, "set")
}

// names returns the names of the checkpoints of the set.
func names(t testing.TB, s *Store) []string {
	t.Helper()
	info, err := s.Info("set")
	must(t, err)
	if info.Torn != "" {
		t.Fatal(info.Torn)
	}
	var all []string
	for _, c := range info.Checkpoints {
		all = append(all, c.Name)
	}
	return all
}

func call(t testing.TB, c *Calls, note string) string {
	t.Helper()
	name, err := c.Checkpoint(t.Context(), note)
	must(t, err)
	return name
}

// If the checkpoints of calls cannot be written to the disk, Close says so: they would be
// lost with the machine.
func TestCloseReportsCheckpointsThatAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dir := leased(t)
		c := l.Calls()
		put(t, dir+"/one", "1\n")
		if name := call(t, c, "one"); name != "call-1" {
			t.Fatalf("got %q", name)
		}
		other, err := tryLock(l.held.dir, busyName, unix.LOCK_EX)
		must(t, err)
		defer other.free()
		if err := l.Close(); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want %v", err, ErrBusy)
		}
	})
}

// While another program works on the set, a call gets no checkpoint. That is not taken for
// changes that are too expensive, and the next call saves them.
func TestNoCheckpointWhileAnotherProgramWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dir := leased(t)
		c := l.Calls()
		put(t, dir+"/one", "1\n")
		other, err := tryLock(l.held.dir, busyName, unix.LOCK_EX)
		must(t, err)
		_, err = c.Checkpoint(t.Context(), "one")
		other.free()
		if !errors.Is(err, ErrSkipped) || !errors.Is(err, ErrBusy) || strings.Contains(err.Error(), "to copy") {
			t.Errorf("got %v, want that another program works on the set", err)
		}
		if name := call(t, c, "two"); name != "call-1" {
			t.Errorf("the next call got %q, want call-1", name)
		}
	})
}

// An error names the path that it is about once, quoted.
func TestErrorsNameThePathOnce(t *testing.T) {
	s, _, dir := leased(t)
	put(t, dir+"/evil\n/dir/file", "x")
	h, err := s.hold("set")
	must(t, err)
	defer h.close()
	all, err := s.uppers([]string{h.meta.Top})
	must(t, err)
	defer all.close()
	id, err := s.newLayer(&h.meta)
	must(t, err)
	err = s.copyInto(layersDir+"/"+id, all, &copying{m: &h.meta, left: 2})
	if want := `"evil\n/dir": too many changed files: more than belljar reads`; !errors.Is(err, errBound) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = about("evil\n", fmt.Errorf("copy: %w", &os.PathError{Op: "open", Path: "evil\n", Err: unix.EACCES}))
	if want := `"evil\n": permission denied`; !errors.Is(err, unix.EACCES) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCallsAreCheckpointed(t *testing.T) {
	s, l, dir := leased(t)
	put(t, dir+"/before", "not by a call\n")
	c := l.Calls()
	if name := call(t, c, "nothing"); name != "" {
		t.Errorf("a call that changed nothing got %s", name)
	}
	put(t, dir+"/one", "1\n")
	put(t, dir+"/sub/same", "same\n")
	if name := call(t, c, "  make\n  it\x1b[31m "+strings.Repeat("ä", 200)); name != "call-1" {
		t.Errorf("got %q", name)
	}
	put(t, dir+"/one", "2\n")
	must(t, unix.Mkfifo(dir+"/pipe", 0o600))
	if name := call(t, c, "again"); name != "call-2" {
		t.Errorf("got %q", name)
	}
	must(t, os.RemoveAll(dir+"/sub"))
	must(t, s.Checkpoint("set", "call-4")) // a person may use such a name
	if name := call(t, c, "third"); name != "call-3" {
		t.Errorf("got %q", name)
	}
	whiteout(t, dir+"/old")
	if name := call(t, c, "fourth"); name != "call-5" {
		t.Errorf("got %q", name)
	}
	if err := s.Rollback("set", "call-2"); !errors.Is(err, ErrLive) {
		t.Errorf("roll back under a box: %v", err)
	}
	info, err := s.Info("set")
	must(t, err)
	if note := info.Checkpoints[0].Note; len(note) > callNote || !strings.HasPrefix(note, "make it") || !strings.HasSuffix(note, "ä...") {
		t.Errorf("note %q", note)
	}
	must(t, l.Close())
	if _, err := c.Checkpoint(t.Context(), "late"); err == nil {
		t.Error("a checkpoint of a box that is gone")
	}
	if diff := cmp.Diff([]string{"call-1", "call-2", "call-4", "call-3", "call-5"}, names(t, s)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	must(t, s.Rollback("set", "call-2"))
	want := []string{"added file before", "added file one", "added fifo pipe: a fifo is never applied", "added directory sub", "added file sub/same"}
	if diff := cmp.Diff(want, diff(t, s, "set")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	text, err := s.Info("set")
	must(t, err)
	if len(text.Checkpoints) != 2 {
		t.Errorf("got %v", text.Checkpoints)
	}
	must(t, s.Rollback("set", "call-1"))
	// The number of a name is not used twice.
	l, err = s.Use("set", "local", info.Base, Protect{})
	must(t, err)
	defer l.Close()
	c = l.Calls()
	put(t, top(t, s, "set")+"/new", "x")
	if name := call(t, c, ""); name != "call-6" {
		t.Errorf("got %q", name)
	}
}

// TestCallsShareWhatStayed checks that a file that did not change since the last checkpoint
// takes no space again, and that a file that changed is not shared with the older
// checkpoint.
func TestCallsShareWhatStayed(t *testing.T) {
	s, l, dir := leased(t)
	c := l.Calls()
	inode := func(name, path string) uint64 {
		h, err := s.hold("set")
		must(t, err)
		defer h.close()
		i := slices.IndexFunc(h.meta.Checkpoints, func(c checkpoint) bool { return c.Name == name })
		var st unix.Stat_t
		must(t, unix.Lstat(s.path+"/"+layersDir+"/"+h.meta.Checkpoints[i].Layers[0]+"/"+upperDir+"/"+path, &st))
		return st.Ino
	}
	for _, name := range []string{"same", "content", "mode", "attr", "touched"} {
		put(t, dir+"/d/"+name, "1234")
	}
	call(t, c, "")
	var was unix.Stat_t
	must(t, unix.Lstat(dir+"/d/content", &was))
	put(t, dir+"/d/content", "5678")
	// Only the time of last change would show this change, so the time is set back.
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/d/content", []unix.Timespec{was.Atim, was.Mtim}, 0))
	must(t, os.Chmod(dir+"/d/mode", 0o600))
	must(t, unix.Setxattr(dir+"/d/attr", "user.x", []byte("y"), 0))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/d/touched", nil, 0))
	call(t, c, "")
	for _, name := range []string{"same", "content", "mode", "attr", "touched"} {
		if same := inode("call-1", "d/"+name) == inode("call-2", "d/"+name); same != (name == "same") {
			t.Errorf("%s is shared: %v", name, same)
		}
	}
	must(t, l.Close())
	must(t, s.Rollback("set", "call-1"))
	if got := tree(t, s.layerOf(t, 0)); !strings.HasSuffix(got["d/content"], " 1234") || !strings.HasSuffix(got["d/same"], " 1234") {
		t.Errorf("got %v", got)
	}
}

// layerOf returns the path of a frozen layer of the set.
func (s *Store) layerOf(t testing.TB, i int) string {
	h, err := s.hold("set")
	must(t, err)
	defer h.close()
	return s.path + "/" + layersDir + "/" + h.meta.Layers[i] + "/" + upperDir
}

// TestOldCallsAreDropped checks that the oldest checkpoints of calls are dropped, and that
// a person's checkpoint never is.
func TestOldCallsAreDropped(t *testing.T) {
	s, l, dir := leased(t)
	c := l.Calls()
	step := func(i int) {
		put(t, fmt.Sprintf("%s/%d", dir, i), "x")
		call(t, c, "")
	}
	step(0)
	must(t, s.Checkpoint("set", "mine"))
	for i := range callsKept + 3 {
		step(i + 1)
	}
	got := names(t, s)
	if len(got) != callsKept+1 || got[0] != "mine" || got[1] != "call-5" || got[callsKept] != "call-36" {
		t.Errorf("got %v", got)
	}
	s.wg.Wait()
	layers, err := os.ReadDir(s.path + "/" + layersDir)
	must(t, err)
	if len(layers) != callsKept+2 { // in addition: the layer of the person's checkpoint, and the top
		t.Errorf("%d layers", len(layers))
	}
	// A person's checkpoints take the place of checkpoints of calls.
	for i := len(got); i < maxCheckpoints+5; i++ {
		must(t, s.Checkpoint("set", fmt.Sprintf("mine-%d", i)))
	}
	if got = names(t, s); len(got) != maxCheckpoints || got[1] != "call-10" {
		t.Errorf("%d: %v", len(got), got)
	}
	if err := unixTrash(s); err != nil {
		t.Error(err)
	}
}

// unixTrash returns an error if the trash is not empty when all removals have ended.
func unixTrash(s *Store) error {
	s.wg.Wait()
	left, err := os.ReadDir(s.path + "/" + trashDir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d entries are left in the trash", len(left))
	}
	return err
}

func TestExpensiveCallsAreSkipped(t *testing.T) {
	s, l, dir := leased(t)
	c := l.Calls()
	f, err := os.OpenFile(dir+"/big", os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(64<<30)) // a hole takes no blocks
	put(t, dir+"/x", "x")
	if name := call(t, c, ""); name != "call-1" {
		t.Errorf("a hole: %q", name)
	}
	c.most = 1 << 20
	_, err = f.WriteAt(make([]byte, 1<<20+1), 1<<30)
	must(t, err)
	if shares(t) {
		t.Skip("this file system shares blocks, which costs nothing")
	}
	if _, err := c.Checkpoint(t.Context(), ""); !errors.Is(err, ErrSkipped) || !strings.Contains(err.Error(), "over 1 MiB") {
		t.Errorf("got %v", err)
	}
	must(t, os.Remove(dir+"/big"))
	for i := range callRest {
		put(t, fmt.Sprint(dir, "/", i), "x")
		if _, err := c.Checkpoint(t.Context(), ""); !errors.Is(err, ErrSkipped) {
			t.Errorf("call %d after it: %v", i, err)
		}
	}
	put(t, dir+"/y", "y")
	if name := call(t, c, ""); name != "call-2" {
		t.Errorf("got %q", name)
	}
	// A checkpoint whose caller has cancelled it leaves nothing.
	put(t, dir+"/z", "z")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.checkpointCall(gone, callBytes, ""); err == nil {
		t.Error("a checkpoint for nobody")
	}
	entries, err := os.ReadDir(s.path + "/" + setsDir + "/set")
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), copyPrefix) {
			t.Errorf("%s is left", e.Name())
		}
	}
	if err := unixTrash(s); err != nil {
		t.Error(err)
	}
}

// shares reports whether files can share blocks.
func shares(t *testing.T) bool {
	dir := t.TempDir()
	put(t, dir+"/a", "text")
	put(t, dir+"/b", "")
	a, err := os.Open(dir + "/a")
	must(t, err)
	defer a.Close()
	b, err := os.OpenFile(dir+"/b", os.O_WRONLY, 0)
	must(t, err)
	defer b.Close()
	return unix.IoctlFileClone(int(b.Fd()), int(a.Fd())) == nil
}

// TestCallsAreDurableAfterTheSession checks that a set cannot be rolled back to a
// checkpoint that was not on the disk when the machine went down.
func TestCallsAreDurableAfterTheSession(t *testing.T) {
	s, l, dir := leased(t)
	c := l.Calls()
	put(t, dir+"/x", "x")
	call(t, c, "")
	boot := func(change func(c *checkpoint)) string {
		h, err := s.hold("set")
		must(t, err)
		defer h.close()
		if change != nil {
			change(&h.meta.Checkpoints[0])
			must(t, h.write())
		}
		return h.meta.Checkpoints[0].Boot
	}
	if got := boot(nil); got != bootID() || got == "" {
		t.Errorf("a live one: %q", got)
	}
	must(t, l.Close())
	if got := boot(nil); got != "" {
		t.Errorf("after the session: %q", got)
	}
	boot(func(c *checkpoint) { c.Boot = "another" })
	if err := s.Rollback("set", "call-1"); err == nil || !strings.Contains(err.Error(), "went down") {
		t.Errorf("got %v", err)
	}
}

// TestLiveSetKeepsItsLayers checks that a live set keeps the layers that are mounted, even
// if it has the maximum number of layers.
func TestLiveSetKeepsItsLayers(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{}))
	for i := range maxLayers - 1 {
		put(t, fmt.Sprintf("%s/%d", top(t, s, "set"), i), "x")
		must(t, s.Checkpoint("set", fmt.Sprint(i)))
	}
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	defer l.Close()
	put(t, top(t, s, "set")+"/last", "x")
	want := diff(t, s, "set")
	must(t, s.Fork("set", "fork"))
	if name := call(t, &Calls{lease: l, most: callBytes}, ""); name != "call-1" {
		t.Errorf("got %q", name)
	}
	must(t, s.Create("other", base, Protect{}))
	must(t, s.Discard("other")) // Discard also collects unused layers
	for _, dir := range l.Dirs() {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a layer that is mounted: %v", err)
		}
	}
	if diff := cmp.Diff(want, diff(t, s, "fork")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func BenchmarkCheckpointCall(b *testing.B) {
	for _, files := range []int{10, 1000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			_, l, dir := leased(b)
			for i := range files {
				put(b, fmt.Sprintf("%s/%d/%d", dir, i%20, i), strings.Repeat("x", 4000))
			}
			c := l.Calls()
			c.last = nil
			call(b, c, "")
			for i := 0; b.Loop(); i++ {
				put(b, dir+"/one", fmt.Sprint(i))
				call(b, c, "")
			}
		})
	}
}
