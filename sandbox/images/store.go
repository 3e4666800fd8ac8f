// Package images keeps root file systems for boxes: it takes them from OCI
// image layouts, from what `docker save` writes and from plain tar archives,
// and unpacks each once.
//
// The maker of an image is not trusted. The package uses nothing of an image
// before it has checked the digest. Nothing in an image can name a file outside
// the directory that it is unpacked into. Its size and the number of its entries
// are bounded. An image that breaks the rules is refused as a whole, with an error
// that names the entry, and leaves nothing behind.
//
// A Store is a directory:
//
//	names/NAME              the digest of the image with that name
//	trees/sha256-HEX/root   an unpacked file system, shared by all its boxes
//	trees/sha256-HEX/image.json
//	tmp/                    unfinished imports
//	lock, import.lock       flock(2): of the names and trees; of tmp
//
// A tree is moved into trees by one rename, so it is either complete or absent. A
// process that uses a tree holds a shared flock on its directory; the lock ends
// with the process.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Errors that callers tell apart.
var (
	// ErrUnknown is that no image has the name.
	ErrUnknown = errors.New("no such image")
	// ErrInUse is that a box still uses the image.
	ErrInUse = errors.New("a box uses it")
)

// Config is where a Store is and what an image may hold. The bounds default to
// 8 GiB and 500,000 entries.
type Config struct {
	Dir     string // made if need be, for the caller's eyes only
	Bytes   int64  // of all files of an image, as they are unpacked
	Entries int    // of all layers of an image together
}

// Store is a directory of images. Its methods are safe for concurrent use,
// also by several processes.
type Store struct {
	cfg Config
}

