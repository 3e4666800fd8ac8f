package protect

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A server that is killed while a command runs cannot revert what the command made. So each
// server has a file next to the record while commands run, and until a walk has seen what
// they left. A server that finds the file of another one knows that what changed since may
// be a box's work. The other server is dead if it does not hold the lock of its file. The
// lock of the workspace would not show that, because a box can take it too.

// servers are the servers that run commands in a workspace, this one and others. The
// Protector's mu guards it.
type servers struct {
	root   *os.File // directory of the workspace
	record string   // each server has its file next to this one; empty for no files
	own    string   // path of this server's file, which says that commands run; empty while it does not exist
	lock   *os.File // this server's file, open and locked
	dead   []string // paths of the files of killed servers, which this server has taken over
}

// begin is called before a command, if no other command runs here. unseen is when the first
// command began after which no walk has been everywhere, this command included.
func (s *servers) begin(now, unseen time.Time) error {
	if s.record == "" {
		return nil
	}
	if s.own != "" {
		return os.Chtimes(s.own, now, now)
	}
	if err := os.MkdirAll(filepath.Dir(s.record), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.record), ".new-*")
	if err != nil {
		return err
	}
	mark := s.record + runningSuffix + "-" + rand.Text()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.WriteString(unseen.Format(time.RFC3339Nano) + " " + s.ownGit())
	}
	if err == nil {
		err = os.Rename(f.Name(), mark)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	s.own, s.lock = mark, f
	return nil
}

// ownGit returns a text that identifies the ".git" of the workspace itself.
func (s *servers) ownGit() string {
	dir, err := openDir(s.root, ".git", unix.O_PATH)
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

// runningSuffix stands between the name of a record and the random text that distinguishes
// the files of servers.
const runningSuffix = ".running"

// end is called when everything that commands made was looked at, those of this server and
// those of servers that were killed.
func (s *servers) end() error {
	for _, mark := range append(s.dead, s.own) {
		if mark == "" {
			continue
		}
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.own, s.dead = "", nil
	s.unlock()
	return nil
}

// unlock shows other servers that this server runs no command.
func (s *servers) unlock() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// doubt is what is known about the commands of other servers whose end was not seen.
type doubt struct {
	marks []string  // paths of the files of these servers
	alive bool      // whether one of these servers is alive
	last  time.Time // earliest time at which one of these servers began to run commands; zero without such servers
	first time.Time // earliest time at which a command began after which no walk has been everywhere
	made  bool      // whether the workspace itself has another ".git" than when they began
}

// others returns what other servers run in the workspace, or ran when they were killed.
func (s *servers) others() (d doubt, err error) {
	if s.record == "" {
		return d, nil
	}
	entries, err := os.ReadDir(filepath.Dir(s.record))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	for _, e := range entries {
		mark := filepath.Join(filepath.Dir(s.record), e.Name())
		if !strings.HasPrefix(e.Name(), filepath.Base(s.record)+runningSuffix) || mark == s.own || slices.Contains(s.dead, mark) {
			continue
		}
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // that server has just seen everything
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
			d.made = d.made || git != s.ownGit()
		}
		d.marks = append(d.marks, mark)
		d.last, d.first = earlier(d.last, info.ModTime()), earlier(d.first, first)
	}
	return d, nil
}

// inherit takes over the files of servers that were killed, and reports whether there are
// any. The walk must then judge what their commands made in the depth.
func (s *servers) inherit(killed doubt) bool {
	s.dead = append(s.dead, killed.marks...)
	return len(killed.marks) > 0
}

// readMark reads the file of a server, and reports whether that server is alive.
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

// maxMarkText is how many bytes are read of such a file, which is shorter.
const maxMarkText = 256
