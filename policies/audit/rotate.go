package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"syscall"

	"belljar.dev/internal/diskfile"
)

const lockExclusive, lockShared = syscall.LOCK_EX, syscall.LOCK_SH

// rotate writes the buffer, closes the current file with a checkpoint, gives
// it its name and begins the next one; then it removes files that are too old. The
// caller holds the lock. After each of these steps the log can be continued:
//
//  1. the last records and their checkpoint are on the disk;
//  2. the file is renamed;
//  3. a new file begins with the hash that the old one ended with (resync,
//     which is also what happens when the next writer finds no current file);
//  4. a record states which files will be removed, and is on the disk;
//  5. these files are removed.
func (w *writer) rotate(before place) error {
	if err := w.sign(before); err != nil {
		return err
	}
	if err := w.syncFile(); err != nil { // for the record of the checkpoint
		return err
	}
	old := fullName(w.first)
	if _, err := os.Lstat(w.path(old)); err == nil {
		return fmt.Errorf("rename %s: there is a file %s already; move it away", w.path(currentName), old)
	}
	if err := os.Rename(w.path(currentName), w.path(old)); err != nil {
		return err
	}
	w.file.Close()
	w.file, w.id = nil, nil
	if err := w.resync(); err != nil {
		return err
	}
	if err := w.remove(); err != nil {
		// The records are safe; only more files are kept than the configuration says.
		w.cfg.Log.Error("old files of the audit log cannot be removed", "dir", w.cfg.Dir, "err", err)
	}
	return nil
}

// remove deletes the oldest full files, so that only Keep full files are left.
func (w *writer) remove() error {
	full, err := list(w.cfg.Dir, isFull)
	if err != nil || len(full) <= w.cfg.Audit.Keep {
		return err
	}
	old, oldest := full[:len(full)-w.cfg.Audit.Keep], full[len(full)-w.cfg.Audit.Keep]
	// The oldest file that is left states how the files before it ended.
	l, err := firstLine(w.path(oldest))
	if err != nil {
		return err
	}
	statement := removedLine{Files: old, LastSeq: l.seq - 1, LastHash: hex.EncodeToString(l.prev[:])}
	if len(old) > maxNamed {
		statement.Files = append(old[:maxNamed:maxNamed], fmt.Sprintf("... %d more", len(old)-maxNamed))
	}
	for _, name := range old {
		if info, err := os.Lstat(w.path(name)); err == nil {
			statement.Bytes += info.Size()
		}
	}
	if err := w.own(KindRemoved, statement); err != nil {
		return err
	}
	if err := w.sign(w.place()); err != nil {
		return err
	}
	var errs []error
	for _, name := range old {
		errs = append(errs, os.Remove(w.path(name)))
	}
	return errors.Join(append(errs, diskfile.SyncDir(w.cfg.Dir))...)
}

// maxNamed bounds the files that one record names.
const maxNamed = 100
