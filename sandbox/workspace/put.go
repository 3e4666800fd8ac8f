package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// errMoved means that the base has changed since it was compared.
var errMoved = errors.New("it was changed in the workspace during the apply")

// put gives one path of the base the state that it has in the set.
func (a *applying) put(ctx context.Context, c *Change) error {
	dir, name, err := parentOf(a.base, c.name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := a.still(c, dir, name); err != nil {
		return err
	}
	if isRegular(c.was) && c.was.Nlink > 1 {
		a.linked[c.was.Ino] = true
	}
	fd := int(dir.Fd())
	switch {
	case c.Kind == Deleted && c.Type == typeDir:
		return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
	case c.Kind == Deleted:
		return unix.Unlinkat(fd, name, 0)
	case c.Type == typeDir && c.was == nil:
		return a.mkdir(c, dir, name)
	case c.Type == typeDir && c.WasType != "":
		return a.replaceByDir(c, dir, name)
	case c.Type == typeDir:
		return nil // run sets the permissions of directories last
	case c.Kind == Mode:
		return a.chmod(c)
	case c.Kind == Touched:
		return a.touch(c, dir, name)
	case c.WasType == typeDir:
		// The entries of the directory were removed before.
		if err := unix.Unlinkat(fd, name, unix.AT_REMOVEDIR); err != nil {
			return err
		}
	}
	return a.replace(ctx, c, dir, name)
}

// still checks that a path of the base has not changed since it was compared.
func (a *applying) still(c *Change, dir *os.File, name string) error {
	now, err := statAt(dir, name)
	switch {
	case err != nil:
		return err
	case (now == nil) != (c.was == nil):
		return errMoved
	case now == nil || isDir(now) && isDir(c.was):
		return nil // a directory changes with its entries
	case now.Ino == c.was.Ino && a.linked[now.Ino]:
		// Another name of the same file was just applied, which changed the ctime.
		if now.Size != c.was.Size || now.Mtim != c.was.Mtim {
			return errMoved
		}
	case now.Ino != c.was.Ino || now.Ctim != c.was.Ctim:
		return errMoved
	}
	return nil
}

// scratch returns a name for a scratch file. Nothing else in the base has that name.
func (a *applying) scratch() string {
	a.last++
	return scratchPrefix + a.token + "-" + strconv.Itoa(a.last)
}

// ours gives a directory that is not in its place yet the owner of the base and a mode.
func (a *applying) ours(dir *os.File, name string, mode uint32) error {
	f, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := own(f, &a.meta); err != nil {
		return err
	}
	return unix.Fchmod(int(f.Fd()), mode)
}

// mkdir makes a directory at a path where nothing exists.
func (a *applying) mkdir(c *Change, dir *os.File, name string) error {
	_, err := a.putDir(c, dir, name, unix.RENAME_NOREPLACE)
	return moved(err)
}

// replaceByDir replaces a file or a link by a directory.
func (a *applying) replaceByDir(c *Change, dir *os.File, name string) error {
	before, err := a.putDir(c, dir, name, unix.RENAME_EXCHANGE)
	if err != nil {
		return err
	}
	return unix.Unlinkat(int(dir.Fd()), before, 0)
}

// putDir makes a directory, which its owner can write until it is filled, and renames it to
// name. before is the name that the earlier file has after RENAME_EXCHANGE.
func (a *applying) putDir(c *Change, dir *os.File, name string, flags uint) (before string, err error) {
	scratch := a.scratch()
	if err := unix.Mkdirat(int(dir.Fd()), scratch, 0o700); err != nil {
		return "", err
	}
	err = a.ours(dir, scratch, c.st.Mode&0o777|0o700)
	if err == nil {
		err = unix.Renameat2(int(dir.Fd()), scratch, int(dir.Fd()), name, flags)
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), scratch, unix.AT_REMOVEDIR)
	}
	return scratch, err
}

// replace puts a file or a link into its place, over a present file or link.
func (a *applying) replace(ctx context.Context, c *Change, dir *os.File, name string) error {
	scratch := a.scratch()
	err := a.makeFile(ctx, c, dir, scratch)
	if err == nil && (c.was == nil || isDir(c.was)) {
		err = moved(unix.Renameat2(int(dir.Fd()), scratch, int(dir.Fd()), name, unix.RENAME_NOREPLACE))
	} else if err == nil {
		err = unix.Renameat(int(dir.Fd()), scratch, int(dir.Fd()), name)
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), scratch, 0)
	}
	return err
}

// moved returns errMoved for a rename onto a path at which nothing should exist.
func moved(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return errMoved
	}
	return err
}

// makeFile makes a copy of the file of the set under a scratch name.
func (a *applying) makeFile(ctx context.Context, c *Change, dir *os.File, scratch string) error {
	if c.Type == typeLink {
		if err := unix.Symlinkat(c.Target, int(dir.Fd()), scratch); err != nil {
			return err
		}
		if os.Geteuid() != 0 {
			return nil
		}
		return unix.Fchownat(int(dir.Fd()), scratch, int(a.meta.UID), int(a.meta.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
	if c.Type != typeFile {
		return fmt.Errorf("a %s is never applied", c.Type)
	}
	from, err := openFile(a.layers[c.layer].dir, c.name)
	if err != nil {
		return err
	}
	defer from.Close()
	fd, err := unix.Openat(int(dir.Fd()), scratch, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), scratch)
	defer to.Close()
	content := from
	if c.Kind == Attr { // with the content of the set, a box could change the content as well
		if content, err = openFile(a.base, c.name); err != nil {
			return err
		}
		defer content.Close()
	}
	if err := steady(to, content, nil); err != nil {
		return err
	}
	all, err := attrs(from)
	if err != nil {
		return err
	}
	if a.shown != nil {
		if err := a.shown.check(ctx, c, to, all); err != nil {
			return err
		}
	}
	return a.finishFile(to, all, c.st)
}

// finishFile gives a copy its attributes, and the permissions and the time that the
// comparison found.
func (a *applying) finishFile(to *os.File, all map[string]string, st *unix.Stat_t) error {
	for name, value := range all {
		if err := unix.Fsetxattr(int(to.Fd()), name, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("set attribute %q: %w", name, err)
		}
	}
	if err := own(to, &a.meta); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), st.Mode&0o777); err != nil {
		return err
	}
	if err := setTimes(to, st); err != nil {
		return err
	}
	return to.Sync()
}

// chmod gives a path of the base the permissions that it has in the set.
func (a *applying) chmod(c *Change) error {
	if isDir(c.st) && c.Kind == Added && c.st.Mode&0o777 == c.st.Mode&0o777|0o700 {
		return nil // the directory was made with them
	}
	fd, err := openBeneath(a.base, c.name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	if kindOf(&now) != kindOf(c.st) {
		return errMoved
	}
	// A descriptor with O_PATH can be changed only by this name (openat(2), O_PATH).
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), c.st.Mode&0o777); err != nil {
		return err
	}
	if isRegular(c.st) {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, c.st.Mtim}
		return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	}
	return nil
}

func (a *applying) touch(c *Change, dir *os.File, name string) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, c.st.Mtim}
	return unix.UtimesNanoAt(int(dir.Fd()), name, times, unix.AT_SYMLINK_NOFOLLOW)
}
