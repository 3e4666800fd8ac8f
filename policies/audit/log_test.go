package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"belljar.dev/policies"
)

func config(dir string) Config {
	return Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)}
}

// begin opens a log, which is closed at the latest when the test ends.
func begin(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func finish(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func decision(i int) Decision {
	command := fmt.Sprintf("go test ./part%d && git status", i)
	return Decision{
		CallID: fmt.Sprintf("c-%d", i), Tenant: "local", Session: "s-1", Client: Client{"client", "1.0"}, Tool: "Bash",
		Args:  map[string]any{"command": command, "timeout": 30000.0},
		Facts: Facts{Command: command}, Verdict: "allow", Rules: []Rule{{ID: "sandboxed-shell", File: "policy.yaml", Line: 12, Verdict: "allow"}},
		Parts: 2, Policy: strings.Repeat("ab", 32), Profile: "offline", Took: 42 * time.Microsecond,
	}
}

// fill writes n decisions to a log of a directory and closes it.
func fill(t testing.TB, cfg Config, n int) {
	t.Helper()
	l := begin(t, cfg)
	for i := range n {
		put := l.Append
		if i%1000 == 0 { // wait, because the queue is bounded
			put = func(r Record) error { return l.Write(t.Context(), r) }
		}
		if err := put(decision(i)); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, l)
}

func verify(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, Against{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines returns the records of a file.
func lines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// Each record contains its number and the hash of the line before it, and the last record
// signs the others.
func TestChain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 3)
	prev := strings.Repeat("0", 64)
	all := lines(t, filepath.Join(dir, currentName))
	var kinds []string
	for i, text := range all {
		var r struct {
			Seq  int
			Prev string
			Kind string
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if r.Seq != i+1 || r.Prev != prev {
			t.Errorf("line %d has seq %d and prev %s, want %d and %s", i+1, r.Seq, r.Prev, i+1, prev)
		}
		sum := sha256.Sum256([]byte(text))
		prev = hex.EncodeToString(sum[:])
		kinds = append(kinds, r.Kind)
	}
	if got, want := strings.Join(kinds, " "), "file checkpoint "+strings.Repeat("decision ", 3)+"checkpoint"; got != want {
		t.Errorf("kinds: got %s, want %s", got, want)
	}
	r := verify(t, dir)
	if r.Records != 6 || r.Signed != 5 || r.Checkpoints != 2 || r.Head != prev || len(r.Notes) > 0 {
		t.Errorf("got %+v", r)
	}
	for name, want := range map[string]fs.FileMode{keyName: 0o600, currentName: 0o600, checkpointName: 0o600, "": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	// Another process continues where the first process ended.
	fill(t, config(dir), 2)
	if r := verify(t, dir); r.Records != 9 || r.Checkpoints != 3 {
		t.Errorf("after the second: got %+v", r)
	}
}

// Full files are renamed and the oldest ones are removed. The rest is verified with the
// record that states the removal.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := config(dir)
	cfg.Audit.Rotate, cfg.Audit.Keep = 8<<10, 3
	fill(t, cfg, 300)
	r := verify(t, dir)
	if r.Files != 4 || r.Removed == 0 || r.First != r.Removed+1 {
		t.Errorf("got %+v, want 3 full files and the current one", r)
	}
	full, err := list(dir, isFull)
	if err != nil || len(full) != 3 {
		t.Fatalf("full files: %v %v", full, err)
	}
	if info, err := os.Stat(filepath.Join(dir, full[0])); err != nil || info.Size() > 8<<10+2<<10 {
		t.Errorf("%s has %d bytes (%v), want at most a record and a checkpoint above 8 KiB", full[0], info.Size(), err)
	}
	n := 0
	if err := Read(t.Context(), dir, Filter{Kind: KindDecision}, func(Entry) error { n++; return nil }); err != nil || n == 0 {
		t.Errorf("read %d decisions: %v", n, err)
	}
}

// A start after a crash at any step of a rotation continues the log.
func TestCrashInRotation(t *testing.T) {
	for name, crash := range map[string]func(t *testing.T, dir string){
		"renamed": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, currentName), filepath.Join(dir, fullName(1))); err != nil {
				t.Fatal(err)
			}
		},
		"the new file is empty": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, currentName), filepath.Join(dir, fullName(1))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, currentName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the new file has half a line": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, currentName), filepath.Join(dir, fullName(1))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, currentName), []byte(`{"seq":6,"prev":"0`), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			fill(t, config(dir), 3)
			crash(t, dir)
			fill(t, config(dir), 3)
			if r := verify(t, dir); r.Files != 2 || r.Records < 10 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// A part of a record that a crash left is cut off, kept aside and stated; so are the
// zeros that a file can end with after a power failure.
func TestTornLine(t *testing.T) {
	for name, rest := range map[string]string{
		"half a record":   `{"seq":6,"prev":"00`,
		"zeros":           strings.Repeat("\x00", 4096),
		"zeros and a LF":  strings.Repeat("\x00", 100) + "\n",
		"no JSON behind":  `{"seq":6,"prev":"` + strings.Repeat("0", 64) + `","kind":"decision","v":1,}` + "\n",
		"more than a LF":  "\n\n",
		"long, and no LF": strings.Repeat("x", 200<<10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			fill(t, config(dir), 3)
			path := filepath.Join(dir, currentName)
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(rest); err != nil {
				t.Fatal(err)
			}
			f.Close()
			fill(t, config(dir), 1)
			all := lines(t, path)
			if len(all) != 9 || !strings.Contains(all[6], `"kind":"torn"`) {
				t.Fatalf("got %d lines, the 7th of which is %s", len(all), all[6])
			}
			if side, err := os.ReadFile(filepath.Join(dir, "torn-000000000007.bin")); string(side) != rest {
				t.Errorf("aside: got %q %v", side, err)
			}
			if r := verify(t, dir); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "a crash had cut a record") {
				t.Errorf("notes: %q", r.Notes)
			}
		})
	}
}

