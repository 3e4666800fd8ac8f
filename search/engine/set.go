package engine

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belljar.dev/internal/strictyaml"
)

//go:embed engines/*.yaml
var bundled embed.FS

// commonFile contains the proofs that are the same for all engines.
const commonFile = "common.yaml"

// Set contains all engines that were loaded, in the order in which they are asked. It does
// not change: Reload makes a new Set.
type Set struct {
	dir    string
	texts  []source
	all    []*Engine
	byName map[string]*Engine // engines by name and by alias
}

// source is one engine file.
type source struct {
	name  string // path of the file in messages
	short string // name of the file without its directory
	text  []byte
}

// All returns the engines in the order in which they are asked: the default, the optional
// and the reserve engines, then those that are off. The caller may change the slice.
func (s *Set) All() []*Engine { return slices.Clone(s.all) }

// Find returns the engine with a name or alias, or nil.
func (s *Set) Find(name string) *Engine { return s.byName[strings.ToLower(name)] }

// Dir returns the directory of the operator's own engine files, or "".
func (s *Set) Dir() string { return s.dir }

// Load compiles the engines that come with belljar, and then those of
// dir, where each NAME.yaml replaces the file of that name or adds an engine.
// An empty dir means no directory. The error is a *FileError with every fault of every
// file, each with its line and column, or says why dir cannot be read.
func Load(dir string) (*Set, error) {
	texts, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	return compile(dir, texts)
}

// Reload reads the files again. If nothing has changed, it returns s itself and false. If
// the files have a fault, it returns s and the fault as an error.
func (s *Set) Reload() (next *Set, changed bool, err error) {
	texts, err := readAll(s.dir)
	if err != nil {
		return s, false, err
	}
	if slices.EqualFunc(texts, s.texts, func(a, b source) bool { return a.name == b.name && bytes.Equal(a.text, b.text) }) {
		return s, false, nil
	}
	if next, err = compile(s.dir, texts); err != nil {
		return s, false, err
	}
	return next, true, nil
}

// readAll reads the bundled files and those of dir.
func readAll(dir string) ([]source, error) {
	var texts []source
	entries, err := bundled.ReadDir("engines")
	if err != nil {
		return nil, fmt.Errorf("read the bundled engines: %w", err)
	}
	for _, e := range entries {
		text, err := bundled.ReadFile("engines/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the bundled engines: %w", err)
		}
		texts = append(texts, source{name: "engines/" + e.Name(), short: e.Name(), text: text})
	}
	if dir == "" {
		return texts, nil
	}
	names, err := ownFiles(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		text, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the engine file: %w", err)
		}
		own := source{name: path, short: name, text: text}
		if i := slices.IndexFunc(texts, func(s source) bool { return s.short == name }); i >= 0 {
			texts[i] = own
		} else {
			texts = append(texts, own)
		}
	}
	return texts, nil
}

// ownFiles returns the names of the engine files in dir.
func ownFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of engines: %w", err)
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".yaml" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("read the directory of engines: %s has %d files, more than the %d that are read", dir, len(names), maxFiles)
	}
	return names, nil
}

// readFile reads a regular file, up to one byte more than an engine file may have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, error(&fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}))
	}
	var b bytes.Buffer
	_, err = io.CopyN(&b, f, maxFile+1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b.Bytes(), err
}

// uses is the order in which engines are asked, by their use.
var uses = []Use{UseDefault, UseOptional, UseReserve, UseOff}

// compile makes a Set of the files.
func compile(dir string, texts []source) (*Set, error) {
	s := &Set{dir: dir, texts: texts, byName: make(map[string]*Engine)}
	var faults []strictyaml.Fault
	var shared []*answer
	for _, t := range texts {
		r := newReader(t.name, t.text)
		if t.short == commonFile {
			shared = r.common(t.text)
		} else if e := r.engine(t.text); e != nil {
			for _, name := range append([]string{e.Name}, e.Aliases...) {
				if other := s.byName[name]; other != nil {
					r.FaultAt(1, 1, fmt.Sprintf("the name %s is that of an engine in %s", name, other.Source), "choose another; to replace a bundled engine give your file the same name as its file")
				}
				s.byName[name] = e
			}
			s.all = append(s.all, e)
		}
		faults = append(faults, r.Faults...)
	}
	if len(faults) > 0 {
		return nil, &FileError{strictyaml.NewReport(faults)}
	}
	for _, e := range s.all {
		e.common = shared
	}
	slices.SortStableFunc(s.all, func(a, b *Engine) int {
		return cmp.Or(cmp.Compare(slices.Index(uses, a.Use), slices.Index(uses, b.Use)), cmp.Compare(a.order, b.order))
	})
	return s, nil
}
