package statedir

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/store"
)

// Bounds of an archive. Archives of Backup are far below them.
const (
	maxEntries = 1_000_000 // files and directories
	maxBytes   = 64 << 30
	maxNote    = 4096 // most bytes of a manifest or an ending
)

// ErrThere is the error for a state directory that is not empty and must not be replaced.
var ErrThere = errors.New("the directory already contains a state")

// Restore makes a state directory from an archive. It reads and checks the whole archive
// before it changes the directory. If the directory is not empty, it is moved aside, and
// aside is its new path; the parts that no backup contains (images and layers of
// workspaces) are moved back from there. If replace is not set, the error for such a
// directory wraps ErrThere. The caller must make sure that no server runs on the directory.
func Restore(ctx context.Context, dir string, r io.Reader, replace bool) (_ Summary, aside string, err error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	old, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return Summary{}, "", err
		}
	case err != nil:
		return Summary{}, "", err
	default:
		if err := ours(dir); err != nil {
			return Summary{}, "", err
		}
		if len(old) > 0 && !replace {
			return Summary{}, "", fmt.Errorf("%s: %w", dir, ErrThere)
		}
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".restoring-")
	if err != nil {
		return Summary{}, "", err
	}
	defer os.RemoveAll(fresh) // does nothing after the move
	sum, err := unpack(ctx, fresh, r, maxEntries)
	if err != nil {
		return Summary{}, "", fmt.Errorf("read the backup: %w", err)
	}
	if err := check(ctx, fresh); err != nil {
		return Summary{}, "", fmt.Errorf("read the backup: %w", err)
	}
	if aside, err = move(dir, fresh); err != nil {
		return Summary{}, aside, err
	}
	return sum, aside, nil
}

// move puts the directory fresh in the place of dir, which is moved aside if it is not
// empty. After a loss of power, one of the two is there.
func move(dir, fresh string) (aside string, err error) {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // fails if the directory is not empty
		aside = dir + ".before-" + time.Now().UTC().Format("20060102T150405Z")
		if err := os.Rename(dir, aside); err != nil {
			return "", err
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, dir))
		}
		return "", err
	}
	if aside == "" {
		return "", diskfile.SyncDir(filepath.Dir(dir))
	}
	for _, p := range Parts() {
		if p.Saved || p.Name == serversPart {
			continue
		}
		if err := os.Rename(filepath.Join(aside, p.Name), filepath.Join(dir, p.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, err
		}
	}
	return aside, errors.Join(diskfile.SyncDir(dir), diskfile.SyncDir(filepath.Dir(dir)))
}

// check opens the unpacked database as a server would.
func check(ctx context.Context, dir string) error {
	if _, err := os.Lstat(store.Path(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s := store.New(dir)
	return errors.Join(s.Check(ctx), s.Close())
}

// unpack reads an archive into an empty directory. The archive may come from anywhere: each
// of its names is in a saved part, each entry is a directory or file of this user, no entry
// has permissions for other users, and there are at most as many entries as most says.
func unpack(ctx context.Context, dir string, r io.Reader, most int) (Summary, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Summary{}, err
	}
	defer root.Close()
	in := tar.NewReader(r)
	sum, err := readManifest(in)
	if err != nil {
		return Summary{}, err
	}
	for entries := 1; ; entries++ {
		h, err := in.Next()
		if err != nil {
			return Summary{}, whole(err)
		}
		if h.Name == endingName {
			return sum, readEnding(in, h, sum)
		}
		if ctx.Err() != nil {
			return Summary{}, context.Cause(ctx)
		}
		name := path.Clean(h.Name)
		top, _, _ := strings.Cut(name, "/")
		if !filepath.IsLocal(h.Name) || !saved(top) {
			return Summary{}, fmt.Errorf("entry %.200q is not part of a state", h.Name)
		}
		if entries > most || h.Size > maxBytes-sum.Bytes {
			return Summary{}, fmt.Errorf("it has more than %d files and directories or %d bytes", most, int64(maxBytes))
		}
		mode := fs.FileMode(h.Mode) & 0o700
		switch h.Typeflag {
		case tar.TypeDir:
			if err := root.Mkdir(name, mode|0o700); err != nil {
				return Summary{}, err
			}
		case tar.TypeReg:
			sum.Files++
			sum.Bytes += h.Size
			if err := writeFile(root, name, mode|0o400, in); err != nil {
				return Summary{}, whole(err)
			}
			if err := root.Chtimes(name, h.ModTime, h.ModTime); err != nil {
				return Summary{}, err
			}
		default:
			return Summary{}, fmt.Errorf("entry %.200q is neither a file nor a directory", h.Name)
		}
	}
}

// whole returns err, or another error if the archive ends too early.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut off")
	}
	return err
}

var errNoBackup = errors.New("it is not a backup of belljar")

func readManifest(in *tar.Reader) (Summary, error) {
	h, err := in.Next()
	switch {
	case errors.Is(err, io.EOF):
		return Summary{}, errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrHeader):
		return Summary{}, errNoBackup
	case err != nil:
		return Summary{}, err
	}
	var m manifest
	if h.Name != manifestName || h.Size > maxNote {
		return Summary{}, errNoBackup
	}
	if err := json.NewDecoder(in).Decode(&m); err != nil || m.Backup < 1 {
		return Summary{}, errNoBackup
	}
	if m.Backup > version {
		return Summary{}, fmt.Errorf("it has the form %d, and this belljar knows %d; use a newer one", m.Backup, version)
	}
	return Summary{Made: m.Made}, nil
}

// readEnding checks that an archive has all the files that its ending counts.
func readEnding(in *tar.Reader, h *tar.Header, sum Summary) error {
	var e ending
	if h.Size > maxNote || json.NewDecoder(in).Decode(&e) != nil || e.Files != sum.Files || e.Bytes != sum.Bytes {
		return errors.New("its files are not those that it lists")
	}
	return nil
}

// writeFile makes a file, and returns when the file is on the disk.
func writeFile(root *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from) // tar.Reader reads at most the size in the header
	return errors.Join(err, f.Sync(), f.Close())
}
