package placefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func refusal(t *testing.T, what string, err error, want string) {
	t.Helper()
	if refused, is := errors.AsType[*Refusal](err); !is || !strings.Contains(refused.Why, want) {
		t.Errorf("%s: got %v, want a refusal with %q", what, err, want)
	}
}

// tree makes a place. It calls add n times, with 0 to n-1.
func tree(t testing.TB, n int, add func(ws string, i int) error) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, part := range parts {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := add(filepath.Join(dir, Workspace), i); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func long(kind string, i int) string {
	return fmt.Sprintf("%s-%s-%06d", kind, strings.Repeat("x", 150), i)
}

func addFile(ws string, i int) error {
	return os.WriteFile(filepath.Join(ws, long("file", i)), nil, 0o600)
}

// addLinked makes a file with two names in its own directory. The walker forgets the names
// in this directory soon.
func addLinked(ws string, i int) error {
	dir := filepath.Join(ws, fmt.Sprint(i))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := addFile(dir, i); err != nil {
		return err
	}
	return os.Link(filepath.Join(dir, long("file", i)), filepath.Join(dir, "b"))
}

func addDirectory(ws string, i int) error { return os.Mkdir(filepath.Join(ws, long("dir", i)), 0o700) }

// addNested makes a directory inside the directory of the call before. It also adds a file
// there, whose name the walker must remember while it visits the directory.
func addNested(ws string, i int) error {
	dir := ws
	for j := range i {
		dir = filepath.Join(dir, fmt.Sprint("a", j))
	}
	if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("a", i)), 0o700); err != nil {
		return err
	}
	return addFile(dir, i)
}

// The memory for the names of a place is bounded, wherever the names are kept: for one
// directory, for all directories around it, for files with several links, and for
// directories in a stream.
func TestNamesAreBounded(t *testing.T) {
	const most, n = 10_000, 100 // 100 long names need more than this
	small := bounds{names: most, stream: MaxStream}
	for name, add := range map[string]func(string, int) error{"files": addFile, "links": addLinked, "levels": addNested, "directories": addDirectory} {
		dir := tree(t, n, add)
		_, err := small.measure(t.Context(), dir)
		refusal(t, name+", measured", err, "need more memory")
		refusal(t, name+", packed", small.pack(t.Context(), dir, Manifest{}, io.Discard), "need more memory")
		if _, err := usual.measure(t.Context(), dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Names of files in a stream are forgotten immediately, and names of directories are
	// not.
	var stream bytes.Buffer
	if err := Pack(t.Context(), tree(t, n, addDirectory), Manifest{Place: "a"}, &stream); err != nil {
		t.Fatal(err)
	}
	u := &unpacker{memory: memory{most}, alive: func() {}, roots: make(map[string]*os.Root)}
	var err error
	for _, part := range parts {
		if u.roots[part], err = os.OpenRoot(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	defer u.close()
	in, err := open(&stream, MaxStream)
	if err != nil {
		t.Fatal(err)
	}
	defer in.end()
	u.in = in.Reader
	if _, err := u.manifest(); err != nil {
		t.Fatal(err)
	}
	_, err = u.all(t.Context())
	refusal(t, "a stream", err, "need more memory")
	// Names that were visited take no memory.
	w := walker{memory: memory{most}}
	if err := w.walk(t.Context(), tree(t, n, func(ws string, i int) error {
		if err := os.Mkdir(filepath.Join(ws, fmt.Sprint(i)), 0o700); err != nil {
			return err
		}
		return addFile(filepath.Join(ws, fmt.Sprint(i)), i)
	}), Workspace); err != nil || w.memory.left != most {
		t.Errorf("after all names: %v, %d of %d bytes are left", err, w.memory.left, most)
	}
}

// The length of a stream is bounded, also if the stream contains nothing.
func TestStreamsAreBounded(t *testing.T) {
	frame := binary.LittleEndian.AppendUint32(nil, 0x184D2A50) // a frame that decoders skip (RFC 8878, 3.1.2)
	frame = append(binary.LittleEndian.AppendUint32(frame, 1000), make([]byte, 1000)...)
	stream := append(bytes.Repeat(frame, 100), forged(t, `{"files":0,"bytes":0,"sha256":"x"}`)...)
	small := bounds{names: maxNames, stream: 50_000}
	_, err := small.unpack(t.Context(), t.TempDir(), bytes.NewReader(stream), func() {})
	refusal(t, "empty frames", err, "longer than the stream")
	_, err = usual.unpack(t.Context(), t.TempDir(), bytes.NewReader(stream), func() {})
	refusal(t, "the same within its bound", err, "what was written is not what the stream says")
}

// Packing and comparing one large file end when the caller is gone.
func TestLargeFilesEndWithTheirCaller(t *testing.T) {
	gone := errors.New("the caller has gone")
	dir := tree(t, 1, func(ws string, _ int) error {
		name := filepath.Join(ws, "large")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(name, 64<<20)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if err := Pack(ctx, dir, Manifest{}, writer(func(p []byte) (int, error) { cancel(gone); return len(p), nil })); !errors.Is(err, gone) {
		t.Errorf("packed: %v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	calls := 0
	d := newDigest()
	root, err := os.OpenRoot(filepath.Join(dir, Workspace))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = read(ctx, d, root, &file{name: "workspace/large", at: "large", size: 64 << 20}, func() { calls++; cancel(gone) })
	if !errors.Is(err, gone) || calls != 1 {
		t.Errorf("compared: %v after %d parts", err, calls)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// BenchmarkNames measures the memory for names of files in one directory, and of files with
// several links.
func BenchmarkNames(b *testing.B) {
	for name, add := range map[string]func(string, int) error{"files": addFile, "links": addLinked} {
		b.Run(name, func(b *testing.B) {
			const n = 5000
			dir := tree(b, n, add)
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				w := walker{memory: memory{maxNames}}
				taken := int64(0)
				w.visit = func(*os.Root, *file) error {
					if w.Files == n { // at the last file, all names are known
						runtime.GC()
						runtime.ReadMemStats(&after)
						taken = maxNames - w.memory.left
					}
					return nil
				}
				if err := w.walk(b.Context(), dir, Workspace); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(taken), "heap/counted")
				b.ReportMetric(float64(taken)/float64(n), "counted-B/file")
			}
		})
	}
}
