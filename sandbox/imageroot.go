package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/images"
	"belljar.dev/sandbox/limit"
)

// ImagesDir is the directory of images, below Config.State.
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

// runtimeOf returns the Runtime of the image that a grant names. It is empty if the grant
// names none, or one that cannot be used.
func (s *Supervisor) runtimeOf(g policies.Grant) images.Runtime {
	if g.Workspace() != policies.AccessNone {
		return images.Runtime{} // and no image has to be opened
	}
	tree, err := s.useImage(g)
	if err != nil || tree == nil {
		return images.Runtime{} // the opening of a box reports the error
	}
	_ = tree.Close() // it was only read
	return tree.Runtime
}

// runtime returns the Runtime of the box's image. It is empty if the box has none.
func (m *means) runtime() images.Runtime {
	if m.image == nil {
		return images.Runtime{}
	}
	return m.image.Runtime
}

// startDir returns the directory in which a command starts that names none. The directory
// of an image is not used if it is hidden by a mount: nobody makes it there.
func startDir(g policies.Grant, image images.Runtime) string {
	switch {
	case g.Workspace() != policies.AccessNone:
		return WorkspaceDir
	case image.Dir != "" && !hides(g, image.Dir):
		return image.Dir
	}
	return "/tmp"
}

// hides reports whether a box with that grant and an image mounts something over a directory
// above dir.
func hides(g policies.Grant, dir string) bool {
	above := []string{"/dev", "/proc", "/var/tmp", storageRoot}
	for _, s := range storageDirs {
		above = append(above, s.target)
	}
	for _, m := range g.Mounts() {
		above = append(above, m.Target)
	}
	return slices.ContainsFunc(above, func(mount string) bool { return strings.HasPrefix(dir, mount+"/") })
}

// shellOf returns the shell for scripts in a box with that image: bash, or otherwise the sh
// that every image with a shell has.
func shellOf(tree *images.Tree) string {
	if tree != nil && !tree.Runs(shellPath) && tree.Runs(plainShell) {
		return plainShell
	}
	return shellPath
}

// plainShell runs scripts if the image has no bash.
const plainShell = "/bin/sh"

// plainCwd begins a script for a plain shell if the script may end in another directory
// than it began in. It is part of the script's first line, so that the line numbers of the
// script do not change. (dash(1) and busybox run an EXIT trap with the script's status.
// They accept descriptors of one digit only, so this descriptor is opened by its link in
// /proc, and the programs that the script starts inherit it.)
var plainCwd = fmt.Sprintf("trap '{ pwd -P >/proc/self/fd/%d; } 2>/dev/null' EXIT; ", boxinit.DirFile)
