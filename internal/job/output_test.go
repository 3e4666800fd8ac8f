package job

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"
)

// An output is a ring: its end can be read, at whatever offset the end begins.
func TestOutputIsARing(t *testing.T) {
	b := opened(t, t.TempDir(), "me")
	j := Job{ID: 1, Output: "aaaaaaaa"}
	if _, err := b.Output(j); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is there: got %v", err)
	}
	w, err := b.Spool(j)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := b.Output(j)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := b.Spool(j); err == nil {
		t.Error("it was begun twice")
	}
	random := rand.New(rand.NewPCG(1, 2))
	var all []byte
	for len(all) < 3*ringBytes {
		piece := bytes.Repeat([]byte{byte('a' + len(all)%26)}, 1+random.IntN(200_000))
		piece[0] = '\n'
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
		all = append(all, piece...)
		if got := r.Size(); got != int64(len(all)) {
			t.Fatalf("size: got %d, want %d", got, len(all))
		}
		kept := max(0, len(all)-MaxOutput)
		text, next, skipped, err := r.Read(0, MaxOutput+1)
		if err != nil || skipped != int64(kept) || next != int64(len(all)) || !bytes.Equal(text, all[kept:]) {
			t.Fatalf("all of %d: got %d bytes up to %d, skipped %d, %v", len(all), len(text), next, skipped, err)
		}
		at := kept + random.IntN(len(all)-kept)
		if text, _, skipped, err = r.Read(int64(at), 1000); err != nil || skipped != 0 || !bytes.Equal(text, all[at:min(len(all), at+1000)]) {
			t.Fatalf("from %d: got %d bytes, skipped %d, %v", at, len(text), skipped, err)
		}
	}
	if err := w.Skip(100); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	text, next, skipped, err := r.Read(0, MaxOutput)
	if err != nil || string(text) != "after" || skipped != int64(len(all)+100) || next != skipped+5 {
		t.Errorf("after a gap: got %q up to %d, skipped %d, %v", text, next, skipped, err)
	}
	if text, next, _, err = r.Read(next, 10); err != nil || len(text) > 0 || next != skipped+5 {
		t.Errorf("at the end: got %q, %d, %v", text, next, err)
	}
}

// FuzzOutput checks that a file is read without harm if a crash left it incomplete or
// another program wrote it.
func FuzzOutput(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add([]byte("\x62\x6c\x6a\x6f\x75\x74\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00hello"), int64(2))
	f.Add([]byte("\x62\x6c\x6a\x6f\x75\x74\x00\x01\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x09hello"), int64(-3))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, offset int64) {
		b := &Book{dir: dir}
		if err := os.WriteFile(b.file("aaaaaaaa"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := b.Output(Job{Output: "aaaaaaaa"})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		text, next, skipped, err := o.Read(offset, 1000)
		if err == nil && (len(text) > 1000 || skipped < 0 || next != max(offset, 0)+skipped+int64(len(text))) {
			t.Errorf("got %d bytes up to %d, skipped %d", len(text), next, skipped)
		}
	})
}
