package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/limit"
)

// ImagesDir is where images are kept, below Config.State.
const ImagesDir = "images"

// useImage opens the image that a grant names, or returns nil if it names none.
// The caller must close the image after the box has ended.
func (s *Supervisor) useImage(g policies.Grant) (*images.Tree, error) {
	name := g.Image()
	if name == "" {
		return nil, nil //nolint:nilnil // documented
	}
	if g.System() {
		return nil, &limit.Refusal{Message: fmt.Sprintf("profile %q has both an image and the host's system directories; the operator must choose one", g.Profile())}
	}
	if s.cfg.State == "" {
		return nil, &limit.Refusal{Message: fmt.Sprintf("profile %q has the image %q, and belljar was started without a state directory to find it in", g.Profile(), name)}
	}
	store, err := images.Open(images.Config{Dir: filepath.Join(s.cfg.State, ImagesDir)})
	if err != nil {
		return nil, err
	}
	tree, err := store.Use(name)
	if errors.Is(err, images.ErrUnknown) {
		return nil, &limit.Refusal{Message: fmt.Sprintf(
			"profile %q has the image %q, which this host does not have; the operator can import it: belljar image import %[2]s SOURCE", g.Profile(), name), Err: err}
	}
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if unix.Statfs(tree.Root, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		err := tree.Close()
		return nil, &limit.Refusal{Message: fmt.Sprintf(
			"image %q is on a file system that is mounted noexec, so nothing in it would run; the operator can choose another directory by --state", name), Err: err}
	}
	return tree, nil
}

// shellOf returns the shell for scripts in a box with that image: bash, or else
// the sh that every image with a shell has.
func shellOf(tree *images.Tree) string {
	if tree != nil && !tree.Runs(shellPath) && tree.Runs(plainShell) {
		return plainShell
	}
	return shellPath
}

// plainShell runs scripts if the image has no bash.
const plainShell = "/bin/sh"

// plainCwd begins a script for a plain shell that may end in another directory
// than it began in: in the same line, so that the script's own are counted as
// they are. (dash(1) and busybox run an EXIT trap with the script's status. They
// take descriptors of one digit only, so the other is opened by its link in /proc,
// and what the script starts inherits it.)
var plainCwd = fmt.Sprintf("trap '{ pwd -P >/proc/self/fd/%d; } 2>/dev/null' EXIT; ", boxinit.DirFile)

// imageEnv returns the variables of an image that boxes take over. It leaves out
// those that name directories of the box, and those from which a shell runs code
// before a script.
func imageEnv(tree *images.Tree) map[string]string {
	env := map[string]string{}
	if tree == nil {
		return env
	}
	for _, e := range tree.Runtime.Env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "XDG_RUNTIME_DIR", "BASH_ENV", "ENV", "PWD", "OLDPWD":
		default:
			env[name] = value
		}
	}
	return env
}

// lay makes the root of a box with an image: an overlay of what the box has
// of its own over the tree of the image, which cannot be written. What is its
// own is made first, where nothing of the image is: no link of the image can
// lead it elsewhere, and where both have a name, the box's counts.
func (p *plan) lay(b *builder, tree any) {
	b.Step("lay the box's root over its image")
	const own, image, root = "own", "image", "root"
	for _, dir := range []string{own, image, root} {
		b.Call(unix.SYS_MKDIRAT, atFDCWD, dir, 0o755)
	}
	b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, image, unix.MOVE_MOUNT_F_EMPTY_PATH)
	b.Call(unix.SYS_CHDIR, own)
	for _, m := range p.mounts {
		if !m.root {
			b.target(m.target, m.dir)
		}
	}
	if p.overlaid() {
		b.dir(WorkspaceDir)
	}
	p.places(b)
	b.Call(unix.SYS_CHDIR, "..")
	// Neither layer has extended attributes that an overlay would heed; as a
	// user's they are at least not root's (kernel: filesystems/overlayfs.rst).
	b.Call(unix.SYS_MOUNT, "belljar", root, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+own+":"+image+",userxattr")
	b.Call(unix.SYS_CHDIR, root)
}
