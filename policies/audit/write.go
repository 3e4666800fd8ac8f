package audit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writer is the end of the chain, as one process sees it. It is used by one
// goroutine; the lock file keeps processes apart.
type writer struct {
	cfg  Config
	from string // see writerOf
	lock *os.File
	keys keys
	open func(path string, create bool) (file, error)

	file  file
	id    fs.FileInfo // identity of file
	size  int64       // size of file in bytes
	first uint64      // number of the first record of file
	seq   uint64      // number of the last record
	head  hash        // hash of the last record

	compared bool   // the log was compared with its checkpoint
	signed   uint64 // number of the last record that a checkpoint signs, or that is itself a checkpoint of this process
	news     bool   // there are records to sign that are not about the logs of others
	dirty    bool   // some bytes that were written are not on the disk yet
	buf      []byte // lines that have not been written yet

	failing  bool // the failure was reported to the operator
	stated   bool // the losses that the last call of write got are stated
	closeErr error
}

// openWriter finds the end of the chain, repairs it and states the repair in a
// record.
func openWriter(cfg Config) (*writer, error) {
	w := &writer{cfg: cfg, from: writerOf(cfg), open: appendTo, news: true}
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

// begin does the part of openWriter that needs the lock.
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
	return w.resync()
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
		// The checkpoint could not be written when it was due. It must be written before
		// more records are.
		if err := w.sign(w.place()); err != nil {
			return 0, err
		}
	}
	durable, sign := false, false
	at := w.place()
	if lost.count > 0 {
		w.news = true
		line, err := encode(w.from, KindDropped, nil, droppedLine{lost.count, lost.since.UTC().Format(stamp), lost.why})
		if err != nil {
			return 0, err
		}
		w.add(line)
	}
	written := 0
	for i, e := range batch {
		durable, sign = durable || e.durable, sign || e.sign
		if e.line != nil {
			w.add(e.line)
			w.news = w.news || !e.witness
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
	switch {
	case sign && w.seq != w.signed:
		if err := w.sign(at); err != nil {
			return 0, err
		}
	case durable:
		if err := w.syncFile(); err != nil {
			return 0, err
		}
	}
	w.failing = false
	return len(batch), nil
}

// flushAt is the size of one write, in bytes: larger writes gain nothing.
const flushAt = 1 << 20

// checkpoint signs the records that were written since the last checkpoint.
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

// close signs the records that were written and closes the files.
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
