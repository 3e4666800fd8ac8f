package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// writer is the end of the chain, as one process sees it. It is used by one
// goroutine; the lock file keeps processes apart.
type writer struct {
	cfg  Config
	pid  string
	lock *os.File
	keys keys
	open func(path string, create bool) (file, error)

	file  file
	id    fs.FileInfo // of file
	size  int64       // of file
	first uint64      // record of file
	seq   uint64      // of the last record
	head  hash        // of the last record

	signed uint64 // the last record that is a checkpoint of ours
	dirty  bool   // something written is not on the disk
	buf    []byte // lines on their way

	failing  bool // the operator has been told
	stated   bool // the losses given to the last write are stated
	closeErr error
}

// openWriter finds the end of the chain, repairs it and states the repair in a
// record.
func openWriter(cfg Config) (*writer, error) {
	w := &writer{cfg: cfg, pid: strconv.Itoa(os.Getpid()), open: appendTo}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(cfg.Dir)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s can be read or written by others; run chmod 700 on it", cfg.Dir)
	}
	w.lock, err = os.OpenFile(filepath.Join(cfg.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = w.begin(); err != nil {
		w.closeFiles()
		return nil, err
	}
	return w, nil
}

// begin is the part of openWriter that needs the lock.
func (w *writer) begin() error {
	if err := lockFile(w.lock, lockExclusive); err != nil {
		return err
	}
	defer unlockFile(w.lock)
	records, err := list(w.cfg.Dir, func(name string) bool { return name == currentName || isFull(name) })
	if err != nil {
		return err
	}
	if w.keys, err = loadKeys(w.cfg.Dir, len(records) == 0); err != nil {
		return err
	}
	if err := w.resync(); err != nil {
		return err
	}
	if w.seq == 1 {
		if _, err := os.Lstat(w.path(checkpointName)); errors.Is(err, fs.ErrNotExist) {
			// From the first record on there is a checkpoint, so that a log
			// without one was changed.
			return w.sign(w.place())
		}
	}
	return w.missing()
}

func (w *writer) path(name string) string { return filepath.Join(w.cfg.Dir, name) }

// hold takes the lock and finds the end of the chain, which other processes
// may have moved. The caller releases.
func (w *writer) hold() error {
	if err := lockFile(w.lock, lockExclusive); err != nil {
		return err
	}
	info, err := os.Lstat(w.path(currentName))
	if err == nil && w.id != nil && os.SameFile(info, w.id) && info.Size() == w.size {
		return nil
	}
	if err := w.resync(); err != nil {
		unlockFile(w.lock)
		return err
	}
	return nil
}

// resync opens the current file anew, or begins one, and reads its end. The
// caller holds the lock.
func (w *writer) resync() error {
	if err := w.reopen(); err != nil {
		w.id = nil // the next to hold the lock tries again
		return err
	}
	return nil
}

func (w *writer) reopen() error {
	if w.file != nil {
		// What we wrote to it may be in a full file now, and must not get lost.
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

// initial begins the current file, which has no record; size is the number of
// bytes that it has instead.
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
	return errors.Join(w.syncFile(), syncDir(w.cfg.Dir))
}

// end is the last record there is: that of the current file, or of the last
// full one where the current one is empty.
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
		return 0, hash{}, fmt.Errorf("read %s: it holds no record; `belljar audit verify` says more; move the directory away to begin a new log", path)
	}
	return t.last.seq, sha256.Sum256(t.last.text), nil
}

// add puts a record at the end of the chain, into the buffer.
func (w *writer) add(line []byte) {
	from := len(w.buf)
	w.seq++
	w.buf = append(w.buf, headSeq...)
	w.buf = strconv.AppendUint(w.buf, w.seq, 10)
	w.buf = append(w.buf, headPrev...)
	w.buf = hex.AppendEncode(w.buf, w.head[:])
	w.buf = append(w.buf, '"', ',')
	w.buf = append(w.buf, line...)
	w.head = sha256.Sum256(w.buf[from:])
	w.buf = append(w.buf, '\n')
}

// own puts a record of the log's own at the end of the chain, and writes it.
func (w *writer) own(kind Kind, rec any) error {
	line, err := encode(w.pid, kind, nil, rec)
	if err != nil {
		return err
	}
	at := w.place()
	w.add(line)
	return w.put(at)
}