// Records of several goroutines and of several processes form one chain. Other Logs stand
// for the other processes.
func TestConcurrency(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Rotate = 64 << 10
	const logs, each, records = 3, 4, 60
	var wg sync.WaitGroup
	for i := range logs {
		l := begin(t, cfg)
		l.from = fmt.Sprint(i)
		var writing sync.WaitGroup
		for j := range each {
			writing.Go(func() {
				for k := range records {
					d := decision(k)
					d.CallID = fmt.Sprintf("c-%d-%d-%d", i, j, k)
					var err error
					switch k % 3 {
					case 0:
						err = l.Append(d)
					case 1:
						err = l.Write(context.Background(), d)
					case 2:
						err = l.Commit(context.Background(), d)
					}
					if err != nil {
						t.Error(err)
					}
					l.Hide("name", fmt.Sprintf("value-%d", k%5))
				}
			})
		}
		wg.Go(func() {
			writing.Wait()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	verify(t, dir)
	seen := make(map[string]bool)
	err := Read(t.Context(), dir, Filter{Calls: true}, func(e Entry) error {
		seen[e.CallID] = true
		return nil
	})
	if err != nil || len(seen) != logs*each*records {
		t.Errorf("got %d records (%v), want %d", len(seen), err, logs*each*records)
	}
}

// After Close no record is accepted, and every call of Close waits.
func TestClose(t *testing.T) {
	l := begin(t, config(filepath.Join(t.TempDir(), "audit")))
	finish(t, l)
	finish(t, l)
	for name, err := range map[string]error{
		"Append": l.Append(decision(1)), "Write": l.Write(t.Context(), decision(1)),
		"Commit": l.Commit(t.Context(), decision(1)), "Sync": l.Sync(t.Context()),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
}

// A full queue returns an error immediately, and the lost records are counted.
func TestFullQueue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := begin(t, config(dir))
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := lockFile(lock, lockExclusive); err != nil { // like another process that writes
		t.Fatal(err)
	}
	refused := 0
	for i := 0; refused < 3; i++ {
		if i > 3*maxQueued {
			t.Fatal("the queue has no end")
		}
		if err := l.Append(Session{Event: "start", Session: "s"}); errors.Is(err, ErrFull) {
			refused++
		}
	}
	unlockFile(lock)
	for l.Append(decision(1)) != nil { // until there is room again
		refused++
	}
	finish(t, l)
	want := fmt.Sprintf("%d records could not be written", refused)
	if r := verify(t, dir); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], want) {
		t.Errorf("notes: %q, want %q", r.Notes, want)
	}
}

// A checkpoint follows a minute after a record, even if no other record follows.
func TestCheckpointByTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, config(dir))
		if err := l.Append(decision(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(signAfter)
		synctest.Wait()
		if r := verify(t, dir); r.Checkpoints != 2 {
			t.Errorf("after a minute: got %+v", r)
		}
		time.Sleep(5 * signAfter)
		synctest.Wait()
		if r := verify(t, dir); r.Checkpoints != 2 {
			t.Errorf("after five minutes of nothing: got %+v", r)
		}
		finish(t, l)
	})
}

// In a long log, the first record of a process is not signed immediately: otherwise each
// start of a server would wait for the disk.
func TestLongLogIsNotSignedAtEachStart(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "audit"))
	fill(t, cfg, signEvery+1)
	before := verify(t, cfg.Dir).Checkpoints
	l := begin(t, cfg)
	if err := l.Write(t.Context(), decision(1)); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, cfg.Dir).Checkpoints; got != before {
		t.Errorf("got %d checkpoints after the first record, want %d as before it", got, before)
	}
	finish(t, l)
	if got := verify(t, cfg.Dir).Checkpoints; got != before+1 {
		t.Errorf("got %d checkpoints after the end, want %d", got, before+1)
	}
}

