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
	"syscall"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/policies/audit"
)

// Summary describes a backup or a restore.
type Summary struct {
	Made  time.Time `json:"made"`
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"`
	// entries that are neither files nor directories, such as links and sockets
	Skipped []string `json:"skipped,omitempty"`
}

// manifest is the first entry of an archive, and ending is the last. Without an ending, an
// archive that was cut off between two entries would look complete.
type (
	manifest struct {
		Backup int       `json:"belljar_backup"` // version of the format
		Made   time.Time `json:"made"`
	}
	ending struct {
		Files int   `json:"files"`
		Bytes int64 `json:"bytes"`
	}
)

const (
	manifestName = "belljar-backup.json"
	endingName   = "belljar-backup-end.json"
	version      = 1
	copyPrefix   = "backup-" // prefix of the copy of the database, until the copy is in the archive
	databaseName = "belljar.db"
)

// Backup writes the saved parts of a state directory to w as a tar archive. Servers may run
// meanwhile: the database in the archive is a snapshot, and the audit log ends after a
// complete record of about the same time.
func Backup(ctx context.Context, dir string, w io.Writer) (Summary, error) {
	if err := ours(dir); err != nil {
		return Summary{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Summary{}, err
	}
	defer root.Close()
	b := backup{dir: dir, root: root, out: tar.NewWriter(w), Summary: Summary{Made: time.Now().UTC().Truncate(time.Second)}}
	if err := b.note(manifestName, manifest{version, b.Made}); err != nil {
		return Summary{}, err
	}
	entries, err := fs.ReadDir(b.root.FS(), ".")
	if err != nil {
		return Summary{}, err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case !saved(name):
			continue
		case name == databasePart:
			err = b.database(ctx)
		case name == auditPart:
			err = b.audit(ctx)
		default:
			err = b.tree(ctx, name)
		}
		if err != nil {
			return Summary{}, fmt.Errorf("back up %s: %w", e.Name(), err)
		}
	}
	if err := b.note(endingName, ending{b.Files, b.Bytes}); err != nil {
		return Summary{}, err
	}
	return b.Summary, b.out.Close()
}

// backup is a backup that is being written.
type backup struct {
	Summary

	dir  string
	root *os.Root // root of dir, which no name can leave
	out  *tar.Writer
}

// note adds a manifest or an ending.
func (b *backup) note(name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := b.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o600, ModTime: b.Made, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = b.out.Write(text)
	return err
}

// ours returns an error unless the directory belongs to this user: the servers could not
// use files that another user, such as root, creates in it.
func ours(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d; run this as that user", dir, sys.Uid)
	}
	return nil
}

// database adds a copy of the database.
func (b *backup) database(ctx context.Context) error {
	file := filepath.Join(b.dir, databasePart, fmt.Sprintf("%s%d", copyPrefix, os.Getpid()))
	_ = os.Remove(file) // left by a killed process with the same process ID
	s := store.New(b.dir)
	err := s.Copy(ctx, file)
	if err == nil {
		defer os.Remove(file)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := b.directory(databasePart); err != nil {
		return err
	}
	f, err := b.file(path.Join(databasePart, filepath.Base(file)))
	if err != nil || f == nil {
		return err
	}
	return b.add(path.Join(databasePart, databaseName), f)
}

// audit adds the log. Its files are opened, and their sizes taken, while no process writes
// to the log. Records that are appended later are not in the backup. A file that is then
// renamed or removed is still read. Recordings do not change, so they are read later.
func (b *backup) audit(ctx context.Context) error {
	var files []*regular
	var dirs []string
	err := audit.Hold(filepath.Join(b.dir, auditPart), func() error {
		entries, err := fs.ReadDir(b.root.FS(), auditPart)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, path.Join(auditPart, e.Name()))
				continue
			}
			f, err := b.file(path.Join(auditPart, e.Name()))
			if err != nil {
				return err
			}
			if f != nil {
				files = append(files, f)
			}
		}
		return nil
	})
	for i, f := range files {
		if err == nil && i == 0 {
			err = b.directory(auditPart)
		}
		if err == nil {
			err = b.add(f.name, f)
		} else {
			f.Close()
		}
	}
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := b.tree(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// tree adds the files and directories below a name.
func (b *backup) tree(ctx context.Context, top string) error {
	return fs.WalkDir(b.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != top {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if d.IsDir() {
			return b.directory(name)
		}
		f, err := b.file(name)
		if err != nil || f == nil {
			return err
		}
		return b.add(name, f)
	})
}

func (b *backup) directory(name string) error {
	info, err := b.root.Lstat(name)
	if err != nil {
		return err
	}
	return b.out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX})
}

// regular is an open regular file, with its name and the data of its inode when it was
// opened.
type regular struct {
	*os.File

	name string
	info fs.FileInfo
}

// file opens a regular file. It returns nil for any other kind of file, and if the file is
// gone.
func (b *backup) file(name string) (*regular, error) {
	info, err := b.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // see the comment of file
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		b.Skipped = append(b.Skipped, name)
		return nil, nil //nolint:nilnil // see the comment of file
	}
	// By now another kind of file may have this name: a link is not followed, and opening a
	// pipe does not block.
	f, err := b.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // see the comment of file
	}
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err != nil || !os.SameFile(info, now) {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s was replaced during the backup; try again", name))
	}
	return &regular{f, name, now}, nil
}

// add writes a file under a name, with the size that it had when it was opened, and closes
// it.
func (b *backup) add(name string, f *regular) error {
	defer f.Close()
	size := f.info.Size()
	if err := b.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(f.info.Mode().Perm()), ModTime: f.info.ModTime(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	if n, err := io.CopyN(b.out, f, size); err != nil {
		return fmt.Errorf("%s: %d of %d bytes: %w", name, n, size, err)
	}
	b.Files++
	b.Bytes += size
	return nil
}
