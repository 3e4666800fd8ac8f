package workspace

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Kind is the way in which a path changed.
type Kind string

// The values of Kind.
const (
	Added    Kind = "added"
	Modified Kind = "modified" // its content or its type changed
	Deleted  Kind = "deleted"
	Mode     Kind = "mode"  // only its permissions changed
	Attr     Kind = "attr"  // only its user extended attributes changed (xattr(7))
	Touched  Kind = "times" // only the modification time differs (mtime)
)

// The values of Change.Type.
const (
	typeFile   = "file"
	typeDir    = "directory"
	typeLink   = "symlink"
	typeFIFO   = "fifo"
	typeSocket = "socket"
	typeDevice = "device"
)

// Change is one path that differs between the set and the base. A rename is a
// deletion and an addition. An added or deleted directory is listed before its
// content, which is listed as well.
type Change struct {
	Path    string `json:"path"`               // relative to the base
	PathB64 string `json:"path_b64,omitempty"` // Path in base64 if it is not UTF-8 (RFC 4648, section 4)
	Kind    Kind   `json:"kind"`
	Type    string `json:"type"`               // file, directory, symlink, fifo, socket or device
	WasType string `json:"was_type,omitempty"` // type in the base if it is another type
	Mode    string `json:"mode,omitempty"`     // octal
	WasMode string `json:"was_mode,omitempty"`
	Size    int64  `json:"size"`
	WasSize int64  `json:"was_size,omitempty"`
	Target  string `json:"target,omitempty"` // target of a symbolic link
	// LinkTo is an earlier path that is a hard link to the same file. Apply makes two
	// files.
	LinkTo string `json:"link_to,omitempty"`
	// Conflict describes how the base changed since the set was made.
	Conflict string `json:"conflict,omitempty"`
	// Problem is the reason why the path cannot be compared or applied.
	Problem string `json:"problem,omitempty"`
	// Dropped names the permission bits of the path that are never applied.
	Dropped string `json:"dropped,omitempty"`

	name  string        // path, before add sets Path
	layer int           // number of the layer that contains the file, counted from the top
	st    *unix.Stat_t  // status of the file in the layer
	was   *unix.Stat_t  // status of the file in the base
	after unix.Timespec // ctime of the layer's file
}

// Diff is the list of all changes of a set.
type Diff struct {
	Set     string   `json:"set"`
	Base    string   `json:"base"`
	Live    bool     `json:"live"` // reports whether a box works in the set, so there may be more changes by now
	Changes []Change `json:"changes"`
	// Digest identifies exactly these changes, for Options.As.
	Digest string `json:"digest,omitempty"`
}

// Conflicts returns the changes whose base changed as well.
func (d *Diff) Conflicts() []Change {
	var all []Change
	for i := range d.Changes {
		if d.Changes[i].Conflict != "" {
			all = append(all, d.Changes[i])
		}
	}
	return all
}

// Changes returns what the set changed, in the order of paths, without files that
// were copied up but are the same. paths selects changes like Options.Paths;
// without paths all are returned. It fails for more than a million changed files.
func (s *Store) Changes(ctx context.Context, id string, paths ...string) (*Diff, error) {
	d, err := s.changes(ctx, id, paths)
	if err != nil {
		return nil, fmt.Errorf("compare set %s: %w", id, err)
	}
	return d, nil
}

