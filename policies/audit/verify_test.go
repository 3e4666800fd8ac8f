package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"belljar.dev/internal/golden"
)

// rewrite replaces the lines of a file by the result of change.
func rewrite(t *testing.T, path string, change func([]string) []string) {
	t.Helper()
	text := strings.Join(change(lines(t, path)), "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever is changed in a log, Verify names the first place that was changed.
func TestTamper(t *testing.T) {
	original := filepath.Join(t.TempDir(), "audit")
	cfg := config(original)
	cfg.Audit.Rotate = 12 << 10
	fill(t, cfg, 110)
	full, err := list(original, isFull)
	if err != nil || len(full) < 4 {
		t.Fatalf("full files %v %v, want at least 4", full, err)
	}
	second := full[1]
	seqOf := func(text string) uint64 {
		l, err := parseLine([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return l.seq
	}
	lines2 := lines(t, filepath.Join(original, second))
	first2, n2 := seqOf(lines2[0]), len(lines2)
	other := filepath.Join(t.TempDir(), "other")
	fill(t, config(other), 5)
	early := filepath.Join(t.TempDir(), "early")
	fill(t, config(early), 5)

	edit := func(name string, change func([]string) []string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, name), change) }
	}
	replaced := func(i int, old, now string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[i], old) {
				t.Fatalf("line %d has no %q: %s", i+1, old, l[i])
			}
			l[i] = strings.Replace(l[i], old, now, 1)
			return l
		}
	}
	said := make(map[string]string)
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		file   string
		line   int
		seq    uint64
		why    string
	}{
		"a changed byte":               {edit(second, replaced(4, "go test", "go tesT")), second, 5, first2 + 4, "was changed"},
		"a changed verdict, last line": {edit(full[0], replaced(5, `"verdict":"allow"`, `"verdict":"deny"`)), full[0], 6, 6, "was changed"},
		"a changed hash":               {edit(second, replaced(4, `"prev":"`, `"prev":"00`)), second, 5, first2 + 4, "was changed"},
		"a hash of zeros": {edit(second, func(l []string) []string {
			l[4] = regexp.MustCompile(`"prev":"[0-9a-f]{64}"`).ReplaceAllString(l[4], `"prev":"`+strings.Repeat("0", 64)+`"`)
			return l
		}), second, 5, first2 + 4, "was changed"},
		"a changed number":           {edit(second, func(l []string) []string { l[4] = strings.Replace(l[4], `"seq":`, `"seq":9`, 1); return l }), second, 5, first2 + 4, "was changed"},
		"a line of something else":   {edit(second, func(l []string) []string { l[4] = "# nothing to see"; return l }), second, 5, first2 + 4, "was changed"},
		"an empty line":              {edit(second, func(l []string) []string { return slices.Insert(l, 4, "") }), second, 5, first2 + 4, "was changed"},
		"a removed line":             {edit(second, func(l []string) []string { return slices.Delete(l, 4, 5) }), second, 5, first2 + 4, "was removed"},
		"three removed lines":        {edit(second, func(l []string) []string { return slices.Delete(l, 4, 7) }), second, 5, first2 + 4, "were removed"},
		"swapped lines":              {edit(second, func(l []string) []string { l[4], l[5] = l[5], l[4]; return l }), second, 5, first2 + 5, "was moved"},
		"a doubled line":             {edit(second, func(l []string) []string { return slices.Insert(l, 5, l[4]) }), second, 6, first2 + 4, "doubled"},
		"a file cut between lines":   {edit(second, func(l []string) []string { return l[:n2-3] }), second, n2 - 3, first2 + uint64(n2) - 4, "with which every full file ends, was removed"},
		"a file cut within a line":   {func(t *testing.T, dir string) { cutFile(t, filepath.Join(dir, second), 10) }, second, n2, 0, "was cut"},
		"the current file cut":       {edit(currentName, func(l []string) []string { return l[:1] }), currentName, 1, 0, "after it were removed"},
		"the last signed record cut": {edit(currentName, func(l []string) []string { return l[:len(l)-2] }), currentName, 0, 0, "after it were removed"},
		"the current file removed":   {func(t *testing.T, dir string) { remove(t, dir, currentName) }, full[len(full)-1], 0, 0, "after it were removed"},
		"the first file removed":     {func(t *testing.T, dir string) { remove(t, dir, full[0]) }, second, 1, first2, "no record states their removal"},
		"a middle file removed":      {func(t *testing.T, dir string) { remove(t, dir, full[2]) }, full[3], 1, 0, "were removed"},
		"a file replaced by another": {func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(other, currentName), filepath.Join(dir, second))
		}, second, 1, 1, "moved or doubled"},
		"all records removed":         {func(t *testing.T, dir string) { remove(t, dir, append(full, currentName)...) }, checkpointName, 0, 0, "all records were removed"},
		"the checkpoint file removed": {func(t *testing.T, dir string) { remove(t, dir, checkpointName) }, checkpointName, 0, 0, "was removed"},
		"the checkpoint file changed": {edit(checkpointName, func(l []string) []string { l[1] = "7"; return l }), checkpointName, 0, 0, "signature does not match"},
		"the checkpoint of another log": {func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(other, checkpointName), filepath.Join(dir, checkpointName))
		}, checkpointName, 0, 0, "not signed by this log's key"},
		"an older checkpoint": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, checkpointName), oldCheckpoint(t, filepath.Join(dir, full[0])), 0o600); err != nil {
				t.Fatal(err)
			}
		}, checkpointName, 0, 0, "replaced by an older one"},
		"a forged checkpoint":     {edit(full[0], forge(t)), full[0], len(lines(t, filepath.Join(original, full[0]))), first2 - 1, "not signed by this log's key"},
		"the chain made anew":     {func(t *testing.T, dir string) { anew(t, dir, append(full, currentName), false) }, full[0], len(lines(t, filepath.Join(original, full[0]))), first2 - 1, "signs another record"},
		"and without checkpoints": {func(t *testing.T, dir string) { anew(t, dir, append(full, currentName), true) }, full[0], 0, 0, "with which every full file ends, was removed"},
		"and with fewer files": {func(t *testing.T, dir string) {
			anew(t, dir, full[:1], true)
			remove(t, dir, full[1:]...)
			remove(t, dir, currentName)
			rename(t, dir, full[0], currentName)
		}, checkpointName, 0, 0, "every log has one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			if r := verify(t, dir); len(r.Notes) > 0 {
				t.Fatalf("the copy: %+v", r)
			}
			tt.change(t, dir)
			r, err := Verify(t.Context(), dir, Against{})
			var f *Fault
			if !errors.As(err, &f) {
				t.Fatalf("got %+v %v, want a fault", r, err)
			}
			if tt.file != "" && f.File != tt.file || tt.line != 0 && f.Line != tt.line || tt.seq != 0 && f.Seq != tt.seq || !strings.Contains(f.Why, tt.why) {
				t.Errorf("got  %v\nwant %s:%d: record %d: ...%s...", f, tt.file, tt.line, tt.seq, tt.why)
			}
			said[name] = f.Error()
		})
	}
	tellsAlike(t, said)
}

