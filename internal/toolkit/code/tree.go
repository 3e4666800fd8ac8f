package code

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Limits of a Tree and its files.
const (
	MaxFiles = 200_000 // files and directories that are listed
	MaxDepth = 64      // directories nested in each other
	MaxFile  = 5 << 20 // bytes of a file whose text is read
	maxGaps  = 100     // gaps that are listed one by one
	maxHead  = 4 << 10 // bytes from which a file's language is detected
)

// Options select the files of a project that belong to its inventory. The patterns are
// those of [newGlob].
type Options struct {
	Include []string // if not empty, only files that match, and files in directories that match
	Exclude []string // neither files that match, nor files in directories that match
	Foreign bool     // also vendor and other directories with code that others wrote
}

// Entry is a file of a project. Its path may contain every byte except NUL.
type Entry struct {
	Path      string
	Size      int64
	Language  Language
	Generated bool // a program wrote the file
	Foreign   bool // it is in a directory with code that others wrote
}

// Tree is the inventory of a project.
type Tree struct {
	Entries  []Entry // entries by directory, and sorted within each directory
	Ignored  int     // number of files and directories that ignore files leave out
	Excluded int     // number of files and directories that Exclude leaves out
	Foreign  int     // number of directories left out because others or tools wrote their contents
	Links    int     // number of symbolic links, which are never followed
	Special  int     // number of pipes, sockets and devices, which are never opened
	Gaps     []Gap
}

// Walk makes the inventory of a directory. It follows no link, and opens nothing except
// directories and regular files. A file that it could not read is a gap. If ctx ends or a
// limit is reached, the rest of the project is a gap, and the tree contains the files
// before it. Walk returns an error if an option is wrong or the directory itself cannot be
// read.
func Walk(ctx context.Context, root *os.Root, o Options) (*Tree, error) {
	include, err := newGlobs("include", o.Include)
	if err != nil {
		return nil, err
	}
	exclude, err := newGlobs("exclude", o.Exclude)
	if err != nil {
		return nil, err
	}
	top, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	defer top.Close()
	w := &walker{ctx: ctx, options: o, include: include, exclude: exclude, tree: &Tree{}}
	names, err := w.list(top)
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	var ig *ignores
	if info, err := openPath(top, ".git/info/"); err == nil {
		ig, _ = ig.with("", w.ignoreFile(info, "exclude"))
		info.Close()
	}
	w.directory(place{dir: top, ignores: ig, included: len(include) == 0}, names)
	if w.unnamed > 0 {
		w.tree.Gaps = append(w.tree.Gaps, Gap{Field: "files", Reason: fmt.Sprintf("%d more files and directories were left out by the policy or are not readable", w.unnamed)})
	}
	return w.tree, nil
}

type walker struct {
	ctx              context.Context //nolint:containedctx // a walker lives for one call of Walk
	options          Options
	include, exclude globs
	tree             *Tree
	seen             int  // number of names so far
	unnamed          int  // number of gaps that are only counted
	ended            bool // a limit or ctx has ended the walk
	buf              []byte
}

// place is a directory during the walk.
type place struct {
	dir      *os.File
	path     string // path with a slash at its end; empty for the top
	depth    int
	ignores  *ignores
	included bool // a pattern matches a directory above it or the directory itself
	foreign  bool
}

