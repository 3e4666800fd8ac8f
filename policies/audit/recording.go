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
	"syscall"

	"belljar.dev/internal/order"
)

// Bounds of recordings.
const (
	castDir            = "casts"  // directory of the recordings in the directory of the log
	maxRecording       = 16 << 20 // bytes of one recording
	maxRecordings      = 1000     // recordings that are kept
	maxRecordingsBytes = 1 << 30  // bytes of all recordings
	pruneEvery         = 32       // number of new recordings between two calls of pruneRecordings
)

// The suffixes of the names of recordings.
const (
	castEnd = ".cast" // recording of what a command shows
	reelEnd = ".reel" // recording of what a browser shows
)

// Recorded is the result of a recording.
type Recorded struct {
	File   string `json:"file"` // path in the directory of the log
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Cut    string `json:"cut,omitempty"`  // why the recording is not complete
	Lost   int64  `json:"lost,omitempty"` // output bytes that a Cast does not have, if known; as the command wrote them
}

// Incomplete returns why a recording is not complete, and how many bytes are missing if
// that is known. It returns an empty text for a complete recording.
func (r Recorded) Incomplete() string {
	if r.Cut == "" || r.Lost == 0 {
		return r.Cut
	}
	return fmt.Sprintf("%s; %d bytes of the output are missing", r.Cut, r.Lost)
}

// Reel reports whether it is a Reel, and not a Cast.
func (r Recorded) Reel() bool { return strings.HasSuffix(r.File, reelEnd) }

// recording is the file of a recording. Its owner guards it with a lock.
type recording struct {
	name string     // path in the directory of the log
	file recordFile // nil once it is closed
	sum  summer
	size int64
	cut  string
	lost int64 // output bytes that were left out, as the command wrote them
}

// recordFile contains the methods of an *os.File that a recording needs.
type recordFile interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// summer contains the methods that a recording needs of the result of sha256.New.
type summer interface {
	Write(p []byte) (int, error)
	Sum(to []byte) []byte
}

// recording makes the file for the recording of a call.
func (l *Log) recording(callID, end string) (recording, error) {
	dir := filepath.Join(l.cfg.Dir, castDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return recording{}, fmt.Errorf("record call: %w", err)
	}
	if l.casts.Add(1)%pruneEvery == 1 {
		pruneRecordings(dir)
	}
	name := filepath.Join(castDir, filepath.Base(callID)+end)
	f, err := os.OpenFile(filepath.Join(l.cfg.Dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return recording{}, fmt.Errorf("record call: %w", err)
	}
	return recording{name: name, file: f, sum: sha256.New()}, nil
}

// put writes a line of the file, and reports whether the file has it. If the file takes
// only a part of the line, for example on a full disk, put cuts the file back to the lines
// before, so that readers find whole lines.
func (r *recording) put(line []byte) bool {
	if r.cut != "" || r.file == nil {
		return false
	}
	if r.size+int64(len(line)) > maxRecording {
		r.cut = fmt.Sprintf("it would be larger than %d MiB", maxRecording>>20)
		return false
	}
	n, err := r.file.Write(line)
	if err != nil {
		r.cut = err.Error()
		if n == 0 || r.file.Truncate(r.size) == nil {
			return false
		}
		// The sum covers the part that stays: the file is not complete, but was not changed
		// by others.
	}
	_, _ = r.sum.Write(line[:n]) // never fails
	r.size += int64(n)
	return err == nil
}

// end closes the file. It may be called twice.
func (r *recording) end() {
	if r.file == nil {
		return
	}
	if err := errors.Join(r.file.Sync(), r.file.Close()); err != nil && r.cut == "" {
		r.cut = err.Error()
	}
	r.file = nil
}

// result returns what the log states about the file, or false if the file is still being
// written.
func (r *recording) result() (Recorded, bool) {
	if r.file != nil {
		return Recorded{}, false
	}
	return Recorded{File: r.name, SHA256: hex.EncodeToString(r.sum.Sum(nil)), Bytes: r.size, Cut: r.cut, Lost: r.lost}, true
}

// pruneRecordings deletes the oldest recordings if there are too many, or too many bytes.
// Their records in the log stay.
func pruneRecordings(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	all, err := d.ReadDir(maxFiles)
	if err != nil && len(all) == 0 {
		return
	}
	var infos []fs.FileInfo
	var bytes int64
	for _, e := range all {
		ours := strings.HasSuffix(e.Name(), castEnd) || strings.HasSuffix(e.Name(), reelEnd)
		if info, err := e.Info(); err == nil && ours {
			infos = append(infos, info)
			bytes += info.Size()
		}
	}
	order.By(infos, func(a, b *fs.FileInfo) int { return (*a).ModTime().Compare((*b).ModTime()) })
	for len(infos) > maxRecordings-pruneEvery || bytes > maxRecordingsBytes {
		bytes -= infos[0].Size()
		_ = os.Remove(filepath.Join(dir, infos[0].Name())) // the next call tries again
		infos = infos[1:]
	}
}
