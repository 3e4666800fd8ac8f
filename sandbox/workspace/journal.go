package workspace

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of files that are being applied. After it comes the token
// that the journal records, so that only the files of an Apply that was killed are removed
// later.
const scratchPrefix = ".belljar-"

// journal is the content of apply.json. It records where a running Apply may have left
// scratch files in the base.
type journal struct {
	Token string   `json:"token"`
	Dirs  [][]byte `json:"dirs"` // directories with its scratch files, relative to the base
}

// maxMarks bounds the record of what was applied of a set that is still in use, in bytes.
const maxMarks = 64 << 20

// begin writes the journal.
func (a *applying) begin() error {
	a.token = newID()
	j := journal{Token: a.token}
	seen := map[string]bool{}
	size := 0
	for i := range a.changes {
		dir := path.Dir(a.changes[i].name)
		if a.why[i] == "" && !seen[dir] {
			seen[dir] = true
			j.Dirs = append(j.Dirs, []byte(dir))
			size += len(dir)*4/3 + 8
		}
	}
	if size > maxMeta*15/16 {
		return fmt.Errorf("changes in %d directories are too many for one apply; name some of the paths", len(j.Dirs))
	}
	if err := writeJSON(a.dir, journalName, &j); err != nil {
		return err
	}
	m, err := openMarks(a.dir)
	a.record = m
	return err
}

// tidy removes the scratch files of an interrupted Apply, and reports whether there was
// one.
func (o *open) tidy() (bool, error) {
	if !o.has(journalName) {
		return false, nil
	}
	text, err := readSmall(o.dir, journalName, maxMeta)
	if err != nil {
		return false, fmt.Errorf("read the journal: %w", err)
	}
	var j journal
	if err := json.Unmarshal(text, &j); err != nil || !isLayerName(j.Token) {
		return false, fmt.Errorf("%w: its journal %s is not valid; discard the set", ErrTorn, journalName)
	}
	for _, at := range j.Dirs {
		dir, err := openDir(o.base, string(at))
		if err != nil {
			continue // the directory was not made yet, or was removed
		}
		names, err := listDir(dir)
		for _, name := range names {
			if strings.HasPrefix(name, scratchPrefix+j.Token+"-") {
				if unix.Unlinkat(int(dir.Fd()), name, 0) != nil {
					_ = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
				}
			}
		}
		dir.Close()
		if err != nil {
			return false, fmt.Errorf("tidy up: %w", err)
		}
	}
	return true, nil
}

// marker appends to the record of what was applied of a set: a line for each file with the
// ctime that the file got. A later change of that file in the set is then not a conflict.
type marker struct {
	f    *os.File
	left int64 // bytes that the record may still have
}

func openMarks(dir *os.File) (*marker, error) {
	fd, err := unix.Openat(int(dir.Fd()), appliedName, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("note what is applied: %w", err)
	}
	m := &marker{f: os.NewFile(uintptr(fd), appliedName)}
	if info, err := m.f.Stat(); err == nil {
		m.left = maxMarks - info.Size()
	}
	if !endsLine(m.f) {
		m.write("\n") // ends a line that a crash left incomplete
	}
	return m, nil
}

// write appends a text, unless the record would become too long to be read.
func (m *marker) write(text string) {
	if m.left -= int64(len(text)); m.left >= 0 {
		_, _ = m.f.WriteString(text)
	}
}

func (m *marker) close() { m.f.Close() }

// add records a file. If that fails, or the record has its maximum length, a later change
// of the file in the set is a conflict, which a person sees.
func (m *marker) add(base *os.File, name string) {
	dir, last, err := parentOf(base, name)
	if err != nil {
		return
	}
	defer dir.Close()
	st, err := statAt(dir, last)
	if err != nil || st == nil {
		return
	}
	m.write(base64.StdEncoding.EncodeToString([]byte(name)) + " " + strconv.FormatInt(st.Ctim.Nano(), 10) + "\n")
}

// readMarks reads the record that a marker writes.
func (h *held) readMarks() (map[string]int64, error) {
	text, err := readSmall(h.dir, appliedName, maxMarks)
	if errors.Is(err, unix.ENOENT) {
		return map[string]int64{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	marks := map[string]int64{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 2*maxPath)
	for lines.Scan() {
		name, when, _ := strings.Cut(lines.Text(), " ")
		file, err := base64.StdEncoding.DecodeString(name)
		nanos, err2 := strconv.ParseInt(when, 10, 64)
		if err == nil && err2 == nil { // a crash can leave the last line incomplete
			marks[string(file)] = nanos
		}
	}
	return marks, nil
}
