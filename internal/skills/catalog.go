package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// Catalog contains the skills of several sources. Its methods are safe for concurrent use;
// it need not be closed.
type Catalog struct {
	cfg Config

	mu       sync.Mutex          // also locked while the folders are read, because other callers need the result
	looked   bool                // guarded by mu: whether Look has read the skills
	stamps   map[string]stamp    // guarded by mu: stamps of the files that were read
	skills   map[string]Skill    // guarded by mu: skills by name; the first source with the name counts
	all      map[string]Skill    // guarded by mu: skills by SOURCE:NAME, also those that a skill of the same name hides
	faults   []Fault             // guarded by mu
	required map[string][]string // guarded by mu: names of required skills, by source
}

// New returns a catalog of cfg.Sources. It reads nothing yet.
func New(cfg Config) *Catalog { return &Catalog{cfg: cfg} }

// fileName is the name of the file that makes a folder a skill.
const fileName = "SKILL.md"

// Look reads the skills again if their files have changed, and reports whether the skills
// then differ from those before. The first Look reports false. A source that does not exist
// has no skills.
func (c *Catalog) Look() (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps := make(map[string]stamp)
	for i := range c.cfg.Sources {
		c.stamp(i, stamps)
	}
	if c.looked && maps.Equal(stamps, c.stamps) {
		return false
	}
	before, text := c.all, c.text()
	c.read()
	changed = c.looked && (text != c.text() || !maps.EqualFunc(before, c.all, Skill.equal))
	c.looked, c.stamps = true, stamps
	return changed
}

// equal reports whether two skills have the same folder and the same entry in lists.
func (s Skill) equal(other Skill) bool {
	return s.Name == other.Name && s.Description == other.Description && s.Source == other.Source && s.dir == other.dir
}

// stamp adds the stamps of the files of a source to stamps. If one differs at the next
// look, the source has changed.
func (c *Catalog) stamp(i int, stamps map[string]stamp) {
	s := &c.cfg.Sources[i]
	if s.Required != "" {
		if at, name, err := s.requiredAt(); err == nil {
			stamps[s.Name+"\x00"], _ = at.look(name) // a file that cannot be read counts as missing
			at.close()
		}
	}
	dir, err := s.open()
	if err != nil {
		return
	}
	defer dir.close()
	names, err := dir.names()
	if err != nil {
		return
	}
	for _, name := range candidates(names) {
		if st, err := dir.look(path.Join(name, fileName)); err == nil {
			stamps[s.Name+"/"+name] = st
		} else if !errors.Is(err, fs.ErrNotExist) {
			stamps[s.Name+"/"+name] = stamp{}
		}
	}
}

// candidates returns the entries of a source that may be skills, at most maxSkills.
func candidates(names []string) []string {
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, ".") || strings.HasPrefix(n, "_") })
	return names[:min(len(names), maxSkills)]
}

// read reads all sources. The caller holds mu.
func (c *Catalog) read() {
	c.skills, c.all, c.faults, c.required = make(map[string]Skill), make(map[string]Skill), nil, make(map[string][]string)
	for i := range c.cfg.Sources {
		s := &c.cfg.Sources[i]
		found, faults := s.read(i)
		c.faults = append(c.faults, faults...)
		for _, one := range found {
			if c.cfg.Off != nil && c.cfg.Off(one.Name) {
				continue
			}
			c.all[s.Name+":"+one.Name] = one
			if first, taken := c.skills[one.Name]; taken {
				first.Hides = append(first.Hides, s.Name)
				c.skills[one.Name] = first
				c.all[first.Source+":"+one.Name] = first
				continue
			}
			c.skills[one.Name] = one
		}
		names, err := s.required()
		if err != nil {
			c.faults = append(c.faults, Fault{Source: s.Name, Folder: path.Base(s.Required), Why: err.Error()})
		}
		c.required[s.Name] = names
	}
}

