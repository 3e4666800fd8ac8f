package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// open finds the repository of dir. If no history can be measured, reason states why in a
// clause; else it is empty. A .git file or a setting can lead to a repository elsewhere. A
// repository that is not below root is not read.
func open(ctx context.Context, run Run, dir, root string) (r repo, reason string, err error) {
	r = repo{run: run, dir: dir, root: root}
	if plain(dir, root) {
		return r, noRepository, ctx.Err()
	}
	out, err := r.ask(ctx, "rev-parse", "--is-bare-repository", "--is-shallow-repository", "--absolute-git-dir")
	switch {
	case ctx.Err() != nil:
		return r, "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return r, "the program git is not installed", nil
	// the .git file leads to a place without a repository
	case err != nil && strings.Contains(err.Error(), "not a git repository: "):
		return r, elsewhere, nil
	// neither the directory nor one above it belongs to git
	case err != nil && strings.Contains(err.Error(), "not a git repository ("):
		return r, noRepository, nil
	case err != nil:
		return r, "git cannot read a repository here: " + clause(err), nil
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 3 {
		return r, "git answered in an unknown form", nil
	}
	if lines[0] != "false" {
		return r, "the repository is bare: it has no files", nil
	}
	common, err := r.ask(ctx, "rev-parse", "--git-common-dir")
	if err != nil {
		return r, clause(err), ctx.Err()
	}
	if common = strings.TrimSuffix(common, "\n"); !path.IsAbs(common) {
		common = path.Join(dir, common)
	}
	top, err := r.ask(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return r, clause(err), ctx.Err()
	}
	r.top = strings.TrimSuffix(top, "\n")
	for _, place := range []string{lines[2], common, r.top} {
		if !below(place, root) {
			return r, elsewhere, nil
		}
	}
	if lines[1] != "false" {
		return r, "the clone is shallow: its history is cut off", nil
	}
	if _, err = r.ask(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return r, "the repository has no commit", ctx.Err()
	}
	return r, "", nil
}

// noRepository is the reason if no directory from that of the project up to the workspace
// belongs to git.
const noRepository = "not a git repository"

// plain reports whether no directory from dir up to root can belong to git. It does not
// start git.
func plain(dir, root string) bool {
	for at := path.Clean(dir); below(at, root); at = path.Dir(at) {
		for _, name := range []string{".git", "HEAD"} { // .git is in a working tree, HEAD in a repository itself
			if _, err := os.Lstat(path.Join(at, name)); !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
		if at == "/" || at == "." {
			break
		}
	}
	return true
}

// elsewhere is the reason if the repository cannot be seen or must not be read.
const elsewhere = "the repository is outside the workspace: the .git file of this worktree or submodule points there"

// below reports whether an absolute path is root or lies in it.
func below(place, root string) bool {
	root = strings.TrimRight(root, "/")
	rest, ok := strings.CutPrefix(path.Clean(place), root)
	return ok && (rest == "" || rest[0] == '/')
}

// maxModules is the largest number of submodules that are named.
const maxModules = 100

// modules returns a gap for each submodule of the last commit: the files of submodules have
// histories of their own, which are not measured.
func (r repo) modules(ctx context.Context, field string) (gaps []code.Gap, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := r.stream(ctx, Env(r.root), "ls-tree", "-r", "-z", "HEAD")
	if err != nil {
		return nil, err
	}
	in := newRecords(out, maxBytes)
	for {
		text, err := in.next()
		if errors.Is(err, io.EOF) {
			return gaps, nil
		}
		if err != nil {
			return gaps, err
		}
		if !strings.HasPrefix(text, "160000 ") {
			continue
		}
		if len(gaps) == maxModules {
			return append(gaps, code.Gap{Field: field, Reason: fmt.Sprintf("more than %d submodules", maxModules)}), nil
		}
		_, module, _ := strings.Cut(text, "\t")
		gaps = append(gaps, code.Gap{Path: module, Field: field, Reason: "a submodule: its history is in a repository of its own"})
	}
}