// A kill or a lost machine may cut a write and leave half a record. That half is removed,
// and a record states this. internal/durable tests that a killed process loses no record
// that was reported as safe.
func TestCutRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Rotate, cfg.Audit.Keep = 16<<10, 10_000
	const cuts, records = 15, 10 // Report has 20 notes at most
	for range cuts {
		fill(t, cfg, records)
		tear(t, filepath.Join(dir, currentName))
	}
	finish(t, begin(t, cfg)) // repairs the end of the file that was torn last
	r := verify(t, dir)
	if len(r.Notes) != cuts {
		t.Errorf("%d of %d cut records are stated: %q", len(r.Notes), cuts, r.Notes)
	}
	n := 0
	err := Read(t.Context(), dir, Filter{Kind: KindDecision}, func(Entry) error { n++; return nil })
	if err != nil || n != cuts*records {
		t.Errorf("%d of %d decisions are there: %v", n, cuts*records, err)
	}
}

// tear appends the first half of the last record to the file, like a write of the next
// record that was cut.
func tear(t *testing.T, path string) {
	t.Helper()
	all := lines(t, path)
	last := all[len(all)-1]
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(last[:len(last)/2]); err != nil {
		t.Fatal(err)
	}
}

// narrow is a file on a disk that gets full.
type narrow struct {
	file
	mu   *sync.Mutex
	room *int // bytes that can still be written; negative if there is no limit
	sync error
}

func (n *narrow) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *n.room < 0 || len(b) <= *n.room {
		if *n.room >= 0 {
			*n.room -= len(b)
		}
		return n.file.Write(b)
	}
	w, err := n.file.Write(b[:*n.room])
	*n.room = 0
	return w, errors.Join(err, syscall.ENOSPC)
}

func (n *narrow) Sync() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.sync, n.file.Sync())
}

// full returns a log on a disk with room for so many bytes, and a function that sets the
// room and the error of the disk.
func full(t *testing.T, cfg Config, room int) (*Log, func(room int, broken error)) {
	t.Helper()
	w, err := openWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	disk := &narrow{mu: new(sync.Mutex), room: &room}
	w.open = func(path string, create bool) (file, error) {
		f, err := appendTo(path, create)
		disk.file = f
		return disk, err
	}
	if err := w.resync(); err != nil {
		t.Fatal(err)
	}
	l := start(cfg, w)
	t.Cleanup(func() { l.Close() })
	return l, func(now int, broken error) {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		*disk.room, disk.sync = now, broken
	}
}

// On a full disk a caller that waits gets an error, and lost records are counted. As soon
// as there is room, the chain continues, with a record of the count.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	var said bytes.Buffer
	cfg := config(dir)
	cfg.Audit.Required = true
	cfg.Log = logger(&said)
	l, set := full(t, cfg, 3000)
	written := 0
	for i := range 20 {
		err := l.Write(t.Context(), decision(i))
		switch {
		case err == nil:
			written++
		case !errors.Is(err, syscall.ENOSPC):
			t.Fatalf("got %v, want no space", err)
		}
	}
	if written == 0 || written == 20 {
		t.Fatalf("%d of 20 were written to a disk with room for some", written)
	}
	verify(t, dir) // half a record does not stay in the file
	set(-1, nil)
	if err := l.Commit(t.Context(), decision(20)); err != nil {
		t.Fatal(err)
	}
	// Callers that wait for the disk get an error of the disk itself.
	set(-1, syscall.EIO)
	if err := l.Commit(t.Context(), decision(21)); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want EIO", err)
	}
	set(-1, nil)
	if err := l.Commit(t.Context(), decision(22)); err != nil {
		t.Fatal(err)
	}
	finish(t, l)
	r := verify(t, dir)
	want := fmt.Sprintf("%d records could not be written", 20-written)
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], want) || !strings.Contains(r.Notes[0], "no space left") || !strings.Contains(r.Notes[1], "input/output error") {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
	if n := strings.Count(said.String(), "cannot be written"); n != 2 {
		t.Errorf("the operator was told %d times, want once for each row of failures:\n%s", n, said.String())
	}
}

