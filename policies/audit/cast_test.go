package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/policies"
)

// replayed returns the header of a recording, everything that it shows and the number of
// its events. It checks the recording against the sum.
func replayed(t *testing.T, l *Log, c *Cast) (head map[string]any, shows string, events int) {
	t.Helper()
	r, ok := c.Recorded()
	if !ok {
		t.Fatal("the recording goes on")
	}
	text, err := os.ReadFile(filepath.Join(l.cfg.Dir, r.File))
	sum := sha256.Sum256(text)
	if err != nil || r.SHA256 != hex.EncodeToString(sum[:]) || r.Bytes != int64(len(text)) {
		t.Fatalf("%+v: %d bytes, %v", r, len(text), err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if i == 0 {
			if err := json.Unmarshal([]byte(line), &head); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			continue
		}
		var e [3]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if out, ok := e[2].(string); ok && e[1] == "o" {
			shows += out
		}
		events++
	}
	return head, shows, events
}

func castLog(t *testing.T) *Log {
	t.Helper()
	cfg := config(filepath.Join(t.TempDir(), "audit"))
	cfg.Audit.Level = policies.AuditFull
	return begin(t, cfg)
}

// A recording has the output in the order in which it came, without secrets, wherever
// the pieces were cut.
func TestCast(t *testing.T) {
	l := castLog(t)
	l.Hide("known", "correct-horse")
	for name, tt := range map[string]struct {
		screen Screen
		pieces []string
		want   string
		events int // number of events; 0 if it is not checked
	}{
		"as it came":        {Screen{80, 24, "xterm"}, []string{"$ ", "l", "s\r\n", "a b\r\n"}, "$ ls\r\na b\r\n", 4},
		"no terminal":       {Screen{}, []string{"a\nb", "\nc"}, "a\r\nb\r\nc", 4},
		"a cut secret":      {Screen{}, []string{"it is correct", "-ho", "rse\n"}, "it is [redacted known", 1},
		"a cut token":       {Screen{}, []string{"ghp_aB3xaB3xaB3xaB3x", "aB3xaB3xaB3xaB3xaB3x\n"}, "[redacted github-token", 1},
		"a key of lines":    {Screen{}, []string{"-----BEGIN PRIVATE KEY-----\n", "MIIabc\n", "-----END PRIVATE KEY-----\nx\n"}, "[redacted private-key", 0},
		"a cut character":   {Screen{80, 24, ""}, []string{"\xc3", "\xa9\r\n"}, "é\r\n", 1},
		"no end of line":    {Screen{}, []string{"correct-", "horse"}, "[redacted known", 1},
		"much without line": {Screen{80, 24, ""}, []string{strings.Repeat("x", maxHeld), "y", "z"}, strings.Repeat("x", maxHeld) + "yz", 3},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := l.Cast("c-"+strings.ReplaceAll(name, " ", ""), tt.screen)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range tt.pieces {
				if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
					t.Errorf("wrote %d: %v", n, err)
				}
			}
			if _, over := c.Recorded(); over {
				t.Error("it is over before it is closed")
			}
			c.Resize(100, 30)
			if err := c.Close(); err != nil || c.Close() != nil {
				t.Error(err)
			}
			_, _ = c.Write([]byte("late"))
			head, shows, events := replayed(t, l, c)
			if !strings.HasPrefix(shows, tt.want) || strings.Contains(shows, "horse") || strings.Contains(shows, "MIIabc") || strings.Contains(shows, "ghp_") {
				t.Errorf("got %.200q, want %.200q", shows, tt.want)
			}
			if tt.events != 0 && events != tt.events+1 { // one more event is the resize
				t.Errorf("got %d events, want %d", events, tt.events)
			}
			if head["version"] != 2.0 || head["width"] == 0.0 {
				t.Errorf("got %v", head)
			}
		})
	}
}

