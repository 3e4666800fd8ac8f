package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/fleet/claims"
)

// Names in the directory of a worker for places that move:
//
//	places/TENANT/NAME/move    the mark of a place; missing if the place was never moved
//	incoming/KEY               a complete copy of a place that is not in use, with its mark
//	incoming/.new-*            an incomplete copy
//	left/KEY                   the mark of a place that has left; late steps are refused by it
//	removed/*                  directories that are being removed
const (
	markName        = "move"
	placeName       = "place" // file with the name of the place, next to the mark of a copy
	workdirIncoming = "incoming"
	workdirGone     = "left"
	workdirRemoved  = "removed"
	unfinished      = ".new-"
	maxMark         = 4 << 10
)

// prepareMoves makes the directories for moves, and removes what a killed process has left
// in them.
func (e *workdir) prepareMoves() error {
	for _, sub := range []string{workdirIncoming, workdirGone, workdirRemoved} {
		if err := os.MkdirAll(filepath.Join(e.dir, sub), 0o700); err != nil {
			return err
		}
	}
	half, err := e.find(workdirIncoming + "/" + unfinished + "*")
	if err != nil {
		return err
	}
	gone, err := e.find(workdirRemoved + "/*")
	if err != nil {
		return err
	}
	for _, dir := range append(half, gone...) {
		if err := removeTree(dir); err != nil {
			return err
		}
	}
	return nil
}

// find returns the files below the directory whose names match a pattern. The path of the
// directory itself is not part of the pattern, because it may contain a bracket.
func (e *workdir) find(pattern string) ([]string, error) {
	all, err := fs.Glob(os.DirFS(e.dir), pattern)
	for i, name := range all {
		all[i] = filepath.Join(e.dir, name)
	}
	return all, err
}

// keyOf returns the name for a place in incoming and left.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

func (e *workdir) incoming(id string) string { return filepath.Join(e.dir, workdirIncoming, keyOf(id)) }
func (e *workdir) goneFile(id string) string { return filepath.Join(e.dir, workdirGone, keyOf(id)) }

// readMark reads a mark. If the file does not exist, it returns the zero mark.
func readMark(file string) (m claims.Mark, err error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read what is known of moves in %s: %w", file, err)
	}
	return m, nil
}

func readSmall(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxMark {
		return nil, errors.New("it is not a regular file of a few bytes")
	}
	return os.ReadFile(file)
}

func writeMark(file string, m claims.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return diskfile.Replace(file, text, 0o600)
}

// mark returns the mark of a place that this worker has.
func (e *workdir) mark(id string) (claims.Mark, error) {
	return readMark(filepath.Join(e.of(id), markName))
}

func (e *workdir) setMark(id string, m claims.Mark) error {
	return writeMark(filepath.Join(e.of(id), markName), m)
}

// last returns the number of the last move of a place that this worker knows.
func (e *workdir) last(id string) (uint64, error) {
	gone, err := readMark(e.goneFile(id))
	if err != nil {
		return 0, err
	}
	here, err := e.mark(id)
	if err != nil {
		return 0, err
	}
	copied, err := readMark(filepath.Join(e.incoming(id), markName))
	return max(gone.Move, here.Move, copied.Move), err
}

// marks returns the marks of all frozen places and of all copies, by the names of the
// places.
func (e *workdir) marks() (frozen, copies map[string]claims.Mark, err error) {
	frozen, copies = make(map[string]claims.Mark), make(map[string]claims.Mark)
	files, err := e.find(workdirPlaces + "/*/*/" + markName)
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		m, err := readMark(file)
		if err != nil {
			return nil, nil, err
		}
		if m.To != "" {
			dir := filepath.Dir(file)
			frozen[placeID(filepath.Base(filepath.Dir(dir)), strings.TrimPrefix(filepath.Base(dir), unnamed))] = m
		}
	}
	if files, err = e.find(workdirIncoming + "/*/" + markName); err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(filepath.Dir(file)), unfinished) {
			continue
		}
		m, err := readMark(file)
		if err != nil {
			return nil, nil, err
		}
		id, err := readSmall(filepath.Join(filepath.Dir(file), placeName))
		if err != nil {
			return nil, nil, err
		}
		copies[string(id)] = m
	}
	return frozen, copies, nil
}

// complete moves a complete copy to its name in incoming, where it is not yet in use.
func (e *workdir) complete(made, id string, m claims.Mark) error {
	if err := diskfile.Replace(filepath.Join(made, placeName), []byte(id), 0o600); err != nil {
		return err
	}
	if err := writeMark(filepath.Join(made, markName), m); err != nil {
		return err
	}
	if err := os.Rename(made, e.incoming(id)); err != nil {
		return err
	}
	return diskfile.SyncDir(filepath.Dir(made))
}

// take puts a copy into use.
func (e *workdir) take(id string) error {
	parent := filepath.Dir(e.of(id))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	// An existing directory is not replaced.
	if err := unix.Renameat2(unix.AT_FDCWD, e.incoming(id), unix.AT_FDCWD, e.of(id), unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return errors.Join(diskfile.SyncDir(parent), diskfile.SyncDir(filepath.Dir(parent)), diskfile.SyncDir(filepath.Join(e.dir, workdirIncoming)))
}

// retire records that a place has left with a move, and removes its directory, which need
// not exist.
func (e *workdir) retire(dir, id string, move uint64) error {
	gone, err := readMark(e.goneFile(id))
	if err != nil {
		return err
	}
	if err := writeMark(e.goneFile(id), claims.Mark{Move: max(gone.Move, move)}); err != nil {
		return err
	}
	return e.remove(dir)
}

// remove removes a directory, which need not exist. Seen from outside, it is removed
// completely or not at all.
func (e *workdir) remove(dir string) error {
	aside, err := os.MkdirTemp(filepath.Join(e.dir, workdirRemoved), "")
	if err != nil {
		return err
	}
	err = os.Rename(dir, filepath.Join(aside, "dir"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(aside))
	}
	return errors.Join(diskfile.SyncDir(filepath.Dir(dir)), removeTree(aside))
}

// removeTree removes a directory, even if a box has removed the owner's permission to do
// so.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			return root.Chmod(name, 0o700) // before the names in the directory are read
		}
		return nil
	})
	return errors.Join(err, os.RemoveAll(dir))
}
