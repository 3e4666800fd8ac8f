package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"belljar.dev/internal/printable"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/images/imagetest"
)

// hostile returns archives with entries that no image may have, and for each the entry that
// is refused.
func hostile(t testing.TB) []struct {
	name, entry, want string
	entries           []imagetest.Entry
} {
	t.Helper()
	type e = imagetest.Entry
	file, dir, link, hard := imagetest.File, imagetest.Dir, imagetest.Link, imagetest.Hard
	special := func(kind byte, name string) e {
		return e{Header: tar.Header{Typeflag: kind, Name: name, Mode: 0o666, Devmajor: 8, Devminor: 1}}
	}
	deep := strings.Repeat("d/", 200) + "x"
	return []struct {
		name, entry, want string
		entries           []e
	}{
		{"upwards", "../x", `".."`, []e{file("../x", "x", 0o644)}},
		{"upwards in the middle", "a/../../x", `".."`, []e{file("a/../../x", "x", 0o644)}},
		{"upwards and inside", "a/../x", `".."`, []e{file("a/../x", "x", 0o644)}},
		{"upwards at the end", "a/..", `".."`, []e{dir("a/..")}},
		{"absolute", "/etc/passwd", "absolute", []e{file("/etc/passwd", "x", 0o644)}},
		{"absolute directory", "/tmp/", "absolute", []e{dir("/tmp/")}},
		{"two slashes", "//etc/passwd", "absolute", []e{file("//etc/passwd", "x", 0o644)}},
		{"through an absolute link", "l/x", "symbolic link", []e{link("l", "/tmp"), file("l/x", "x", 0o644)}},
		{"through a link upwards", "l/x", "symbolic link", []e{link("l", ".."), file("l/x", "x", 0o644)}},
		{"through a link that stays inside", "l/x", "symbolic link", []e{dir("d"), link("l", "d"), file("l/x", "x", 0o644)}},
		{"through a chain of links", "b/x", "symbolic link", []e{link("a", ".."), link("b", "a"), file("b/x", "x", 0o644)}},
		{"through a link below a directory", "d/l/x", "symbolic link", []e{dir("d"), link("d/l", "../.."), file("d/l/x", "x", 0o644)}},
		{"through a link to itself", "l/x", "symbolic link", []e{link("l", "l"), file("l/x", "x", 0o644)}},
		{"through a link to /proc", "l/x", "symbolic link", []e{link("l", "/proc/self/root"), file("l/x", "x", 0o644)}},
		{"a directory through a link", "l/d/", "symbolic link", []e{link("l", "/tmp"), dir("l/d/")}},
		{"a link through a link", "l/m", "symbolic link", []e{link("l", "/tmp"), link("l/m", "x")}},
		{"through a file", "f/x", "not a directory", []e{file("f", "x", 0o644), file("f/x", "x", 0o644)}},
		{"hard link upwards", "h", `".."`, []e{hard("h", "../../secret")}},
		{"hard link to an absolute path", "h", "absolute", []e{hard("h", "/etc/passwd")}},
		{"hard link through a link", "h", "symbolic link", []e{link("l", "/etc"), hard("h", "l/passwd")}},
		{"hard link to a link", "h", "not a file", []e{link("l", "/etc/passwd"), hard("h", "l")}},
		{"hard link to a directory", "h", "not a file", []e{dir("d"), hard("h", "d")}},
		{"hard link to nothing", "h", "not in the image", []e{hard("h", "later")}},
		{"hard link to itself", "h", "itself", []e{file("h", "x", 0o644), hard("h", "./h")}},
		{"a file through a hard link's name", "h/x", "not a directory", []e{file("f", "x", 0o644), hard("h", "f"), file("h/x", "x", 0o644)}},
		{"character device", "null", "device", []e{special(tar.TypeChar, "null")}},
		{"block device", "etc/sda1", "device", []e{special(tar.TypeBlock, "etc/sda1")}},
		{"a device that looks like one of /dev", "devices/x", "device", []e{special(tar.TypeChar, "devices/x")}},
		{"named pipe", "p", "pipe", []e{special(tar.TypeFifo, "p")}},
		{"a kind that nobody knows", "odd", "type", []e{special('Q', "odd")}},
		{"link to nothing", "l", "symbolic link", []e{link("l", "")}},
		{"link to too much", "l", "symbolic link", []e{link("l", strings.Repeat("x", 5000))}},
		{"the root is a file", "./", "root", []e{{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: "./", Linkname: "/tmp"}}}},
		{"a long name", "n", "bytes long", []e{file(strings.Repeat("n", 300), "", 0o644)}},
		{"a long path", "a/", "bytes long", []e{file(strings.Repeat("a/", 2000)+"x", "", 0o644)}},
		{"a deep path", "d/", "deep", []e{file(deep, "", 0o644)}},
		{"too large", "big", "bytes more", []e{file("a", strings.Repeat("x", 600<<10), 0o644), file("big", strings.Repeat("x", 600<<10), 0o644)}},
		{"too many", "d200", "more than 200 entries", imagetest.Many(201)},
	}
}

