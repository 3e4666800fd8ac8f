package toolkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/cache"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/history"
	"belljar.dev/internal/toolkit/code/lex"
)

const (
	// readShare is the part of the time that may pass until all files are read.
	readShare = 0.6
	// maxRead is the number of bytes of source that are read in all.
	maxRead = 256 << 20
	maxGaps = 50 // gaps that are listed in a result
	// tellEvery is the number of files that are read between two reports of progress.
	tellEvery = 100
)

// selection selects the files of a project that an analysis reads.
type selection struct {
	speaks           func(code.Language) bool
	also             func(path string) bool // selects further files, whatever their language; may be nil
	include, exclude []string
	depth            int    // number of directories nested in each other; zero means no limit
	workers          int    // number of files that are read at the same time; zero means one per processor
	halstead         bool   // functions need their Halstead numbers
	lacks            string // what is not measured for languages without a lexer; empty if nothing
}

// reads reports whether the analysis reads a file.
func (s *selection) reads(e code.Entry) bool {
	return s.speaks == nil || s.speaks(e.Language) || s.also != nil && s.also(e.Path)
}

// reading is one run of the helper.
type reading struct {
	ctx       context.Context //nolint:containedctx // a reading lives for one run
	workspace string          // path of the workspace, without links
	within    string          // path of the project in the workspace
	root      *os.Root        // directory of the project
	git       history.Run     // nil if git cannot be used
	ask       func(paths []string) (leftOut []int, err error)
	tell      func(stage string, done, total int)
	moments   moments
	cache     *cache.Store // nil without a cache
	strategy  string       // cache_strategy of the call

	tree    *code.Tree
	files   []*code.File
	allowed map[string]bool // paths of the tree that the policy does not hide from the agent
	left    []LeftOut
	gaps    []code.Gap
	lacked  map[code.Gap]bool     // the same gaps as in gaps
	project func() *graph.Project // declarations of the files, read once
	shared  *shared
	stages  []Stage
	answer  *cachedAnswer // nil if the answer is not cached
}

// moments are points in time of a run.
type moments struct {
	deadline time.Time // when the answer is due
	began    time.Time // when files began to be read
	until    time.Time // when files may no longer be read
}

// shared contains results that several parts of an analysis need. Each is computed once.
type shared struct {
	mu     sync.Mutex
	graphs map[graph.Kind]*graph.Graph // guarded by mu
	pasts  map[int]history.History     // histories by their number of days; guarded by mu
	alike  []Provenance                // files that resemble a template
}

// open opens the project of a request.
func (r *reading) open(dir string) (err error) {
	var real string
	if real, err = resolve(r.workspace); err != nil {
		return err
	}
	r.workspace = real
	workspace, err := os.OpenRoot(real)
	if err != nil {
		return err
	}
	defer workspace.Close()
	r.within = strings.Trim(strings.TrimPrefix(path.Clean(dir), Workspace), "/")
	r.root, err = openProject(workspace, r.within)
	switch {
	case errors.Is(err, errLink):
		return fmt.Errorf("project_path: %s is a link, or is reached through a link; name the directory to which it leads", shown(dir))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("project_path: %s does not exist", shown(dir))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("project_path: %s may not be read", shown(dir))
	case err != nil:
		return fmt.Errorf("project_path: %s is not a directory in the workspace", shown(dir))
	}
	return nil
}

// errLink is the error if the path of a project contains a link.
var errLink = errors.New("a link")

// openProject opens a directory of the workspace, one name after the other, so that no link
// is followed. The paths about which the helper asks the server begin with the project's
// path, and the rules of the policy do not know a path through a link.
func openProject(workspace *os.Root, within string) (*os.Root, error) {
	at, err := workspace.OpenRoot(".")
	for name := range strings.SplitSeq(within, "/") {
		if err != nil || name == "" {
			break
		}
		above := at
		at, err = openStep(above, name)
		above.Close()
	}
	return at, err
}

// openStep opens a directory in another directory, unless it is a link.
func openStep(in *os.Root, name string) (*os.Root, error) {
	was, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if was.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// OpenRoot follows a link that has taken the place of the directory since Lstat.
	if is, err := dir.Stat("."); err != nil || !os.SameFile(was, is) {
		dir.Close()
		return nil, errLink
	}
	return dir, nil
}

// stage begins a part of the analysis. The caller calls done at the end of the part.
func (r *reading) stage(name string) (done func()) {
	r.tell(name, 0, 0)
	began := time.Now()
	return func() { r.took(name, began) }
}

// took records how long a part of the analysis took.
func (r *reading) took(name string, began time.Time) {
	r.stages = append(r.stages, Stage{name, round(float64(time.Since(began).Microseconds())/1000, 3)})
}

