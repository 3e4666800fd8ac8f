package placefile

import (
	"archive/tar"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/store"
)

// notes is a table in the database of a place.
var notes = store.Schema{Name: "notes", Steps: []string{"CREATE TABLE notes (text TEXT NOT NULL) STRICT"}}

// write makes a file below a directory, and the directories on the way.
func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(name, uint32(mode)); err != nil {
		t.Fatal(err)
	}
}

// place makes a place with one file of each kind.
func place(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, part := range []string{Workspace, State} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ws := filepath.Join(dir, Workspace)
	write(t, ws, "a/b/c.txt", "text", 0o640)
	write(t, ws, "run.sh", "#!/bin/sh\n", 0o4755)
	write(t, ws, "group", "x", 0o2750)
	write(t, ws, "empty", "", 0o400)
	write(t, ws, "new\nline \xff\xfe.txt", "bytes", 0o600)
	write(t, ws, strings.Repeat("long-name/", 30)+strings.Repeat("n", 200), "deep", 0o600)
	write(t, ws, "zeros", strings.Repeat("\x00", 3*block+17), 0o600)
	for name, to := range map[string]string{"absolute": "/etc/passwd", "dangling": "nowhere/at all", "up": "../../state/requests.key", "dir": "a"} {
		if err := os.Symlink(to, filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(ws, "a/b/c.txt"), filepath.Join(ws, "hard")); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(ws, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sparse.WriteAt([]byte("end"), 8<<20); err != nil {
		t.Fatal(err)
	}
	sparse.Close()
	if err := unix.Mkfifo(filepath.Join(ws, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(ws, "closed/in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(ws, "closed"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(ws, "closed"), 0o755) })
	if err := os.Chtimes(filepath.Join(ws, "a"), time.Unix(1e9, 0), time.Unix(1e9, 123456789)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, State), "requests.key", "secret", 0o644)
	write(t, filepath.Join(dir, State), "upstreams/cache", "made again", 0o644)
	s := store.New(filepath.Join(dir, State))
	err = s.Tables(notes).Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO notes VALUES ('kept')")
		return err
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Pack(t.Context(), dir, Manifest{Place: "a/site"}, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpacked(t *testing.T, stream []byte) (string, Manifest, error) {
	t.Helper()
	dir := t.TempDir()
	m, err := Unpack(t.Context(), dir, bytes.NewReader(stream), func() {})
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, Workspace, "closed"), 0o755) })
	return dir, m, err
}

// Unpacking restores a place: contents, modes without set-id bits, links of both kinds,
// holes, names with any bytes, times, and the database with all committed data.
func TestRoundTrip(t *testing.T) {
	from := place(t)
	to, m, err := unpacked(t, packed(t, from))
	if err != nil || m.Place != "a/site" || m.Form != form {
		t.Fatalf("%+v, %v", m, err)
	}
	ws := filepath.Join(to, Workspace)
	for name, want := range map[string]struct {
		mode os.FileMode
		text string
	}{
		"a/b/c.txt": {0o640, "text"}, "hard": {0o640, "text"}, "run.sh": {0o755, "#!/bin/sh\n"}, "group": {0o750, "x"}, "empty": {0o400, ""},
		"new\nline \xff\xfe.txt": {0o600, "bytes"}, strings.Repeat("long-name/", 30) + strings.Repeat("n", 200): {0o600, "deep"},
		"zeros": {0o600, strings.Repeat("\x00", 3*block+17)}, "../state/requests.key": {0o600, "secret"},
	} {
		info, err := os.Lstat(filepath.Join(ws, name))
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(ws, name))
		if info.Mode() != want.mode || string(text) != want.text || err != nil {
			t.Errorf("%q: %v %.20q %v, want %v %.20q", name, info.Mode(), text, err, want.mode, want.text)
		}
	}
	for name, want := range map[string]string{"absolute": "/etc/passwd", "dangling": "nowhere/at all", "up": "../../state/requests.key", "dir": "a"} {
		if got, err := os.Readlink(filepath.Join(ws, name)); got != want || err != nil {
			t.Errorf("link %s: %q, %v", name, got, err)
		}
	}
	one, err1 := os.Stat(filepath.Join(ws, "hard"))
	two, err2 := os.Stat(filepath.Join(ws, "a/b/c.txt"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Errorf("hard links are two files: %v, %v", err1, err2)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(ws, "sparse"), &st); err != nil || st.Size != 8<<20+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("a sparse file has %d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
	if info, err := os.Stat(filepath.Join(ws, "closed")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("a directory without the right to write: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(ws, "a")); err != nil || !info.ModTime().Equal(time.Unix(1e9, 123456789)) {
		t.Errorf("the time of a directory: %v, %v", info.ModTime(), err)
	}
	for _, gone := range []string{"workspace/fifo", "state/upstreams", "state/" + copyName} {
		if _, err := os.Lstat(filepath.Join(to, gone)); err == nil {
			t.Errorf("%s has come along", gone)
		}
	}
	s := store.New(filepath.Join(to, State))
	defer s.Close()
	err = s.Tables(notes).Read(t.Context(), func(tx *sql.Tx) error {
		all, err := store.Rows(t.Context(), tx, store.Text, "SELECT text FROM notes")
		if err == nil && (len(all) != 1 || all[0] != "kept") {
			err = fmt.Errorf("rows: %q", all)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	again := packed(t, to)
	if _, _, err := unpacked(t, again); err != nil {
		t.Errorf("packed again: %v", err)
	}
}

// A stream that is cut off or changed anywhere is refused.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	for _, part := range []string{Workspace, State} {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	write(t, filepath.Join(dir, Workspace), "noise", string(noise), 0o600)
	write(t, filepath.Join(dir, Workspace), "text", "some text", 0o755)
	stream := packed(t, dir)
	for range 60 {
		cut := r.IntN(len(stream))
		if _, _, err := unpacked(t, stream[:cut]); err == nil {
			t.Fatalf("%d of %d bytes are taken", cut, len(stream))
		}
		bad := bytes.Clone(stream)
		at := r.IntN(len(bad))
		bad[at] ^= 1 << r.IntN(8)
		// the changed bit has no effect on the contents: for example the time of a file
		if to, _, err := unpacked(t, bad); err == nil {
			got, _ := os.ReadFile(filepath.Join(to, Workspace, "noise"))
			text, _ := os.ReadFile(filepath.Join(to, Workspace, "text"))
			if !bytes.Equal(got, noise) || string(text) != "some text" {
				t.Fatalf("a change of byte %d is taken", at)
			}
		}
	}
}

// entry is one entry of a stream under test.
type entry struct {
	tar.Header

	text string
}

func forged(t *testing.T, end string, all ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	all = append([]entry{{tar.Header{Typeflag: tar.TypeReg, Name: manifestName}, `{"belljar_place":1,"place":"a","made":"2026-01-01T00:00:00Z"}`}}, all...)
	if end != "" {
		all = append(all, entry{tar.Header{Typeflag: tar.TypeReg, Name: endingName}, end})
	}
	for _, e := range all {
		if e.Size == 0 {
			e.Size = int64(len(e.text))
		}
		if e.Mode == 0 {
			e.Mode = 0o700
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A hostile stream makes nothing outside of its directory, and is refused.
func TestHostileStreams(t *testing.T) {
	outside := t.TempDir()
	const end = `{"files":1,"bytes":0,"sha256":""}`
	reg, dir, link, hard := byte(tar.TypeReg), byte(tar.TypeDir), byte(tar.TypeSymlink), byte(tar.TypeLink)
	for name, all := range map[string][]entry{
		"up":               {{tar.Header{Typeflag: reg, Name: "workspace/../../x"}, "x"}},
		"absolute":         {{tar.Header{Typeflag: reg, Name: outside + "/x"}, "x"}},
		"other part":       {{tar.Header{Typeflag: reg, Name: "move"}, "x"}},
		"the part itself":  {{tar.Header{Typeflag: link, Name: "workspace", Linkname: outside}, ""}},
		"dot":              {{tar.Header{Typeflag: reg, Name: "workspace/./x"}, "x"}},
		"through a link":   {{tar.Header{Typeflag: link, Name: "workspace/l", Linkname: outside}, ""}, {tar.Header{Typeflag: reg, Name: "workspace/l/x"}, "x"}},
		"into the state":   {{tar.Header{Typeflag: link, Name: "workspace/l", Linkname: "../state"}, ""}, {tar.Header{Typeflag: reg, Name: "workspace/l/requests.key"}, "x"}},
		"link in state":    {{tar.Header{Typeflag: link, Name: "state/l", Linkname: outside}, ""}},
		"hard to outside":  {{tar.Header{Typeflag: hard, Name: "workspace/h", Linkname: "/etc/passwd"}, ""}},
		"hard to state":    {{tar.Header{Typeflag: reg, Name: "state/k"}, "x"}, {tar.Header{Typeflag: hard, Name: "workspace/h", Linkname: "state/k"}, ""}},
		"hard by a link":   {{tar.Header{Typeflag: link, Name: "workspace/l", Linkname: outside}, ""}, {tar.Header{Typeflag: hard, Name: "workspace/h", Linkname: "workspace/l"}, ""}},
		"hard to a dir":    {{tar.Header{Typeflag: dir, Name: "workspace/d/"}, ""}, {tar.Header{Typeflag: hard, Name: "workspace/h", Linkname: "workspace/d"}, ""}},
		"device":           {{tar.Header{Typeflag: tar.TypeChar, Name: "workspace/null", Devmajor: 1, Devminor: 3}, ""}},
		"pipe":             {{tar.Header{Typeflag: tar.TypeFifo, Name: "workspace/fifo"}, ""}},
		"twice":            {{tar.Header{Typeflag: reg, Name: "workspace/x"}, "x"}, {tar.Header{Typeflag: reg, Name: "workspace/x"}, "y"}},
		"file as a dir":    {{tar.Header{Typeflag: reg, Name: "workspace/x"}, "x"}, {tar.Header{Typeflag: reg, Name: "workspace/x/y"}, "y"}},
		"no digest":        {{tar.Header{Typeflag: dir, Name: "workspace/d/"}, ""}},
		"foreign database": {{tar.Header{Typeflag: dir, Name: "state/db/"}, ""}, {tar.Header{Typeflag: reg, Name: "state/db/belljar.db"}, "no database"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpacked(t, forged(t, end, all...))
			if _, refused := errors.AsType[*Refusal](err); !refused {
				t.Errorf("got %v, want a refusal", err)
			}
			if left, err := os.ReadDir(outside); len(left) > 0 || err != nil {
				t.Errorf("outside are %v, %v", left, err)
			}
		})
	}
	for name, stream := range map[string][]byte{
		"text": []byte("some text, which is long enough"), "no ending": forged(t, ""), "other end": forged(t, "{}"),
		"follow after its end": forged(t, `{"files":0,"bytes":0,"sha256":"x"}`, entry{tar.Header{Typeflag: reg, Name: endingName}, `{"files":0,"bytes":0,"sha256":"x"}`}),
	} {
		if _, _, err := unpacked(t, stream); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

// Measure refuses a place beyond the bounds, before the place is moved, and names files
// that cannot be read.
func TestMeasure(t *testing.T) {
	dir := place(t)
	sizes, err := Measure(t.Context(), dir)
	if err != nil || sizes.Files < 20 || sizes.Bytes < 8<<20 {
		t.Fatalf("%+v, %v", sizes, err)
	}
	huge := filepath.Join(dir, Workspace, "huge")
	write(t, dir, Workspace+"/huge", "", 0o600)
	if err := os.Truncate(huge, MaxBytes); err != nil {
		t.Skip("this file system has no such large files: ", err)
	}
	_, err = Measure(t.Context(), dir)
	if _, refused := errors.AsType[*Refusal](err); !refused {
		t.Errorf("a place of %d bytes: %v", int64(MaxBytes), err)
	}
	if err := Pack(t.Context(), dir, Manifest{}, io.Discard); err == nil {
		t.Error("it is packed")
	}
}