// A refusal names the entry and leaves the store as it was, in whatever form the image is
// imported.
func TestHostile(t *testing.T) {
	for _, tt := range hostile(t) {
		archive := imagetest.Tar(t, tt.entries...)
		sources := map[string]func() images.Source{
			"plain":  func() images.Source { return images.Source{Path: file(t, archive)} },
			"gzip":   func() images.Source { return images.Source{Reader: bytes.NewReader(imagetest.Gzip(t, archive))} },
			"layout": func() images.Source { return images.Source{Path: imagetest.Layout(t, imagetest.Runtime{}, archive)} },
		}
		for kind, source := range sources {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				s, dir := store(t)
				if _, err := s.Import(t.Context(), "good", images.Source{Path: file(t, imagetest.Tar(t, imagetest.File("a", "good", 0o644)))}); err != nil {
					t.Fatal(err)
				}
				around := filepath.Dir(dir)
				before := picture(t, around)
				_, err := s.Import(t.Context(), "good", source())
				refused(t, err, tt.entry, tt.want)
				if after := picture(t, around); after != before {
					t.Errorf("the store was\n%s\nand is\n%s", before, after)
				}
			})
		}
	}
}

// refused checks that err names the entry and says why.
func refused(t testing.TB, err error, entry, want string) {
	t.Helper()
	var e *images.EntryError
	switch {
	case !errors.As(err, &e):
		t.Errorf("got %v, want an error about entry %q", err, entry)
	case !strings.HasPrefix(e.Entry, entry) || !strings.Contains(err.Error(), want):
		t.Errorf("got %v, want one that names entry %q and says %q", err, entry, want)
	}
}

