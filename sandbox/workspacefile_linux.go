package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
)

// OpenFile opens a regular file of the workspace for reading. The name is the absolute path
// that the file would have in a box with this grant. Changes in an overlay are not seen. As
// with Box.OpenFile, no link is followed. A name outside of the workspace is
// fs.ErrNotExist.
func (w *Workspace) OpenFile(g policies.Grant, name string) (*os.File, error) {
	bad := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: err} }
	if _, err := insideRoot(name); err != nil {
		return bad(err)
	}
	below, inside := strings.CutPrefix(name, WorkspaceDir+"/")
	if !inside || below == "" || g.Workspace() == policies.AccessNone || w.dir == "" {
		return bad(unix.ENOENT)
	}
	dir, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return bad(err)
	}
	defer unix.Close(dir)
	fd, err := openat2(dir, below, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return bad(ErrLink)
	case err != nil:
		return bad(err)
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return bad(ErrNotPlain)
	}
	return f, nil
}
