package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of a unified diff.
const (
	maxText    = 1 << 20  // bytes of a file that is shown
	maxUnified = 16 << 20 // bytes of the whole diff
	binaryHead = 8 << 10  // bytes that are searched for a NUL: a file with one is binary, like in git
)

// Unified writes the changes of a set in the format of `git diff`, so that `git
// apply` and patch(1) accept them. It only names binary files and files over 1
// MiB. After 16 MiB it stops, and says how much is left out. It shows only the
// named paths, with the same rules as Apply; no paths mean all.
func (s *Store) Unified(ctx context.Context, out io.Writer, id string, paths []string) error {
	if err := s.unified(ctx, out, id, paths); err != nil {
		return fmt.Errorf("show set %s: %w", id, err)
	}
	return nil
}

func (s *Store) unified(ctx context.Context, out io.Writer, id string, paths []string) error {
	o, err := s.look(id, unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer o.close()
	if err := o.compare(ctx); err != nil {
		return err
	}
	chosen, err := choose(o.diff.Changes, paths)
	if err != nil {
		return err
	}
	d := o.newDigest()
	written, left := 0, 0
	for i := range chosen {
		if err := ctx.Err(); err != nil {
			return err
		}
		var b strings.Builder
		var now shownText
		if written <= maxUnified {
			o.show(&b, &chosen[i], &now)
		} else {
			left++
		}
		if err := d.add(ctx, &chosen[i], &now); err != nil {
			return err
		}
		n, err := io.WriteString(out, b.String())
		if err != nil {
			return err
		}
		written += n
	}
	if left > 0 {
		if _, err := fmt.Fprintf(out, "# %d more changed paths are left out: the diff has over %d bytes\n", left, maxUnified); err != nil {
			return err
		}
	}
	d.remember()
	if s := d.String(); s != "" {
		_, err = fmt.Fprintf(out, "# digest %s\n", s)
	}
	return err
}

// shownText is the text of a file of the set. read reports whether it was read.
type shownText struct {
	text []byte
	read bool
}

// show writes one change.
func (o *open) show(b *strings.Builder, c *Change, shows *shownText) {
	if c.Problem != "" {
		fmt.Fprintf(b, "# %s: %s: %s\n", quotePath(c.name), c.Kind, c.Problem)
		return
	}
	if c.Dropped != "" {
		fmt.Fprintf(b, "# %s: %s\n", quotePath(c.name), c.Dropped)
	}
	if c.Kind == Attr || c.Kind == Touched || c.Type == typeDir && c.WasType == "" {
		if c.Kind == Mode || c.Type != typeDir {
			fmt.Fprintf(b, "# %s: %s\n", quotePath(c.name), c.Kind)
		}
		return // a directory shows only through its files
	}
	if c.WasType != "" { // as in git: the old file is deleted, the new one is added
		old, now := *c, *c
		old.Kind, old.Type, old.WasType, old.st = Deleted, c.WasType, "", nil
		now.Kind, now.WasType, now.was = Added, "", nil
		o.show(b, &old, new(shownText))
		o.show(b, &now, shows)
		return
	}
	from, to := quotePath("a/"+c.name), quotePath("b/"+c.name)
	fmt.Fprintf(b, "diff --git %s %s\n", from, to)
	switch {
	case c.Kind == Added:
		fmt.Fprintf(b, "new file mode %s\n", gitMode(c.st))
		from = "/dev/null"
	case c.Kind == Deleted:
		fmt.Fprintf(b, "deleted file mode %s\n", gitMode(c.was))
		to = "/dev/null"
	case gitMode(c.st) != gitMode(c.was):
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", gitMode(c.was), gitMode(c.st))
	case isLink(c.st): // only this line shows that the file is a link
		fmt.Fprintf(b, "index 0000000..0000000 %s\n", gitMode(c.st))
	case c.Kind == Mode:
		fmt.Fprintf(b, "# mode %s, was %s\n", c.Mode, c.WasMode)
	}
	if c.Kind == Mode {
		return
	}
	old, oldWhy := o.text(c, true)
	now, nowWhy := o.text(c, false)
	*shows = shownText{now, nowWhy == "" && isRegular(c.st)}
	switch {
	case oldWhy != "" || nowWhy != "":
		fmt.Fprintf(b, "Binary files %s and %s differ\n", from, to)
		if why := oldWhy + nowWhy; !strings.Contains(why, "binary") {
			fmt.Fprintf(b, "# not shown: %s\n", strings.TrimSpace(oldWhy+" "+nowWhy))
		}
	case len(old)+len(now) > 0 && !bytes.Equal(old, now):
		fmt.Fprintf(b, "--- %s\n+++ %s\n", from, to)
		hunks(b, old, now)
	}
}

// text returns the content of a path in the base or in the set, or the reason why it is not
// shown. The content of a file that does not exist is empty.
func (o *open) text(c *Change, base bool) ([]byte, string) {
	root, st := o.base, c.was
	if !base {
		st = c.st
		if st != nil {
			root = o.layers[c.layer].dir
		}
	}
	switch {
	case st == nil:
		return nil, ""
	case isLink(st) && !base:
		return []byte(c.Target), "" // the target that was compared, which is what Apply uses
	case isLink(st):
		target, err := readLinkBeneath(root, c.name)
		if err != nil {
			return nil, cause(err)
		}
		return []byte(target), ""
	case !isRegular(st):
		return nil, "a " + typeOf(st)
	case st.Size > maxText:
		return nil, fmt.Sprintf("%d bytes, at most %d are shown", st.Size, maxText)
	}
	text, err := readSmall(root, c.name, maxText)
	if err != nil {
		return nil, cause(err)
	}
	if bytes.IndexByte(text[:min(len(text), binaryHead)], 0) >= 0 {
		return nil, "binary"
	}
	return text, ""
}

// readLinkBeneath returns the target of a link beneath a directory.
func readLinkBeneath(root *os.File, path string) (string, error) {
	dir, name, err := parentOf(root, path)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return readLink(dir, name)
}

// gitMode returns the mode of a file as git knows it, which keeps one permission bit.
func gitMode(st *unix.Stat_t) string {
	switch {
	case isLink(st):
		return "120000"
	case st.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// Quote returns a path as it can be printed on a terminal.
func Quote(path string) string { return quotePath(path) }
