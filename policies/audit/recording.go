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
	castDir            = "casts"  // in the directory of the log
	maxRecording       = 16 << 20 // bytes of one recording
	maxRecordings      = 1000     // recordings that are kept
	maxRecordingsBytes = 1 << 30  // of all of them
	pruneEvery         = 32       // recordings
)

// The ends of the names of recordings.
const (
	castEnd = ".cast" // of what a command shows
	reelEnd = ".reel" // of what a browser shows
)

// Recorded is the result of a recording.
type Recorded struct {
	File   string `json:"file"` // in the directory of the log
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Cut    string `json:"cut,omitempty"`  // why it does not have all
	Lost   int64  `json:"lost,omitempty"` // bytes of the output, as the command wrote it, that a Cast does not have, where that is known
}

// Incomplete says why a recording does not have all, and how much is missing where that is known;
// empty if it has all.
func (r Recorded) Incomplete() string {
	if r.Cut == "" || r.Lost == 0 {
		return r.Cut
	}
	return fmt.Sprintf("%s; %d bytes of the output are missing", r.Cut, r.Lost)
}

// Reel reports whether it is a Reel, and not a Cast.
func (r Recorded) Reel() bool { return strings.HasSuffix(r.File, reelEnd) }

// recording is the file of a recording. Its owner guards it.
type recording struct {
	name string     // in the directory of the log
	file recordFile // nil once it is closed
	sum  summer
	size int64
	cut  string
	lost int64 // bytes of output, as the command wrote it, that were left out
}

// recordFile is what a recording needs of its *os.File.
type recordFile interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// summer is what sha256.New returns.
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

// put writes a line of the file, and reports whether the file has it. A file that takes a part of
// it, as on a full disk, is cut back to the lines before, so that readers find whole lines.
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
		// The sum has the part that stays: the file was not changed by others, and is not all.
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

// result is what the log says of the file; false says that it is still written.
func (r *recording) result() (Recorded, bool) {
	if r.file != nil {
		return Recorded{}, false
	}
	return Recorded{File: r.name, SHA256: hex.EncodeToString(r.sum.Sum(nil)), Bytes: r.size, Cut: r.cut, Lost: r.lost}, true
}

// pruneRecordings deletes the oldest recordings beyond those that are kept. Their records in the
// log stay.
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
		_ = os.Remove(filepath.Join(dir, infos[0].Name())) // the next one tries again
		infos = infos[1:]
	}
}
