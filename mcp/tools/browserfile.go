package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// upload opens a file of the session's box for a page: a file that the box's user may read,
// and whose path has no link, as for ReadImage.
func (b *browsers) upload(ctx context.Context, call mcp.Call, name string, most int64) (*act.File, error) {
	_, box, _, err := b.shells.enter(ctx, call.Session, call.Grant)
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was uploaded; call Bash to see the reason", err)
	}
	f, err := box.OpenFile(ctx, name)
	if err != nil {
		return nil, errors.New(firstText(unopened(name, err)))
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() > most:
		err = fmt.Errorf("%s has %d bytes, and at most %d may be uploaded; nothing was uploaded; send a smaller file", policies.Clip(fmt.Sprintf("%q", name), 300), info.Size(), most)
	default:
		// The file may grow while it is read.
		return &act.File{Name: path.Base(name), Size: info.Size(), Content: sized{io.LimitReader(f, info.Size()), f}}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// sized reads a file up to the size that the file had when it was opened.
type sized struct {
	io.Reader
	io.Closer
}

// saveTime bounds the write of one file.
const saveTime = time.Minute

// The script that writes a file, which runs as the box's user. It enters the directory
// first and compares its real name, so that no link leads elsewhere, and stays in it. dd
// creates a file that does not exist (open(2), O_EXCL, O_NOFOLLOW). An existing file is
// overwritten by renaming a new file to its name. A file that cannot be written to its end
// is removed.
const (
	exitExists = 5 // the path exists
	exitUnfit  = 6 // the file was created, could not be written to its end, and was removed
	exitShut   = 7 // no file can be created, or the existing file cannot be replaced; nothing stays
	saveInto   = `umask 022; d=$1 f=$2
[ "$d" = /workspace/downloads ] && mkdir -p -- "$d"
cd -P -- "$d" 2>/dev/null || { echo "the directory $d does not exist" >&2; exit 3; }
[ "$(pwd -P)" = "$d" ] || { echo "the path of the directory $d contains a symbolic link" >&2; exit 4; }
`
	saveNew = `[ ! -e "./$f" ] && [ ! -L "./$f" ] || { echo "the file already exists" >&2; exit 5; }
dd if=/dev/null of="./$f" conv=excl oflag=nofollow status=none || exit 7
{ dd of="./$f" conv=nocreat oflag=nofollow bs=64k status=none && [ "$(stat -c %s -- "./$f")" = "$4" ]; } || { rm -f -- "./$f"; exit 6; }`
	saveOver = `[ ! -L "./$f" ] && { [ ! -e "./$f" ] || [ -f "./$f" ]; } || { echo "the path exists and is not a regular file" >&2; exit 5; }
t=".$3.part"; dd if=/dev/null of="./$t" conv=excl oflag=nofollow status=none || exit 7
{ dd of="./$t" conv=nocreat oflag=nofollow bs=64k status=none && [ "$(stat -c %s -- "./$t")" = "$4" ]; } || { rm -f -- "./$t"; exit 6; }
mv -T -- "./$t" "./$f" || { rm -f -- "./$t"; exit 7; }`
)

// save writes a file of the browser to a place where commands see it. A command in the
// session's box writes it, so the box's protected paths, layers and limits hold.
func (b *browsers) save(ctx context.Context, call mcp.Call, name string, over bool, f *act.File) error {
	dir, base := path.Split(path.Clean(name))
	if name != path.Clean(name) || base == "" {
		return fmt.Errorf("path: %s is not in its plain form; nothing was written; write an absolute path without \"..\" elements", policies.Clip(fmt.Sprintf("%q", name), 300))
	}
	if dir = strings.TrimSuffix(dir, "/"); dir == "" {
		dir = "/"
	}
	_, box, _, err := b.shells.enter(ctx, call.Session, call.Grant)
	if err != nil {
		return fmt.Errorf("%w; nothing was written; call Bash to see the reason", err)
	}
	script := saveInto + saveNew
	if over {
		script = saveInto + saveOver
	}
	said := bounded{left: 1000}
	r, err := box.Run(ctx, sandbox.Cmd{
		Grant: call.Grant, Argv: []string{"bash", "-c", script, "save", dir, base, strings.TrimPrefix(call.ID, "c-"), strconv.FormatInt(f.Size, 10)}, Dir: "/",
		In: io.LimitReader(f.Content, f.Size), Out: io.Discard, Err: &said, Timeout: min(saveTime, call.Grant.Limits().Wall),
	})
	shown, why := policies.Clip(fmt.Sprintf("%q", name), 300), policies.Clip(strings.TrimSpace(valid(said.text)), 300)
	switch {
	case err != nil:
		return fmt.Errorf("%w; nothing was written; call Bash to see the reason", err)
	case len(r.Reverted) > 0:
		var paths []string
		for _, one := range r.Reverted {
			paths = append(paths, one.Path)
		}
		slices.Sort(paths)
		return fmt.Errorf("%s is a protected path, and what was written there was taken back; name another path", policies.Clip(strings.Join(paths, ", "), 300))
	case r.Status != sandbox.Exited:
		return fmt.Errorf("%s: the write was ended (%s), and a part of the file may be there; look with Bash (ls -la), and remove it", shown, r.Status)
	case r.Code == exitExists && !over:
		return fmt.Errorf("%s: %s; nothing was written; name another path, or set clear to true to overwrite a file", shown, why)
	case r.Code == exitUnfit:
		return fmt.Errorf("%s: %s; the file could not be written to its end, and no part of it was kept; see with Bash (df) whether there is room", shown, cmp.Or(why, "fewer bytes came than the file has"))
	case r.Code != 0: // exitShut, and a directory or path that is not suitable
		return fmt.Errorf("%s: %s; nothing was written; name another path", shown, why)
	}
	return nil
}
