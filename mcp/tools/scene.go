package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// A question to a person shows the directory in which the command starts and the content of
// the files that its words name. The answer is valid only for what was shown:
//
//  1. Survey makes a scene, and the question shows it.
//  2. After an approval, Survey makes a scene again before the approval is used. If
//     the scene has changed, the person is asked again.
//  3. The handler makes the scene once more when the box is open (moved), and starts
//     the command in the directory that was shown.
//
// A task of the same box can change a file after the last scene was made and before
// the program reads the file; docs/approvals.md says so.

// Bounds of one scene.
const (
	maxSceneFiles = 32       // files that are shown and bound
	maxSceneBytes = 64 << 20 // bytes that are read of all files together
	maxSceneLinks = 1000     // directories before .. that are checked for links
	maxSceneNames = 4096     // names of files that are looked for; a PATH may have any number of directories
	maxName       = 255      // bytes of a file's name (NAME_MAX)
)

// systemPath contains the directories of the system's programs and libraries. A box can
// write in them only beneath a mount, so their other files are neither shown nor bound.
var systemPath = []string{"/usr", "/bin", "/sbin", "/lib"}

// Survey returns the scene of a call: the directory in which its command would begin now,
// and the files that its words name. It is called when a question is asked, and again
// before an approval is used.
func (s *shells) Survey(ctx context.Context, c mcp.Call, f policies.Facts) *policies.Scene {
	var box *sandbox.Box
	alive, dir := false, ""
	if sh := s.serving(c.Session, c.Grant); sh != nil {
		if box, alive = sh.current(); alive {
			dir = sh.workdir(c.Grant, "")
		}
	}
	if !alive {
		dir = s.backends.home(c.Grant)
	}
	if cwd, _ := f.Args["cwd"].(string); path.IsAbs(cwd) {
		dir = path.Clean(cwd)
	} else {
		dir = path.Join(dir, cwd)
	}
	scene := &policies.Scene{Dir: dir}
	if s.backends.Sandbox == nil {
		return scene
	}
	l := looking{scene: scene, grant: c.Grant}
	if list, set := c.Grant.Env()["PATH"]; set {
		l.path = strings.Split(list, ":")
	}
	l.open = func(name string) (*os.File, error) { return s.backends.Sandbox.OpenFile(c.Grant, name) }
	if alive {
		l.in(ctx, box)
		scene.Tasks = tasksOf(box)
	}
	l.look(ctx, f)
	return scene
}

// tasksOf returns how many tasks of a box have not ended.
func tasksOf(box *sandbox.Box) (n int) {
	for _, j := range box.Jobs() {
		select {
		case <-j.Done():
		default:
			n++
		}
	}
	return n
}

// begins returns the directory in which the command of a call starts: if a person was
// asked, the directory that the person saw.
func (sh *shell) begins(c mcp.Call, cwd string) string {
	if c.Scene != nil {
		return c.Scene.Dir
	}
	return sh.workdir(c.Grant, cwd)
}

// moved makes the scene of a call for the last time, in the box in which the call is about
// to run. If a person saw another scene, it returns the refusal; otherwise nil.
func (s *shells) moved(ctx context.Context, c mcp.Call, box *sandbox.Box, f policies.Facts) *mcp.Result {
	if c.Scene == nil {
		return nil
	}
	now := &policies.Scene{Dir: c.Scene.Dir}
	l := looking{scene: now, grant: c.Grant}
	l.in(ctx, box)
	l.look(ctx, f)
	if now.Same(c.Scene) {
		return nil
	}
	return mcp.Refused(policies.Block{
		Reason: "a file that the command names has changed since a person approved the call, or has become a link, or the session has a new box",
		Ran:    nothingRan, Instead: "Instead: repeat the call when nothing changes those files any more; the person is asked again.",
	}.Refusal())
}

// looking adds files to a scene, within its bounds.
type looking struct {
	scene *policies.Scene
	grant policies.Grant
	open  func(name string) (*os.File, error)
	path  []string // directories of PATH, as far as it is known; the PATH of a box is known when it is open

	left  int64             // number of bytes that may still be read
	names int               // number of files that were looked for
	seen  map[string]bool   // files that were looked for
	links map[string]bool   // whether a directory is a link
	more  int               // number of doubts that there is no room for
	rest  [sha256.Size]byte // digest of the doubts that there is no room for
}

// in makes l look in an open box.
func (l *looking) in(ctx context.Context, box *sandbox.Box) {
	l.open = func(name string) (*os.File, error) { return box.OpenFile(ctx, name) }
	l.path = strings.Split(box.Path(), ":")
}

// look adds the files that a command names to the scene.
func (l *looking) look(ctx context.Context, f policies.Facts) {
	l.left, l.seen, l.links = maxSceneBytes, make(map[string]bool), make(map[string]bool)
	if list, set := f.Values["PATH"]; set {
		l.path = strings.Split(list, ":")
	}
	scene, names := l.scene, f.Names()
	if names.More != "" {
		scene.Doubts = append(scene.Doubts, names.More)
	}
	for _, program := range names.Programs {
		l.program(ctx, program)
	}
	for _, name := range names.Files {
		if path.IsAbs(name) {
			l.file(ctx, name, "")
			continue
		}
		for _, dir := range names.Dirs {
			if !path.IsAbs(dir) {
				dir = scene.Dir + "/" + dir
			}
			l.file(ctx, dir+"/"+name, "")
		}
	}
	if l.link(scene.Dir) {
		l.doubt(scene.Dir, "is a link, or lies behind one; where it leads is not shown")
	}
	if l.names > maxSceneNames {
		scene.Doubts = append(scene.Doubts, fmt.Sprintf("it may name more than %d files, and the others were not looked for", maxSceneNames))
	}
	if l.more > 0 {
		scene.Doubts = append(scene.Doubts, fmt.Sprintf("%d more names of files are not certain (sha256 %x)", l.more, l.rest))
	}
}

