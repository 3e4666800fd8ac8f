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

// A question to a person shows where the command begins and what the files hold
// that its words name, and the answer holds for that:
//
//  1. Survey looks, and the question is put with what it saw.
//  2. When there is a yes, Survey looks again before the yes is used. If the scene
//     has changed, the person is asked again.
//  3. The handler looks once more when the box is open (moved), and starts the
//     command in the directory that was shown.
//
// A task of the same box can change a file between the last look and the moment
// in which the program reads it; docs/approvals.md says so.

// Bounds of one look.
const (
	maxSceneFiles = 32       // that are shown and bound
	maxSceneBytes = 64 << 20 // that are read of them in all
	maxSceneLinks = 1000     // directories in front of .. that are asked whether they are links
	maxName       = 255      // bytes of the name of a file (NAME_MAX)
)

// systemPath are the directories of the system's programs and libraries. No box
// can write in them, so their files are neither shown nor bound.
var systemPath = []string{"/usr", "/bin", "/sbin", "/lib"}

// Survey returns the scene of a call: the directory in which its command would
// begin now, and the files that its words name. It is called when a question is
// put, and again before a yes is used (mcp.Server.let).
func (s *shells) Survey(ctx context.Context, c mcp.Call, f policies.Facts) *policies.Scene {
	var box *sandbox.Box
	alive, dir := false, home(c.Grant)
	if sh := s.serving(c.Session, c.Grant); sh != nil {
		if box, alive = sh.current(); alive {
			dir = sh.workdir(c.Grant, "")
		}
	}
	if cwd, _ := f.Args["cwd"].(string); path.IsAbs(cwd) {
		dir = path.Clean(cwd)
	} else {
		dir = path.Join(dir, cwd)
	}
	open := func(name string) (*os.File, error) { return s.backends.Sandbox.OpenFile(c.Grant, name) }
	if alive {
		open = func(name string) (*os.File, error) { return box.OpenFile(ctx, name) }
	}
	scene := &policies.Scene{Dir: dir}
	if s.backends.Sandbox == nil {
		return scene
	}
	look(ctx, scene, f, c.Grant, open)
	if alive {
		if n := tasksOf(box); n > 0 {
			scene.Doubts = append(scene.Doubts, fmt.Sprintf("%d background tasks of this session run, and may change files before the command starts", n))
		}
	}
	return scene
}

// tasksOf is how many tasks of a box have not ended.
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

// begins returns the directory in which the command of a call starts: if a person
// was asked, the one that they saw.
func (sh *shell) begins(c mcp.Call, cwd string) string {
	if c.Scene != nil {
		return c.Scene.Dir
	}
	return sh.workdir(c.Grant, cwd)
}

// moved looks at the files of a call for the last time, in the box in which it is
// about to run. It returns the refusal for a call whose scene is not the one that a
// person saw, or nil.
func (s *shells) moved(ctx context.Context, c mcp.Call, box *sandbox.Box, f policies.Facts) *mcp.Result {
	if c.Scene == nil {
		return nil
	}
	now := &policies.Scene{Dir: c.Scene.Dir}
	look(ctx, now, f, c.Grant, func(name string) (*os.File, error) { return box.OpenFile(ctx, name) })
	if now.Same(c.Scene) {
		return nil
	}
	return mcp.Refused(policies.Block{
		Reason: "a file that the command names has changed since a person approved it, or the session has a new box",
		Ran:    nothingRan, Instead: "Instead: repeat the call when nothing changes those files any more; the person is asked again.",
	}.Refusal())
}

// look adds the files that a command names to the scene.
func look(ctx context.Context, scene *policies.Scene, f policies.Facts, g policies.Grant, open func(name string) (*os.File, error)) {
	names := f.Names()
	if names.More != "" {
		scene.Doubts = append(scene.Doubts, names.More)
	}
	l := looking{scene: scene, open: open, left: maxSceneBytes, seen: make(map[string]bool), links: make(map[string]bool)}
	for _, program := range names.Programs {
		l.program(ctx, program, pathOf(f, g))
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
}

// pathOf are the directories in which programs are looked for.
func pathOf(f policies.Facts, g policies.Grant) []string {
	list, set := f.Values["PATH"]
	if !set {
		list, set = g.Env()["PATH"]
	}
	if !set {
		return nil // those of the system
	}
	return strings.Split(list, ":")
}

// looking adds to a scene, within its bounds.
type looking struct {
	scene *policies.Scene
	open  func(name string) (*os.File, error)
	left  int64 // bytes that may be read
	seen  map[string]bool
	links map[string]bool // whether a directory is one
}

// program adds the files that a bare name may lead to, in front of that of the
// system: a shell passes over those that cannot be executed.
func (l *looking) program(ctx context.Context, name string, dirs []string) {
	for _, dir := range dirs {
		if !path.IsAbs(dir) {
			dir = l.scene.Dir + "/" + dir
		}
		if clean := path.Clean(dir); slices.Contains(systemPath, clean) || ofSystem(clean) {
			return // the first that may hold it; what lies behind is not asked for
		}
		l.file(ctx, dir+"/"+name, name)
	}
}

// ofSystem reports whether a path is one that no box can write.
func ofSystem(name string) bool {
	return slices.ContainsFunc(systemPath, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

// link reports whether a path is a link or lies behind one, or may for all that
// is looked at.
func (l *looking) link(name string) bool {
	is, known := l.links[name]
	if !known && len(l.links) < maxSceneLinks {
		f, err := l.open(name)
		if err == nil {
			f.Close()
		}
		is, known = errors.Is(err, sandbox.ErrLink), true
		l.links[name] = is
	}
	return is || !known
}

// clean is the path that a name leads to, and whether that is certain: behind a
// link, .. is not the directory that the link lies in (path_resolution(7)).
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

// file adds a file, if there is one.
func (l *looking) file(ctx context.Context, name, as string) {
	name, certain := l.clean(name)
	if !certain {
		l.doubt(name, "lies behind a link, and where that leads is not shown")
		return
	}
	if l.seen[name] {
		return
	}
	l.seen[name] = true
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch {
	case name == "/dev/null", ofSystem(name), slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > maxName }):
		return
	case first == "proc", first == "dev", first == "sys":
		l.doubt(name, "is of the kernel's, and where it leads is not shown")
		return
	}
	f, err := l.open(name)
	switch {
	case errors.Is(err, sandbox.ErrLink):
		l.doubt(name, "is a link, or lies behind one; where it leads is not shown")
		return
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EINVAL), errors.Is(err, sandbox.ErrNotPlain):
		return // there is no such file
	case err != nil:
		l.doubt(name, "cannot be read, so what it holds is not shown")
		return
	}
	defer f.Close()
	if len(l.scene.Files) == maxSceneFiles {
		l.doubt(name, fmt.Sprintf("is a file too, and only %d files are shown", maxSceneFiles))
		return
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, l.left+1))
	switch {
	case err != nil || ctx.Err() != nil:
		l.doubt(name, "cannot be read, so what it holds is not shown")
		return
	case n > l.left:
		l.doubt(name, "is too large to be read, so what it holds is not shown")
		return
	}
	l.left -= n
	l.scene.Files = append(l.scene.Files, policies.SceneFile{Path: name, As: as, Size: n, Digest: hex.EncodeToString(h.Sum(nil))})
}

// doubt notes what is not shown of a file.
func (l *looking) doubt(name, why string) {
	if len(l.scene.Doubts) < maxSceneFiles {
		l.scene.Doubts = append(l.scene.Doubts, policies.Clip(name, 200)+" "+why)
	}
}