func (s *Store) changes(ctx context.Context, id string, paths []string) (*Diff, error) {
	o, err := s.look(id, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.compare(ctx); err != nil {
		return nil, err
	}
	if o.diff.Changes, err = choose(o.diff.Changes, paths); err != nil {
		return nil, err
	}
	d, err := o.digestOf(ctx, o.diff.Changes)
	if err != nil {
		return nil, err
	}
	d.remember()
	o.diff.Digest = d.String()
	return &o.diff, nil
}

// Count returns how many paths a set changed.
func (s *Store) Count(ctx context.Context, id string) (int, error) {
	o, err := s.look(id, unix.LOCK_SH)
	if err == nil {
		defer o.close()
		err = o.compare(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("compare set %s: %w", id, err)
	}
	return len(o.diff.Changes), nil
}

// open is a set that is being compared, with its base and layers open.
type open struct {
	*held
	base   *os.File
	layers merged
	diff   Diff
	marks  map[string]int64 // times of the files that were applied already, by path
	seen   map[string]bool  // paths that the set changed while the base had them
}

func (d *directory) look(id string, how int) (*open, error) {
	h, err := d.hold(id)
	if err != nil {
		return nil, err
	}
	o := &open{held: h}
	if err := o.begin(how); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *open) begin(how int) error {
	if err := o.busy(how); err != nil {
		return err
	}
	return o.load()
}

// load opens the base and the layers of a busy set, and reads its records.
func (o *open) load() error {
	l, err := tryLock(o.dir, liveName, unix.LOCK_SH)
	if err != nil {
		return err
	}
	o.diff = Diff{Set: o.id, Base: o.meta.Base, Live: l == nil, Changes: []Change{}}
	l.free()
	if o.base, err = openBase(&o.meta, false); err != nil {
		return err
	}
	if o.layers, err = o.store.uppers(append([]string{o.meta.Top}, o.meta.Layers...)); err != nil {
		return err
	}
	if o.marks, err = o.readMarks(); err != nil {
		return err
	}
	o.seen, err = o.readSeen()
	return err
}

func (o *open) close() {
	o.shut()
	o.held.close()
}

// shut closes the base and the layers.
func (o *open) shut() {
	o.layers.close()
	if o.base != nil {
		o.base.Close()
	}
}

// walk is one comparison.
type walk struct {
	*open
	ctx   context.Context //nolint:containedctx // the walk lives as long as one call
	left  int             // number of entries that may still be looked at
	links map[[2]uint64]string
	news  []string // paths to be added to seen
}

func (o *open) compare(ctx context.Context) error {
	w := &walk{open: o, ctx: ctx, left: maxEntries, links: map[[2]uint64]string{}}
	if err := w.root(); err != nil {
		return err
	}
	err := w.dir("", o.layers, o.base, false)
	o.addSeen("", w.news)
	return err
}

// root compares the permissions of the workspace directory itself with those of the highest
// layer.
func (w *walk) root() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(w.layers[0].dir.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&0o7777 != w.meta.Perm {
		was := st
		was.Mode = unix.S_IFDIR | w.meta.Perm
		w.add(Change{name: ".", Kind: Mode, st: &st, was: &was, Problem: "the permissions of the workspace itself are never applied"})
	}
	return nil
}

// dir compares a directory of the layers with that of the base, which is nil if the base
// does not have the directory. If opaque is set, the directory hides that of the base.
func (w *walk) dir(at string, layers merged, base *os.File, opaque bool) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	names, err := layers.names()
	if err != nil {
		return err
	}
	if opaque && base != nil {
		old, err := listDir(base)
		if err != nil {
			return err
		}
		names = union(names, old)
	}
	for _, name := range names {
		if w.left--; w.left < 0 {
			return fmt.Errorf("over %d changed files: %w", maxEntries, errTooMany)
		}
		path := join(at, name)
		err := tooDeep(path)
		if err == nil {
			err = w.name(path, name, layers, base, opaque)
		}
		if err != nil {
			if !unreadable(err) {
				return about(path, err)
			}
			w.unread(path, name, layers, err)
		}
	}
	return nil
}

// errTooMany ends a comparison at the bound of entries.
var errTooMany = errors.New("more than belljar compares")

// unread lists a path that could not be compared. The rest of the set is still compared: a
// program in a box can make a file unreadable even for its owner, or create a path that
// exceeds the bounds.
func (w *walk) unread(path, name string, layers merged, err error) {
	c := Change{name: path, Kind: Modified}
	if e, err := layers.entry(name); err == nil && e != nil && !e.whiteout {
		c.st, c.layer = e.st, e.at.layer
	}
	if n := len(w.diff.Changes); n == 0 || w.diff.Changes[n-1].name != path {
		w.add(c)
	}
	w.diff.Changes[len(w.diff.Changes)-1].Problem = "it cannot be read: " + cause(err)
}

// name compares one name in a directory. If opaque is set, the directory hides that of the
// base.
func (w *walk) name(path, name string, layers merged, base *os.File, opaque bool) error {
	var was *unix.Stat_t
	var err error
	if base != nil {
		if was, err = statAt(base, name); err != nil {
			return err
		}
	}
	e, err := layers.entry(name)
	switch {
	case err != nil:
		return err
	case e == nil || e.whiteout:
		if was != nil && (opaque || e != nil) {
			return w.deleted(path, name, base, was)
		}
		return nil
	}
	c := Change{name: path, layer: e.at.layer, st: e.st, was: was, Kind: Added}
	switch {
	case was != nil:
		c.Kind = ""
		if !isDir(e.st) && !w.seen[path] {
			w.news = append(w.news, path)
		}
	case w.seen[path]:
		c.Conflict = "it was deleted in the workspace after the set had changed it"
	}
	if err := w.content(&c, name, e, base); err != nil {
		return err
	}
	if isDir(e.st) {
		return w.sub(&c, name, layers, base, opaque)
	}
	if c.Kind != "" {
		w.add(c)
	}
	if isDir(was) { // a directory became something else
		return w.gone(path, name, base)
	}
	return nil
}

// sub lists a directory if it changed, and compares its content.
func (w *walk) sub(c *Change, name string, layers merged, base *os.File, opaque bool) error {
	if c.Kind != "" {
		w.add(*c)
	}
	sub, hides, err := layers.enter(name)
	if err != nil {
		return err
	}
	defer sub.close()
	var old *os.File
	if isDir(c.was) {
		if old, err = openDir(base, name); err != nil {
			return err
		}
		defer old.Close()
	}
	return w.dir(c.name, sub, old, opaque || hides)
}

// deleted lists a path that the base has and the set does not have, with all its content.
func (w *walk) deleted(path, name string, base *os.File, was *unix.Stat_t) error {
	c := Change{name: path, Kind: Deleted, was: was}
	if isLink(was) {
		c.Target, _ = readLink(base, name) // the target only informs people
	}
	w.add(c)
	if !isDir(was) {
		return nil
	}
	return w.gone(path, name, base)
}

// gone lists all content of a directory of the base as deleted.
func (w *walk) gone(path, name string, base *os.File) error {
	dir, err := openDir(base, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return w.dir(path, nil, dir, true)
}

// add completes a change from the status of its files, and appends it to the list.
func (w *walk) add(c Change) {
	c.Path = c.name
	if !utf8.ValidString(c.name) {
		c.PathB64 = base64.StdEncoding.EncodeToString([]byte(c.name))
	}
	if c.was != nil {
		c.WasType, c.WasMode, c.WasSize = typeOf(c.was), modeOf(c.was), sizeOf(c.was)
	}
	switch {
	case c.st != nil:
		c.Type, c.Mode, c.Size, c.after = typeOf(c.st), modeOf(c.st), sizeOf(c.st), c.st.Ctim
		if c.WasType == c.Type {
			c.WasType = ""
		}
		w.link(&c)
	case c.was != nil:
		c.Type, c.WasType = c.WasType, ""
	}
	if c.Conflict == "" && !w.settledBefore(&c) {
		c.Conflict = "it was changed in the workspace after the set was made"
	}
	if bits := c.special(); len(bits) > 0 {
		c.Dropped = strings.Join(bits, " and ") + " not applied"
	}
	if c.Problem == "" && c.Kind != Deleted && c.st != nil {
		switch c.Type {
		case typeFIFO, typeSocket, typeDevice:
			c.Problem = "a " + c.Type + " is never applied"
		}
	}
	w.diff.Changes = append(w.diff.Changes, c)
}

// special returns the names of the permission bits that Apply leaves out.
func (c *Change) special() (bits []string) {
	if c.Kind == Deleted || c.st == nil || isLink(c.st) {
		return nil
	}
	for _, b := range []struct {
		bit  uint32
		name string
	}{{unix.S_ISUID, "set-user-ID"}, {unix.S_ISGID, "set-group-ID"}, {unix.S_ISVTX, "sticky"}} {
		if c.st.Mode&b.bit != 0 {
			bits = append(bits, b.name)
		}
	}
	return bits
}

// link sets LinkTo if the file was listed under another name before.
func (w *walk) link(c *Change) {
	if !isRegular(c.st) || c.st.Nlink < 2 {
		return
	}
	key := [2]uint64{c.st.Dev, c.st.Ino}
	if first, ok := w.links[key]; ok {
		c.LinkTo = first
		return
	}
	w.links[key] = c.name
}

// settledBefore reports whether the base's file was last changed before the set was made,
// or by an earlier Apply of the set. It reports true for directories, which change with
// each of their entries: the entries are compared one by one.
func (w *walk) settledBefore(c *Change) bool {
	if c.was == nil || isDir(c.was) && (c.Kind == Deleted || isDir(c.st)) {
		return true
	}
	changed := c.was.Ctim.Nano()
	return changed < w.meta.Since.UnixNano() || w.marks[c.name] == changed
}

// content compares an entry of the layers with the entry of that name in the
// base. It leaves the kind empty if nothing changed.
func (w *walk) content(c *Change, name string, e *entry, base *os.File) error {
	if isLink(e.st) {
		target, err := readLink(e.at.dir, name)
		if err != nil {
			return err
		}
		if c.Target = target; isLink(c.was) {
			old, err := readLink(base, name)
			if err == nil && old != target {
				c.Kind = Modified
			}
			return err
		}
	}
	switch {
	case c.was == nil:
		return nil
	case kindOf(c.was) != kindOf(e.st):
		c.Kind = Modified
		return nil
	case isRegular(e.st):
		return w.file(c, name, e, base)
	case c.was.Mode != e.st.Mode:
		c.Kind = Mode
	}
	return nil
}

// file compares two regular files.
func (w *walk) file(c *Change, name string, e *entry, base *os.File) error {
	now, err := openFile(e.at.dir, name)
	if err != nil {
		return err
	}
	defer now.Close()
	old, err := openFile(base, name)
	if err != nil {
		return err
	}
	defer old.Close()
	same := e.st.Size == c.was.Size
	if same {
		if same, err = sameContent(now, old, e.st.Size); err != nil {
			return err
		}
	}
	nowAttrs, err := attrs(now)
	if err != nil {
		return err
	}
	oldAttrs, err := attrs(old)
	if err != nil {
		return err
	}
	switch {
	case !same:
		c.Kind = Modified
	case c.was.Mode&0o7777 != e.st.Mode&0o7777:
		c.Kind = Mode
	case !maps.Equal(nowAttrs, oldAttrs):
		c.Kind = Attr
	case c.was.Mtim != e.st.Mtim:
		c.Kind = Touched
	}
	return nil
}

func typeOf(st *unix.Stat_t) string {
	switch kindOf(st) {
	case unix.S_IFREG:
		return typeFile
	case unix.S_IFDIR:
		return typeDir
	case unix.S_IFLNK:
		return typeLink
	case unix.S_IFIFO:
		return typeFIFO
	case unix.S_IFSOCK:
		return typeSocket
	}
	return typeDevice
}

func modeOf(st *unix.Stat_t) string {
	if isLink(st) {
		return "" // the mode of a link has no meaning
	}
	return fmt.Sprintf("%04o", st.Mode&0o7777)
}

// sizeOf returns the size of a regular file, and 0 for all other types.
func sizeOf(st *unix.Stat_t) int64 {
	if isRegular(st) {
		return st.Size
	}
	return 0
}