// together runs parts of the analysis at the same time, each with the files that were read.
// Their gaps and their durations are recorded in the order of the parts.
func (r *reading) together(parts ...func(*reading)) {
	own := make([]reading, len(parts))
	var wg sync.WaitGroup
	for i, do := range parts {
		own[i] = *r
		own[i].gaps, own[i].lacked, own[i].stages = nil, make(map[code.Gap]bool), nil
		wg.Go(func() { do(&own[i]) })
	}
	wg.Wait()
	for i := range own {
		r.lacks(own[i].gaps...)
		r.stages = append(r.stages, own[i].stages...)
	}
}

// base returns the beginning of the result.
func (r *reading) base() Base {
	b := Base{Files: len(r.files), LeftOut: r.left, within: r.within}
	b.NotMeasured, b.NotMeasuredMore = shorten(r.gaps, maxGaps)
	return b
}

// lacks records something that was not measured.
func (r *reading) lacks(gaps ...code.Gap) {
	for _, g := range gaps {
		if !r.lacked[g] {
			r.lacked[g] = true
			r.gaps = append(r.gaps, g)
		}
	}
}

// leave counts files that are not read.
func (r *reading) leave(n int, reason string) {
	if n == 0 {
		return
	}
	if i := slices.IndexFunc(r.left, func(l LeftOut) bool { return l.Reason == reason }); i >= 0 {
		r.left[i].Files += n
		return
	}
	r.left = append(r.left, LeftOut{reason, n})
}

// read lists the project, asks the server which files must not be opened, and reads and
// parses the others.
func (r *reading) read(s selection) error {
	all, err := r.texts(s)
	if err == nil {
		r.parse(all, s)
	}
	return err
}

// source is a file whose text is read.
type source struct {
	code.Entry

	text string
	key  cache.Key
	gap  *code.Gap // why the text could not be read; else nil
	read bool      // text or gap is set
}

// texts lists the project, asks the server which files must not be opened, and reads the
// texts of the others, until the time for reading is up.
func (r *reading) texts(s selection) ([]source, error) {
	chosen, err := r.list(s)
	if err != nil {
		return nil, err
	}
	r.moments.began = time.Now()
	r.moments.until = r.moments.began.Add(time.Duration(readShare * float64(r.moments.deadline.Sub(r.moments.began))))
	r.tell(readStage, 0, 0)
	all := make([]source, len(chosen))
	r.each(len(all), s, func() (func(i int), func()) {
		in := code.NewReader(r.root)
		return func(i int) {
			f := &all[i]
			f.Entry = chosen[i]
			f.text, f.gap = in.Read(f.Path)
			f.key, f.read = r.cache.Key(f.Path, f.Language, f.text), true
		}, func() { in.Close() }
	})
	return all, nil
}

// readStage is the part of an analysis in which files are read and parsed.
const readStage = "read files"

// each processes n files, several at the same time, until the time for reading is up. Each
// goroutine calls does once to get its own functions: do processes a file, and end is
// called after the last file.
func (r *reading) each(n int, s selection, does func() (do func(i int), end func())) {
	workers := s.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, runtime.GOMAXPROCS(0), max(1, n)) {
		wg.Go(func() {
			do, end := does()
			defer end()
			for {
				i := int(next.Add(1)) - 1
				if i >= n || r.ctx.Err() != nil || time.Now().After(r.moments.until) {
					return
				}
				do(i)
			}
		})
	}
	wg.Wait()
}

// list finds the files of the project that an analysis may read.
func (r *reading) list(s selection) ([]code.Entry, error) {
	done := r.stage("list files")
	tree, err := code.Walk(r.ctx, r.root, code.Options{Include: s.include, Exclude: s.exclude})
	if err != nil {
		return nil, err
	}
	done()
	r.tree = tree
	gaps, err := r.named(tree.Gaps)
	if err != nil {
		return nil, err
	}
	r.lacks(gaps...)
	r.leave(tree.Links, "a link")
	r.leave(tree.Special, "not a regular file")
	r.leave(tree.Ignored, "in .gitignore")
	r.leave(tree.Foreign, "a directory of third-party code or of a tool")
	r.leave(tree.Excluded, "in exclude_patterns")
	kept, err := r.judge(r.choose(s))
	if err != nil {
		return nil, err
	}
	r.lacks(unlexed(s.lacks, kept)...)
	return slices.DeleteFunc(kept, func(e code.Entry) bool { return !s.reads(e) }), nil
}

// choose returns the entries of the tree that the analysis reads, and the entries that it
// only counts.
func (r *reading) choose(s selection) (all []code.Entry) {
	size := int64(0)
	for _, e := range r.tree.Entries {
		switch {
		case !s.reads(e) && (s.lacks == "" || measured(e.Language) || !known(e.Language)):
			continue
		case e.Generated:
			r.leave(1, "generated")
			continue
		case s.depth > 0 && strings.Count(e.Path, "/") >= s.depth:
			r.leave(1, "below max_depth")
			continue
		case !utf8.ValidString(e.Path):
			r.leave(1, "its name is not UTF-8")
			continue
		case len(all) == maxFiles:
			r.leave(1, fmt.Sprintf("beyond %d files", maxFiles))
			continue
		}
		if size += min(e.Size, code.MaxFile); size > maxRead {
			r.leave(1, fmt.Sprintf("beyond %d MiB of source", maxRead>>20))
			continue
		}
		all = append(all, e)
	}
	return all
}

