package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// requiredAt opens the folder of the source's file of required skills, and returns the name
// of the file in it.
func (s *Source) requiredAt() (folder, string, error) {
	if s.Beneath != "" {
		base, err := (&Source{Dir: s.Beneath}).open()
		return base, s.Required, err
	}
	dir, err := (&Source{Dir: filepath.Dir(s.Required)}).open()
	return dir, filepath.Base(s.Required), err
}

// required returns the names in the source's file of required skills. The file has one name
// per line; empty lines and lines that begin with "#" are skipped. A source without the
// file requires no skills.
func (s *Source) required() (names []string, err error) {
	if s.Required == "" {
		return nil, nil
	}
	dir, name, err := s.requiredAt()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer dir.close()
	text, err := dir.read(name, maxHead)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %s", path.Base(name), reason(err))
	}
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !isName(line):
			return names, fmt.Errorf("%s: line %d: %.80q: want the name of a skill", path.Base(name), n+1, line)
		case len(names) == maxRequired:
			return names, fmt.Errorf("%s: line %d: at most %d skills can be required", path.Base(name), n+1, maxRequired)
		default:
			names = append(names, line)
		}
	}
	return names, nil
}

// Required returns the skills that an agent must load before it works: those in the files
// of all sources, in their order, and each only once. Names without a skill are left out.
func (c *Catalog) Required() (all []string) {
	c.Look()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.cfg.Sources {
		for _, name := range c.required[s.Name] {
			if _, there := c.skills[name]; there && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// Nudge returns a text that reminds an agent of the required skills that it has not loaded;
// empty if all are loaded.
func (c *Catalog) Nudge(loaded func(name string) bool) string {
	left := slices.DeleteFunc(c.Required(), loaded)
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("[skills] Required and not loaded yet: %s. Call InvokeSkill with skill_name %q before you go on.", strings.Join(left, ", "), left[0])
}