// A recording is bounded, and its result says that it is not complete.
func TestCastBound(t *testing.T) {
	l := castLog(t)
	c, err := l.Cast("c-1", Screen{80, 24, ""})
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 64<<10) + "\n")
	written := 0
	for range maxRecording/len(line) + 10 {
		n, _ := c.Write(line)
		written += n
	}
	_ = c.Close()
	r, _ := c.Recorded()
	if r.Bytes > maxRecording || !strings.Contains(r.Cut, "larger than 16 MiB") {
		t.Errorf("got %+v", r)
	}
	text, err := os.ReadFile(filepath.Join(l.cfg.Dir, r.File))
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for event := range strings.Lines(string(text)) {
		kept += strings.Count(event, "x") + strings.Count(event, `\n`)
	}
	if r.Lost == 0 || int(r.Lost) != written-kept || r.Incomplete() != fmt.Sprintf("%s; %d bytes of the output are missing", r.Cut, r.Lost) {
		t.Errorf("%d of %d bytes are there, and it says %q", kept, written, r.Incomplete())
	}
	if _, err := l.Cast("c-1", Screen{}); err == nil {
		t.Error("two recordings of one call")
	}
	if c, err := l.Cast("../../evil", Screen{}); err != nil || c.name != "casts/evil.cast" {
		t.Errorf("got %+v %v", c, err)
	} else {
		_ = c.Close()
	}
}

// tornFile accepts writes until its room is used up, and then only a part of a write, as a
// full disk does.
type tornFile struct {
	recordFile
	room int
}