// varies matches the texts that differ from log to log.
var varies = regexp.MustCompile(`audit-[0-9TZ.-]+\.jsonl|\b[0-9]+\b`)

// tellsAlike compares the messages of all cases with a golden file.
func tellsAlike(t *testing.T, said map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(said)) {
		plain := varies.ReplaceAllStringFunc(said[name], func(s string) string {
			if strings.HasPrefix(s, "audit-") {
				return "audit-TIME.jsonl"
			}
			return "N"
		})
		fmt.Fprintf(&b, "%s:\n    %s\n", name, plain)
	}
	golden.Equal(t, "tamper.golden", b.String())
}

func cutFile(t *testing.T, path string, n int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
		t.Fatal(err)
	}
}

// oldCheckpoint returns the first checkpoint in a file of records.
func oldCheckpoint(t *testing.T, path string) []byte {
	t.Helper()
	for _, l := range lines(t, path) {
		if c := noteOf(t, l); c != "" {
			return []byte(c)
		}
	}
	t.Fatal("no checkpoint")
	return nil
}

// noteOf returns the checkpoint that a line contains, or "".
func noteOf(t *testing.T, line string) string {
	t.Helper()
	var r struct {
		Kind Kind
		Note string
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	if r.Kind != KindCheckpoint {
		return ""
	}
	return r.Note
}

// forge returns a function that signs the checkpoint at the end of a file anew, with
// another key of the same name.
func forge(t *testing.T) func([]string) []string {
	return func(l []string) []string {
		text := noteOf(t, l[len(l)-1])
		body, _, _ := strings.Cut(text, "\n\n")
		secret, _, err := note.GenerateKey(rand.Reader, regexp.MustCompile(`belljar\.dev/audit/[0-9a-f]+`).FindString(text))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(secret)
		if err != nil {
			t.Fatal(err)
		}
		forged, err := note.Sign(&note.Note{Text: body + "\n"}, signer)
		if err != nil {
			t.Fatal(err)
		}
		quoted, old := quote(t, string(forged)), quote(t, text)
		l[len(l)-1] = strings.Replace(l[len(l)-1], old, quoted, 1)
		return l
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// anew changes a record and corrects all hashes behind it. A person can do that who can
// write the log and does not have the key. bare leaves the checkpoints out.
func anew(t *testing.T, dir string, names []string, bare bool) {
	t.Helper()
	w := &writer{}
	for i, name := range names {
		path := filepath.Join(dir, name)
		for j, text := range lines(t, path) {
			if i == 0 && j == 2 {
				text = strings.Replace(text, "go test", "go vet", 1)
			}
			if _, body, _ := strings.Cut(text, `","kind"`); !bare || noteOf(t, text) == "" {
				w.add([]byte(`"kind"` + body))
			}
		}
		if err := os.WriteFile(path, w.buf, 0o600); err != nil {
			t.Fatal(err)
		}
		w.buf = nil
	}
	if bare {
		remove(t, dir, checkpointName)
	}
}

// A checkpoint that was kept elsewhere shows what the files of the log alone cannot show:
// that the end was cut off. A key that was kept elsewhere shows that the log was made anew
// with another key.
func TestKeptCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 10)
	kept, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, publicName))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, config(dir), 10)
	if _, err := Verify(t.Context(), dir, Against{Key: string(key), Checkpoint: kept}); err != nil {
		t.Fatal(err)
	}
	// The end behind the first checkpoint is cut off, and that checkpoint takes the place
	// of the newest one.
	short := filepath.Join(t.TempDir(), "short")
	if err := os.CopyFS(short, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(short, checkpointName), oldCheckpoint(t, filepath.Join(dir, currentName)), 0o600); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(short, currentName), func(l []string) []string { return l[:6] })
	if _, err := Verify(t.Context(), short, Against{}); err != nil {
		t.Errorf("without the checkpoint nothing shows it, but: %v", err)
	}
	if _, err := Verify(t.Context(), short, Against{Checkpoint: kept}); err == nil || !strings.Contains(err.Error(), "were removed") {
		t.Errorf("cut: got %v", err)
	}
	// A log with another key.
	other := filepath.Join(t.TempDir(), "other")
	fill(t, config(other), 10)
	if _, err := Verify(t.Context(), other, Against{Key: string(key)}); err == nil {
		t.Error("a log with another key passes")
	}
}

