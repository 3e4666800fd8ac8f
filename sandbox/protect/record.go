package protect

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What a server knows of a workspace ends with it. The next one would find what
// the boxes of the first have left, and could not tell it from a person's: a
// repository that was moved into the depth, or that lies behind more
// directories than are looked at. So the places of what is known by its inode
// are written down, in the state directory, where no box can write.

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
func (p *Protector) load() error {
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
func (p *Protector) recall(at string, e recordEntry) bool {
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
func (p *Protector) search(missing map[uint64]recordEntry) error {
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
		var names []string
		for _, e := range missing {
			names = append(names, fmt.Sprintf("%q", plain(e.Path)))
		}
		slices.Sort(names)
		if len(names) > maxTold {
			names = append(names[:maxTold], fmt.Sprintf("and %d others", len(names)-maxTold))
		}
		return fmt.Errorf("these repositories are not where they were, and were not found among %d directories: %s; put them back, or remove %s if a person moved or removed them", maxSearched, strings.Join(names, ", "), p.record)
	}
	return nil
}

// save writes down what is known, if it has changed. Another server in the
// workspace may know more: what is still where it says stays.
func (p *Protector) save() error {
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
	if err := syncDir(filepath.Dir(p.record)); err != nil {
		return err
	}
	p.unsaved = false
	return nil
}

// A server that is killed while a command runs cannot take back what that made.
// So each server has a file beside the record while commands run, and until a
// walk has seen what they left. One that finds the file of another knows that
// what changed since may be a box's work. The other one is dead where it does not
// hold the lock of its file: that of the workspace a box can take, too.

// soil is called before a command, if no other runs here.
func (p *Protector) soil() error {
	now := fileClock()
	if p.unseen.IsZero() {
		p.unseen = now
	}
	if p.record == "" {
		return nil
	}
	if p.mark != "" {
		return os.Chtimes(p.mark, now, now)
	}
	if err := os.MkdirAll(filepath.Dir(p.record), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(p.record), ".new-*")
	if err != nil {
		return err
	}
	mark := p.record + runningSuffix + "-" + rand.Text()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.WriteString(p.unseen.Format(time.RFC3339Nano) + " " + p.ownGit())
	}
	if err == nil {
		err = os.Rename(f.Name(), mark)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	p.mark, p.lock = mark, f
	return nil
}

// ownGit tells the ".git" of the workspace itself from any other.
func (p *Protector) ownGit() string {
	dir, err := openDir(p.root, ".git", unix.O_PATH)
	if err != nil {
		return "none"
	}
	defer dir.Close()
	id, err := birthOf(dir)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(id.ino, "-", id.born)
}

// runningSuffix is between the name of a record and what tells the files of two
// servers from each other.
const runningSuffix = ".running"

// clean is called when nothing is left that a command made and that was not
// looked at, by this server or by one that was killed.
func (p *Protector) clean() error {
	for _, mark := range append(p.dead, p.mark) {
		if mark == "" {
			continue
		}
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.mark, p.dead = "", nil
	p.unlock()
	return nil
}

// unlock lets others know that this server runs no command.
func (p *Protector) unlock() {
	if p.lock != nil {
		p.lock.Close()
		p.lock = nil
	}
}

// doubt is what is known of commands of other servers that were not seen to
// end.
type doubt struct {
	marks []string  // their files
	alive bool      // one of these servers is
	last  time.Time // when they began, one at least; zero without such commands
	first time.Time // when the first of those began after which no walk has been everywhere
	made  bool      // the workspace itself has another ".git" than when they began
}

func (p *Protector) doubt() (d doubt, err error) {
	if p.record == "" {
		return d, nil
	}
	entries, err := os.ReadDir(filepath.Dir(p.record))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	for _, e := range entries {
		mark := filepath.Join(filepath.Dir(p.record), e.Name())
		if !strings.HasPrefix(e.Name(), filepath.Base(p.record)+runningSuffix) || mark == p.mark || slices.Contains(p.dead, mark) {
			continue
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // that server has just seen all
		case err != nil:
			return d, err
		}
		first := info.ModTime()
		if text, locked, err := readMark(mark); err == nil {
			d.alive = d.alive || locked
			began, git, _ := strings.Cut(text, " ")
			if t, err := time.Parse(time.RFC3339Nano, began); err == nil && t.Before(first) {
				first = t
			}
			d.made = d.made || git != p.ownGit()
		}
		d.marks = append(d.marks, mark)
		d.last, d.first = earlier(d.last, info.ModTime()), earlier(d.first, first)
	}
	return d, nil
}

// readMark reads the file of a server, and reports whether that lives.
func readMark(name string) (text string, locked bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	locked = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
	all := make([]byte, maxMarkText)
	n, err := f.Read(all)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(all[:n]), locked, err
}

// maxMarkText is more bytes than such a file has.
const maxMarkText = 256