func (f *tornFile) Write(p []byte) (int, error) {
	some := p[:min(len(p), f.room)]
	f.room -= len(some)
	n, err := f.recordFile.Write(some)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// uncutFile is a file that cannot be truncated.
type uncutFile struct{ recordFile }

func (uncutFile) Truncate(int64) error { return syscall.EIO }

// A recording is in the directory of the log: a record that names a file elsewhere gives an
// error.
func TestRecordingsElsewhere(t *testing.T) {
	l := castLog(t)
	outside := filepath.Join(filepath.Dir(l.cfg.Dir), "secret")
	if err := os.WriteFile(outside, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("secret\n"))
	for id, file := range map[string]string{"c-1": "../secret", "c-2": "x/../../secret", "c-3": outside} {
		if err := l.Write(t.Context(), Outcome{CallID: id, Tool: "Bash", Cast: &Recorded{File: file, SHA256: hex.EncodeToString(sum[:])}}); err != nil {
			t.Fatal(err)
		}
		if text, _, err := ReadCast(t.Context(), l.cfg.Dir, id, nil); err == nil || !strings.Contains(err.Error(), "is not a file of the log") {
			t.Errorf("%s: got %q, %v", file, text, err)
		}
	}
}

// A recording that an attacker has made as long as a disk is read up to its bound and
// refused. This is also so if the log has its SHA-256.
func TestLargeRecordings(t *testing.T) {
	l := castLog(t)
	for id, size := range map[string]int64{"c-1": 1 << 30, "c-2": MaxRecordingText + 1} {
		file := id + ".cast"
		at := filepath.Join(l.cfg.Dir, file)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(at, size); err != nil {
			t.Fatal(err)
		}
		of := Recorded{File: file, SHA256: strings.Repeat("0", 64)}
		if size <= MaxRecordingText+1 {
			sum := sha256.Sum256(make([]byte, size))
			of.SHA256 = hex.EncodeToString(sum[:])
		}
		if err := l.Write(t.Context(), Outcome{CallID: id, Tool: "Bash", Cast: &of}); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, _, err := ReadCast(t.Context(), l.cfg.Dir, id, nil)
		if runtime.ReadMemStats(&after); err == nil || !strings.Contains(err.Error(), "was changed") {
			t.Errorf("%d bytes: got %d bytes, %v", size, len(text), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 10*MaxRecordingText {
			t.Errorf("%d bytes: %d were needed", size, n)
		}
	}
}

// If the disk gets full in the middle of a line, the recording contains only the whole
// lines before it, and can be read. The missing output is counted in the bytes that the
// command wrote.
func TestTornRecordings(t *testing.T) {
	l := castLog(t)
	l.Hide("known", "correct-horse")
	c, err := l.Cast("c-1", Screen{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("first\n"))
	kept := c.size
	c.file = &tornFile{c.file, 20}
	missing := 0
	for _, text := range []string{"it is correct-", "horse\n", "a\nb\nc\n", "late"} {
		n, _ := c.Write([]byte(text))
		missing += n
	}
	r, err := l.Reel("c-2")
	if err != nil {
		t.Fatal(err)
	}
	r.Add(Frame{Act: "click"})
	r.file = &tornFile{r.file, 20}
	r.Add(Frame{Act: "fill"})
	r.Add(Frame{Act: "press"})
	if err := errors.Join(c.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	ofCast, _ := c.Recorded()
	ofReel, _ := r.Recorded()
	for id, is := range map[string]*Recorded{"c-1": &ofCast, "c-2": &ofReel} {
		if err := l.Write(t.Context(), Outcome{CallID: id, Tool: "Bash", Cast: is}); err != nil {
			t.Fatal(err)
		}
	}
	text, of, err := ReadCast(t.Context(), l.cfg.Dir, "c-1", nil)
	if err != nil || of.Bytes != kept || int64(len(text)) != kept || !strings.HasSuffix(string(text), `"first\r\n"]`+"\n") {
		t.Errorf("%v: %+v of %d bytes:\n%s", err, of, kept, text)
	}
	if of.Lost != int64(missing) || !strings.Contains(of.Cut, "no space left") {
		t.Errorf("got %+v, want %d lost", of, missing)
	}
	reel, err := ReadReel(t.Context(), l.cfg.Dir, "c-2")
	if err != nil || len(reel.Frames) != 1 || reel.Frames[0].Act != "click" || reel.Cut != of.Cut {
		t.Errorf("%v: the reel is %+v", err, reel)
	}
}

// The sum covers a torn line that cannot be removed, so that the file does not count as
// changed by others.
func TestTornRecordingThatStays(t *testing.T) {
	l := castLog(t)
	c, err := l.Cast("c-1", Screen{})
	if err != nil {
		t.Fatal(err)
	}
	c.file = &tornFile{uncutFile{c.file}, 20}
	_, _ = c.Write([]byte(strings.Repeat("x", 100) + "\n"))
	_ = c.Close()
	is, _ := c.Recorded()
	text, err := os.ReadFile(filepath.Join(l.cfg.Dir, is.File))
	sum := sha256.Sum256(text)
	if err != nil || is.SHA256 != hex.EncodeToString(sum[:]) || is.Bytes != int64(len(text)) || is.Lost != 101 || is.Cut == "" {
		t.Errorf("%v: %+v of\n%s", err, is, text)
	}
}

// The number of recordings that are kept is bounded.
func TestPruneRecordings(t *testing.T) {
	dir := t.TempDir()
	for i := range maxRecordings + 5 {
		end := []string{castEnd, reelEnd}[i%2]
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i%26))+strings.Repeat("z", i/26)+end), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pruneRecordings(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != maxRecordings-pruneEvery {
		t.Errorf("%d are left: %v", len(left), err)
	}
}

func FuzzCast(f *testing.F) {
	f.Add("correct-horse\n", 3)
	f.Add("\xc3\xa9\r\n-----BEGIN PRIVATE KEY-----\ncorrect-horse", 1)
	cfg := config(filepath.Join(f.TempDir(), "audit"))
	cfg.Audit.Level = policies.AuditFull
	l := begin(f, cfg)
	l.Hide("known", "correct-horse")
	f.Fuzz(func(t *testing.T, text string, size int) {
		c, err := l.Cast("c-fuzz", Screen{80, 24, ""})
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(l.cfg.Dir, c.name))
		size = min(max(size, 1), 100)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		_ = c.Close()
		_, shows, _ := replayed(t, l, c)
		if len(text) < maxHeld && strings.Contains(shows, "correct-horse") {
			t.Errorf("%q in pieces of %d shows %q", text, size, shows)
		}
	})
}
