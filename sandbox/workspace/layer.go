package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The directories of a layer: its content, and the work directory of overlayfs.
const (
	upperDir = "upper"
	workDir  = "work"
)

func isLayerName(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// newLayer makes an empty layer for a set. The layer belongs to the owner of the base. The
// caller holds the store's lock.
func (d *directory) newLayer(m *meta) (string, error) {
	id := newID()
	if err := d.layerAt(layersDir, id, m); err != nil {
		return "", err
	}
	return id, nil
}

// layerAt makes an empty layer in a directory.
func (d *directory) layerAt(dir, name string, m *meta) error {
	at := dir + "/" + name
	err := unix.Mkdirat(int(d.root.Fd()), at, 0o700)
	if err == nil {
		if err = d.furnish(at, m); err != nil {
			_ = d.trash(dir, name)
		}
	}
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return nil
}

func (d *directory) furnish(at string, m *meta) error {
	for _, name := range []string{upperDir, workDir} {
		if err := unix.Mkdirat(int(d.root.Fd()), at+"/"+name, 0o700); err != nil {
			return err
		}
		dir, err := openDir(d.root, at+"/"+name)
		if err != nil {
			return err
		}
		err = d.fit(dir, m)
		dir.Close()
		if err != nil {
			return err
		}
	}
	dir, err := openDir(d.root, at)
	if err != nil {
		return err
	}
	defer dir.Close()
	return own(dir, m)
}

// fit gives a directory of a layer its owner and permissions. It checks that the directory
// takes the attributes that are needed to replace a directory.
func (d *directory) fit(dir *os.File, m *meta) error {
	const probe = overlayPrefix + "belljar"
	if err := unix.Fsetxattr(int(dir.Fd()), probe, []byte("y"), 0); err != nil {
		return fmt.Errorf("the file system of %s takes no user attributes: %w; name a directory on ext4, xfs, btrfs or (since Linux 6.6) tmpfs with --state", d.path, err)
	}
	if err := unix.Fremovexattr(int(dir.Fd()), probe); err != nil {
		return err
	}
	// A box sees the permissions of the upper directory as those of its workspace.
	// They do not decide who can read the store.
	if err := unix.Fchmod(int(dir.Fd()), m.Perm); err != nil {
		return err
	}
	return own(dir, m)
}

// own gives a file to the owner of the base. Only root can do that; another user
// keeps its files.
func own(f *os.File, m *meta) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(m.UID), int(m.GID))
}

// upper opens the upper directory of a layer.
func (d *directory) upper(layer string) (*os.File, error) {
	return openDir(d.root, filepath.Join(layersDir, layer, upperDir))
}

// empty reports whether a layer has no changes.
func (d *directory) empty(layer string) (bool, error) {
	dir, err := d.upper(layer)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := listSome(dir)
	return len(names) == 0, err
}
