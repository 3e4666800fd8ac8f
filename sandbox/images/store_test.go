package images_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/images/imagetest"
)

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }

// imported imports an image, and fails the test if that fails.
func imported(t testing.TB, s *images.Store, name string, src images.Source) images.Report {
	t.Helper()
	r, err := s.Import(t.Context(), name, src)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// treeOf returns a picture of what was unpacked for a name.
func treeOf(t testing.TB, s *images.Store, name string) string {
	t.Helper()
	tree, err := s.Use(name)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	return picture(t, tree.Root)
}

// Layers are laid over one another; markers apply to lower layers only.
func TestLayers(t *testing.T) {
	file, dir, link, hard := imagetest.File, imagetest.Dir, imagetest.Link, imagetest.Hard
	base := imagetest.Tar(t,
		dir("./"), dir("bin"), file("bin/sh", "old", 0o755), hard("bin/bash", "bin/sh"),
		dir("gone"), file("gone/deep/x", "x", 0o644), file("kept/a", "a", 0o600), file("kept/b", "b", 0o644),
		file("opaque/low", "l", 0o644), file("opaque/sub/low", "l", 0o644), link("lib", "usr/lib"),
		file("becomes/dir", "", 0o644), file("file", "f", 0o644), link("abs", "/etc/passwd"), link("chain", "abs"),
		file(".wh.nothing", "", 0o644))
	top := imagetest.Tar(t,
		file("bin/sh", "new", 0o755),                               // the other name of the file keeps the old content
		file(".wh.gone", "", 0o644), file("kept/.wh.a", "", 0o644), // both hide entries of the lower layer
		file("opaque/sub/high", "h", 0o644), file("opaque/.wh..wh..opq", "", 0o644), file("opaque/high", "h", 0o644),
		dir("lib"), file("lib/x", "x", 0o644), // a directory replaces a link
		file("becomes", "a file now", 0o644), dir("file"), file("nowhere/.wh.x", "", 0o644),
		file("gone2/x", "x", 0o644), file(".wh.gone2", "", 0o644), // made by the same layer, so it stays
		file(".wh..wh.plnk", "", 0o644))
	s, _ := store(t)
	r := imported(t, s, "two", images.Source{Path: imagetest.Layout(t, imagetest.Runtime{}, base, top)})
	want := strings.Join([]string{
		"L--------- abs -> /etc/passwd",
		`-rw-r--r-- becomes "a file now"`,
		"drwxr-xr-x bin",
		`-rwxr-xr-x bin/bash "old"`,
		`-rwxr-xr-x bin/sh "new"`,
		"L--------- chain -> abs",
		"drwxr-xr-x file",
		"drwxr-xr-x gone2",
		`-rw-r--r-- gone2/x "x"`,
		"drwxr-xr-x kept",
		`-rw-r--r-- kept/b "b"`,
		"drwxr-xr-x lib",
		`-rw-r--r-- lib/x "x"`,
		"drwxr-xr-x opaque",
		`-rw-r--r-- opaque/high "h"`,
		"drwxr-xr-x opaque/sub",
		`-rw-r--r-- opaque/sub/high "h"`,
	}, "\n") + "\n"
	if d := cmp.Diff(want, treeOf(t, s, "two")); d != "" {
		t.Error(d)
	}
	if r.Known || r.Digest == "" || r.Name != "two" {
		t.Errorf("got %+v", r)
	}
}

// The same image gives the same tree, in whatever form it is imported.
func TestSources(t *testing.T) {
	root := imagetest.Tar(t, imagetest.Dir("./"), imagetest.File("./etc/motd", "hello", 0o644))
	layout := imagetest.Layout(t, imagetest.Runtime{Env: []string{"A=b"}}, root)
	packed := func(first ...string) []byte {
		var entries []imagetest.Entry
		for _, name := range first {
			text, err := os.ReadFile(filepath.Join(layout, name))
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, imagetest.File(name, string(text), 0o644))
		}
		blobs, err := filepath.Glob(layout + "/blobs/sha256/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blobs {
			text, err := os.ReadFile(b)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, imagetest.File("./blobs/sha256/"+filepath.Base(b), string(text), 0o644))
		}
		return imagetest.Tar(t, append([]imagetest.Entry{imagetest.Dir("./")}, entries...)...)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	config := []byte(`{"os":"linux","config":{"User":"web"},"rootfs":{"diff_ids":["` + imagetest.Digest(root) + `"]}}`)
	id := strings.TrimPrefix(imagetest.Digest(config), "sha256:")
	docker := imagetest.Tar(t,
		imagetest.File(id+".json", string(config), 0o644), imagetest.File("abc/layer.tar", string(root), 0o644),
		imagetest.File("manifest.json", `[{"Config":"`+id+`.json","RepoTags":["x:1"],"Layers":["abc/layer.tar"]}]`, 0o644))
	for name, src := range map[string]images.Source{
		"layout":      {Path: layout},
		"layout.tar":  {Path: file(t, packed("oci-layout", "index.json"))},
		"blobs.first": {Reader: bytes.NewReader(imagetest.Gzip(t, packed("index.json")))},
		"docker":      {Path: file(t, docker)},
		"docker.ref":  {Path: file(t, imagetest.Gzip(t, docker)), Ref: "x:1"},
		"plain":       {Path: file(t, root)},
		"plain.gz":    {Path: file(t, imagetest.Gzip(t, root))},
		"plain.zst":   {Reader: bytes.NewReader(z.EncodeAll(root, nil))},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := store(t)
			imported(t, s, name, src)
			if d := cmp.Diff("drwxr-xr-x etc\n-rw-r--r-- etc/motd \"hello\"\n", treeOf(t, s, name)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Entries that have no meaning in a box are left out, and counted.
func TestDropped(t *testing.T) {
	suid := imagetest.File("bin/su", "x", 0o4755)
	suid.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "\x01\x00"}
	suid.Uid, suid.Gid = 12345, 54321
	suid.ModTime = time.Unix(1e9, 0)
	dir := imagetest.Dir("bin")
	dir.ModTime = time.Unix(2e9, 0)
	s, _ := store(t)
	r := imported(t, s, "dropped", images.Source{Path: file(t, imagetest.Tar(t, dir, suid,
		imagetest.Entry{Header: tar.Header{Typeflag: tar.TypeChar, Name: "dev/null"}},
		imagetest.Entry{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "./dev/initctl"}}, imagetest.File("etc/shadow", "s", 0o000)))})
	want := images.Dropped{Devices: 2, Setuid: 1, Xattrs: 1}
	if d := cmp.Diff(want, r.Dropped); d != "" {
		t.Error(d)
	}
	tree, err := s.Use("dropped")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for name, want := range map[string]struct {
		mode os.FileMode
		time int64
	}{"bin/su": {0o755, 1e9}, "bin": {0o755 | os.ModeDir, 2e9}, "etc/shadow": {0o644, 0}} {
		info, err := os.Lstat(filepath.Join(tree.Root, name))
		if err != nil {
			t.Fatal(err)
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		if info.Mode() != want.mode || info.ModTime().Unix() != want.time || int(st.Uid) != os.Geteuid() {
			t.Errorf("%s is %s of uid %d, changed %d; want %s, ours, %d", name, info.Mode(), st.Uid, info.ModTime().Unix(), want.mode, want.time)
		}
	}
}

func TestRuntime(t *testing.T) {
	layer := imagetest.Tar(t, imagetest.Dir("a"))
	s, _ := store(t)
	r := imported(t, s, "runtime", images.Source{Path: imagetest.Layout(t, imagetest.Runtime{Env: []string{"PATH=/x", "E="}, User: "web", WorkingDir: "/srv//app/"}, layer)})
	if d := cmp.Diff(images.Runtime{Env: []string{"PATH=/x", "E="}, User: "web", Dir: "/srv/app"}, r.Runtime); d != "" {
		t.Error(d)
	}
	if want := "drwxr-xr-x srv/app\n"; !strings.Contains(treeOf(t, s, "runtime"), want) {
		t.Errorf("the working directory was not made")
	}
	r = imported(t, s, "root", images.Source{Path: imagetest.Layout(t, imagetest.Runtime{WorkingDir: "/"}, layer)})
	if r.Runtime.Dir != "" {
		t.Errorf("the working directory / became %q", r.Runtime.Dir)
	}
	for name, bad := range map[string]imagetest.Runtime{
		"no name":   {Env: []string{"=x"}},
		"no value":  {Env: []string{"x"}},
		"nul":       {Env: []string{"x=\x00"}},
		"many":      {Env: make([]string, 300)},
		"long":      {Env: []string{"x=" + strings.Repeat("y", 100<<10)}},
		"upwards":   {WorkingDir: "/a/../.."},
		"dir nul":   {WorkingDir: "/a\x00"},
		"user line": {User: "a\nb"},
	} {
		if _, err := s.Import(t.Context(), "bad", images.Source{Path: imagetest.Layout(t, bad, layer)}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

func TestNames(t *testing.T) {
	s, _ := store(t)
	one := images.Source{Path: file(t, imagetest.Tar(t, imagetest.File("one", "1", 0o644)))}
	two := images.Source{Path: file(t, imagetest.Tar(t, imagetest.File("two", "2", 0o644)))}
	a := imported(t, s, "a", one)
	if b := imported(t, s, "b/c:1", one); !b.Known || b.Digest != a.Digest {
		t.Errorf("the second import is %+v", b)
	}
	if r := imported(t, s, "a", two); r.Known || r.Replaced != a.Digest {
		t.Errorf("another image of the name is %+v", r)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b/c:1" || list[1].Digest != a.Digest {
		t.Errorf("got %+v, %v", list, err)
	}
	if err := s.Remove(t.Context(), "nosuch"); !errors.Is(err, images.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	tree, err := s.Use("b/c:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "b/c:1"); !errors.Is(err, images.ErrInUse) {
		t.Errorf("while it is used it is removed: %v", err)
	}
	again, err := s.Use("b/c:1")
	if err != nil {
		t.Fatal(err)
	}
	imported(t, s, "b/c:1", two) // no name stands for the first tree now
	if gone, err := s.Prune(t.Context()); err != nil || len(gone) != 0 {
		t.Errorf("pruned %v, %v while it is used", gone, err)
	}
	for _, u := range []*images.Tree{tree, again, again} {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	if gone, err := s.Prune(t.Context()); err != nil || len(gone) != 1 || gone[0].Digest != a.Digest {
		t.Errorf("pruned %v, %v", gone, err)
	}
	for _, name := range []string{"a", "b/c:1"} {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Error(err)
		}
		if _, err := s.Use(name); !errors.Is(err, images.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	}
	for _, bad := range []string{"", ".", "..", "../x", "a/../b", ".x", "-x", "a\n", "a//b", "A", "/a", "a:", "a@b", strings.Repeat("x", 201)} {
		if _, err := s.Import(t.Context(), bad, one); err == nil {
			t.Errorf("the name %q was taken", bad)
		}
		if _, err := s.Use(bad); !errors.Is(err, images.ErrUnknown) {
			t.Errorf("using the name %q: %v", bad, err)
		}
	}
}

// The files that a killed import left are removed by the next Open, but not while another
// import runs.
func TestLeftovers(t *testing.T) {
	s, dir := store(t)
	imported(t, s, "a", images.Source{Path: file(t, imagetest.Tar(t, imagetest.Dir("a")))})
	before := picture(t, dir)
	left := filepath.Join(dir, "tmp", "import-1", "tree", "root")
	plant := func() {
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/", filepath.Join(left, "l")); err != nil {
			t.Fatal(err)
		}
	}
	plant()
	lock, err := os.OpenFile(filepath.Join(dir, "import.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	storeOf(t, images.Config{Dir: dir})
	if _, err := os.Lstat(left); err != nil {
		t.Error("what somebody is working at was removed")
	}
	lock.Close()
	storeOf(t, images.Config{Dir: dir})
	if after := picture(t, dir); after != before {
		t.Errorf("the store was\n%s\nand is\n%s", before, after)
	}
}

func TestConcurrentImports(t *testing.T) {
	s, dir := store(t)
	path := file(t, imagetest.Tar(t, imagetest.Many(100)...))
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "a", "c"} {
		wg.Go(func() {
			if _, err := s.Import(t.Context(), name, images.Source{Path: path}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	trees, err := os.ReadDir(filepath.Join(dir, "trees"))
	if list, listErr := s.List(); err != nil || listErr != nil || len(list) != 3 || len(trees) != 1 {
		t.Errorf("%d names, %d trees, %v, %v", len(list), len(trees), err, listErr)
	}
}

// A store that others can change is not opened.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []images.Config{{Dir: dir}, {Dir: "relative"}, {}, {Dir: filepath.Join(dir, "x"), Bytes: -1}} {
		if _, err := images.Open(cfg); err == nil {
			t.Errorf("%+v was opened", cfg)
		}
	}
}

// Programs are found as a box would find them.
func TestRuns(t *testing.T) {
	s, _ := store(t)
	imported(t, s, "a", images.Source{Path: file(t, imagetest.Tar(t,
		imagetest.File("usr/bin/sh", "x", 0o755), imagetest.Link("bin", "/usr/bin"), imagetest.Link("out", "/../../../../../../bin/sh"),
		imagetest.File("text", "x", 0o644)))})
	tree, err := s.Use("a")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for path, want := range map[string]bool{"/bin/sh": true, "/usr/bin/sh": true, "/out": true, "/text": false, "/usr": false, "/bin/bash": false} {
		if got := tree.Runs(path); got != want {
			t.Errorf("%s runs: %v", path, got)
		}
	}
}
