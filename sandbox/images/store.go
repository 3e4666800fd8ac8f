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

// Errors that callers distinguish.
var (
	// ErrUnknown is returned if no image has the name.
	ErrUnknown = errors.New("no such image")
	// ErrInUse is returned if a box still uses the image.
	ErrInUse = errors.New("a box uses it")
)

// Config is where a Store is and what an image may contain. The bounds default to 8 GiB and
// 500,000 entries.
type Config struct {
	Dir     string // made if it does not exist; only the caller's user may read it
	Bytes   int64  // bytes of all files of an image, unpacked
	Entries int    // entries of all layers of an image together
}

// Store is a directory of images. Its methods are safe for concurrent use,
// also by several processes.
type Store struct {
	cfg Config
}

// Image is what a store knows about an image.
type Image struct {
	Name string `json:"name"`
	// "sha256:HEX": digest of the manifest, of docker's configuration, or of a plain
	// archive without its compression
	Digest  string    `json:"digest"`
	Bytes   int64     `json:"bytes"`   // bytes of all files that were unpacked
	Entries int       `json:"entries"` // number of entries in all layers
	Created time.Time `json:"created"` // time when it was unpacked
	Runtime Runtime   `json:"runtime"`
	Dropped Dropped   `json:"dropped"`
}

// Dropped counts what was left out of an image while it was unpacked.
type Dropped struct {
	Devices int `json:"devices"` // devices, and everything else below /dev, because a box has its own /dev
	Setuid  int `json:"setuid"`  // files that lost a setuid or setgid bit
	Xattrs  int `json:"xattrs"`  // extended attributes, including file capabilities
}

const (
	namesDir   = "names"
	treesDir   = "trees"
	tmpDir     = "tmp"
	lockName   = "lock"
	importLock = "import.lock"
	rootName   = "root"
	recordName = "image.json"

	maxRecord = 1 << 20 // bytes of a record of the store
	maxImages = 4096    // number of names that are listed
	maxNameOf = 200     // bytes of a name
)

// Open opens the store in cfg.Dir and removes what imports that were killed have left
// there. A Store need not be closed.
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
	if l, err := tryLock(s.path(importLock)); err == nil { // otherwise an import runs, which has cleaned up before
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

// sweep empties tmp. The caller holds the import lock.
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

// nameForm is the form of the names of images. Policies use the same form for fs.image.
var nameForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]+(?:[._/-][a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)
})

// CheckName returns what is wrong with a name of an image.
func CheckName(name string) error {
	if len(name) > maxNameOf || !nameForm().MatchString(name) {
		return fmt.Errorf("image name %.80q: a name is up to %d lower-case letters and digits, with single dots, dashes, slashes and underscores between them and perhaps a tag, for example debian or tools/go:1.26", name, maxNameOf)
	}
	return nil
}

// nameFile returns the file that a name is kept in; no name contains an "@".
func nameFile(name string) string { return strings.ReplaceAll(name, "/", "@") }

// digestDir returns the directory of trees for a digest.
func digestDir(digest string) (string, error) {
	hash, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(hash); !ok || err != nil || len(b) != sha256.Size || strings.ToLower(hash) != hash {
		return "", fmt.Errorf("digest %q is not sha256: and 64 hexadecimal digits", digest)
	}
	return "sha256-" + hash, nil
}

// Get returns the image of that name. The error wraps ErrUnknown if no image has the name.
func (s *Store) Get(name string) (Image, error) {
	if err := CheckName(name); err != nil {
		return Image{}, fmt.Errorf("%w: %w", err, ErrUnknown)
	}
	digest, err := s.digest(name)
	if err != nil {
		return Image{}, err
	}
	img, err := s.record(digest)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, err)
	}
	img.Name = name
	return img, nil
}

// digest returns the digest that a name stands for.
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

// record returns what is known about a tree.
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

// readSmall reads a small file of the store.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, maxRecord)
}

// readBounded reads all of r, and fails if that is more than limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return []byte(b.String()), err
}

// List returns all images, in the order of their names.
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
		// A name that is half written begins with a dot.
		if name := strings.ReplaceAll(e.Name(), "@", "/"); CheckName(name) == nil {
			names = append(names, name)
		}
	}
	if len(names) > maxImages {
		return nil, fmt.Errorf("list images: more than %d names; remove some", maxImages)
	}
	return names, nil
}

// Remove removes a name, and its tree if the tree has no other name. The error is
// ErrUnknown, or ErrInUse if a box uses the tree.
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
		return drop() // the tree has other names, or the digest is not valid
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

// users returns how many names stand for each digest. The caller holds the lock.
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

// lockTree makes sure that nobody uses a tree, and that nobody begins to use it while the
// file is open.
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

// discard removes a locked tree. It first moves the tree away in one step, so that no half
// of it is ever found in its place. The caller holds the lock. A sweep may remove the tree
// at the same time.
func (s *Store) discard(dir string) error {
	away := s.path(tmpDir, "remove-"+dir)
	err := os.RemoveAll(away) // a killed process may have left something there
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
		if err != nil { // the tree has no readable record, so only its digest is known
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
