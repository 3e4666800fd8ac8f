package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"belljar.dev/internal/diskfile"
)

// hold takes the lock and finds the end of the chain, which other processes may have moved.
// The first time it also compares the log with its checkpoint, which is not done in Open
// because it takes longer. The caller releases the lock.
func (w *writer) hold() error {
	if err := lockFile(w.lock, lockExclusive); err != nil {
		return err
	}
	info, err := os.Lstat(w.path(currentName))
	if err != nil || w.id == nil || !os.SameFile(info, w.id) || info.Size() != w.size {
		err = w.resync()
	}
	if err == nil && !w.compared {
		err = w.compare()
		w.compared = err == nil
	}
	if err != nil {
		unlockFile(w.lock)
	}
	return err
}

// compare compares the log with its newest checkpoint, before anything is written to it. If
// the log has only its first record and no checkpoint, compare makes the first checkpoint.
// So a log of more records always has a checkpoint: if it has none, it was changed. The
// caller holds the lock.
func (w *writer) compare() error {
	if w.seq == 1 {
		if _, err := os.Lstat(w.path(checkpointName)); errors.Is(err, fs.ErrNotExist) {
			return w.sign(w.place())
		}
	}
	return w.missing()
}

// missing puts a record in the log if records that a checkpoint signed are missing.
// Otherwise it notes which records are signed.
func (w *writer) missing() error {
	text, err := readSmall(w.path(checkpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return w.own(KindMissing, missingLine{"", "the checkpoint file is gone"})
	}
	if err != nil {
		return err
	}
	c, err := parseCheckpoint(text, w.keys.public)
	switch {
	case err != nil:
		return w.own(KindMissing, missingLine{string(text), "the checkpoint file cannot be used: " + err.Error()})
	case c.Seq > w.seq:
		return w.own(KindMissing, missingLine{string(text), fmt.Sprintf("the checkpoint signs %d records, and the log had %d", c.Seq, w.seq)})
	case c.Seq == w.seq && c.Hash != w.head:
		return w.own(KindMissing, missingLine{string(text), "the last record is not the one that the checkpoint signs"})
	}
	w.signed = c.Seq // otherwise a log of many records would be signed at each start
	return nil
}

// resync opens the current file anew, or begins one, and reads its end. The
// caller holds the lock.
func (w *writer) resync() error {
	if err := w.reopen(); err != nil {
		w.id = nil // the next call that gets the lock tries again
		return err
	}
	return nil
}

// reopen does the work of resync. It may leave the writer half open if it fails.
func (w *writer) reopen() error {
	if w.file != nil {
		// The records that we wrote to the file may be in a full file now, and must not get
		// lost.
		if err := w.sync(); err != nil {
			return err
		}
		w.file.Close()
		w.file, w.id = nil, nil
	}
	path := w.path(currentName)
	f, err := w.open(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = w.open(path, true)
	}
	if err != nil {
		return err
	}
	w.file = f
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t, err := readTail(f, info.Size())
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	w.id, w.size = info, t.end
	if w.seq, w.head, err = w.end(t); err != nil {
		return err
	}
	if t.last.seq == 0 {
		return w.initial(info.Size())
	}
	l, err := firstLine(path)
	if err != nil {
		return err
	}
	w.first = l.seq
	if info.Size() > t.end {
		return w.cut(info.Size())
	}
	return nil
}

// initial writes the first record of the current file, which has none. size is the number of
// bytes that a crash left in the file.
func (w *writer) initial(size int64) error {
	w.first = w.seq + 1
	after := ""
	full, err := list(w.cfg.Dir, isFull)
	if err != nil {
		return err
	}
	if len(full) > 0 {
		after = full[len(full)-1]
	}
	if size > 0 {
		if err := w.cut(size); err != nil {
			return err
		}
	}
	if err := w.own(KindFile, fileLine{after, w.seq, hex.EncodeToString(w.head[:])}); err != nil {
		return err
	}
	return errors.Join(w.syncFile(), diskfile.SyncDir(w.cfg.Dir))
}

// end returns the number and the hash of the last record of the log. t is the tail of the
// current file. If the tail has no record, the last record is in the last full file.
func (w *writer) end(t tail) (uint64, hash, error) {
	if t.last.seq > 0 {
		return t.last.seq, sha256.Sum256(t.last.text), nil
	}
	full, err := list(w.cfg.Dir, isFull)
	if err != nil || len(full) == 0 {
		return 0, hash{}, err
	}
	path := w.path(full[len(full)-1])
	f, err := w.open(path, false)
	if err != nil {
		return 0, hash{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, hash{}, err
	}
	if t, err = readTail(f, info.Size()); err != nil {
		return 0, hash{}, fmt.Errorf("read %s: %w", path, err)
	}
	if t.last.seq == 0 {
		return 0, hash{}, fmt.Errorf("read %s: it contains no record; `belljar audit verify` says more; move the directory away to begin a new log", path)
	}
	return t.last.seq, sha256.Sum256(t.last.text), nil
}

// isTorn reports whether a name is that of a file with a record that a crash cut.
func isTorn(name string) bool {
	return strings.HasPrefix(name, "torn-") && strings.HasSuffix(name, ".bin")
}

// cut moves the bytes that a crash left behind the last record of the current file into a
// file of their own, and states this in a record. size is the length of the current file.
// The caller holds the lock.
func (w *writer) cut(size int64) error {
	rest := make([]byte, size-w.size)
	if _, err := w.file.ReadAt(rest, w.size); err != nil {
		return err
	}
	name := fmt.Sprintf("torn-%012d.bin", w.seq+1)
	if err := diskfile.Replace(filepath.Join(w.cfg.Dir, name), rest, 0o600); err != nil {
		return err
	}
	if err := w.file.Truncate(w.size); err != nil {
		return err
	}
	if old, err := list(w.cfg.Dir, isTorn); err == nil && len(old) > maxTorn {
		for _, n := range old[:len(old)-maxTorn] {
			_ = os.Remove(w.path(n)) // the log contains their hashes
		}
	}
	sum := sha256.Sum256(rest)
	w.cfg.Log.Warn("the audit log ended within a record; the incomplete record was moved to a file of its own", "file", w.path(name), "bytes", len(rest))
	if err := w.own(KindTorn, tornLine{int64(len(rest)), hex.EncodeToString(sum[:]), name}); err != nil {
		return err
	}
	return w.syncFile()
}

// maxTorn is how many files with cut records are kept.
const maxTorn = 16