// A writer that finds fewer records than a checkpoint signs states this in the log, and the
// statement stays.
func TestMissingIsStated(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"the end": func(t *testing.T, dir string) {
			rewrite(t, filepath.Join(dir, currentName), func(l []string) []string { return l[:3] })
		},
		"all": func(t *testing.T, dir string) { remove(t, dir, currentName) },
		"the checkpoint": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, checkpointName), []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			fill(t, config(dir), 10)
			change(t, dir)
			fill(t, config(dir), 2)
			if _, err := Verify(t.Context(), dir, Against{}); err == nil || !strings.Contains(err.Error(), "the log itself states") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzVerify changes one byte of a log, or cuts the log, or leaves out a line: Verify must
// find each change before the last checkpoint. A file that is not a log is read without
// harm.
func FuzzVerify(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "audit")
	fill(f, config(dir), 12)
	log, err := os.ReadFile(filepath.Join(dir, currentName))
	if err != nil {
		f.Fatal(err)
	}
	checkpoint, err := os.ReadFile(filepath.Join(dir, checkpointName))
	if err != nil {
		f.Fatal(err)
	}
	key, _, err := loadPublic(dir)
	if err != nil {
		f.Fatal(err)
	}
	signed := bytes.LastIndexByte(log[:len(log)-1], '\n')
	check := func(text []byte) error {
		v := &verifier{key: key}
		if err := v.checkpointFile(checkpoint); err != nil {
			return err
		}
		if err := v.file(context.Background(), currentName, bytes.NewReader(text)); err != nil {
			return err
		}
		return v.finish()
	}
	if err := check(log); err != nil {
		f.Fatal(err)
	}
	f.Add(uint(300), byte(1), byte(0), []byte("{}\n"))
	f.Add(uint(7), byte(1), byte(1), log)
	f.Add(uint(2000), byte(3), byte(2), []byte(`{"seq":1,"prev":"`+strings.Repeat("0", 64)+`","kind":"x"}`+"\n"))
	f.Fuzz(func(t *testing.T, at uint, change, how byte, raw []byte) {
		_ = check(raw)
		i := int(at % uint(signed))
		text := bytes.Clone(log)
		switch how % 3 {
		case 0:
			if change == 0 {
				return
			}
			text[i] ^= change
		case 1:
			text = text[:i]
		case 2:
			end := i + bytes.IndexByte(text[i:], '\n') + 1
			text = slices.Delete(text, bytes.LastIndexByte(text[:i], '\n')+1, end)
		}
		if err := check(text); err == nil {
			t.Errorf("change %d of byte %d in the way %d passes", change, i, how%3)
		}
	})
}
