package sandbox

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// What a server knows of a workspace ends with it. The next one would find what
// the boxes of the first have left, and could not tell it from a person's: a
// repository that was moved into the depth, or that lies behind more
// directories than are looked at. So the places of what is known by its inode
// are written down, in the state directory, where no box can write.

// birth tells one file from another for good: the number of an inode is given
// again once it is free, its time of birth is not, and cannot be set
// (statx(2), stx_btime; zero on a file system that does not keep it).
type birth struct {
	ident
	born int64 // nanoseconds
}

func birthOf(f *os.File) (birth, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_SYNC_AS_STAT, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return birth{}, fmt.Errorf("statx: %w", err)
	}
	b := birth{ident: ident{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}}
	if st.Mask&unix.STATX_BTIME != 0 {
		b.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return b, nil
}

// maxSearched bounds the directories among which a home is looked for that is
// not where it was.
const maxSearched = 1 << 20

// record is the form of the file.
type record struct {
	Workspace string        `json:"workspace"` // for people who read the file
	Homes     []recordEntry `json:"homes"`
	SetID     []string      `json:"set_id,omitempty"`
}

// recordEntry is a home. Its device is left out: it may have another number
// after the next start of the machine.
type recordEntry struct {
	Path string `json:"path"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born"`
}

// recordFile is where the record of a workspace is, in a state directory; empty
// if there is no such directory. The path names it: another workspace at the
// same path has other inodes.
func recordFile(state, workspace string) string {
	if state == "" {
		return ""
	}
	return filepath.Join(state, "protected", fmt.Sprintf("%x.json", sha256.Sum256([]byte(workspace))))
}

// load takes over what earlier servers knew. What is not where it was is looked
// for; where that does not come to an end, nobody may work in the workspace.
func (p *protector) load() error {
	if p.record == "" {
		return nil
	}
	text, err := os.ReadFile(p.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return fmt.Errorf("read what is known of the workspace: %w; remove %s if it is damaged", err, p.record)
	}
	missing := map[uint64]recordEntry{}
	for _, e := range r.Homes {
		if len(p.homes) >= maxHomes {
			break
		}
		if !p.recall(e.Path, e) {
			missing[e.Ino] = e
		}
	}
	p.setIDs = r.SetID
	if len(missing) == 0 {
		return nil
	}
	p.unsaved = true
	return p.search(missing)
}

// recall makes the directory at a path a home, if it is the one of an entry.
func (p *protector) recall(at string, e recordEntry) bool {
	dir, err := openDir(p.root, at, unix.O_PATH)
	if err != nil {
		return false
	}
	id, err := birthOf(dir)
	if err != nil || id.ino != e.Ino || id.born != e.Born {
		dir.Close()
		return false
	}
	p.homes = append(p.homes, &home{path: at, id: id, dir: dir})
	return true
}

// search looks through the workspace for homes that are not where they were.
// One that is nowhere was removed.
func (p *protector) search(missing map[uint64]recordEntry) error {
	queue := []string{"."}
	for n := 0; n < len(queue) && len(missing) > 0; n++ {
		at := queue[n]
		queue[n] = ""
		dir, err := openDir(p.root, at, 0)
		if err != nil {
			continue // removed meanwhile, or closed to everybody
		}
		err = eachEntry(dir, func(e dirent) bool {
			if e.kind != unix.DT_DIR && e.kind != unix.DT_UNKNOWN {
				return true
			}
			here := path.Join(at, e.name)
			if want, ok := missing[e.ino]; ok && p.recall(here, want) {
				delete(missing, e.ino)
			}
			queue = append(queue, here)
			return len(queue) < maxSearched
		})
		dir.Close()
		if err != nil {
			return fmt.Errorf("look for repositories that were moved: %s: %w", at, err)
		}
	}
	if len(queue) >= maxSearched && len(missing) > 0 {
		for _, e := range missing {
			return fmt.Errorf("the repository %q is not where it was, and was not found among %d directories: put it back, or remove %s if a person moved or removed it", plain(e.Path), maxSearched, p.record)
		}
	}
	return nil
}

// save writes down what is known, if it has changed. Another server in the
// workspace may know more: what is still where it says stays.
func (p *protector) save() error {
	if p.record == "" || !p.unsaved {
		return nil
	}
	r := record{Workspace: p.where, SetID: p.setIDs}
	known := map[uint64]bool{}
	for _, h := range p.homes {
		known[h.id.ino] = true
		r.Homes = append(r.Homes, recordEntry{h.path, h.id.ino, h.id.born})
	}
	if text, err := os.ReadFile(p.record); err == nil {
		var old record
		if json.Unmarshal(text, &old) == nil {
			for _, e := range old.Homes {
				if dir, err := openDir(p.root, e.Path, unix.O_PATH); err == nil {
					id, err := birthOf(dir)
					if err == nil && id.ino == e.Ino && id.born == e.Born && !known[e.Ino] && len(r.Homes) < maxHomes {
						r.Homes = append(r.Homes, e)
					}
					dir.Close()
				}
			}
		}
	}
	text, err := json.MarshalIndent(&r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.record), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(p.record), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then, if all went well
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), p.record); err != nil {
		return err
	}
	p.unsaved = false
	return nil
}

// A server that is killed while a command runs cannot take back what that made.
// So there is a file beside the record while commands run. The next server that
// finds one, and is alone, knows that what changed since may be a box's work.

// soiled is the file that says that commands run.
func (p *protector) soiled() string { return p.record + ".running" }

// soil is called before the first command. The file of another server stays, as
// it is older.
func (p *protector) soil() error {
	if p.record == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.record), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.soiled(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// clean is called after the last command, when nothing of a box is left.
func (p *protector) clean() error {
	if p.record == "" || !p.alone() {
		return nil
	}
	if err := os.Remove(p.soiled()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// doubt is when the commands began that a server did not see end; zero where
// it saw all of them end.
func (p *protector) doubt() (time.Time, error) {
	if p.record == "" {
		return time.Time{}, nil
	}
	info, err := os.Stat(p.soiled())
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// suspect notes what would run of a path, if it changed since the time of doubt.
// A box cannot set that back (inode(7), ctime).
func (l *look) suspect(dir *os.File, at string, st *unix.Stat_t, r *rule, depth int) {
	name := path.Base(at)
	if l.doubt.IsZero() || st == nil || depth > maxKeptDepth || len(l.suspects) >= maxTold {
		return
	}
	if l.allowed(dir, name, st, r, depth) || isDir(st) && r.through {
		if !isDir(st) || !r.samples {
			return
		}
	} else if !time.Unix(st.Ctim.Unix()).Before(l.doubt) {
		l.suspects = append(l.suspects, plain(at))
		return
	}
	if !isDir(st) {
		return
	}
	d, err := openToList(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	defer d.Close()
	err = eachEntry(d, func(e dirent) bool {
		kid, err := statAt(d, e.name)
		if err != nil {
			l.fail(at, err)
		}
		l.suspect(d, path.Join(at, e.name), kid, r, depth+1)
		return len(l.suspects) < maxTold
	})
	if err != nil {
		l.fail(at, err)
	}
}