// header returns the header of an entry, without its content.
func header(t testing.TB, h tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sparse10G returns an archive with a sparse file of 10 GB, which takes 2 KB in the
// archive, in the old form of GNU tar.
func sparse10G(t testing.TB) []byte {
	t.Helper()
	h := header(t, tar.Header{Typeflag: tar.TypeReg, Name: "hole", Size: 512, Mode: 0o644, Format: tar.FormatGNU})
	h[156] = 'S'
	copy(h[386:], fmt.Sprintf("%011o\x00%011o\x00", 10_000_000_000-512, 512)) // the only piece that is in the archive
	copy(h[483:], fmt.Sprintf("%011o\x00", 10_000_000_000))
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h[:512] {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(h, make([]byte, 512+1024)...)
}

// Bounds are enforced before anything is written, so a bomb costs nothing.
func TestBombs(t *testing.T) {
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	_, _ = z.Write(header(t, tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: 2 << 30, Mode: 0o644}))
	for range 300 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	tests := []struct {
		name, entry, want string
		archive           []byte
	}{
		{"10 GB without content", "huge", "bytes more", header(t, tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 10_000_000_000, Mode: 0o644})},
		{"10 GB of nothing", "hole", "bytes more", sparse10G(t)},
		{"gzip of zeros", "zeros", "500 times", zeros.Bytes()},
		{"cut off", "cut", "unexpected EOF", header(t, tar.Header{Typeflag: tar.TypeReg, Name: "cut", Size: 1000, Mode: 0o644})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, dir := storeOf(t, images.Config{Dir: filepath.Join(t.TempDir(), "images")}) // with the default bounds
			before := picture(t, dir)
			_, err := s.Import(t.Context(), "bomb", images.Source{Reader: bytes.NewReader(tt.archive)})
			refused(t, err, tt.entry, tt.want)
			if after := picture(t, dir); after != before && !strings.HasPrefix(after, "-rw------- import.lock") {
				t.Errorf("the store was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// A million entries are refused at the first entry that is too many.
func TestMillionEntries(t *testing.T) {
	s, _ := storeOf(t, images.Config{Dir: filepath.Join(t.TempDir(), "images"), Entries: 1000})
	r, w := newPipe(t)
	go func() {
		defer w.Close()
		archive := tar.NewWriter(w)
		for i := range 1_000_000 {
			if archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("f%d", i), Mode: 0o644}) != nil {
				return
			}
		}
	}()
	_, err := s.Import(t.Context(), "many", images.Source{Reader: r})
	r.Close()
	refused(t, err, "f1000", "more than 1000 entries")
}

func newPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// A layout is refused if its blobs do not match their digests.
func TestForged(t *testing.T) {
	layer := imagetest.Tar(t, imagetest.File("a", "x", 0o644))
	blobs := func(dir string) []string {
		names, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
		if err != nil || len(names) != 3 {
			t.Fatal(names, err)
		}
		return names
	}
	clean := imagetest.Layout(t, imagetest.Runtime{}, layer)
	for n := range blobs(clean) {
		for kind, forge := range map[string]func(text []byte) []byte{
			"changed": func(text []byte) []byte { text[len(text)-12] ^= 1; return text },
			"longer":  func(text []byte) []byte { return append(text, ' ') },
			"shorter": func(text []byte) []byte { return text[:len(text)-1] },
			"empty":   func([]byte) []byte { return nil },
		} {
			t.Run(fmt.Sprint(n, kind), func(t *testing.T) {
				dir := imagetest.Layout(t, imagetest.Runtime{}, layer)
				name := blobs(dir)[n]
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, forge(text), 0o600); err != nil {
					t.Fatal(err)
				}
				s, at := store(t)
				before := picture(t, at)
				if _, err = s.Import(t.Context(), "forged", images.Source{Path: dir}); err == nil {
					t.Fatal("a forged image was taken")
				}
				t.Log(err)
				if after := strings.ReplaceAll(picture(t, at), "-rw------- import.lock \"\"\n", ""); after != strings.ReplaceAll(before, "-rw------- import.lock \"\"\n", "") {
					t.Errorf("the store was\n%s\nand is\n%s", before, after)
				}
			})
		}
	}
}

// A refusal shows what the maker of an image wrote as one line without control characters,
// and its advice helps.
func TestNamesInRefusals(t *testing.T) {
	const evil = "evil\n\x1b[2Jbelljar: all is well\u202e"
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := func(name, system string) map[string]any {
		return map[string]any{
			"digest": imagetest.Digest([]byte(name)), "annotations": map[string]string{"org.opencontainers.image.ref.name": name},
			"platform": map[string]string{"os": system, "architecture": runtime.GOARCH},
		}
	}
	layout := func(ref string, all ...any) images.Source {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(text(map[string]any{"manifests": all})), 0o600); err != nil {
			t.Fatal(err)
		}
		return images.Source{Path: dir, Ref: ref}
	}
	config := text(map[string]any{"rootfs": map[string]any{"diff_ids": []string{imagetest.Digest(nil)}}})
	docker := func(name, config, layer, ref string) images.Source {
		if name == "" {
			name = strings.TrimPrefix(imagetest.Digest([]byte(config)), "sha256:") + ".json"
		}
		manifest := text([]map[string]any{{"Config": name, "RepoTags": []string{evil}, "Layers": []string{layer}}})
		entries := []imagetest.Entry{imagetest.File("manifest.json", manifest, 0o644)}
		if name != evil {
			entries = append(entries, imagetest.File(name, config, 0o644))
		}
		return images.Source{Path: file(t, imagetest.Tar(t, entries...)), Ref: ref}
	}
	unpacked := images.Source{Path: t.TempDir()} // without an index that can be read
	manifest := text([]map[string]any{{"Config": evil}})
	if err := errors.Join(os.Mkdir(filepath.Join(unpacked.Path, "index.json"), 0o700), os.WriteFile(filepath.Join(unpacked.Path, "manifest.json"), []byte(manifest), 0o600)); err != nil {
		t.Fatal(err)
	}
	other := one("other", "linux")
	other["annotations"] = map[string]string{"org.opencontainers.image.ref.name": evil}
	for want, src := range map[string]images.Source{
		"it contains 2 images (evil":              layout("", one(evil, "linux"), one("good", "linux")),
		"that --ref does not distinguish":         layout(evil, one(evil, "linux"), other),
		`no image in it is called "x", only evil`: layout("x", one(evil, "linux")),
		"only for evil":                           layout("", one("good", evil)),
		"it contains no image":                    layout(""),
		"0 images in it fit (evil":                docker("", config, "layer", "x"),
		"configuration: evil":                     docker(evil, config, "layer", ""),
		"layer 1: evil":                           docker("", config, evil, ""),
		"the image is for evil":                   docker("", text(map[string]string{"os": evil}), "layer", ""),

		"configuration: evil  [2Jbelljar: all is well: no such file": unpacked,
	} {
		s, _ := store(t)
		_, err := s.Import(t.Context(), "name", src)
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsFunc(err.Error(), func(r rune) bool { return !printable.InLine(r) }) {
			t.Errorf("got %q, want one line with %q", err, want)
		}
	}
}

// A layout cannot make the importer read what is outside of it, or wait.
func TestLayoutLeadsOut(t *testing.T) {
	for kind, plant := range map[string]func(name string) error{
		"link": func(name string) error { return os.Symlink("/etc/passwd", name) },
		"pipe": mkfifo,
		"dir":  func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		t.Run(kind, func(t *testing.T) {
			dir := imagetest.Layout(t, imagetest.Runtime{}, imagetest.Tar(t, imagetest.Dir("a")))
			name := filepath.Join(dir, "index.json")
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := plant(name); err != nil {
				t.Fatal(err)
			}
			s, _ := store(t)
			if _, err := s.Import(t.Context(), "out", images.Source{Path: dir}); err == nil {
				t.Fatal("it was taken")
			}
		})
	}
}

func TestImportIsEnded(t *testing.T) {
	s, dir := store(t)
	before := picture(t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, err := s.Import(ctx, "late", images.Source{Reader: bytes.NewReader(imagetest.Tar(t, imagetest.Dir("a")))})
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if after := picture(t, dir); after != before {
		t.Errorf("the store was\n%s\nand is\n%s", before, after)
	}
}
