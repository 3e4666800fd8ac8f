package claims

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"belljar.dev/internal/diskfile"
)

// Bounds of a journal.
const (
	maxLine   = 4 << 10
	maxPlaces = 1_000_000
	// slack is how many unneeded lines a journal may have, in addition to as many lines as
	// places, before it is written again.
	slack = 10_000
)

// Journal contains the claims of a single front: a file of lines. Each line is on the
// disk before Swap returns. If fronts share their claims, each of them also keeps the
// claims that it has seen in a Journal. The caller must close it.
type Journal struct {
	path string

	mu     sync.Mutex
	owners map[string]stored // guarded by mu: claims by place
	file   *os.File          // guarded by mu
	lines  int               // guarded by mu: number of lines in the file
	fault  error             // guarded by mu: why nothing can be claimed any more
	empty  bool
}

// entry is one line of a journal.
type entry struct {
	Place  string `json:"place"`
	stored        // has no worker if the place was released
}

// OpenJournal opens a file, or creates it. Only one process at a time can open it.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the claims: %w", err)
	}
	j := &Journal{path: path, owners: make(map[string]stored), file: file}
	if err := j.lock(); err != nil {
		file.Close()
		return nil, err
	}
	err = j.read()
	if err == nil {
		err = diskfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read the claims in %s: %w", path, err)
	}
	j.empty = len(j.owners) == 0
	return j, nil
}

func (j *Journal) lock() error {
	if err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock the claims in %s: %w; another front uses this state directory: give each front its own", j.path, err)
	}
	own, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("lock the claims: %w", err)
	}
	// the other process may have replaced the file, see shorten
	if there, err := os.Stat(j.path); err != nil || !os.SameFile(own, there) {
		return fmt.Errorf("lock the claims in %s: another front has just replaced them: give each front a state directory of its own", j.path)
	}
	return nil
}

// read reads the lines. The last line may be incomplete, if the Swap that wrote it has not
// returned.
func (j *Journal) read() error {
	in := bufio.NewReaderSize(j.file, maxLine)
	whole := int64(0)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if err := j.file.Truncate(whole); err != nil {
				return err
			}
			_, err = j.file.Seek(whole, io.SeekStart)
			return err
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d is longer than %d bytes", j.lines+1, maxLine)
		case err != nil:
			return err
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.Place == "" {
			return fmt.Errorf("line %d is damaged; move the file away; then the front makes new claims from the places that the workers have", j.lines+1)
		}
		j.apply(e)
		j.lines++
		whole += int64(len(line))
	}
}

// apply changes the claims in memory as a line says.
func (j *Journal) apply(e entry) {
	if e.Claim == (Claim{}) {
		delete(j.owners, e.Place)
		return
	}
	j.owners[e.Place] = e.stored
}

// Empty reports whether the journal had no claims when it was opened.
func (j *Journal) Empty() bool { return j.empty }

// Swap implements Claims.
func (j *Journal) Swap(_ context.Context, place string, old, next Claim) (Claim, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	turn := j.owners[place].Turn + 1
	switch now := j.owners[place].Claim; {
	case j.fault != nil:
		return Claim{}, j.fault
	case now != old || old == next:
		return now, nil
	case now == Claim{} && len(j.owners) >= maxPlaces:
		return Claim{}, fmt.Errorf("claim a place: there are %d, and more are not allowed", maxPlaces)
	}
	if err := j.write([]entry{{place, stored{next, turn}}}); err != nil {
		return Claim{}, err
	}
	return next, nil
}

// record writes claims that are in force elsewhere.
func (j *Journal) record(all []entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	all = slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return j.owners[e.Place] == e.stored })
	if len(all) == 0 {
		return j.fault
	}
	return j.write(all)
}

// Owner implements Claims.
func (j *Journal) Owner(place string) Claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.owners[place].Claim
}

// All implements Claims.
func (j *Journal) All() map[string]Claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string]Claim, len(j.owners))
	for place, c := range j.owners {
		all[place] = c.Claim
	}
	return all
}

// Moving implements Claims.
func (j *Journal) Moving() map[string]Claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string]Claim)
	for place, c := range j.owners {
		if c.Moving() {
			all[place] = c.Claim
		}
	}
	return all
}

// remembers returns the claims in the journal.
func (j *Journal) remembers() map[string]stored {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.owners)
}

// Ready implements Claims.
func (j *Journal) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// Watch implements Claims. It does nothing, because no other front changes a journal.
func (j *Journal) Watch(func()) {}

// write writes lines to the disk, and then applies them to the claims in memory. The caller
// holds mu. After an error it is not known what is on the disk, so nothing can be claimed
// any more.
func (j *Journal) write(all []entry) error {
	if j.fault != nil {
		return j.fault
	}
	var lines bytes.Buffer
	var err error
	for _, e := range all {
		err = errors.Join(err, json.NewEncoder(&lines).Encode(e))
	}
	if err == nil {
		_, err = j.file.Write(lines.Bytes())
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.fault = fmt.Errorf("write the claims in %s: %w; start the front again when the disk can be written", j.path, err)
		return j.fault
	}
	for _, e := range all {
		j.apply(e)
	}
	if j.lines += len(all); j.lines > 2*len(j.owners)+slack {
		j.shorten()
	}
	return nil
}

// shorten replaces the file by one that contains only the present claims. If that fails,
// the old file stays in use. The caller holds mu.
func (j *Journal) shorten() {
	next, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+".*")
	if err != nil {
		return
	}
	out := bufio.NewWriter(next)
	for place, c := range j.owners {
		text, bad := json.Marshal(entry{place, c})
		if bad == nil {
			_, bad = out.Write(append(text, '\n'))
		}
		err = errors.Join(err, bad)
	}
	err = errors.Join(err, out.Flush(), next.Sync(), syscall.Flock(int(next.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	if err == nil {
		err = os.Rename(next.Name(), j.path)
	}
	if err != nil {
		next.Close()
		_ = os.Remove(next.Name())
		return
	}
	j.file.Close()
	j.file, j.lines = next, len(j.owners)
	if err := diskfile.SyncDir(filepath.Dir(j.path)); err != nil { // after a power cut, the name might lead to the old file
		j.fault = fmt.Errorf("write the claims in %s: %w; start the front again when the disk can be written", j.path, err)
	}
}

// Close closes the file. It may be called several times.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = errors.New("the claims are closed")
	if err := j.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