// read returns the skills of one source, whose index is at, and the faults of its other
// folders.
func (s *Source) read(at int) (found []Skill, faults []Fault) {
	dir, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	fault := func(folder string, err error) {
		faults = append(faults, Fault{Source: s.Name, Folder: folder, Why: reason(err)})
	}
	if err != nil {
		fault(s.Dir, err)
		return nil, faults
	}
	defer dir.close()
	names, err := dir.names()
	if err != nil {
		fault(s.Dir, err)
		return nil, faults
	}
	seen := make(map[string]string)
	for _, name := range candidates(names) {
		// A link out of the source is a fault; a file beside the folders is ignored.
		if st, err := dir.look(name); err != nil || !st.dir {
			if err != nil {
				fault(name, err)
			}
			continue
		}
		one, err := s.one(dir, name, at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the folder is not a skill
		case err != nil:
			fault(name, fmt.Errorf("%s: %w", fileName, err))
		case seen[one.Name] != "":
			fault(name, fmt.Errorf("%s: name %s: the folder %s has it already", fileName, one.Name, seen[one.Name]))
		default:
			seen[one.Name] = name
			found = append(found, one)
		}
	}
	return found, faults
}

// one returns the skill in a folder of the source.
func (s *Source) one(dir folder, name string, at int) (Skill, error) {
	sub, err := dir.sub(name)
	if err != nil {
		return Skill{}, err
	}
	defer sub.close()
	text, err := sub.read(fileName, MaxText)
	if err != nil {
		return Skill{}, err
	}
	h, _, err := parse(text, name)
	if err != nil {
		return Skill{}, err
	}
	one := Skill{Name: h.name, Description: h.description, Source: s.Name, Trusted: s.Trusted, dir: name, at: at}
	if s.Box != "" {
		one.Path = path.Join(s.Box, name, fileName)
	}
	return one, nil
}

// reason returns the text of an error without the path and the system call: the Fault names
// the folder already.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return strings.ReplaceAll(err.Error(), at.Error(), at.Err.Error())
	}
	return err.Error()
}

// All returns the skills that can be invoked by their name alone, sorted.
func (c *Catalog) All() []Skill {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sorted()
}

// sorted is All without a call of Look. The caller holds mu.
func (c *Catalog) sorted() []Skill {
	all := make([]Skill, 0, len(c.skills))
	for _, name := range slices.Sorted(maps.Keys(c.skills)) {
		all = append(all, c.skills[name])
	}
	return all
}

// Faults returns what cannot be used, in the order of the sources: folders with a skill that
// is not valid, sources that cannot be read, and faults of files of required skills.
func (c *Catalog) Faults() []Fault {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.faults)
}

// Find returns the skill with a name, or SOURCE:NAME. If the skill does not exist, the
// error wraps ErrUnknown and suggests a similar name, or reports the fault of the folder
// with this name.
func (c *Catalog) Find(name string) (Skill, error) {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.skills[name]; ok {
		return s, nil
	}
	if s, ok := c.all[name]; ok {
		return s, nil
	}
	_, bare, qualified := strings.Cut(name, ":")
	if !qualified {
		bare = name
	}
	for _, f := range c.faults {
		if f.Folder == bare {
			return Skill{}, fmt.Errorf("skill %s (%s): %s", clip(oneLine(bare), 64), f.Source, f.Why)
		}
	}
	if near := nearest(bare, slices.Sorted(maps.Keys(c.skills))); near != "" {
		return Skill{}, fmt.Errorf("skill %q: %w; did you mean %q?", clip(oneLine(name), 64), ErrUnknown, near)
	}
	return Skill{}, fmt.Errorf("skill %q: %w; SearchSkills lists all skills", clip(oneLine(name), 64), ErrUnknown)
}

// nearest returns the first of all names that contains name or with which name begins;
// empty if no name does. Case, dashes, underscores and dots do not count.
func nearest(name string, all []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
	}
	want := plain(name)
	for _, one := range all {
		have := plain(one)
		if want != "" && (strings.Contains(have, want) || strings.HasPrefix(want, have)) {
			return one
		}
	}
	return ""
}