// judge asks the server about entries, and returns those that may be read.
func (r *reading) judge(all []code.Entry) (kept []code.Entry, err error) {
	paths := make([]string, len(all))
	for i, e := range all {
		paths[i] = path.Join(r.within, e.Path)
	}
	denied, err := r.ask(paths)
	if err != nil {
		return nil, err
	}
	out := make(map[int]bool, len(denied))
	for _, i := range denied {
		out[i] = true
	}
	r.allowed = make(map[string]bool, len(all))
	for i, e := range all {
		if out[i] {
			continue
		}
		kept = append(kept, e)
		r.allowed[e.Path] = true
	}
	r.leave(len(all)-len(kept), "denied by the policy")
	return kept, nil
}

// named returns gaps whose paths the server allows. If the policy hides a path from the
// agent, the gap is returned without its path.
func (r *reading) named(gaps []code.Gap) ([]code.Gap, error) {
	gaps = slices.Clone(gaps)
	var paths []string
	var of []int // index of the gap of each path
	for i, g := range gaps {
		switch {
		case g.Path == "":
		case !utf8.ValidString(g.Path): // the server would check another path
			gaps[i].Path = ""
		default:
			paths, of = append(paths, path.Join(r.within, g.Path)), append(of, i)
		}
	}
	if len(paths) == 0 {
		return gaps, nil
	}
	denied, err := r.ask(paths)
	if err != nil {
		return nil, err
	}
	for _, i := range denied {
		if i < 0 || i >= len(of) {
			return nil, errors.New("the server denied a file that was not in the request")
		}
		gaps[of[i]].Path = ""
	}
	return gaps, nil
}

// parse parses the texts that were read.
func (r *reading) parse(all []source, s selection) {
	files := make([]*code.File, len(all))
	var parsed atomic.Int64
	r.each(len(all), s, func() (func(i int), func()) {
		return func(i int) {
			if f := &all[i]; f.read && f.gap == nil {
				files[i], f.gap = r.parseOne(f, s.halstead)
			}
			if n := int(parsed.Add(1)); n%tellEvery == 0 {
				r.tell(readStage, n, len(all))
			}
		}, func() {}
	})
	late := 0
	for i, f := range files {
		switch {
		case f != nil:
			r.files = append(r.files, f)
			r.lacks(f.Gaps...)
		case all[i].gap != nil:
			r.lacks(*all[i].gap)
		default:
			if late++; late <= maxGaps/2 {
				r.lacks(code.Gap{Path: all[i].Path, Field: "file", Reason: "the time was up before it was read"})
			}
		}
	}
	r.leave(late, timeUp)
	r.took(readStage, r.moments.began)
	r.project = sync.OnceValue(func() *graph.Project { return graph.NewProject(r.files) })
}

// parseOne returns the parsed file from the cache, or parses the text.
func (r *reading) parseOne(s *source, halstead bool) (*code.File, *code.Gap) {
	var kept *code.File
	if r.strategy != refresh {
		if kept = r.cache.Get(s.key, s.Path, s.Language, s.text); kept != nil && (kept.Counted || !halstead) {
			return kept, nil
		}
	}
	if r.strategy == offline && kept == nil {
		return nil, &code.Gap{Path: s.Path, Field: "file", Reason: "cache_strategy is offline, and the cache does not have it"}
	}
	f, gap := parsed(func(name string, language code.Language, text string) *code.File {
		f := kept
		if f == nil {
			f = lex.Parse(name, language, text)
		}
		if halstead {
			lex.Halstead(f)
		}
		return f
	}, s.Entry, s.text)
	if gap == nil {
		r.cache.Put(s.key, f)
	}
	return f, gap
}

// parsed returns what a lexer reads in a file. If the lexer panics, the file is a gap, and
// the analysis continues.
func parsed(lexer func(name string, language code.Language, text string) *code.File, e code.Entry, text string) (f *code.File, gap *code.Gap) {
	defer func() {
		if recover() != nil {
			f, gap = nil, &code.Gap{Path: e.Path, Field: "file", Reason: "belljar cannot read it because of a fault in belljar"}
		}
	}()
	return lexer(e.Path, e.Language, text), nil
}

// timeUp is the reason for something that is missing because the time was up.
const timeUp = "the time was up"

// over returns the gap of a part for which the time was up.
func over(field string) code.Gap { return code.Gap{Field: field, Reason: timeUp} }

// resolve returns the path of a directory without links.
func resolve(dir string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("there is no workspace: %w", err)
	}
	return filepath.EvalSymlinks(dir)
}
