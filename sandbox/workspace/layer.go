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

// isLayerName reports whether a name can be one of newID, so that it leads nowhere else.
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

// layerAt makes an empty layer in the directory dir of the store.
func (d *directory) layerAt(dir, name string, m *meta) error {
	at := dir + "/" + name
	err := unix.Mkdirat(int(d.root.Fd()), at, 0o700)
	if err == nil {
		if err = d.fill(at, m); err != nil {
			_ = d.trash(dir, name)
		}
	}
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	return nil
}

// fill makes the directories in a layer, and gives the layer its owner.
func (d *directory) fill(at string, m *meta) error {
	for _, name := range []string{upperDir, workDir} {
		if err := unix.Mkdirat(int(d.root.Fd()), at+"/"+name, 0o700); err != nil {
			return err
		}
		dir, err := openDir(d.root, at+"/"+name)
		if err != nil {
			return err
		}
		err = d.prepareDir(dir, m)
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

// prepareDir gives a directory of a layer its owner and permissions. It fails if the file
// system does not keep the attributes by which overlayfs marks a replaced directory.
func (d *directory) prepareDir(dir *os.File, m *meta) error {
	const probe = overlayPrefix + "belljar"
	if err := unix.Fsetxattr(int(dir.Fd()), probe, []byte("y"), 0); err != nil {
		return fmt.Errorf("the file system of %s does not support user extended attributes: %w; name a directory on ext4, xfs, btrfs or (since Linux 6.6) tmpfs with --state", d.path, err)
	}
	if err := unix.Fremovexattr(int(dir.Fd()), probe); err != nil {
		return err
	}
	// A box sees the permissions of the upper directory as those of its workspace. They
	// open nothing to other users of the host: the store itself is closed to them.
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
