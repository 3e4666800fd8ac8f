package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// currentName is the name of the file that is being written.
const currentName = "audit.jsonl"

// fullName returns the name of a full file, which contains the number of its first record.
// The order of the names is the order of the records.
func fullName(first uint64) string { return fmt.Sprintf("audit-%012d.jsonl", first) }

// isFull reports whether a name is that of a full file.
func isFull(name string) bool {
	digits, ok := strings.CutPrefix(name, "audit-")
	if !ok {
		return false
	}
	digits, ok = strings.CutSuffix(digits, ".jsonl")
	_, err := strconv.ParseUint(digits, 10, 64)
	return ok && len(digits) >= 12 && err == nil
}

// maxFiles bounds how many names of a directory are read.
const maxFiles = 100_000

// list returns the names of a directory for which a test is true, in order.
func list(dir string, is func(name string) bool) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !is(name) })
	// By length first: numbers of more than twelve digits come last.
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return all, nil
}

// patience is how long a process waits for other processes that write.
const patience = 5 * time.Second

// lockFile takes a lock that ends with the process at the latest. It tries again
// and again, because flock(2) itself has no timeout.
func lockFile(f *os.File, how int) error {
	pause := time.Millisecond
	for end := time.Now().Add(patience); ; {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(end):
			return fmt.Errorf("lock %s: another process has held it for %v", f.Name(), patience)
		}
		<-time.After(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func unlockFile(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// file contains the methods of a file that a writer needs; tests use a file on a full disk.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// appendTo opens a file to append to it. If create is set, the file must be new.
func appendTo(path string, create bool) (file, error) {
	how := os.O_RDWR | os.O_APPEND
	if create {
		how |= os.O_CREATE | os.O_EXCL
	}
	return os.OpenFile(path, how|syscall.O_NOFOLLOW, 0o600)
}

// hash is the SHA-256 of a line without its LF.
type hash = [sha256.Size]byte

// The texts with which every line begins.
const (
	headSeq  = `{"seq":`
	headPrev = `,"prev":"`
	headKind = `","kind":"`
)

// line is the text of one record in a file, without its LF.
type line struct {
	seq  uint64
	prev hash
	kind Kind
	text []byte
}

var errNoRecord = errors.New("it does not begin like a record")

// parseLine reads the beginning of a record, which has only one valid spelling.
func parseLine(text []byte) (line, error) {
	l := line{text: text}
	rest, ok := bytes.CutPrefix(text, []byte(headSeq))
	if !ok {
		return l, errNoRecord
	}
	n := 0
	for n < len(rest) && n < 19 && rest[n] >= '0' && rest[n] <= '9' {
		l.seq = l.seq*10 + uint64(rest[n]-'0')
		n++
	}
	if n == 0 || rest[0] == '0' {
		return l, errNoRecord
	}
	rest, ok = bytes.CutPrefix(rest[n:], []byte(headPrev))
	if !ok || len(rest) < 2*len(l.prev) {
		return l, errNoRecord
	}
	if _, err := hex.Decode(l.prev[:], rest[:2*len(l.prev)]); err != nil {
		return l, errNoRecord
	}
	rest, ok = bytes.CutPrefix(rest[2*len(l.prev):], []byte(headKind))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 || text[len(text)-1] != '}' {
		return l, errNoRecord
	}
	l.kind = known(rest[:end])
	return l, nil
}

// known returns a name as a Kind. It does not copy the name of a kind in kinds.
func known(name []byte) Kind {
	if k, ok := kinds[string(name)]; ok {
		return k
	}
	return Kind(name)
}

var kinds = func() map[string]Kind {
	all := make(map[string]Kind)
	for _, k := range []Kind{
		KindDecision, KindOutcome, KindApproval, KindEgress, KindPolicy, KindSession, KindServer, KindLogin, KindCast, KindUpstream,
		KindFile, KindRemoved, KindTorn, KindDropped, KindMissing, KindCheckpoint,
	} {
		all[string(k)] = k
	}
	return all
}()

// tail is the end of a file: its last record, and where that record ends. Bytes after that
// place belong to a record that was cut.
type tail struct {
	last line // zero for a file without a record
	end  int64
}

// readTail finds the last whole record of a file. Any bytes may follow it: after
// a power failure a file can end in zeros.
func readTail(f file, size int64) (tail, error) {
	for _, most := range []int64{64 << 10, 8 * maxLine} {
		from := max(0, size-most)
		text := make([]byte, size-from)
		if n, err := f.ReadAt(text, from); err != nil && (!errors.Is(err, io.EOF) || n < len(text)) {
			return tail{}, err
		}
		for end := bytes.LastIndexByte(text, '\n'); end >= 0; end = bytes.LastIndexByte(text[:end], '\n') {
			start := bytes.LastIndexByte(text[:end], '\n') + 1
			if start == 0 && from > 0 {
				break // the beginning of this line is before the bytes that were read
			}
			if l, err := parseLine(text[start:end]); err == nil && json.Valid(l.text) {
				return tail{l, from + int64(end) + 1}, nil
			}
		}
		if from == 0 {
			return tail{}, nil
		}
	}
	return tail{}, fmt.Errorf("its last %d bytes contain no record; `belljar audit verify` says more; move the directory away to begin a new log", 8*maxLine)
}

// firstLine reads the first record of a file.
func firstLine(path string) (line, error) {
	f, err := os.Open(path)
	if err != nil {
		return line{}, err
	}
	defer f.Close()
	text := make([]byte, 512)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return line{}, fmt.Errorf("read %s: %w", path, err)
	}
	// Only the beginning counts, and the closing brace may be after the bytes that were
	// read.
	l, err := parseLine(append(text[:n], '}'))
	if err != nil {
		return line{}, fmt.Errorf("read %s: its first line: %w", filepath.Base(path), err)
	}
	return l, nil
}