// list returns the entries of a directory, sorted. It stops at MaxFiles entries of the
// whole walk.
func (w *walker) list(dir *os.File) (all []fs.DirEntry, err error) {
	for !w.ended {
		some, err := dir.ReadDir(1000)
		w.seen += len(some)
		if w.seen > MaxFiles {
			w.end(fmt.Sprintf("more than %d files and directories: the rest were left out", MaxFiles))
			some = some[:max(0, len(some)-(w.seen-MaxFiles))]
		}
		all = append(all, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		w.checkTime()
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// end records why the walk ends early.
func (w *walker) end(reason string) {
	if !w.ended {
		w.ended = true
		w.tree.Gaps = append(w.tree.Gaps, Gap{Field: "files", Reason: reason})
	}
}

func (w *walker) checkTime() {
	if err := context.Cause(w.ctx); err != nil {
		w.end("time was up: the rest was left out")
	}
}

// unread records a file that could not be opened, possibly because of a policy.
func (w *walker) unread(file string) {
	if len(w.tree.Gaps) >= maxGaps {
		w.unnamed++
		return
	}
	w.tree.Gaps = append(w.tree.Gaps, Gap{Path: file, Field: "files", Reason: "left out by the policy or not readable"})
}

// directory adds the entries of a directory.
func (w *walker) directory(at place, entries []fs.DirEntry) {
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" && e.Type().IsRegular() }) {
		var full bool
		at.ignores, full = at.ignores.with(at.path, w.ignoreFile(at.dir, ".gitignore"))
		if full {
			w.tree.Gaps = append(w.tree.Gaps, Gap{Path: at.path + ".gitignore", Field: "files", Reason: fmt.Sprintf("more than %d patterns: the rest were not applied", maxIgnorePatterns)})
		}
	}
	built := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "Cargo.toml" || e.Name() == "pom.xml" })
	for i, e := range entries {
		if i%64 == 0 {
			w.checkTime()
		}
		if w.ended && w.ctx.Err() != nil {
			return
		}
		file := at.path + e.Name()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			w.tree.Links++
		case !e.IsDir() && !e.Type().IsRegular():
			w.tree.Special++
		case e.Name() == ".git":
		case w.exclude.match(file, e.IsDir()):
			w.tree.Excluded++
		case at.ignores.match(file, e.IsDir()):
			w.tree.Ignored++
		case e.IsDir() && (made(e.Name(), built) || Foreign(e.Name()) && !w.options.Foreign):
			w.tree.Foreign++
		case e.IsDir():
			w.enter(at, e.Name())
		case at.included || w.include.match(file, false):
			w.file(at, e)
		}
	}
}

// enter lists a directory and adds its entries.
func (w *walker) enter(at place, name string) {
	file := at.path + name
	if at.depth+1 > MaxDepth {
		w.tree.Gaps = append(w.tree.Gaps, Gap{Path: file, Field: "files", Reason: fmt.Sprintf("deeper than %d directories", MaxDepth)})
		return
	}
	dir, err := openDir(at.dir, name)
	if err != nil {
		w.unread(file)
		return
	}
	defer dir.Close()
	entries, err := w.list(dir)
	if err != nil {
		w.unread(file)
		return
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "CACHEDIR.TAG" || e.Name() == "pyvenv.cfg" }) {
		w.tree.Foreign++ // a cache, such as cargo's target, or a Python environment
		return
	}
	w.directory(place{
		dir:      dir,
		path:     file + "/",
		depth:    at.depth + 1,
		ignores:  at.ignores,
		included: at.included || w.include.match(file, true),
		foreign:  at.foreign || Foreign(name),
	}, entries)
}

// file adds a regular file.
func (w *walker) file(at place, e fs.DirEntry) {
	name := at.path + e.Name()
	most := 0
	if path.Ext(name) == "" || Detect(name, "") != Other {
		most = maxHead
	}
	head, size, err := readFile(at.dir, e.Name(), most, &w.buf)
	if err != nil {
		w.unread(name)
		return
	}
	w.tree.Entries = append(w.tree.Entries, Entry{
		Path:      name,
		Size:      size,
		Language:  Detect(name, head),
		Generated: Generated(name, head),
		Foreign:   at.foreign,
	})
}

// made reports whether tools write the contents of a directory of this name, which nobody
// edits. built is true if a build file of Rust or Java is next to it.
func made(name string, built bool) bool {
	switch name {
	case ".hg", ".svn", ".jj", ".bzr",
		"node_modules", "bower_components", "jspm_packages", ".yarn", ".pnpm-store",
		".venv", "site-packages", "__pycache__", "__pypackages__",
		".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs",
		".gradle", ".terraform", ".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo", ".cache",
		"Pods", "Carthage", "DerivedData":
		return true
	case "target":
		return built
	}
	return false
}

// ignoreFile returns the text of an ignore file; empty if the file cannot be read.
func (w *walker) ignoreFile(dir *os.File, name string) string {
	text, _, err := readFile(dir, name, maxIgnoreFile, &w.buf)
	if err != nil {
		return ""
	}
	return text
}
