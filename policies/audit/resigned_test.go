package audit

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// resign writes a log's records anew in the form that change returns, with matching hashes
// and signatures. A person who has the log's private key can do that. Checkpoints keep
// their times. change gets the place, kind and text of each record, and returns its new
// text and whether it stays; sign may change what a checkpoint signs.
func resign(t *testing.T, dir string, change func(n int, kind, body string) (string, bool), sign func(*Checkpoint)) {
	t.Helper()
	keys, err := loadKeys(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.signer()
	if err != nil {
		t.Fatal(err)
	}
	full, err := list(dir, isFull)
	if err != nil {
		t.Fatal(err)
	}
	w, last, n := &writer{}, "", 0
	for _, name := range append(full, currentName) {
		path := filepath.Join(dir, name)
		for _, text := range lines(t, path) {
			l, err := parseLine([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 { // old files may be gone
				w.seq, w.head = l.seq-1, l.prev
			}
			_, body, _ := strings.Cut(text, `","kind"`)
			body, keep := change(n, string(l.kind), `"kind"`+body)
			n++
			if !keep {
				continue
			}
			if old := noteOf(t, text); old != "" {
				at, err := time.Parse(time.RFC3339, strings.Split(old, "\n")[3])
				if err != nil {
					t.Fatal(err)
				}
				c := Checkpoint{w.seq, w.head, at}
				sign(&c)
				signed, err := note.Sign(&note.Note{Text: c.text()}, signer)
				if err != nil {
					t.Fatal(err)
				}
				last = string(signed)
				body = strings.Replace(body, quote(t, old), quote(t, last), 1)
			}
			w.add([]byte(body))
		}
		if err := os.WriteFile(path, w.buf, 0o600); err != nil {
			t.Fatal(err)
		}
		w.buf = nil
	}
	if err := os.WriteFile(filepath.Join(dir, checkpointName), []byte(last), 0o600); err != nil {
		t.Fatal(err)
	}
}

func asItIs(_ int, _, body string) (string, bool) { return body, true }

func honest(*Checkpoint) {}

func wantFault(t *testing.T, dir string, against Against, why string) {
	t.Helper()
	_, err := Verify(t.Context(), dir, against)
	var f *Fault
	if !errors.As(err, &f) || !strings.Contains(f.Why, why) {
		t.Errorf("got %v, want a fault with %q", err, why)
	}
}

// A person who has the log's key can write the whole log anew. Only a checkpoint that was
// kept elsewhere shows that.
func TestKeptCheckpointShowsWhatTheKeyHides(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 10)
	kept, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, config(dir), 10)
	resign(t, dir, asItIs, honest)
	if _, err := Verify(t.Context(), dir, Against{Checkpoint: kept}); err != nil {
		t.Fatalf("nothing was changed: %v", err)
	}
	resign(t, dir, func(_ int, _, body string) (string, bool) { return strings.Replace(body, "go test", "go vet", 1), true }, honest)
	verify(t, dir) // the log's own files show nothing
	wantFault(t, dir, Against{Checkpoint: kept}, "a checkpoint in another file signs another hash of it")
}

// A checkpoint signs the records up to the one before it, by number and by hash.
func TestCheckpointSignsTheRecordBefore(t *testing.T) {
	for name, lie := range map[string]func(*Checkpoint){
		"another number": func(c *Checkpoint) { c.Seq-- },
		"another hash":   func(c *Checkpoint) { c.Hash[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			fill(t, config(dir), 10)
			resign(t, dir, asItIs, lie)
			wantFault(t, dir, Against{}, "the checkpoint signs another record")
		})
	}
}

// Verify refuses a log from which checkpoints were removed, although the last checkpoint
// signs all of it: without checkpoints nobody could have kept one, and compare the log with
// it later.
func TestCheckpointsAreNotRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 2*signEvery+100)
	var all []int // places of the checkpoints
	resign(t, dir, func(n int, kind, body string) (string, bool) {
		if kind == string(KindCheckpoint) {
			all = append(all, n)
		}
		return body, true
	}, honest)
	verify(t, dir)
	if len(all) < 3 {
		t.Fatalf("checkpoints at %v, want three", all)
	}
	resign(t, dir, func(n int, _, body string) (string, bool) { return body, !slices.Contains(all[:len(all)-1], n) }, honest)
	wantFault(t, dir, Against{}, "checkpoints were removed")
}

// A statement that old files were removed contains the hash of the last removed record: if
// other files were removed, that hash does not match.
func TestRemovalNamesWhatWasRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Rotate, cfg.Audit.Keep = 12<<10, 2
	fill(t, cfg, 200)
	if r := verify(t, dir); r.Removed == 0 {
		t.Fatal("no file was removed")
	}
	hash := regexp.MustCompile(`"last_hash":"[0-9a-f]{64}"`)
	other := `"last_hash":"` + strings.Repeat("0", 64) + `"`
	resign(t, dir, func(_ int, _, body string) (string, bool) { return hash.ReplaceAllString(body, other), true }, honest)
	wantFault(t, dir, Against{}, "no record states their removal")
}
