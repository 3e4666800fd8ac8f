package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// archiveOf returns an archive of entries "KIND NAME TARGET".
func archiveOf(t testing.TB, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		var kind, name, target string
		_, _ = fmt.Sscan(e, &kind, &name, &target)
		if err := w.WriteHeader(&tar.Header{Typeflag: kind[0], Name: name, Linkname: target, Mode: 0o6755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzExtract unpacks any bytes, as a plain archive and as two layers. Nothing may be made
// or changed outside of the tree. The tree may contain only files, directories and links
// that everybody can read, within the bounds.
func FuzzExtract(f *testing.F) {
	for _, entries := range [][]string{
		{"0 a/b", "0 a/.wh.b", "0 a/.wh..wh..opq", "0 a/.wh..wh.plnk"},
		{"2 a b", "5 a/", "0 a/x", "1 b a/x", "0 .wh.a", "2 a /"},
		{"2 l ..", "0 l/beside"},
		{"2 l /", "1 h l/etc/passwd"},
		{"1 h ../beside"},
		{"0 ../beside"},
		{"0 /beside"},
		{"2 a ..", "2 b a", "0 b/beside"},
		{"3 null"},
		{"3 dev/null"},
		{"6 pipe"},
		{"2 ./ .."},
		{"5 a/../.."},
		{"0 f", "1 h f", "0 h/x"},
		{"0 f", "1 h f", "0 h"},
		{"5 d", "0 d/x", "0 d", "5 d"},
		{"0 .wh..."},
		{"0 .wh.."},
		{"0 .wh."},
		{"2 l ../beside", "0 l"},
		{"2 l ../beside", "5 l"},
		{"0 " + strings.Repeat("d/", 99) + "x"},
	} {
		f.Add(archiveOf(f, entries...))
	}
	around := f.TempDir() // one directory for all runs: a file that one run makes outside of its tree is seen by the next
	beside := filepath.Join(around, "beside")
	if err := os.WriteFile(beside, []byte("beside"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		for _, layers := range [][]int{{0}, {1, 2}} {
			dir, err := os.MkdirTemp(around, "tree") //nolint:usetesting // it has to lie beside what must not change
			if err != nil {
				t.Fatal(err)
			}
			x, err := newExtractor(dir, Config{Bytes: 1 << 20, Entries: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range layers {
				s, err := openStream(t.Context(), bytes.NewReader(archive), 1<<22)
				if err != nil {
					break
				}
				err = x.unpack(t.Context(), s, n)
				s.close()
				if err != nil {
					break
				}
			}
			if err := x.finish(); err != nil {
				t.Error(err)
			}
			if x.entries > 101 || x.bytes > 1<<20 {
				t.Errorf("%d entries of %d bytes", x.entries, x.bytes)
			}
			x.close()
			sound(t, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
		names, _ := filepath.Glob(around + "/*")
		if text, err := os.ReadFile(beside); err != nil || string(text) != "beside" || len(names) != 1 {
			t.Fatalf("beside the tree are %v, with %q, %v", names, text, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(beside, &st); err != nil || st.Nlink != 1 {
			t.Fatalf("%s has %d names, %v", beside, st.Nlink, err)
		}
	})
}

// sound checks what was unpacked.
func sound(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch m := info.Mode(); {
		case m == fs.ModeDir|0o755, m == 0o644, m == 0o755, m.Type() == fs.ModeSymlink:
		case m == 0o600: // the file in which the archive broke off
			n++
		default:
			t.Errorf("%s is %s", path, m)
		}
		return nil
	})
	if err != nil || n > 1 {
		t.Errorf("%d files are not readable, %v", n, err)
	}
}

// tray contains blobs, by name.
type tray map[string][]byte

func (b tray) open(name string) (io.ReadCloser, int64, error) {
	text, ok := b[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
}

// FuzzDescribe reads any bytes as the documents of an image. Documents that are accepted
// are within the bounds and have valid digests.
func FuzzDescribe(f *testing.F) {
	f.Add(`{"manifests":[{"digest":"sha256:x","size":1}]}`, `{"layers":[]}`, `{}`, "")
	f.Add(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json"}]}`, `{"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:0123456789012345678901234567890123456789012345678901234567890123","size":3}]}`, `{"os":"linux","config":{"Env":["A=b"],"WorkingDir":"/x"}}`, "a")
	f.Add(`[{"Config":"c.json","RepoTags":["a"],"Layers":["l"]}]`, `[]`, `{"rootfs":{"diff_ids":["sha256:0"]}}`, "a")
	f.Fuzz(func(t *testing.T, idx, man, cfg, ref string) {
		b := tray{}
		add := func(text string) descriptor {
			m := newMeter(t.Context(), strings.NewReader(text))
			_, _ = io.Copy(io.Discard, m)
			d := descriptor{Digest: m.digest(), Size: int64(len(text))}
			name, err := blobName(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			b[name] = []byte(text)
			return d
		}
		// The digests that lead from one document to the next must be right, because
		// otherwise no document is reached.
		var m map[string]any
		if json.Unmarshal([]byte(man), &m) == nil && m != nil {
			m["config"] = map[string]any{"digest": add(cfg).Digest, "size": len(cfg)}
			text, _ := json.Marshal(m)
			man = string(text)
		}
		d := add(man)
		var i map[string]any
		if json.Unmarshal([]byte(idx), &i) == nil && i != nil {
			if list, ok := i["manifests"].([]any); ok {
				for _, e := range list {
					if e, ok := e.(map[string]any); ok {
						e["digest"], e["size"] = d.Digest, d.Size
					}
				}
			}
			text, _ := json.Marshal(i)
			idx = string(text)
		}
		b["index.json"] = []byte(idx)
		checkPlan(t, b, ref)
		delete(b, "index.json")
		b["manifest.json"], b["c.json"] = []byte(idx), []byte(cfg)
		checkPlan(t, b, ref)
	})
}

func checkPlan(t *testing.T, b tray, ref string) {
	t.Helper()
	p, err := describe(t.Context(), b, ref)
	if err != nil {
		return
	}
	if _, err := digestDir(p.digest); err != nil || len(p.layers) == 0 || len(p.layers) > maxLayers || len(p.runtime.Env) > maxEnv {
		t.Errorf("taken was %+v, %v", p, err)
	}
	if len(p.diffs) > 0 && len(p.diffs) != len(p.layers) {
		t.Errorf("%d digests of %d layers", len(p.diffs), len(p.layers))
	}
	if d := p.runtime.Dir; d != "" && (filepath.Clean(d) != d || d[0] != '/') {
		t.Errorf("the working directory is %q", d)
	}
}