// Image is what a store knows of an image.
type Image struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`  // "sha256:HEX": of the manifest, of docker's configuration, or of a plain archive without its compression
	Bytes   int64     `json:"bytes"`   // of all files that were unpacked
	Entries int       `json:"entries"` // of all layers
	Created time.Time `json:"created"` // when it was unpacked
	Runtime Runtime   `json:"runtime"`
	Dropped Dropped   `json:"dropped"`
}

// Dropped counts what of an image was left out while it was unpacked.
type Dropped struct {
	Devices int `json:"devices"` // devices, and all else below /dev, because a box has its own /dev
	Setuid  int `json:"setuid"`  // files that lost a setuid or setgid bit
	Xattrs  int `json:"xattrs"`  // extended attributes, file capabilities among them
}

const (
	namesDir   = "names"
	treesDir   = "trees"
	tmpDir     = "tmp"
	lockName   = "lock"
	importLock = "import.lock"
	rootName   = "root"
	recordName = "image.json"

	maxRecord = 1 << 20 // bytes of a record of ours
	maxImages = 4096    // names that are listed
	maxNameOf = 200     // bytes of a name
)

// Open opens the store in cfg.Dir and removes what imports that were killed
// have left there. A Store holds nothing that would need to be closed.
func Open(cfg Config) (*Store, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = 8 << 30
	}
	if cfg.Entries == 0 {
		cfg.Entries = 500_000
	}
	if cfg.Bytes < 0 || cfg.Entries < 0 || !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("open image store %q: it needs an absolute path and bounds above zero", cfg.Dir)
	}
	s := &Store{cfg}
	for _, dir := range []string{"", namesDir, treesDir, tmpDir} {
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	info, err := os.Lstat(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("open image store %s: it must be a directory of yours that is closed to others (mode 0700)", cfg.Dir)
	}
	if l, err := tryLock(s.path(importLock)); err == nil { // else somebody imports, and cleaned up first
		defer l.Close()
		if err := s.sweep(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, elem...)...)
}

// sweep empties tmp. The import lock is held.
func (s *Store) sweep() error {
	left, err := os.ReadDir(s.path(tmpDir))
	if err != nil {
		return fmt.Errorf("clean up the image store: %w", err)
	}
	for _, e := range left {
		if err := os.RemoveAll(s.path(tmpDir, e.Name())); err != nil {
			return fmt.Errorf("clean up the image store: %w", err)
		}
	}
	return nil
}

// nameForm is the form of names, the one that policies take as fs.image.
var nameForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]+(?:[._/-][a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)
})

// CheckName says what is wrong with a name of an image.
func CheckName(name string) error {
	if len(name) > maxNameOf || !nameForm().MatchString(name) {
		return fmt.Errorf("image name %.80q: a name is up to %d small letters and digits, with single dots, dashes, slashes and underscores between them and perhaps a tag, as in debian or tools/go:1.26", name, maxNameOf)
	}
	return nil
}

// nameFile is the file that a name is kept in; no name has an "@".
func nameFile(name string) string { return strings.ReplaceAll(name, "/", "@") }

// digestDir is the directory of trees that a digest stands for.
func digestDir(digest string) (string, error) {
	hash, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(hash); !ok || err != nil || len(b) != sha256.Size || strings.ToLower(hash) != hash {
		return "", fmt.Errorf("digest %q is not sha256: and 64 hexadecimal digits", digest)
	}
	return "sha256-" + hash, nil
}

// Get is the image of that name, or an error that is ErrUnknown.
func (s *Store) Get(name string) (Image, error) {
	if err := CheckName(name); err != nil {
		return Image{}, fmt.Errorf("%w: %w", err, ErrUnknown)
	}
	digest, err := s.digest(name)
	if err != nil {
		return Image{}, err
	}
	img, err := s.record(digest)
	img.Name = name
	return img, err
}

// digest is what a name stands for.
func (s *Store) digest(name string) (string, error) {
	text, err := readSmall(s.path(namesDir, nameFile(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("image %q: %w", name, ErrUnknown)
	}
	if err != nil {
		return "", fmt.Errorf("read image %q: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// record is what is known of a tree.
func (s *Store) record(digest string) (Image, error) {
	dir, err := digestDir(digest)
	if err != nil {
		return Image{}, fmt.Errorf("read image: %w", err)
	}
	text, err := readSmall(s.path(treesDir, dir, recordName))
	if err != nil {
		return Image{}, fmt.Errorf("read image: %w; import it again", err)
	}
	var img Image
	if err := json.Unmarshal(text, &img); err != nil {
		return Image{}, fmt.Errorf("read image %s: %w; import it again", digest, err)
	}
	return img, nil
}

// readSmall is a file of ours.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, maxRecord)
}

// readBounded is all of r, or an error where that is more than limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return []byte(b.String()), err
}

// List is all images, by name.
func (s *Store) List() ([]Image, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	images := make([]Image, 0, len(names))
	for _, name := range names {
		img, err := s.Get(name)
		if errors.Is(err, ErrUnknown) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return images, nil
}

func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(s.path(namesDir))
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		// A half written one begins with a dot.
		if name := strings.ReplaceAll(e.Name(), "@", "/"); CheckName(name) == nil {
			names = append(names, name)
		}
	}
	if len(names) > maxImages {
		return nil, fmt.Errorf("list images: more than %d names; remove some", maxImages)
	}
	return names, nil
}

// Remove removes a name, and its tree if the tree has no other name. The
// error is ErrUnknown, or ErrInUse where a box uses the tree.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	l, err := lock(ctx, s.path(lockName))
	if err != nil {
		return err
	}
	defer l.Close()
	digest, err := s.digest(name)
	if err != nil {
		return err
	}
	users, err := s.users()
	if err != nil {
		return err
	}
	drop := func() error {
		if err := os.Remove(s.path(namesDir, nameFile(name))); err != nil {
			return fmt.Errorf("remove image %q: %w", name, err)
		}
		return nil
	}
	dir, err := digestDir(digest)
	if err != nil || users[digest] > 1 {
		return drop() // a name for nothing may go as well
	}
	t, err := s.lockTree(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return drop()
	}
	if err != nil {
		return fmt.Errorf("remove image %q: %w", name, err)
	}
	defer t.Close()
	if err := drop(); err != nil {
		return err
	}
	return s.discard(dir)
}

// users is how many names stand for each digest. The lock is held.
func (s *Store) users() (map[string]int, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	users := map[string]int{}
	for _, name := range names {
		digest, err := s.digest(name)
		if err != nil {
			return nil, err
		}
		users[digest]++
	}
	return users, nil
}

// lockTree makes sure that nobody uses a tree, and that nobody begins to while
// the file is open.
func (s *Store) lockTree(dir string) (*os.File, error) {
	f, err := os.Open(s.path(treesDir, dir))
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		f.Close()
		if errors.Is(err, errBusy) {
			err = ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// discard removes a tree that is locked: first out of the way in one step, so
// that no half of it is ever found where it was. The lock is held. A
// sweep may remove it at the same time.
func (s *Store) discard(dir string) error {
	away := s.path(tmpDir, "remove-"+dir)
	err := os.RemoveAll(away) // what a kill may have left there
	if err == nil {
		err = os.Rename(s.path(treesDir, dir), away)
	}
	if err == nil {
		err = os.RemoveAll(away)
	}
	if err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	return nil
}

// Prune removes the trees that no name stands for and no box uses, and returns what it
// removed.
func (s *Store) Prune(ctx context.Context) ([]Image, error) {
	l, err := lock(ctx, s.path(lockName))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	trees, err := os.ReadDir(s.path(treesDir))
	if err != nil {
		return nil, fmt.Errorf("prune images: %w", err)
	}
	gone := []Image{}
	for _, e := range trees {
		digest := strings.Replace(e.Name(), "-", ":", 1)
		if users[digest] > 0 {
			continue
		}
		t, err := s.lockTree(e.Name())
		if errors.Is(err, ErrInUse) {
			continue
		}
		if err != nil {
			return gone, fmt.Errorf("prune images: %w", err)
		}
		img, err := s.record(digest)
		if err != nil { // it is in nobody's way, but it is nothing
			img = Image{Digest: digest}
		}
		err = s.discard(e.Name())
		t.Close()
		if err != nil {
			return gone, err
		}
		gone = append(gone, img)
	}
	return gone, nil
}
