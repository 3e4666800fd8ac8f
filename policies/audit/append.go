package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"

	"belljar.dev/internal/diskfile"
)

func (w *writer) path(name string) string { return filepath.Join(w.cfg.Dir, name) }

// own puts a record of the log about itself at the end of the chain, and writes it.
func (w *writer) own(kind Kind, rec any) error {
	line, err := encode(w.from, kind, nil, rec)
	if err != nil {
		return err
	}
	at := w.place()
	w.add(line)
	return w.put(at)
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

// place is an end of the chain to which the writer can go back.
type place struct {
	seq, signed uint64
	head        hash
}

func (w *writer) place() place { return place{w.seq, w.signed, w.head} }

// put writes the buffer. If that fails, the file and the chain end at before again.
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
				w.id = nil // the next write repairs the file
			}
		}
		return err
	}
	w.size += int64(size)
	w.dirty = true
	return nil
}

func (w *writer) syncFile() error {
	// After an error the kernel forgets the data that it could not write (fsync(2)), so a
	// second try would succeed although that data is lost.
	w.dirty = false
	return w.file.Sync()
}

// due reports whether a checkpoint must follow the record that was added last.
func (w *writer) due() bool { return w.seq-w.signed >= signEvery }

// sign writes the buffer and waits until it is on the disk. Then it signs the log, first in
// the checkpoint's file and after that as a record. So a crash in between never leaves the
// file behind the records: a checkpoint file that is behind the records is an old file that
// was put back. The caller holds the lock.
func (w *writer) sign(before place) error {
	if err := w.put(before); err != nil {
		return err
	}
	if err := w.syncFile(); err != nil {
		return err
	}
	signer, err := w.keys.signer()
	if err != nil {
		return err
	}
	c := Checkpoint{w.seq, w.head, time.Now()}
	text, err := note.Sign(&note.Note{Text: c.text()}, signer)
	if err != nil {
		return err
	}
	if err := diskfile.Replace(filepath.Join(w.cfg.Dir, checkpointName), text, 0o600); err != nil {
		return err
	}
	if err := w.own(KindCheckpoint, checkpointLine{string(text)}); err != nil {
		return err
	}
	w.signed = w.seq
	if w.news && w.cfg.Signed != nil {
		w.news = false
		w.cfg.Signed(Signed{w.keys.text, string(text)})
	}
	return nil
}

// sync waits until everything that was written is on the disk.
func (w *writer) sync() error {
	if !w.dirty {
		return nil
	}
	return w.syncFile()
}