// Open refuses a directory that others can enter, a key that others can read, and a log
// whose key is missing.
func TestOpenRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		break_ func(dir string) error
		want   string
	}{
		"others enter the directory": {func(dir string) error { return os.Chmod(dir, 0o755) }, "chmod 700"},
		"others read the key":        {func(dir string) error { return os.Chmod(filepath.Join(dir, keyName), 0o644) }, "chmod 600"},
		"the key is gone":            {func(dir string) error { return os.Remove(filepath.Join(dir, keyName)) }, "put the key back"},
		"the key is another's":       {func(dir string) error { _, err := makeKeys(dir); return err }, ""},
		"the key is none":            {func(dir string) error { return os.WriteFile(filepath.Join(dir, keyName), []byte("x\n"), 0o600) }, "contains no key"},
		"the key is cut off":         {func(dir string) error { return os.Truncate(filepath.Join(dir, keyName), 60) }, "contains no key"},
		"the public key is another's": {func(dir string) error {
			_, public, err := note.GenerateKey(rand.Reader, origin+"/00000000")
			return errors.Join(err, os.WriteFile(filepath.Join(dir, publicName), []byte(public), 0o600))
		}, "does not belong to " + keyName},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			fill(t, config(dir), 1)
			if err := tt.break_(dir); err != nil {
				t.Fatal(err)
			}
			l, err := Open(config(dir))
			if err == nil {
				l.Close()
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Check finds a damaged private key before the key signs.
func TestDamagedKeySignsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 1)
	path := filepath.Join(dir, keyName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := begin(t, config(dir))
	if err := l.Check(); err != nil {
		t.Errorf("the whole key: %v", err)
	}
	finish(t, l)
	damaged := slices.Clone(whole)
	if i := len(damaged) - 10; damaged[i] == 'A' { // a byte within the seed
		damaged[i] = 'B'
	} else {
		damaged[i] = 'A'
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	l = begin(t, config(dir))
	if err := l.Check(); !errors.Is(err, errNoKey) {
		t.Errorf("Check: got %v, want %v", err, errNoKey)
	}
	if err := l.Write(t.Context(), decision(1)); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, errNoKey) {
		t.Errorf("Close: got %v, want %v", err, errNoKey)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, config(dir), 1)
	if r := verify(t, dir); len(r.Notes) > 0 {
		t.Errorf("afterwards: %v", r.Notes)
	}
}

// readPrivate reads a private key as its signer does.
func TestPrivateKeysAreReadAsSignersReadThem(t *testing.T) {
	for range 50 {
		secret, _, err := note.GenerateKey(rand.Reader, origin+"/"+rand.Text()[:8])
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(secret)
		if err != nil {
			t.Fatal(err)
		}
		if name, id, err := readPrivate(secret); err != nil || name != signer.Name() || id != signer.KeyHash() {
			t.Errorf("got %s %08x %v, want %s %08x", name, id, err, signer.Name(), signer.KeyHash())
		}
	}
}

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// Records for which no caller waits are written even if no other record follows.
func TestGatheredRecordsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(config(filepath.Join(t.TempDir(), "audit")))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, n := range []int{1, 3, gatherMost + 1} {
			before := l.Health().Written
			for i := range n {
				if err := l.Append(decision(i)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * gather) // on the bubble's clock
			synctest.Wait()
			if h := l.Health(); h.Written-before != uint64(n) || h.Waiting != 0 {
				t.Errorf("of %d records %d are written, and %d wait", n, h.Written-before, h.Waiting)
			}
		}
	})
}

// watched is a file that calls write before each write, and fails if write returns an
// error.
type watched struct {
	file
	write func() error
}

func (w watched) Write(b []byte) (int, error) {
	if err := w.write(); err != nil {
		return 0, err
	}
	return w.file.Write(b)
}

// A loss counts as stated once it is written to the log, and not while it is being written.
func TestALossIsStatedOnceItIsWritten(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "audit"))
	cfg.Log = slog.New(slog.DiscardHandler)
	w, err := openWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var write atomic.Pointer[func() error]
	to := func(f func() error) { write.Store(&f) }
	to(func() error { return nil })
	w.open = func(path string, create bool) (file, error) {
		f, err := appendTo(path, create)
		return watched{f, func() error { return (*write.Load())() }}, err
	}
	if err := w.resync(); err != nil {
		t.Fatal(err)
	}
	l := start(cfg, w)
	t.Cleanup(func() { l.Close() })
	to(func() error { return syscall.ENOSPC })
	if err := l.Write(t.Context(), decision(0)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want no space", err)
	}
	var writes, early atomic.Int64
	to(func() error { // the first write contains the loss, alone or with the next record
		if l.Health().Stated && writes.Load() == 0 {
			early.Add(1)
		}
		writes.Add(1)
		return nil
	})
	if err := l.Write(t.Context(), decision(1)); err != nil {
		t.Fatal(err)
	}
	if h := l.Health(); writes.Load() == 0 || early.Load() > 0 || !h.Stated || h.Lost != 1 {
		t.Errorf("%d writes, before which it was stated: %v; afterwards %+v", writes.Load(), early.Load() > 0, h)
	}
}
