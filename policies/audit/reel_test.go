package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reel has the steps of a call as they came, without secrets and without pictures that are too
// large, and is read back only as it was written (BR41).
func TestReel(t *testing.T) {
	l := castLog(t)
	l.Hide("known", "correct-horse")
	r, err := l.Reel("c-1")
	if err != nil {
		t.Fatal(err)
	}
	picture := []byte("a picture \x00\xff")
	r.Add(Frame{Act: "submit on https://shop.example", Did: `clicked [3] button "correct-horse"`, URL: "https://shop.example/?ghp_aB3xaB3xaB3xaB3xaB3xaB3xaB3xaB3xaB3x", JPEG: picture})
	r.Add(Frame{Act: "press", Did: strings.Repeat("x", maxText+1), JPEG: make([]byte, maxFramePicture+1)})
	r.Add(Frame{Act: "press", Why: "a dialog says correct-horse"})
	if _, over := r.Recorded(); over {
		t.Error("it is over before it is closed")
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	r.Add(Frame{Act: "late"})
	is, over := r.Recorded()
	if !over || !is.Reel() || is.Cut != "" {
		t.Fatalf("got %+v, %t", is, over)
	}
	for _, o := range []Outcome{{CallID: "c-1", Tool: "Browser", Cast: &is}, {CallID: "c-2", Tool: "Bash", Cast: &Recorded{File: "casts/c-2.cast", SHA256: is.SHA256}}} {
		if err := l.Write(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(l.cfg.Dir, is.File)
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("correct-horse")) || bytes.Contains(text, []byte("ghp_")) {
		t.Errorf("%v: the file is\n%.2000s", err, text)
	}
	reel, err := ReadReel(t.Context(), l.cfg.Dir, "c-1")
	if err != nil || len(reel.Frames) != 3 || !reel.Began.Equal(r.began.Truncate(1e9)) {
		t.Fatalf("%v: %d frames of %v, want 3", err, len(reel.Frames), reel.Began)
	}
	if f := reel.Frames[0]; !bytes.Equal(f.JPEG, picture) || !strings.Contains(f.Did, "[redacted known") || f.At < 0 {
		t.Errorf("got %+v", f)
	}
	if f := reel.Frames[1]; len(f.JPEG) > 0 || f.Why == "" || len(f.Did) > maxText+40 {
		t.Errorf("got %.100s, %s and %d bytes", f.Did, f.Why, len(f.JPEG))
	}
	if _, _, err := ReadCast(t.Context(), l.cfg.Dir, "c-1", nil); err == nil || !strings.Contains(err.Error(), "belljar audit reel c-1") {
		t.Errorf("as the output of a command: %v", err)
	}
	if err := os.WriteFile(filepath.Join(l.cfg.Dir, "casts", "c-2.cast"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReel(t.Context(), l.cfg.Dir, "c-2"); err == nil || !strings.Contains(err.Error(), "used no browser") {
		t.Errorf("that of a command: %v", err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("press"), []byte("point"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadReel(t.Context(), l.cfg.Dir, "c-1"); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("one that was changed: %v", err)
	}
	if _, err := ReadReel(t.Context(), l.cfg.Dir, "c-none"); !errors.Is(err, ErrNoRecord) {
		t.Errorf("none: %v", err)
	}
}

// However many steps come, a reel is bounded and says that it is cut (BR-A48).
func TestReelBound(t *testing.T) {
	l := castLog(t)
	r, err := l.Reel("c-1")
	if err != nil {
		t.Fatal(err)
	}
	picture := make([]byte, maxFramePicture)
	for range 10000 {
		r.Add(Frame{Act: "press", JPEG: picture})
		if r.cut != "" {
			picture = nil // the reel is full; the other steps need no picture
		}
	}
	_ = r.Close()
	if is, _ := r.Recorded(); is.Bytes > maxRecording || is.Bytes < maxRecording/2 || !strings.Contains(is.Cut, "larger than 16 MiB") {
		t.Errorf("got %+v", is)
	}
}