// program adds all files that a bare name may lead to along PATH. A shell skips files that
// cannot be executed, and before the box is open it is not known which programs the system
// has, so the first file is not enough.
func (l *looking) program(ctx context.Context, name string) {
	for _, dir := range l.path {
		if !path.IsAbs(dir) {
			dir = l.scene.Dir + "/" + dir
		}
		if l.names > maxSceneNames {
			return
		}
		if clean, certain := l.clean(dir + "/" + name); !certain || !l.ofSystem(clean) {
			l.file(ctx, dir+"/"+name, name)
		}
	}
}

// ofSystem reports whether a path is in a directory of the system that the box cannot
// write.
func (l *looking) ofSystem(name string) bool {
	within := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
	return slices.ContainsFunc(systemPath, within) &&
		!slices.ContainsFunc(l.grant.Mounts(), func(m policies.Mount) bool { return m.Writable && within(m.Target) })
}

// leaves reports whether a directory of the system is a link or lies behind a link, which
// may lead to a place where a box can write: on some hosts /usr/tmp is such a link to
// /var/tmp. The directories of programs and libraries may be links to each other.
func (l *looking) leaves(dir string) bool {
	for _, merged := range [][2]string{{"/bin", "/usr/bin"}, {"/sbin", "/usr/bin"}, {"/usr/sbin", "/usr/bin"}, {"/lib", "/usr/lib"}} {
		if rest, ok := strings.CutPrefix(dir+"/", merged[0]+"/"); ok {
			dir = path.Join(merged[1], rest)
		}
	}
	return l.link(dir)
}

// link reports whether a path is a link or lies behind one. It also returns true for a path
// that is not checked because there were too many.
func (l *looking) link(name string) bool {
	is, known := l.links[name]
	if !known && len(l.links) < maxSceneLinks {
		f, err := l.open(name)
		if err == nil {
			f.Close()
		}
		is, known = errors.Is(err, sandbox.ErrLink) || tooLong(err), true
		l.links[name] = is
	}
	return is || !known
}

// tooLong reports whether a path is too long, or has too many parts, to be opened.
func tooLong(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENAMETOOLONG)
}

// clean returns the path that a name leads to, and whether that is certain: behind a link,
// .. is not the directory that contains the link (path_resolution(7)).
func (l *looking) clean(name string) (clean string, certain bool) {
	clean = "/"
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." && l.link(clean) {
			return path.Clean(name), false
		}
		clean = path.Join(clean, part)
	}
	return clean, true
}

// file adds a file if it exists.
func (l *looking) file(ctx context.Context, name, as string) {
	name, certain := l.clean(name)
	if !certain {
		l.doubt(name, "lies behind a link, and where that leads is not shown")
		return
	}
	if l.seen[name] {
		return
	}
	if l.names++; l.names > maxSceneNames {
		return
	}
	l.seen[name] = true
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch {
	case l.ofSystem(name) && l.leaves(path.Dir(name)):
		l.doubt(name, "lies behind a link, and where that leads is not shown")
		return
	case name == "/dev/null", l.ofSystem(name), slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > maxName }):
		return
	case first == "proc", first == "dev", first == "sys":
		l.doubt(name, "is in a file system of the kernel, and where it leads is not shown")
		return
	}
	f, err := l.open(name)
	switch {
	case errors.Is(err, sandbox.ErrLink):
		l.doubt(name, "is a link, or lies behind one; where it leads is not shown")
		return
	case tooLong(err):
		// A command can still open the file, from a directory that is nearly as deep.
		l.doubt(name, "has a path that is too long to be looked at, so what it contains is not shown")
		return
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, sandbox.ErrNotPlain):
		return // no such file exists
	case err != nil:
		l.doubt(name, "cannot be read, so what it contains is not shown")
		return
	}
	defer f.Close()
	if len(l.scene.Files) == maxSceneFiles {
		l.doubt(name, fmt.Sprintf("is a file too, and is not shown, since at most %d files are", maxSceneFiles))
		return
	}
	const unread, large = "cannot be read, so what it contains is not shown", "is too large to be read, so what it contains is not shown"
	info, err := f.Stat()
	switch {
	case err != nil || ctx.Err() != nil:
		l.doubt(name, unread)
		return
	case info.Size() > l.left: // none of it is read: a command may name thousands of such files
		l.doubt(name, large)
		return
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, l.left+1))
	over := n > l.left // it has grown since
	l.left -= min(n, l.left)
	switch {
	case err != nil || ctx.Err() != nil:
		l.doubt(name, unread)
		return
	case over:
		l.doubt(name, large)
		return
	}
	l.scene.Files = append(l.scene.Files, policies.SceneFile{Path: name, As: as, Size: n, Digest: hex.EncodeToString(h.Sum(nil))})
}

// doubt notes a file whose content is not shown, and why. No doubt is lost: an answer is
// valid only for the same doubts.
func (l *looking) doubt(name, why string) {
	if len(l.scene.Doubts) < maxSceneFiles {
		l.scene.Doubts = append(l.scene.Doubts, name+" "+why)
		return
	}
	l.more++
	l.rest = sha256.Sum256(append(l.rest[:], name+" "+why...))
}
