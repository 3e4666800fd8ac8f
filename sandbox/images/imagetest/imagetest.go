// Package imagetest makes archives and image layouts for tests.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// File returns a file for an archive; Dir, Link and Hard return other entries.
func File(name, text string, mode int64) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(text))}, text}
}

// Dir returns a directory.
func Dir(name string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

// Link returns a symbolic link.
func Link(name, target string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

// Hard returns a hard link.
func Hard(name, target string) Entry {
	return Entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

// Entry is one entry of an archive.
type Entry struct {
	tar.Header
	Text string
}

// Tar returns an archive of the entries.
func Tar(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.Text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Gzip returns the text, compressed.
func Gzip(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Digest returns the digest of a blob.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Runtime is the part of a configuration that a box uses.
type Runtime struct {
	Env        []string `json:",omitempty"`
	User       string   `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

// Layout writes an OCI image layout of the layers, which are archives, and
// returns its directory. Every second layer is compressed.
func Layout(t testing.TB, r Runtime, layers ...[]byte) string {
	t.Helper()
	dir := t.TempDir()
	blob := func(text []byte) map[string]any {
		digest := Digest(text)
		write(t, filepath.Join(dir, "blobs", "sha256", digest[len("sha256:"):]), text)
		return map[string]any{"digest": digest, "size": len(text)}
	}
	var list []any
	var diffs []string
	for i, l := range layers {
		diffs = append(diffs, Digest(l))
		mediaType := "application/vnd.oci.image.layer.v1.tar"
		if i%2 == 0 {
			l, mediaType = Gzip(t, l), mediaType+"+gzip"
		}
		d := blob(l)
		d["mediaType"] = mediaType
		list = append(list, d)
	}
	config := blob(encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": r,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	}))
	config["mediaType"] = "application/vnd.oci.image.config.v1+json"
	m := blob(encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": list,
	}))
	m["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
	m["annotations"] = map[string]string{"org.opencontainers.image.ref.name": "latest"}
	write(t, filepath.Join(dir, "index.json"), encode(t, map[string]any{"schemaVersion": 2, "manifests": []any{m}}))
	write(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return dir
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// HostRoot returns a root file system with a few of the host's programs, in /bin, and the
// libraries that ldd(1) lists for them. If the host lacks a program, the test is skipped.
func HostRoot(t testing.TB, programs ...string) []Entry {
	t.Helper()
	files := map[string]string{} // by path in the root: the path on the host
	for _, p := range programs {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Skipf("needs %s: %v", p, err)
		}
		files["bin/"+filepath.Base(p)] = path
		out, err := exec.CommandContext(t.Context(), "ldd", path).Output()
		if err != nil {
			continue // it is not linked to libraries
		}
		for word := range strings.FieldsSeq(string(out)) {
			if filepath.IsAbs(word) {
				files[word[1:]] = word
			}
		}
	}
	entries := []Entry{Dir("./"), Dir("etc"), Dir("proc"), Dir("tmp")}
	for _, f := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[f])
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, File(f, string(text), 0o755))
	}
	return entries
}

// Many returns n directories, for tests of bounds.
func Many(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Dir("d" + strconv.Itoa(i))
	}
	return entries
}