// place is where the chain ends, to go back to.
type place struct {
	seq, signed uint64
	head        hash
}

func (w *writer) place() place { return place{w.seq, w.signed, w.head} }

// put writes the buffer. If that fails, the file and the chain end where they
// ended before, at the place.
func (w *writer) put(before place) error {
	if len(w.buf) == 0 {
		return nil
	}
	n, err := w.file.Write(w.buf)
	size := len(w.buf)
	w.buf = w.buf[:0]
	if err != nil {
		w.seq, w.signed, w.head = before.seq, before.signed, before.head
		if n > 0 {
			if cut := w.file.Truncate(w.size); cut != nil {
				w.id = nil // the next write repairs it
			}
		}
		return err
	}
	w.size += int64(size)
	w.dirty = true
	return nil
}

// write writes a batch of records. It returns how many of them are written, or
// are on the disk if a caller waits for that.
func (w *writer) write(batch []entry, lost loss) (n int, err error) {
	w.stated = lost.count == 0
	if err := w.hold(); err != nil {
		return 0, err
	}
	defer unlockFile(w.lock)
	if w.due() {
		// It could not be written when it was due, and must be before more is.
		if err := w.sign(w.place()); err != nil {
			return 0, err
		}
	}
	durable := false
	at := w.place()
	if lost.count > 0 {
		line, err := encode(w.pid, KindDropped, nil, droppedLine{lost.count, lost.since.UTC().Format(stamp), lost.why})
		if err != nil {
			return 0, err
		}
		w.add(line)
	}
	written := 0
	for i, e := range batch {
		durable = durable || e.durable
		if e.line != nil {
			w.add(e.line)
		}
		switch {
		case w.size+int64(len(w.buf)) >= w.cfg.Audit.Rotate:
			err = w.rotate(at)
		case w.due():
			err = w.sign(at)
		case len(w.buf) >= flushAt:
			err = w.put(at)
		default:
			continue
		}
		if err != nil {
			return written, err
		}
		at, written, w.stated = w.place(), i+1, true
	}
	if err := w.put(at); err != nil {
		return written, err
	}
	w.stated = true
	if durable {
		if err := w.syncFile(); err != nil {
			return 0, err
		}
	}
	w.failing = false
	return len(batch), nil
}

// flushAt is the size of one write, in bytes: larger ones gain nothing.
const flushAt = 1 << 20

// sync waits until all that is written is on the disk.
func (w *writer) sync() error {
	if !w.dirty {
		return nil
	}
	return w.syncFile()
}

func (w *writer) syncFile() error {
	// After an error the kernel forgets what it could not write (fsync(2)), so
	// another try would succeed without it.
	w.dirty = false
	return w.file.Sync()
}

// due reports whether a checkpoint must follow the record that was added last.
func (w *writer) due() bool { return w.seq-w.signed >= signEvery }

// checkpoint signs what has been written since the last one.
func (w *writer) checkpoint() error {
	if w.seq == w.signed {
		return nil
	}
	if err := w.hold(); err != nil {
		return err
	}
	defer unlockFile(w.lock)
	return w.sign(w.place())
}

// sign writes the buffer and waits until it is on the disk. Then it signs the
// log, first in the checkpoint's file and after that as a record. So a crash in
// between never leaves the file behind the records: a file that is behind them
// is an old one that somebody put back. The caller holds the lock.
func (w *writer) sign(before place) error {
	if err := w.put(before); err != nil {
		return err
	}
	if err := w.syncFile(); err != nil {
		return err
	}
	c := Checkpoint{w.seq, w.head, time.Now()}
	text, err := note.Sign(&note.Note{Text: c.text()}, w.keys.signer)
	if err != nil {
		return err
	}
	if err := replaceFile(w.cfg.Dir, checkpointName, text); err != nil {
		return err
	}
	if err := w.own(KindCheckpoint, checkpointLine{string(text)}); err != nil {
		return err
	}
	w.signed = w.seq
	return nil
}

// missing states, in the log, that records are gone that a checkpoint signed.
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
	return nil
}

// close signs what is written and closes the files.
func (w *writer) close() {
	err := w.checkpoint()
	if err == nil {
		err = w.sync()
	}
	w.closeErr = err
	w.closeFiles()
}

func (w *writer) closeFiles() {
	if w.file != nil {
		w.file.Close()
	}
	if w.lock != nil {
		w.lock.Close()
	}
}
